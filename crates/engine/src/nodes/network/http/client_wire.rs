//! Adapts the HTTP of an http request node on the wire: header names keep their spelling when sent,
//! and received heads must end their lines as the standard requires, unless the node is lenient.
//!
//! The library writes header names in lower case only; some servers do not accept that.

use crate::nodes::network::connect::Stream;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A head is no longer held back to be respelled when it is longer than this; it goes as it is. Our
/// choice.
const MAX_HEAD: usize = 256 * 1024;

/// A head that does not keep to the standard, in the words of Node.js' parser.
#[derive(Debug, thiserror::Error)]
#[error("Parse Error: {words}")]
pub(super) struct Bent {
    pub(super) code: &'static str,
    words: &'static str,
}

/// The spelling of the request in progress.
#[derive(Default)]
pub(super) struct Spelling {
    /// Lower case to what was given.
    names: HashMap<String, String>,
    writing_head: bool,
    reading_head: bool,
    lenient: bool,
}

impl Spelling {
    /// A request with these header names is about to be written.
    pub(super) fn begin<'a>(&mut self, names: impl Iterator<Item = &'a str>, lenient: bool) {
        self.names = names
            .map(|name| (name.to_ascii_lowercase(), name.to_owned()))
            .collect();
        self.writing_head = true;
        self.reading_head = true;
        self.lenient = lenient;
    }

    fn respell(&self, head: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(head.len());
        for line in head.split_inclusive(|&b| b == b'\n') {
            let name = line.iter().position(|&b| b == b':');
            let spelled = name
                .and_then(|end| std::str::from_utf8(&line[..end]).ok())
                .and_then(|name| self.names.get(name));
            match (spelled, name) {
                (Some(spelled), Some(end)) => {
                    out.extend_from_slice(spelled.as_bytes());
                    out.extend_from_slice(&line[end..]);
                }
                _ => out.extend_from_slice(line),
            }
        }
        out
    }
}

/// A stream that writes header names in the spelling of their request, and checks the line ends of
/// response heads.
pub(super) struct ClientWire {
    stream: Stream,
    spelling: Rc<RefCell<Spelling>>,
    /// The part so far of the head that is being written.
    head: Vec<u8>,
    /// Bytes to write before any others.
    pending: Vec<u8>,
    /// The last bytes read of a head.
    tail: [u8; 4],
    /// True if the bytes read of a head belong to its first line.
    first_line: bool,
}

impl ClientWire {
    pub(super) fn new(stream: Stream, spelling: Rc<RefCell<Spelling>>) -> Self {
        Self {
            stream,
            spelling,
            head: Vec::new(),
            pending: Vec::new(),
            tail: [0; 4],
            first_line: true,
        }
    }

    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.pending.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.pending))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.pending.drain(..written);
        }
        Poll::Ready(Ok(()))
    }

    /// Looks through bytes of an answer's head.
    fn inspect(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut spelling = self.spelling.borrow_mut();
        for &byte in bytes {
            if !spelling.reading_head {
                break;
            }
            self.tail.rotate_left(1);
            self.tail[3] = byte;
            if !spelling.lenient
                && let Some(bent) = bent(self.first_line, self.tail[2], byte)
            {
                return Err(io::Error::new(io::ErrorKind::InvalidData, bent));
            }
            self.first_line &= byte != b'\n';
            if self.tail == *b"\r\n\r\n" {
                spelling.reading_head = false;
                self.tail = [0; 4];
                self.first_line = true;
            }
        }
        Ok(())
    }
}

/// The error of a carriage return or a line feed that stands alone: these are two bytes, one after
/// another.
fn bent(first_line: bool, last: u8, byte: u8) -> Option<Bent> {
    let (code, words) = match (first_line, last, byte) {
        (_, b'\r', b'\n') => return None,
        (true, b'0'..=b'9', b'\n') => ("HPE_INVALID_STATUS", "Invalid response status"),
        (true, _, b'\n') => ("HPE_CR_EXPECTED", "Missing expected CR after response line"),
        (false, _, b'\n') => ("HPE_CR_EXPECTED", "Missing expected CR after header value"),
        (false, b'\r', _) => ("HPE_LF_EXPECTED", "Missing expected LF after header value"),
        _ => return None,
    };
    Some(Bent { code, words })
}

impl AsyncWrite for ClientWire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_pending(cx))?;
        if !self.spelling.borrow().writing_head {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        }
        self.head.extend_from_slice(bytes);
        let end = self.head.windows(4).position(|four| four == b"\r\n\r\n");
        if end.is_none() && self.head.len() < MAX_HEAD {
            return Poll::Ready(Ok(bytes.len()));
        }
        let head = std::mem::take(&mut self.head);
        let (head, body) = head.split_at(end.unwrap_or(0));
        let mut pending = self.spelling.borrow().respell(head);
        pending.extend_from_slice(body);
        self.pending = pending;
        self.spelling.borrow_mut().writing_head = false;
        // Bytes that cannot be written now are written before the next ones, or when flushed.
        if let Poll::Ready(Err(error)) = self.poll_pending(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl AsyncRead for ClientWire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if self.spelling.borrow().reading_head {
            self.inspect(buffer.filled().get(before..).unwrap_or_default())?;
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn wire(size: usize, names: &[&str]) -> (ClientWire, tokio::io::DuplexStream) {
        let (here, there) = tokio::io::duplex(size);
        let spelling = Rc::new(RefCell::new(Spelling::default()));
        spelling.borrow_mut().begin(names.iter().copied(), false);
        (ClientWire::new(Box::new(here), spelling), there)
    }

    #[tokio::test]
    async fn header_names_keep_their_spelling_and_bodies_are_unchanged() {
        let (mut wire, mut there) = wire(8, &["X-OwN"]);
        let write = async {
            for piece in [
                "GET / HTTP/1.1\r\nx-o",
                "wn: x-own: 1\r\nb: 2\r\n\r\nx-own: 3",
                "x-own: 4",
            ] {
                wire.write_all(piece.as_bytes()).await.unwrap();
            }
            wire.shutdown().await.unwrap();
        };
        let mut seen = String::new();
        let ((), read) = tokio::join!(write, there.read_to_string(&mut seen));
        read.unwrap();
        assert_eq!(
            seen,
            "GET / HTTP/1.1\r\nX-OwN: x-own: 1\r\nb: 2\r\n\r\nx-own: 3x-own: 4"
        );
    }

    #[tokio::test]
    async fn a_head_without_carriage_returns_is_refused() {
        let (mut wire, mut there) = wire(1024, &[]);
        there.write_all(b"HTTP/1.1 200 OK\nA: 1\n\n").await.unwrap();
        assert!(wire.read(&mut [0; 64]).await.is_err());
    }
}
