//! Counts the frames of an HTTP/2 connection that ask for nothing: SETTINGS, PING, PRIORITY, `WINDOW_UPDATE`,
//! `RST_STREAM` and unknown ones. Each costs us work and, some, an answer (CVE-2019-9511 to -9517), and the h2 library
//! only slows a peer down that sends nothing else. It watches CONTINUATION and DATA itself.
//!
//! Sees the bytes of a connection, decides, and changes nothing. No clock here.

/// Length of the client's preface (RFC 9113 §3.4).
const PREFACE: usize = 24;
/// Length of a frame's head (RFC 9113 §4.1).
const HEAD: usize = 9;
/// Such frames at once. Our choice: nghttp2 lets 1000 answers to PING and SETTINGS wait.
const BURST: u32 = 1000;
/// What a request is worth in such frames. 10, as Envoy allows `WINDOW_UPDATE`s for each frame of data.
const PER_REQUEST: u32 = 10;
/// What we must send for one such frame to be due, a `WINDOW_UPDATE` say. Our choice: the answer to a PING has 17
/// bytes, so they do not pay for each other.
const SENT_FOR_ONE: usize = 256;
/// Time in which one such frame is due anyway, in milliseconds. Our choice: no client pings its connection more often.
const TIME_FOR_ONE: u64 = 10;

/// What a peer may still send, and where in its frames it is.
#[derive(Debug)]
pub(super) struct Frames {
    /// Bytes before the next head.
    skip: usize,
    head: [u8; HEAD],
    /// Bytes of the head that are there.
    have: usize,
    /// Frames that the peer may send now.
    allowed: u32,
    /// Bytes sent that have not yet paid for a frame.
    sent: usize,
    /// Until when the time has been counted.
    counted: u64,
}

impl Frames {
    pub(super) fn new(now: u64) -> Self {
        Self {
            skip: PREFACE,
            head: [0; HEAD],
            have: 0,
            allowed: BURST,
            sent: 0,
            counted: now,
        }
    }

    /// Bytes have gone to the peer.
    pub(super) fn sent(&mut self, count: usize) {
        let sent = self.sent + count;
        self.sent = sent % SENT_FOR_ONE;
        self.allow(sent / SENT_FOR_ONE);
    }

    /// Bytes have come. False: these are more frames than anyone needs.
    pub(super) fn received(&mut self, mut bytes: &[u8], now: u64) -> bool {
        let time = now.saturating_sub(self.counted) / TIME_FOR_ONE;
        self.counted += time * TIME_FOR_ONE;
        self.allow(usize::try_from(time).unwrap_or(usize::MAX));
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let Some((&byte, rest)) = bytes.split_first() else {
                return true;
            };
            bytes = rest;
            if let Some(place) = self.head.get_mut(self.have) {
                *place = byte;
                self.have += 1;
            }
            if self.have == HEAD && !self.frame() {
                return false;
            }
        }
    }

    /// A frame's head is complete.
    fn frame(&mut self) -> bool {
        let [a, b, c, kind, ..] = self.head;
        self.have = 0;
        self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
        match kind {
            // DATA, CONTINUATION
            0 | 9 => {}
            // HEADERS
            1 => self.allow(PER_REQUEST as usize),
            _ => match self.allowed.checked_sub(1) {
                Some(allowed) => self.allowed = allowed,
                None => return false,
            },
        }
        true
    }

    fn allow(&mut self, more: usize) {
        let more = u32::try_from(more).unwrap_or(BURST);
        self.allowed = self.allowed.saturating_add(more).min(BURST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    const HEADERS: [u8; 10] = [0, 0, 1, 1, 5, 0, 0, 0, 1, 0x82];
    const DATA: [u8; 11] = [0, 0, 2, 0, 0, 0, 0, 0, 1, 6, 6];

    fn begun() -> Frames {
        let mut frames = Frames::new(0);
        assert!(frames.received(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0));
        frames
    }

    /// How many of these a peer may send at once.
    fn accepted(frames: &mut Frames, frame: &[u8]) -> usize {
        (0..100_000)
            .take_while(|_| frames.received(frame, 0))
            .count()
    }

    #[test]
    fn a_flood_of_pings_is_seen_however_it_is_cut_into_pieces() {
        assert_eq!(accepted(&mut begun(), &PING), BURST as usize);
        let mut frames = begun();
        let stream = PING.repeat(BURST as usize);
        assert!(stream.chunks(7).all(|piece| frames.received(piece, 0)));
        assert!(!frames.received(&PING, 0));
    }

    #[test]
    fn requests_and_their_bodies_are_no_flood() {
        let mut frames = begun();
        assert_eq!(accepted(&mut frames, &HEADERS), 100_000);
        assert_eq!(accepted(&mut frames, &DATA), 100_000);
    }

    #[test]
    fn window_updates_for_a_long_answer_are_no_flood_but_answered_pings_are() {
        let mut frames = begun();
        let mut answered = |count| {
            (0..100_000)
                .take_while(|_| {
                    frames.sent(count);
                    frames.received(&PING, 0)
                })
                .count()
        };
        assert_eq!(answered(512), 100_000);
        assert!(answered(17) < 2 * BURST as usize);
    }

    #[test]
    fn a_ping_now_and_then_is_no_flood() {
        let mut frames = begun();
        assert!((0..10_000).all(|n| frames.received(&PING, n * TIME_FOR_ONE)));
    }
}
