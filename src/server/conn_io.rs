//! The bytes of one connection, TLS or not, with its activity recorded. It owns the connection's
//! permit, so that a tunnel made of it still counts.

use super::activity::Activity;
use super::clock::Clock;
use super::h2_flood::Frames;
use super::http1_framing::{Heads, Stop};
use super::read_ahead::ReadAhead;
use crate::metrics::OpenConnection;
use bytes::{Buf, Bytes};
use limits::conn_limit::Permit;
use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::Sender;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;

/// The delay of the report of a stream's end, or of an error, after the last bytes. hyper drops the
/// handler of a request as soon as it sees that its client has gone, even one that has not run
/// since the last bytes came; all tasks that are ready now run before a timer's. So a request that
/// has arrived whole is acted on.
const END_DELAY: Duration = Duration::from_millis(1);

/// The stream itself.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<ReadAhead>>),
    /// Of the gateway in front of an engine that runs apart.
    Unix(UnixStream),
}

impl Stream {
    async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.readable().await,
            Self::Tls(tls) => tls.get_ref().0.tcp().readable().await,
            Self::Unix(unix) => unix.readable().await,
        }
    }

    /// Returns whether undeciphered bytes are here.
    fn has_more(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.get_ref().0.has_more())
    }

    /// Reads what is there, undeciphered.
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.try_read(buffer),
            Self::Tls(tls) => tls.get_ref().0.tcp().try_read(buffer),
            Self::Unix(unix) => unix.try_read(buffer),
        }
    }
}

/// The guards that count a connection while it is open.
pub(super) struct Counted {
    pub(super) permit: Permit,
    pub(super) _open: OpenConnection,
    /// The worker does not end before.
    pub(super) _alive: Sender<Infallible>,
}

/// The inspection of incoming bytes.
enum Inspector {
    /// HTTP/1.1: requests that have more than one reading.
    Heads(Heads),
    /// The last head that may pass has passed: nothing else is read.
    Finished,
    /// A body is malformed: further reads fail.
    Broken,
    /// HTTP/2: a flood of frames.
    Frames(Frames),
}

/// The end of a stream, not yet reported.
struct End {
    timer: Pin<Box<Sleep>>,
    /// `None`: the peer has closed its side.
    error: Option<io::Error>,
}

/// A stream that records its activity for idle time-outs.
pub(super) struct ConnIo {
    stream: Stream,
    /// Bytes read too far by who had the stream before.
    ahead: Bytes,
    watched: Inspector,
    end: Option<End>,
    activity: Arc<Activity>,
    clock: Clock,
    _counted: Counted,
}

impl ConnIo {
    pub(super) fn new(
        stream: Stream,
        activity: Arc<Activity>,
        clock: Clock,
        counted: Counted,
    ) -> Self {
        Self {
            stream,
            ahead: Bytes::new(),
            watched: Inspector::Heads(Heads::default()),
            end: None,
            activity,
            clock,
            _counted: counted,
        }
    }

    /// HTTP/2 is spoken: from now on a flood of frames is an error.
    pub(super) fn watch_frames(&mut self) {
        self.watched = Inspector::Frames(Frames::new(self.clock.now()));
    }

    /// Gives back bytes that were read too far. They are the beginning of a request.
    pub(super) fn unread(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.activity.received(self.clock.now());
        }
        self.ahead = bytes;
    }

    /// Waits until there is something to read, or the end.
    pub(super) async fn readable(&self) -> io::Result<()> {
        if !self.ahead.is_empty() || self.stream.has_more() {
            return Ok(());
        }
        self.stream.readable().await
    }

    /// Reads some of what still comes, and throws it away undeciphered; 0: nothing comes any more.
    pub(super) async fn throw_away(&self) -> io::Result<usize> {
        loop {
            self.stream.readable().await?;
            match self.stream.try_read(&mut [0; 4096]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    /// Inspects received bytes; returns the number that may pass.
    fn received(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let now = self.clock.now();
        self.activity.received(now);
        let stopped = match &mut self.watched {
            Inspector::Heads(_) if self.activity.is_tunnel() => Ok(()),
            Inspector::Heads(heads) => heads.received(bytes),
            Inspector::Frames(frames) => {
                if !frames.received(bytes, now) {
                    tracing::debug!("a flood of HTTP/2 frames");
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Ok(())
            }
            Inspector::Finished | Inspector::Broken => Ok(()),
        };
        let Err((passed, stop)) = stopped else {
            return Ok(bytes.len());
        };
        self.watched = match stop {
            Stop::Head(number, flaw) => {
                self.activity.flawed(number, flaw);
                Inspector::Finished
            }
            Stop::Body => Inspector::Broken,
        };
        Ok(passed)
    }

    fn stream(&mut self) -> Pin<&mut (dyn Both + Send)> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp),
            Stream::Tls(tls) => Pin::new(tls.as_mut()),
            Stream::Unix(unix) => Pin::new(unix),
        }
    }

    fn sent(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count @ 1..)) = written {
            self.activity.sent(self.clock.now());
            if let Inspector::Frames(frames) = &mut self.watched {
                frames.sent(count);
            }
        }
        written
    }
}

trait Both: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Both for T {}

impl AsyncRead for ConnIo {
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
        match self.watched {
            Inspector::Heads(_) | Inspector::Frames(_) => {}
            // The response to the last request ends the connection; nothing more is read.
            Inspector::Finished => return Poll::Pending,
            Inspector::Broken => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
        }
        if let Some(end) = &mut self.end {
            ready!(end.timer.as_mut().poll(cx));
            return Poll::Ready(end.error.take().map_or(Ok(()), Err));
        }
        let before = buf.filled().len();
        let read = ready!(self.stream().poll_read(cx, buf));
        if read.is_err() || (buf.filled().len() == before && buf.remaining() > 0) {
            let timer = Box::pin(sleep(END_DELAY));
            let error = read.err();
            let end = self.end.insert(End { timer, error });
            return end.timer.as_mut().poll(cx).map(|()| Ok(()));
        }
        let passed = self.received(buf.filled().get(before..).unwrap_or_default())?;
        buf.set_filled(before + passed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ConnIo {
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
            Stream::Unix(unix) => unix.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.stream().poll_flush(cx))?;
        self.activity.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}
