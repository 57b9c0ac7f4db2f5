//! The client's side of HTTP/1.1 (RFC 9112): one connection to an upstream, written and read by the
//! task that needs the response, so that no request waits for another task.
//!
//! [`request_writer`] writes requests, [`response_head`] parses the heads of responses, [`content`]
//! reads what follows and [`chunked`] decodes it, [`upgraded`] is a connection after a `101`.
//! Leaves time-outs and retries to its callers.

mod chunked;
mod content;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod read_buffer;
mod request_writer;
mod response_head;
mod upgraded;

pub use upgraded::Upgraded;

use super::request_body::{Outgoing, Refusal};
use crate::metrics;
use bytes::{Buf as _, Bytes, BytesMut};
use content::Content;
use hyper::body::{Frame, SizeHint};
use hyper::{Request, Response};
use request_writer::RequestWriter;
use response_head::HeadReader;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep};

/// Bytes that a read has room for at first: most responses fit, and one TLS record. Our choice.
const LEAST_READ: usize = 16 * 1024;
/// The most that is read at once, for large responses; less would cost them more system calls. Our
/// choice.
const MOST_READ: usize = 64 * 1024;
/// The size of a page. Allocators begin a large block with a page.
const PAGE: usize = 4096;
/// Where the content of a read buffer begins in its page, at least. TLS copies the content behind
/// the head of a record in a block of its own, and some processors (AMD Zen) copy 25 times as
/// slowly to an address that is 1 to 15 bytes further into its page than the one copied from.
const SKEW: usize = 128;

/// A stream to an upstream: TCP, or TLS over it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The stream of a connection, TLS or not.
type BoxedStream = Box<dyn Stream>;

/// One connection.
pub(super) struct Connection {
    stream: BoxedStream,
    writer: RequestWriter,
    heads: HeadReader,
    content: Content,
    /// Bytes that have been read and belong to nothing yet.
    received: BytesMut,
    /// The room for the next read.
    room: usize,
    /// True if the upstream takes another request after this response.
    keeps_alive: bool,
    /// That of the pool when the connection was made.
    pub(super) generation: usize,
    /// For one response after the other: to postpone a timer costs far less than to make one for
    /// each.
    timer: Pin<Box<Sleep>>,
    _open: Option<Open>,
}

/// Counts a connection until dropped.
struct Open(Arc<metrics::Upstream>);

/// Why there is no response, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection failed or ended.
    #[error("the connection ended")]
    Closed(#[source] io::Error),
    /// The response is not HTTP.
    #[error(transparent)]
    Invalid(#[from] InvalidResponse),
    /// The body of the request was refused on the way.
    #[error(transparent)]
    Request(#[from] Refusal),
    /// The response is larger than was asked for.
    #[error("the response is too large")]
    TooLarge,
}

/// The flaw of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResponse {
    /// Its head does not parse, or has too many fields.
    #[error("the head of the response: {0}")]
    Head(httparse::Error),
    /// Its head and those of interim responses are too large.
    #[error("the head of the response is larger than {} KiB", response_head::LIMIT / 1024)]
    HeadTooLarge,
    /// `Content-Length` is no number, or several.
    #[error("the Content-Length of the response is not one number")]
    Length,
    /// `Transfer-Encoding` is not `chunked`, or that of an HTTP/1.0 response.
    #[error("the Transfer-Encoding of the response is not chunked")]
    Coding,
    /// A chunk does not begin with its size, or not end where that says.
    #[error("a chunk of the response has no valid size")]
    Chunk,
    /// The trailers do not parse, or are too large.
    #[error("the trailers of the response are invalid")]
    Trailers,
}

impl Connection {
    /// Over a stream that has just been connected; those of an upstream are counted.
    pub(super) fn new(
        stream: impl Stream + 'static,
        metrics: Option<&Arc<metrics::Upstream>>,
    ) -> Self {
        Self {
            stream: Box::new(stream),
            writer: RequestWriter::default(),
            heads: HeadReader::default(),
            content: Content::Ended,
            received: BytesMut::new(),
            room: LEAST_READ,
            keeps_alive: true,
            generation: 0,
            timer: Box::pin(sleep(Duration::ZERO)),
            _open: metrics.map(Open::new),
        }
    }

    /// Sets the timer of the connection, which has no meaning to it.
    pub(super) fn set_timer(&mut self, deadline: Instant) {
        self.timer.as_mut().reset(deadline);
    }

    /// Ready when the timer is.
    pub(super) fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.as_mut().poll(cx)
    }

    /// Begins a request: [`poll_head`](Self::poll_head) sends it.
    pub(super) fn begin(&mut self, request: Request<Outgoing>) {
        self.heads = HeadReader::of(request.method());
        self.writer.begin(request);
    }

    /// Sends the request and waits for the head of its response. When that has come, the body of
    /// the request may not have been sent to its end: see [`is_sending`](Self::is_sending).
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<()>, Error>> {
        self.writer.poll(&mut self.stream, cx)?;
        loop {
            if let Some(head) = self.heads.next(&mut self.received)? {
                self.content = head.content;
                self.keeps_alive = head.keeps_alive;
                return Poll::Ready(Ok(head.response));
            }
            if ready!(self.poll_read(cx))? == 0 {
                self.heads.end(&self.received)?;
                return Poll::Ready(Err(self.ended()));
            }
        }
    }

    /// Sends what can be sent of the request now; ready when there is nothing left to send.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        self.writer.poll(&mut self.stream, cx)?;
        if self.is_sending() {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// Returns whether something of the request is left to be sent.
    pub(super) fn is_sending(&self) -> bool {
        !self.writer.is_over()
    }

    /// The next frame of the content; `None`: it has ended.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            if let Some(frame) = self.content.next(&mut self.received).transpose() {
                return Poll::Ready(Some(frame.map_err(Error::from)));
            }
            if self.content.is_ended() {
                return Poll::Ready(None);
            }
            match ready!(self.poll_read(cx)) {
                Ok(1..) => {}
                Ok(0) if self.content.ends_with_connection() => self.content = Content::Ended,
                Ok(0) => return Poll::Ready(Some(Err(self.ended()))),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    /// The content, if it has a length and has been received whole; it is not given again.
    pub(super) fn take_whole(&mut self) -> Option<Bytes> {
        let length = self.content.left()?;
        if length > self.received.len() as u64 {
            return None;
        }
        let frame = self.content.next(&mut self.received).ok()?;
        let data = frame.and_then(|frame| frame.into_data().ok());
        Some(data.unwrap_or_default())
    }

    /// Returns whether the content has been given to its end.
    pub(super) fn is_ended(&self) -> bool {
        self.content.is_ended()
    }

    /// The length of the rest of the content, if it is known.
    pub(super) fn size_hint(&self) -> SizeHint {
        let left = self.content.left();
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }

    /// Sends the only request of the connection, and reads its response of at most `limit` bytes.
    pub(super) async fn exchange(
        mut self,
        request: Request<Outgoing>,
        limit: usize,
    ) -> Result<Response<Bytes>, Error> {
        self.begin(request);
        let response = poll_fn(|cx| self.poll_head(cx)).await?;
        let mut body = BytesMut::new();
        loop {
            let frame = poll_fn(|cx| {
                if let Poll::Ready(Err(refusal)) = self.poll_send(cx) {
                    return Poll::Ready(Some(Err(refusal.into())));
                }
                self.poll_frame(cx)
            });
            let Some(frame) = frame.await.transpose()? else {
                return Ok(response.map(|()| body.freeze()));
            };
            let data = frame.into_data().unwrap_or_default();
            if body.len() + data.len() > limit {
                return Err(Error::TooLarge);
            }
            body.extend_from_slice(&data);
        }
    }

    /// Discards what has been received of the rest. True: another request can follow, because all
    /// of this one has been sent, all of its response has come, and neither that nor more bytes
    /// after it say otherwise.
    pub(super) fn finish(&mut self) -> bool {
        while let Ok(Some(_)) = self.content.next(&mut self.received) {}
        self.is_ended() && self.received.is_empty() && self.keeps_alive && self.writer.is_sent()
    }

    /// Gives back the memory of a response before the connection is kept.
    pub(super) fn shrink(&mut self) {
        self.room = LEAST_READ;
        self.give_buffer_back();
    }

    fn give_buffer_back(&mut self) {
        if self.received.is_empty() {
            read_buffer::put(mem::take(&mut self.received));
        }
    }

    /// Returns whether the upstream has neither closed the connection nor sent anything. It is not
    /// woken by what it waits for.
    pub(super) fn is_idle(&mut self) -> bool {
        self.poll_read(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    }

    /// The stream, after a response that changes the protocol.
    pub(super) fn upgrade(self) -> Upgraded {
        // Copied: a tunnel that lasts need not keep the room for reading.
        Upgraded::new(Bytes::copy_from_slice(&self.received), self.stream)
    }

    /// Reads what there is; 0: the upstream has closed the connection.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Error>> {
        if self.received.capacity() == 0 {
            self.received = read_buffer::take();
        }
        let free = self.received.capacity() - self.received.len();
        if free < self.room / 2 {
            self.received.reserve(self.room);
            if self.received.is_empty() && self.received.as_ptr().addr() % PAGE < SKEW {
                self.received.resize(SKEW, 0);
                self.received.advance(SKEW);
            }
        }
        let free = self.received.capacity() - self.received.len();
        let read = pin!(self.stream.read_buf(&mut self.received)).poll(cx);
        let Poll::Ready(read) = read else {
            self.give_buffer_back();
            return Poll::Pending;
        };
        let count = read.map_err(Error::Closed)?;
        if count == free {
            self.room = (2 * self.room).min(MOST_READ);
        }
        Poll::Ready(Ok(count))
    }

    /// The reason for an end in the middle of a message: the request could not be sent, or the
    /// upstream closed.
    fn ended(&mut self) -> Error {
        let failure = self.writer.failure();
        Error::Closed(failure.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    }
}

impl Open {
    fn new(metrics: &Arc<metrics::Upstream>) -> Self {
        metrics.connected();
        Self(Arc::clone(metrics))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.disconnected();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}
