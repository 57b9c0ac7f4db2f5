//! The body of a response from the upstream. When it has ended, its connection can be reused; when
//! it breaks off, so does the response to the client.

use super::early_response::EarlyResponse;
use super::http1::{self, Connection};
use super::{Error, Inner};
use crate::metrics::UpstreamFault;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use limits::conn_limit::{LimitReached, Permit};
use std::fmt;
use std::future::Future;
use std::mem;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// The body of an answer.
pub struct ResponseBody {
    source: Source,
    /// The longest pause between two pieces; `None`: no limit, for server-sent events.
    idle: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
    /// True if the upstream is waited for: the timer then runs.
    waiting: bool,
    in_flight: InFlight,
}

/// Where the rest of a body is.
enum Source {
    /// Here: the connection has been handed back.
    Received(Bytes),
    /// Still to be read.
    Connection(Box<Connection>),
    /// Read by a task, which sends the rest of the request too.
    Early(EarlyResponse),
}

/// Why an answer ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum Cut {
    /// The connection broke, or the framing.
    #[error("the upstream broke off")]
    Broken(#[source] http1::Error),
    /// Silence.
    #[error("the upstream stopped sending")]
    Silent,
}

/// A request in flight at the upstream, until dropped.
pub(super) struct InFlight {
    inner: Arc<Inner>,
    /// `None`: the task has it that sends the rest of the request.
    permit: Option<Permit>,
}

impl ResponseBody {
    pub(super) fn new(
        mut connection: Box<Connection>,
        idle: Option<Duration>,
        mut in_flight: InFlight,
    ) -> Self {
        let source = if connection.is_sending() {
            let inner = Arc::clone(&in_flight.inner);
            Source::Early(EarlyResponse::start(
                connection,
                inner,
                in_flight.permit.take(),
            ))
        } else if let Some(received) = connection.take_whole() {
            in_flight.inner.keep(connection);
            Source::Received(received)
        } else {
            Source::Connection(connection)
        };
        Self {
            source,
            idle,
            timer: None,
            waiting: false,
            in_flight,
        }
    }

    /// Returns whether its end is still to be received: the authorization may lapse until then.
    pub fn lasts(&self) -> bool {
        !matches!(self.source, Source::Received(_))
    }

    /// Reads all of it, at most `limit` bytes. Unlimited silence is for bodies that are passed on
    /// to a client only.
    pub(super) async fn whole(mut self, limit: usize) -> Result<Bytes, Error> {
        self.idle = Some(self.in_flight.inner.config.idle);
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(frame) = self.frame().await {
            let Ok(data) = frame.map_err(Error::Incomplete)?.into_data() else {
                continue;
            };
            if first.len() + rest.len() + data.len() > limit {
                return Err(Error::Unexpected("it is too large"));
            }
            if first.is_empty() {
                first = data;
                continue;
            }
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
        Ok(if rest.is_empty() {
            first
        } else {
            rest.freeze()
        })
    }

    /// The timer, which runs since the last piece.
    fn timer(&mut self, idle: Duration) -> Pin<&mut Sleep> {
        let waiting = std::mem::replace(&mut self.waiting, true);
        if let (Some(timer), false) = (&mut self.timer, waiting) {
            timer.as_mut().reset(Instant::now() + idle);
        }
        self.timer
            .get_or_insert_with(|| Box::pin(sleep(idle)))
            .as_mut()
    }

    /// Its end has been received, or nothing more of it is wanted.
    fn hand_back(&mut self) {
        let ended = Source::Received(Bytes::new());
        if let Source::Connection(connection) = mem::replace(&mut self.source, ended) {
            self.in_flight.inner.keep(connection);
        }
    }

    fn poll_source(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, http1::Error>>> {
        match &mut self.source {
            Source::Received(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Received(bytes) => Poll::Ready(Some(Ok(Frame::data(mem::take(bytes))))),
            Source::Connection(connection) => connection.poll_frame(cx),
            Source::Early(response) => response.poll_frame(cx),
        }
    }

    fn cut(&mut self, cut: Cut) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        self.source = Source::Received(Bytes::new());
        self.in_flight
            .inner
            .metrics
            .fault(UpstreamFault::Incomplete);
        Poll::Ready(Some(Err(cut)))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = self.get_mut();
        match this.poll_source(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.waiting = false;
                if this.is_end_stream() {
                    this.hand_back();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                this.hand_back();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => this.cut(Cut::Broken(error)),
            Poll::Pending => {
                let Some(idle) = this.idle else {
                    return Poll::Pending;
                };
                match this.timer(idle).poll(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(()) => this.cut(Cut::Silent),
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Received(bytes) => bytes.is_empty(),
            Source::Connection(connection) => connection.is_ended(),
            Source::Early(response) => response.is_ended(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Received(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Connection(connection) => connection.size_hint(),
            Source::Early(response) => response.size_hint(),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

/// A response that is not read to its end, an error page for example: its connection is kept if the
/// rest has been received.
impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.hand_back();
    }
}

impl Inner {
    /// Keeps a connection for another request if it can take one, else closes it.
    pub(super) fn keep(&self, mut connection: Box<Connection>) {
        if connection.finish() {
            self.pool.put(connection);
        }
    }
}

impl InFlight {
    /// For a request of this client; `None`: of the gateway itself.
    pub(super) fn take(inner: &Arc<Inner>, client: Option<IpAddr>) -> Result<Self, LimitReached> {
        let permit = inner.in_flight.admit()?;
        let permit = match client {
            Some(address) => permit.of(address)?,
            None => permit,
        };
        inner.metrics.in_flight(true);
        Ok(Self {
            inner: Arc::clone(inner),
            permit: Some(permit),
        })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.inner.metrics.in_flight(false);
    }
}
