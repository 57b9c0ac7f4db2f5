//! The bytes of a connection that are no message yet: the beginning of a line, or all until its
//! end.

use limits::quota::{Grant, Quota};
use memchr::memmem::Finder;
use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;

/// Bytes that a connection holds without a grant: what one read brings.
const FREE: usize = 64 * 1024;

/// The quota of all receive buffers, made when the first node needs it.
#[derive(Default)]
pub(super) struct ReceiveBuffers(OnceCell<Arc<Quota>>);

impl ReceiveBuffers {
    /// A buffer for this peer. All buffers hold `total` bytes at most, and those of one address
    /// half of them.
    pub(super) fn buffer(&self, total: usize, peer: IpAddr) -> ReceiveBuffer {
        let quota = self.0.get_or_init(|| Quota::new(total, total / 2));
        ReceiveBuffer {
            limit: Some((Arc::clone(quota), peer)),
            ..ReceiveBuffer::default()
        }
    }
}

/// The bytes of one connection.
#[derive(Default)]
pub(super) struct ReceiveBuffer {
    bytes: Vec<u8>,
    /// No newline begins before this byte.
    searched: usize,
    /// `None`: the node chose its peer itself.
    limit: Option<(Arc<Quota>, IpAddr)>,
    grant: Option<Grant>,
}

impl ReceiveBuffer {
    /// Adds bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds bytes, and takes the lines that are whole by then, with their newlines or without. Each
    /// byte is searched once, however the pieces come.
    pub(super) fn lines(&mut self, bytes: &[u8], newline: &[u8], keep: bool) -> Vec<Vec<u8>> {
        self.bytes.extend_from_slice(bytes);
        let finder = Finder::new(newline);
        let mut lines = Vec::new();
        let (mut start, mut from) = (0, self.searched);
        while let Some(at) = finder.find(&self.bytes[from..]) {
            let end = from + at;
            let kept = end + if keep { newline.len() } else { 0 };
            lines.push(self.bytes[start..kept].to_vec());
            start = end + newline.len();
            from = start;
        }
        self.bytes.drain(..start);
        self.searched = (self.bytes.len() + 1).saturating_sub(newline.len());
        lines
    }

    /// Takes all bytes.
    pub(super) fn take(&mut self) -> Vec<u8> {
        (self.searched, self.grant) = (0, None);
        std::mem::take(&mut self.bytes)
    }

    /// The bytes.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Charges the bytes to the quota; false if they are too many.
    pub(super) fn fits(&mut self) -> bool {
        let Some((quota, peer)) = &self.limit else {
            return true;
        };
        if self.bytes.len() <= FREE {
            self.grant = None;
            return true;
        }
        let grant = self.grant.get_or_insert_with(|| quota.grant(*peer));
        let missing = self.bytes.len().saturating_sub(grant.units());
        missing == 0 || grant.try_grow(missing).is_ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn text(lines: Vec<Vec<u8>>) -> Vec<String> {
        let text = |line| String::from_utf8(line).unwrap();
        lines.into_iter().map(text).collect()
    }

    #[test]
    fn a_newline_is_found_wherever_the_pieces_are_cut() {
        for size in 1..12 {
            let mut buffer = ReceiveBuffer::default();
            let mut lines = Vec::new();
            for piece in b"one\r\n\r\ntwo\rx\r\nrest".chunks(size) {
                lines.extend(buffer.lines(piece, b"\r\n", false));
            }
            assert_eq!(text(lines), ["one", "", "two\rx"], "{size}");
            assert_eq!(buffer.take(), b"rest");
        }
    }

    #[test]
    fn lines_keep_their_newline_if_that_is_wanted() {
        let mut buffer = ReceiveBuffer::default();
        let lines = buffer.lines(b"a|b|c", b"|", true);
        assert_eq!(text(lines), ["a|", "b|"]);
        assert_eq!(buffer.as_slice(), b"c");
    }

    /// 64 MB as 1,024 pieces: searched again with each piece they would take half a minute.
    #[test]
    fn a_line_that_does_not_end_is_searched_once() {
        let mut buffer = ReceiveBuffer::default();
        let piece = vec![b'x'; 64 * 1024];
        let began = std::time::Instant::now();
        for _ in 0..1024 {
            assert!(buffer.lines(&piece, b"\n", false).is_empty());
        }
        assert_eq!(buffer.searched, 64 << 20);
        assert!(began.elapsed() < std::time::Duration::from_secs(10));
    }

    #[test]
    fn an_address_holds_half_of_the_bytes_and_gives_them_back() {
        let buffers = ReceiveBuffers::default();
        let from = |last| buffers.buffer(8 << 20, Ipv4Addr::new(192, 0, 2, last).into());
        let (mut one, mut other, mut elsewhere) = (from(1), from(1), from(2));
        let takes_three = |buffer: &mut ReceiveBuffer| {
            buffer.push(&vec![b'x'; 3 << 20]);
            buffer.fits()
        };
        assert!(takes_three(&mut one));
        assert!(!takes_three(&mut other));
        assert!(takes_three(&mut elsewhere));
        drop(other);
        assert!(!takes_three(&mut from(1)));
        assert_eq!(one.lines(b"\n", b"\n", false).len(), 1);
        assert!(one.fits() && takes_three(&mut from(1)));
    }
}
