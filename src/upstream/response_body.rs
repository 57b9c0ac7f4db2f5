//! The body of a response from the upstream. When it has ended, its connection can be reused; when it breaks off, so
//! does the response to the client.

use super::request_body::Progress;
use super::sender::Sender;
use super::{Error, Inner};
use crate::metrics::UpstreamFault;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use limits::conn_limit::{LimitReached, Permit};
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// The body of an answer.
pub struct ResponseBody {
    incoming: Incoming,
    /// The longest pause between two pieces; `None`: no limit, for server-sent events.
    idle: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether the upstream is waited for: the timer then runs.
    waiting: bool,
    /// Until the end, if it can be used again: the connection, and whether the request's body has left it.
    connection: Option<(Sender, Option<Arc<Progress>>)>,
    in_flight: InFlight,
}

/// Why an answer ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum Cut {
    /// The connection broke, or the framing.
    #[error("the upstream broke off")]
    Broken(#[source] hyper::Error),
    /// Silence.
    #[error("the upstream stopped sending")]
    Silent,
}

/// A request in flight at the upstream, until dropped.
pub(super) struct InFlight {
    inner: Arc<Inner>,
    _permit: Permit,
}

impl ResponseBody {
    pub(super) fn new(
        incoming: Incoming,
        idle: Option<Duration>,
        connection: Option<(Sender, Option<Arc<Progress>>)>,
        in_flight: InFlight,
    ) -> Self {
        let mut answer = Self {
            incoming,
            idle,
            timer: None,
            waiting: false,
            connection,
            in_flight,
        };
        if answer.incoming.is_end_stream() {
            answer.hand_back();
        }
        answer
    }

    /// Reads all of it, at most `limit` bytes. Unlimited silence is for bodies that are passed on to a client only.
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

    /// Nothing more is wanted of this answer.
    fn hand_back(&mut self) {
        if let Some((sender, progress)) = self.connection.take()
            && progress.is_none_or(|progress| progress.is_whole())
        {
            self.in_flight.inner.pool.put(sender);
        }
    }

    fn cut(&mut self, cut: Cut) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        self.connection = None;
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
        match Pin::new(&mut this.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.waiting = false;
                if this.incoming.is_end_stream() {
                    this.hand_back();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            // Of a chunked body the end is known only here.
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
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

/// A response that is not read to its end, an error page for example: with no more than this left, its connection is
/// kept, because hyper has read the rest by the time or closes it. Our choice.
const LEFT: u64 = 16 * 1024;

impl Drop for ResponseBody {
    fn drop(&mut self) {
        let left = self.incoming.size_hint().exact();
        if left.is_some_and(|left| left <= LEFT) {
            self.hand_back();
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
            _permit: permit,
        })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.inner.metrics.in_flight(false);
    }
}
