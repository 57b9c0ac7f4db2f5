//! Finds where the frames of a WebSocket end (RFC 6455 §5.2), so that a Close can be put between
//! two of them.
//!
//! Counts lengths. Never looks at what a frame carries.

use bytes::{Buf, Bytes};

/// A server or a gateway is going away (RFC 6455 §7.4.1).
pub(super) const GOING_AWAY: u16 = 1001;
/// The other end may not be here (RFC 6455 §7.4.1).
pub(super) const POLICY: u16 = 1008;

/// The frames that have passed in one direction.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The received bytes of a frame's head: flags, length and, at most, eight bytes of a longer
    /// length.
    head: [u8; 10],
    have: usize,
    /// Bytes of the frame still to come: the masking key, if there is one, and the payload.
    left: u64,
    closing: bool,
}

impl Frames {
    /// These bytes pass.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while bytes.has_remaining() {
            if self.left > 0 {
                let count = usize::try_from(self.left).map_or(bytes.len(), |n| n.min(bytes.len()));
                bytes.advance(count);
                self.left -= count as u64;
                continue;
            }
            if let Some(slot) = self.head.get_mut(self.have) {
                *slot = bytes.get_u8();
                self.have += 1;
            }
            if let Some(left) = self.announced() {
                self.closing |= self.head[0] & 0x0f == CLOSE;
                (self.have, self.left) = (0, left);
            }
        }
    }

    /// Returns whether a Close has passed: nothing may follow it.
    pub(super) fn closing(&self) -> bool {
        self.closing
    }

    /// A Close from the server's side, if one can stand here.
    pub(super) fn close(&self, code: u16) -> Option<Bytes> {
        let between = self.have == 0 && self.left == 0;
        let [high, low] = code.to_be_bytes();
        (between && !self.closing).then(|| Bytes::copy_from_slice(&[FINAL | CLOSE, 2, high, low]))
    }

    /// The bytes that the frame's head announces; `None`: the head is incomplete.
    fn announced(&self) -> Option<u64> {
        let [_, second, long @ ..] = self.head;
        let short = u64::from(second & 0x7f);
        let length = match (short, self.have) {
            (126, 4..) => u64::from(u16::from_be_bytes([long[0], long[1]])),
            (127, 10..) => u64::from_be_bytes(long),
            (126 | 127, _) | (_, 0 | 1) => return None,
            (short, _) => short,
        };
        let key = if second & 0x80 == 0 { 0 } else { 4 };
        Some(length.saturating_add(key))
    }
}

/// The opcode of a Close.
const CLOSE: u8 = 0x8;
/// Of a message's last frame.
const FINAL: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of `length` bytes, as clients (masked) or servers make it.
    fn frame(first: u8, masked: bool, length: usize) -> Vec<u8> {
        let mask = if masked { 0x80 } else { 0 };
        let mut frame = vec![first];
        match u16::try_from(length) {
            Ok(short @ 0..126) => frame.push(mask | u8::try_from(short).unwrap_or_default()),
            Ok(middle) => {
                frame.push(mask | 0x7e);
                frame.extend(middle.to_be_bytes());
            }
            Err(_) => {
                frame.push(mask | 0x7f);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        // Bytes that would be heads if they were taken for some.
        frame.resize(frame.len() + length + if masked { 4 } else { 0 }, 0x88);
        frame
    }

    #[test]
    fn a_close_is_inserted_only_between_frames_at_any_chunking() {
        for masked in [false, true] {
            for length in [0, 1, 125, 126, 127, 65_535, 65_536] {
                let whole = frame(0x82, masked, length);
                let mut frames = Frames::default();
                for at in 0..whole.len() {
                    frames.pass(&whole[at..=at]);
                    let end = at + 1 == whole.len();
                    assert_eq!(frames.close(GOING_AWAY).is_some(), end, "{at} of {length}");
                }
                let mut frames = Frames::default();
                frames.pass(&whole.repeat(3));
                let close = frames.close(GOING_AWAY);
                assert_eq!(close.as_deref(), Some(&[0x88, 2, 0x03, 0xe9][..]));
                assert!(!frames.closing());
            }
        }
    }

    #[test]
    fn nothing_follows_a_close() {
        let mut frames = Frames::default();
        frames.pass(&frame(0x01, false, 10));
        frames.pass(&frame(0x88, false, 2));
        assert!(frames.closing());
        assert_eq!(frames.close(POLICY), None);
    }
}
