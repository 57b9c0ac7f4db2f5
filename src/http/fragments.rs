//! Splits large WebSocket frames of a client into fragments (RFC 6455 §5.4) before the library
//! reads them.
//!
//! The library's read buffer grows to the largest frame and keeps that size until the socket is
//! closed. A message in fragments is collected in memory of its own, which is freed with the
//! message.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// The maximum payload of a fragment: a multiple of the mask's length, so that each fragment has
/// the frame's mask. Our choice: the size of one read.
const FRAGMENT: u16 = 4 * 1024;

/// The longest head of a frame.
const MAX_HEAD: usize = 14;
/// Of a message's last frame.
const FINAL: u8 = 0x80;
/// Of a payload that is masked.
const MASKED: u8 = 0x80;
/// The lengths that announce a longer one, in two and in eight bytes.
const LONG: u8 = 126;
const LONGER: u8 = 127;
/// The first opcode of a control frame, which has no fragments.
const CONTROL: u8 = 0x8;

/// Splits the frames of one client.
#[derive(Debug)]
pub(super) struct Fragments {
    /// Longer frames pass as they are: the library refuses them by their heads.
    longest: u64,
    /// A head that is not complete, or is to be passed on.
    head: [u8; MAX_HEAD],
    have: usize,
    /// Bytes of a complete head that were passed on; `None`: it is not complete.
    passed: Option<usize>,
    /// Payload before the next head.
    left: u64,
    /// Payload of a large frame after the current fragment.
    rest: u64,
    /// True if the large frame is a message's last one, and its mask.
    is_final: bool,
    mask: Option<[u8; 4]>,
}

/// The head of a frame, as far as it matters here.
struct Head {
    size: usize,
    /// Of the payload.
    length: u64,
    mask: Option<[u8; 4]>,
}

impl Fragments {
    /// Of frames of at most `longest` bytes.
    pub(super) fn new(longest: usize) -> Self {
        Self {
            longest: longest as u64,
            head: [0; MAX_HEAD],
            have: 0,
            passed: None,
            left: 0,
            rest: 0,
            is_final: false,
            mask: None,
        }
    }

    /// Reads from the stream, with the heads of fragments in between.
    pub(super) fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.left == 0 && self.rest > 0 {
                self.next_fragment();
            }
            if let Some(passed) = self.passed {
                let head = self.head.get(passed..self.have).unwrap_or_default();
                let count = head.len().min(buf.remaining());
                buf.put_slice(&head[..count]);
                let passed = passed + count;
                self.passed = Some(passed);
                if passed >= self.have {
                    (self.have, self.passed) = (0, None);
                }
                return Poll::Ready(Ok(()));
            }
            if self.have > 0 {
                if !ready!(self.poll_head(stream, cx))? {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            // No fragment is longer, so at most one head of a large frame, or of a fragment of it,
            // is in what is read.
            let limit = if self.rest > 0 {
                self.left
            } else {
                FRAGMENT.into()
            };
            let room = usize::try_from(limit).map_or(buf.remaining(), |n| n.min(buf.remaining()));
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut part))?;
            let read = part.filled_mut();
            let count = self.pass(read);
            let held = count < read.len();
            buf.advance(count);
            if count > 0 || !held {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Reads the rest of a head; false at the end of the stream.
    fn poll_head<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<bool>> {
        loop {
            let head = self.head.get_mut(..self.have).unwrap_or_default();
            if let Some(found) = Head::parse(head) {
                self.begin_here(&found);
                self.passed = Some(0);
                return Poll::Ready(Ok(true));
            }
            let size = Head::size(head).unwrap_or(2);
            let missing = self.head.get_mut(self.have..size).unwrap_or_default();
            let mut part = ReadBuf::new(missing);
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut part))?;
            match part.filled().len() {
                0 => return Poll::Ready(Ok(false)),
                count => self.have += count,
            }
        }
    }

    /// These bytes pass; a head that is not complete at their end is held back. Gives how many
    /// pass.
    fn pass(&mut self, bytes: &mut [u8]) -> usize {
        let mut at = 0;
        loop {
            let here = (bytes.len() - at) as u64;
            let skipped = self.left.min(here);
            self.left -= skipped;
            at += usize::try_from(skipped).unwrap_or_default();
            let tail = bytes.get_mut(at..).unwrap_or_default();
            if tail.is_empty() || self.rest > 0 {
                return at;
            }
            let Some(found) = Head::parse(tail) else {
                self.have = tail.len().min(MAX_HEAD);
                self.head[..self.have].copy_from_slice(&tail[..self.have]);
                return at;
            };
            self.begin(tail, &found);
            at += found.size;
        }
    }

    /// The same for a head that was held back.
    fn begin_here(&mut self, found: &Head) {
        let mut head = self.head;
        self.begin(&mut head, found);
        self.head = head;
    }

    /// A frame begins with this head, which becomes its first fragment's if the frame is large.
    fn begin(&mut self, head: &mut [u8], found: &Head) {
        let first = head.first().copied().unwrap_or_default();
        let fragment = u64::from(FRAGMENT);
        let fits = found.length <= fragment || found.length > self.longest;
        if fits || first & 0xf >= CONTROL {
            self.left = found.length;
            return;
        }
        (self.left, self.rest) = (fragment, found.length - fragment);
        (self.is_final, self.mask) = (first & FINAL != 0, found.mask);
        let (is_longer, length) = (head.get(1).map(|b| b & !MASKED), fragment.to_be_bytes());
        let length = if is_longer == Some(LONGER) {
            &length[..]
        } else {
            &length[6..]
        };
        if let Some([first, _, rest @ ..]) = head.get_mut(..2 + length.len()) {
            *first &= !FINAL;
            rest.copy_from_slice(length);
        }
    }

    /// The large frame goes on with another fragment.
    fn next_fragment(&mut self) {
        let length = u16::try_from(self.rest).map_or(FRAGMENT, |rest| rest.min(FRAGMENT));
        self.left = length.into();
        self.rest -= self.left;
        let last = if self.rest == 0 && self.is_final {
            FINAL
        } else {
            0
        };
        let masked = if self.mask.is_some() { MASKED } else { 0 };
        let [high, low] = length.to_be_bytes();
        let [a, b, c, d] = self.mask.unwrap_or_default();
        self.have = if self.mask.is_some() { 8 } else { 4 };
        self.head[..8].copy_from_slice(&[last, masked | LONG, high, low, a, b, c, d]);
        self.passed = Some(0);
    }
}

impl Head {
    /// Its bytes; `None`: the second is not there.
    fn size(bytes: &[u8]) -> Option<usize> {
        let second = bytes.get(1)?;
        let length = match second & !MASKED {
            LONG => 2,
            LONGER => 8,
            _ => 0,
        };
        Some(2 + length + if second & MASKED == 0 { 0 } else { 4 })
    }

    /// `None`: it is not complete.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let size = Self::size(bytes)?;
        let (&second, long) = (bytes.get(1)?, bytes.get(2..size)?);
        let (long, mask) = if second & MASKED == 0 {
            (long, None)
        } else {
            let (long, mask) = long.split_last_chunk()?;
            (long, Some(*mask))
        };
        let short = [second & !MASKED];
        let length = if long.is_empty() { &short[..] } else { long };
        let length = length
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Some(Self { size, length, mask })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::future::poll_fn;

    /// A client's frame, whose payload is masked by distinct bytes.
    fn frame(first: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![first];
        match u16::try_from(length) {
            Ok(short @ 0..126) => frame.push(MASKED | u8::try_from(short).unwrap()),
            Ok(middle) => {
                frame.push(MASKED | LONG);
                frame.extend(middle.to_be_bytes());
            }
            Err(_) => {
                frame.push(MASKED | LONGER);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend([1, 2, 3, 4]);
        frame.extend((0..length).map(|n| u8::try_from(n % 251).unwrap()));
        frame
    }

    /// Frames: the first byte, and the payload with the mask undone.
    fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut frames = Vec::new();
        while let Some(head) = Head::parse(bytes) {
            let (start, end) = (head.size, head.size + usize::try_from(head.length).unwrap());
            let mask = head.mask.unwrap();
            let payload = bytes[start..end].iter().zip(mask.iter().cycle());
            frames.push((bytes[0], payload.map(|(byte, key)| byte ^ key).collect()));
            bytes = &bytes[end..];
        }
        assert!(bytes.is_empty());
        frames
    }

    /// Reads these bytes, which arrive in pieces, into buffers of `room` bytes.
    async fn read(bytes: &[u8], piece: usize, room: usize) -> Vec<u8> {
        let mut stream = coming_in_pieces(bytes, piece);
        let mut fragments = Fragments::new(1 << 20);
        let mut all = Vec::new();
        loop {
            let mut here = vec![0; room];
            let mut buf = ReadBuf::new(&mut here);
            poll_fn(|cx| fragments.poll_read(&mut stream, cx, &mut buf))
                .await
                .unwrap();
            if buf.filled().is_empty() {
                return all;
            }
            all.extend_from_slice(buf.filled());
        }
    }

    /// A stream that gives these bytes in pieces.
    fn coming_in_pieces(bytes: &[u8], piece: usize) -> impl AsyncRead + Unpin {
        struct Pieces(Vec<u8>, usize);
        impl AsyncRead for Pieces {
            fn poll_read(
                mut self: Pin<&mut Self>,
                _: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let count = self.1.min(buf.remaining()).min(self.0.len());
                buf.put_slice(&self.0[..count]);
                self.0.drain(..count);
                Poll::Ready(Ok(()))
            }
        }
        Pieces(bytes.to_vec(), piece)
    }

    #[tokio::test]
    async fn a_large_frame_is_split_into_fragments_at_any_chunking() {
        let fragment = usize::from(FRAGMENT);
        for length in [fragment + 1, 3 * fragment, 70_000] {
            let large = frame(FINAL | 2, length);
            let small = frame(FINAL | 1, 5);
            let ping = frame(FINAL | 9, 0);
            let sent = [&small[..], &large, &ping, &large, &small].concat();
            for (piece, room) in [
                (1, 1),
                (3, 4096),
                (4096, 4096),
                (5000, 100),
                (usize::MAX, 9000),
            ] {
                let got = frames(&read(&sent, piece, room).await);
                assert!(got.iter().all(|(_, payload)| payload.len() <= fragment));
                let first: Vec<u8> = got.iter().map(|(first, _)| *first).collect();
                let count = length.div_ceil(fragment);
                let split = [vec![2], vec![0; count - 2], vec![FINAL]].concat();
                let ends = (vec![FINAL | 1], vec![FINAL | 9]);
                assert_eq!(
                    first,
                    [&ends.0[..], &split, &ends.1, &split, &ends.0].concat()
                );
                let all = |frames: Vec<(u8, Vec<u8>)>| {
                    let payloads = frames.into_iter().map(|(_, payload)| payload);
                    payloads.collect::<Vec<_>>().concat()
                };
                assert_eq!(all(got), all(frames(&sent)), "{length} by {piece}");
            }
        }
    }

    #[tokio::test]
    async fn frames_with_a_header_that_the_library_refuses_are_passed_unchanged() {
        for sent in [frame(FINAL | 2, (1 << 20) + 1), frame(FINAL | 9, 5000)] {
            assert_eq!(read(&sent, 4096, 4096).await, sent);
        }
    }

    #[tokio::test]
    async fn client_fragments_stay_fragments_until_the_clients_final_one() {
        let sent = [frame(1, 5000), frame(0, 5000), frame(FINAL, 3)].concat();
        let got = frames(&read(&sent, 4096, 4096).await);
        let first: Vec<u8> = got.iter().map(|(first, _)| *first).collect();
        assert_eq!(first, [1, 0, 0, 0, FINAL]);
    }
}
