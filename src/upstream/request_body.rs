//! The body of a request on its way to the upstream: as fast as the upstream takes it, within the
//! limits.

use super::body_pace::{Pace, Pacer};
use super::client_body::{BodyError, ClientBody};
use bytes::Bytes;
use hyper::body::Body as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// The body of a request.
pub enum Outgoing {
    /// Known as a whole.
    Whole(Bytes),
    /// Passed on piece by piece.
    Stream(Box<Stream>),
}

/// A client's body, passed on as it comes.
pub struct Stream {
    body: ClientBody,
    /// The announced length: decided before the head is written, whatever arrives meanwhile.
    length: Option<u64>,
    /// Bytes that may still come.
    left: u64,
    pacer: Pacer,
    progress: Arc<Progress>,
    /// Whether the client is still authorized; called before each piece.
    allowed: Box<dyn FnMut() -> bool + Send>,
}

/// Why a client's body was not passed on to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// More bytes than allowed.
    #[error("the body is too large")]
    TooLarge,
    /// It stopped coming.
    #[error("the body did not arrive in time")]
    Timeout,
    /// It is not what its head announced.
    #[error(transparent)]
    Broken(BodyError),
    /// The client's authorization has lapsed.
    #[error("the authorization has lapsed")]
    NotAllowed,
}

/// The progress of a body.
#[derive(Debug, Default)]
pub struct Progress {
    bytes: AtomicU64,
    /// The bytes at the last check for progress.
    seen: AtomicU64,
    /// True if the client is waited for.
    waiting: AtomicBool,
    /// When it was passed on whole.
    ended: OnceLock<Instant>,
}

impl Outgoing {
    /// No body.
    pub fn empty() -> Self {
        Self::Whole(Bytes::new())
    }

    /// A client's body, of at most `limit` bytes, that comes at this pace.
    pub fn stream(body: ClientBody, limit: usize, pace: Pace) -> Self {
        if body.is_end_stream() {
            return Self::empty();
        }
        Self::Stream(Box::new(Stream {
            length: body.size_hint().exact(),
            body,
            left: limit as u64,
            pacer: Pacer::new(pace),
            progress: Arc::default(),
            allowed: Box::new(|| true),
        }))
    }

    /// Fails a stream as soon as `allowed`, which is called before each piece, returns false.
    #[must_use]
    pub fn allowed_while(mut self, allowed: impl FnMut() -> bool + Send + 'static) -> Self {
        if let Self::Stream(stream) = &mut self {
            stream.allowed = Box::new(allowed);
        }
        self
    }

    /// The progress of a stream; `None`: there is nothing to wait for.
    pub fn progress(&self) -> Option<Arc<Progress>> {
        match self {
            Self::Whole(_) => None,
            Self::Stream(stream) => Some(Arc::clone(&stream.progress)),
        }
    }

    /// Its length in bytes; `None`: unknown before its end.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Whole(bytes) => Some(bytes.len() as u64),
            Self::Stream(stream) => stream.length,
        }
    }

    /// The same once more; `None`: it is not kept.
    pub(super) fn again(&self) -> Option<Self> {
        match self {
            Self::Whole(bytes) => Some(Self::Whole(bytes.clone())),
            Self::Stream(_) => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    /// The next piece; `None`: the body has ended. Not to be called after an error.
    pub(super) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Refusal>>> {
        match self {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(std::mem::take(bytes)))),
            Self::Stream(stream) => stream.poll(cx),
        }
    }
}

impl Progress {
    /// Bytes passed on so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Until when to wait for the response, which may take `limit` after the end of the body:
    /// starts again while bytes were passed on since this was last asked, and while the client is
    /// waited for.
    pub(super) fn deadline(&self, now: Instant, limit: Duration) -> Option<Instant> {
        let bytes = self.bytes();
        let before = self.seen.swap(bytes, Ordering::Relaxed);
        let since = match self.ended.get() {
            Some(ended) => *ended,
            None if bytes > before || self.waiting.load(Ordering::Relaxed) => now,
            None => return None,
        };
        Some(since + limit).filter(|deadline| *deadline > now)
    }
}

impl Stream {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        let Poll::Ready(data) = self.body.poll_data(cx) else {
            return self.wait(cx);
        };
        let piece = data.iter().flatten().next();
        self.pacer.received(piece.map_or(0, Bytes::len));
        self.progress.waiting.store(false, Ordering::Relaxed);
        Poll::Ready(match data {
            Some(Err(error)) => Some(Err(Refusal::Broken(error))),
            _ if !(self.allowed)() => Some(Err(Refusal::NotAllowed)),
            Some(Ok(data)) => Some(self.pass(data)),
            None => {
                // Set once: the first time counts.
                let _ = self.progress.ended.set(Instant::now());
                None
            }
        })
    }

    fn pass(&mut self, data: Bytes) -> Result<Bytes, Refusal> {
        let length = data.len() as u64;
        self.left = self.left.checked_sub(length).ok_or(Refusal::TooLarge)?;
        self.progress.bytes.fetch_add(length, Ordering::Relaxed);
        Ok(data)
    }

    /// The client is silent: for how long may it be?
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        self.progress.waiting.store(true, Ordering::Relaxed);
        let late = self.pacer.poll_late(cx);
        late.map(|()| Some(Err(Refusal::Timeout)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use http_body_util::Empty;
    use hyper::body::Incoming;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper::{Request, Response, Version};
    use hyper_util::rt::TokioIo;
    use std::cell::Cell;
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::pin::Pin;
    use tokio::io::{AsyncWriteExt, duplex};

    /// The body of a request in chunks whose connection was dropped after the first one.
    async fn cut() -> Incoming {
        let (mut client, server) = duplex(1024);
        let head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
        client.write_all(head).await.unwrap();
        let taken = Cell::new(None);
        let service = service_fn(async |request: Request<Incoming>| {
            taken.set(Some(request.into_body()));
            std::future::pending::<Result<Response<Empty<Bytes>>, Infallible>>().await
        });
        let mut connection = http1::Builder::new().serve_connection(TokioIo::new(server), service);
        poll_fn(|cx| {
            let polled = Pin::new(&mut connection).poll(cx);
            assert!(polled.is_pending());
            Poll::Ready(())
        })
        .await;
        drop(connection);
        taken.take().unwrap()
    }

    #[tokio::test]
    async fn chunks_of_a_dropped_connection_do_not_look_complete() {
        let body = ClientBody::received(cut().await, Version::HTTP_11, 0);
        let mut outgoing = Outgoing::stream(body, 100, Pace::within(Duration::from_secs(1)));
        let progress = outgoing.progress().unwrap();
        let first = poll_fn(|cx| outgoing.poll_piece(cx)).await.unwrap();
        assert_eq!(first.unwrap(), "first");
        let second = poll_fn(|cx| outgoing.poll_piece(cx)).await.unwrap();
        assert_eq!(second.unwrap_err(), Refusal::Broken(BodyError::Incomplete));
        assert!(progress.ended.get().is_none());
    }
}
