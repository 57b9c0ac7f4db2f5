//! The bytes of one connection, TLS or not, with its pulse taken. It owns the connection's permit, so that a
//! tunnel made of it still counts.

use super::clock::Clock;
use super::frames::Frames;
use super::limits::Permit;
use super::pulse::Pulse;
use crate::metrics::OpenConnection;
use bytes::{Buf, Bytes};
use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc::Sender;
use tokio_rustls::server::TlsStream;

/// The stream itself.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// What counts a connection while it is open.
pub(super) struct Counted {
    pub(super) _permit: Permit,
    pub(super) _open: OpenConnection,
    /// The worker does not end before.
    pub(super) _alive: Sender<Infallible>,
}

/// A stream whose pulse is taken.
pub(super) struct Wire {
    stream: Stream,
    /// Bytes read too far by who had the stream before.
    ahead: Bytes,
    /// Watched when HTTP/2 is spoken.
    frames: Option<Frames>,
    pulse: Arc<Pulse>,
    clock: Clock,
    _counted: Counted,
}

impl Wire {
    pub(super) fn new(stream: Stream, pulse: Arc<Pulse>, clock: Clock, counted: Counted) -> Self {
        Self {
            stream,
            ahead: Bytes::new(),
            frames: None,
            pulse,
            clock,
            _counted: counted,
        }
    }

    /// From now on a flood of frames is an error.
    pub(super) fn watch_frames(&mut self) {
        self.frames = Some(Frames::new(self.clock.now()));
    }

    /// Gives back bytes that were read too far. They are the beginning of a request.
    pub(super) fn unread(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.pulse.received(self.clock.now());
        }
        self.ahead = bytes;
    }

    /// Waits until there is something to read, or the end.
    pub(super) async fn readable(&self) -> io::Result<()> {
        if !self.ahead.is_empty() {
            return Ok(());
        }
        match &self.stream {
            Stream::Plain(tcp) => tcp.readable().await,
            Stream::Tls(tls) => tls.get_ref().0.readable().await,
        }
    }

    fn stream(&mut self) -> Pin<&mut (dyn Both + Send)> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp),
            Stream::Tls(tls) => Pin::new(tls.as_mut()),
        }
    }

    fn sent(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count @ 1..)) = written {
            self.pulse.sent(self.clock.now());
            if let Some(frames) = &mut self.frames {
                frames.sent(count);
            }
        }
        written
    }
}

trait Both: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Both for T {}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.has_remaining() {
            let count = self.ahead.len().min(buf.remaining());
            buf.put_slice(&self.ahead.split_to(count));
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(self.stream().poll_read(cx, buf))?;
        let now = self.clock.now();
        let received = buf.filled().get(before..).unwrap_or_default();
        if !received.is_empty() {
            self.pulse.received(now);
        }
        if let Some(frames) = &mut self.frames
            && !frames.received(received, now)
        {
            tracing::debug!("a flood of HTTP/2 frames");
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream().poll_write(cx, buf);
        self.sent(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream().poll_write_vectored(cx, bufs);
        self.sent(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.stream().poll_flush(cx))?;
        self.pulse.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}
