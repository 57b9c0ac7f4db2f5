//! Counts the frames of an HTTP/2 connection that ask for nothing: SETTINGS, PING, PRIORITY,
//! `WINDOW_UPDATE`, `RST_STREAM` and unknown ones. Each costs us work and, some, an answer
//! (CVE-2019-9511 to -9517), and the h2 library only slows a peer down that sends nothing else. It
//! watches CONTINUATION and DATA itself.
//!
//! Such frames take tokens from a bucket. Sees the bytes of a connection, decides, and changes
//! nothing. No clock here.

use limits::token_bucket::{Rate, TokenBucket};

/// Length of the client's preface (RFC 9113 §3.4).
const PREFACE: usize = 24;
/// Length of a frame's head (RFC 9113 §4.1).
const HEAD: usize = 9;
/// Such frames at once. Our choice: nghttp2 lets 1000 answers to PING and SETTINGS wait.
const BURST: u64 = 1000;
/// The number of such frames that a request permits. 10, as Envoy allows `WINDOW_UPDATE`s for each
/// frame of data.
const PER_REQUEST: u64 = 10;
/// The bytes sent to the peer that permit one such frame, a `WINDOW_UPDATE` for example. Our
/// choice: the response to a PING has 17 bytes, so PINGs do not pay for each other.
const SENT_FOR_ONE: usize = 256;
/// Frames that are due anyway, one in 10 ms. Our choice: no client pings its connection more often.
const RATE: Rate = Rate {
    tokens: 1,
    period: 10,
};

/// The remaining allowance of a peer, and the position in its frames.
#[derive(Debug)]
pub(super) struct Frames {
    /// Bytes before the next head.
    skip: usize,
    head: [u8; HEAD],
    /// Bytes of the head that are there.
    have: usize,
    /// Frames that the peer may send now.
    allowed: TokenBucket,
    /// Bytes sent that have not yet paid for a frame.
    sent: usize,
}

impl Frames {
    pub(super) fn new(now: u64) -> Self {
        Self {
            skip: PREFACE,
            head: [0; HEAD],
            have: 0,
            allowed: TokenBucket::new(BURST, RATE, now),
            sent: 0,
        }
    }

    /// Bytes have gone to the peer.
    pub(super) fn sent(&mut self, count: usize) {
        let sent = self.sent + count;
        self.sent = sent % SENT_FOR_ONE;
        self.allowed.add((sent / SENT_FOR_ONE) as u64);
    }

    /// Bytes have come. False: these are more frames than anyone needs.
    pub(super) fn received(&mut self, mut bytes: &[u8], now: u64) -> bool {
        self.allowed.refill(now);
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
            1 => self.allowed.add(PER_REQUEST),
            _ => return self.allowed.take(1),
        }
        true
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

    /// The number of these frames that a peer may send at once.
    fn accepted(frames: &mut Frames, frame: &[u8]) -> u64 {
        let accepted = (0..100_000).take_while(|_| frames.received(frame, 0));
        accepted.count() as u64
    }

    #[test]
    fn a_flood_of_pings_is_detected_at_any_chunking() {
        assert_eq!(accepted(&mut begun(), &PING), BURST);
        let mut frames = begun();
        let stream = PING.repeat(1000);
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
    fn window_updates_for_long_responses_are_no_flood_but_answered_pings_are() {
        let mut frames = begun();
        let mut answered = |count| {
            (0..100_000)
                .take_while(|_| {
                    frames.sent(count);
                    frames.received(&PING, 0)
                })
                .count() as u64
        };
        assert_eq!(answered(512), 100_000);
        assert!(answered(17) < 2 * BURST);
    }

    #[test]
    fn a_ping_now_and_then_is_no_flood() {
        let mut frames = begun();
        assert!((0..10_000).all(|n| frames.received(&PING, n * RATE.period)));
    }
}
