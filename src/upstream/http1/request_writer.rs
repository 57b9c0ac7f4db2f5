//! Writes one request: its head, framed by the body that is sent with it, and the body as fast as
//! the upstream takes it. Nothing of a client's framing is copied.

use super::super::request_body::{Outgoing, Refusal};
use super::BoxedStream;
use bytes::{Buf, Bytes};
use hyper::header::{CONTENT_LENGTH, EXPECT, HeaderName, TRAILER, TRANSFER_ENCODING};
use hyper::{Method, Request};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write as _};
use std::iter::once;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite as _;

/// Bytes of a body that are taken from the client before the upstream has taken any. Our choice:
/// four TLS records.
const AHEAD: usize = 64 * 1024;
/// Slices that are written at once. Our choice: the pieces in which TLS gives [`AHEAD`], each with
/// its chunk framing.
const SLICES: usize = 16;

/// The request that is being written.
#[derive(Default)]
pub(super) struct RequestWriter {
    head: Vec<u8>,
    /// Bytes of the head that have been written.
    written: usize,
    /// Pieces of the body, framed.
    queue: VecDeque<Bytes>,
    /// The rest of the body; `None`: it has been queued to its end.
    body: Option<Outgoing>,
    chunked: bool,
    /// True if the stream may still hold back what was written.
    unflushed: bool,
    /// Why nothing more can be written.
    failure: Option<io::Error>,
    failed: bool,
}

impl RequestWriter {
    /// Prepares a request; [`poll`](Self::poll) writes it.
    pub(super) fn begin(&mut self, request: Request<Outgoing>) {
        let (parts, body) = request.into_parts();
        let length = body.length();
        self.head.clear();
        self.written = 0;
        self.queue.clear();
        self.chunked = length.is_none();
        let target = parts.uri.path_and_query().map_or("/", |all| all.as_str());
        for part in [parts.method.as_str(), " ", target, " HTTP/1.1\r\n"] {
            self.put(part.as_bytes());
        }
        for (name, value) in &parts.headers {
            if !FRAMING.contains(name) {
                self.put(name.as_str().as_bytes());
                self.put(b": ");
                self.put(value.as_bytes());
                self.put(b"\r\n");
            }
        }
        match length {
            Some(0) if !declares_empty(&parts.method) => self.put(b"\r\n"),
            Some(length) => {
                // Writing to memory does not fail.
                let _ = write!(self.head, "content-length: {length}\r\n\r\n");
            }
            None => self.put(b"transfer-encoding: chunked\r\n\r\n"),
        }
        self.body = (length != Some(0)).then_some(body);
        self.unflushed = true;
        (self.failure, self.failed) = (None, false);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.head.extend_from_slice(bytes);
    }

    /// Writes what can be written now. A failure of the stream shows in what is read from it: a
    /// response may be there.
    pub(super) fn poll(
        &mut self,
        stream: &mut BoxedStream,
        cx: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        while !self.is_over() {
            let full = self.fill(cx)?;
            match self.poll_write(Pin::new(stream), cx) {
                Poll::Ready(Ok(())) if full => {}
                Poll::Ready(Ok(())) | Poll::Pending => break,
                Poll::Ready(Err(error)) => self.fail(error),
            }
        }
        Ok(())
    }

    /// Queues what the body has now; true: there may be more.
    fn fill(&mut self, cx: &mut Context<'_>) -> Result<bool, Refusal> {
        let mut ahead: usize = self.queue.iter().map(Bytes::len).sum();
        while let Some(body) = &mut self.body {
            if ahead >= AHEAD || self.queue.len() >= SLICES {
                return Ok(true);
            }
            let Poll::Ready(piece) = body.poll_piece(cx) else {
                break;
            };
            match piece {
                Some(Ok(piece)) => {
                    ahead += piece.len();
                    self.push(piece);
                }
                Some(Err(refusal)) => {
                    (self.body, self.failed) = (None, true);
                    return Err(refusal);
                }
                None => self.end(),
            }
        }
        Ok(false)
    }

    fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            // An empty chunk would be the end.
            return;
        }
        if self.chunked {
            let size = format!("{:x}\r\n", piece.len());
            let framed = [size.into(), piece, Bytes::from_static(b"\r\n")];
            self.queue.extend(framed);
        } else {
            self.queue.push_back(piece);
        }
        self.unflushed = true;
    }

    fn end(&mut self) {
        self.body = None;
        if self.chunked {
            self.queue.push_back(Bytes::from_static(b"0\r\n\r\n"));
            self.unflushed = true;
        }
    }

    fn poll_write(
        &mut self,
        mut stream: Pin<&mut BoxedStream>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let head = self.head.get(self.written..).unwrap_or_default();
            let count = match (head, self.queue.is_empty()) {
                ([], true) => break,
                (head, true) => ready!(stream.as_mut().poll_write(cx, head))?,
                (head, false) => {
                    let pieces = self.queue.iter().map(|piece| &piece[..]);
                    let bytes = once(head).chain(pieces).filter(|bytes| !bytes.is_empty());
                    let mut slices = [IoSlice::new(&[]); SLICES];
                    let mut used = 0;
                    for (slot, bytes) in slices.iter_mut().zip(bytes) {
                        *slot = IoSlice::new(bytes);
                        used += 1;
                    }
                    let slices = slices.get(..used).unwrap_or_default();
                    ready!(stream.as_mut().poll_write_vectored(cx, slices))?
                }
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(count);
        }
        if self.unflushed {
            ready!(stream.poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, count: usize) {
        let of_head = count.min(self.head.len() - self.written);
        self.written += of_head;
        let mut left = count - of_head;
        while let Some(piece) = self.queue.front_mut()
            && left > 0
        {
            let taken = left.min(piece.len());
            piece.advance(taken);
            left -= taken;
            if piece.is_empty() {
                self.queue.pop_front();
            }
        }
    }

    fn fail(&mut self, error: io::Error) {
        (self.failure, self.failed) = (Some(error), true);
        (self.body, self.unflushed) = (None, false);
        self.queue.clear();
    }

    /// Why the rest could not be written; given once.
    pub(super) fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Returns whether the whole request has been written.
    pub(super) fn is_sent(&self) -> bool {
        !self.failed && self.is_over()
    }

    /// Returns whether nothing more will be written.
    pub(super) fn is_over(&self) -> bool {
        self.failed || (self.body.is_none() && self.queue.is_empty() && !self.unflushed)
    }
}

/// Fields that belong to the writer (RFC 9112 §6), or that the gateway has answered.
static FRAMING: [HeaderName; 4] = [CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER, EXPECT];

/// RFC 9110 §8.6: methods that give a body a meaning declare an empty one.
fn declares_empty(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}
