//! A WebSocket through to the upstream: asked for under the client's own key, so that afterwards
//! the frames can be passed on as they are.
//!
//! Handles the opening handshake (RFC 6455 §4), never the meaning of frames; [`copy`] passes them
//! on, [`frames`] finds where one ends. A tunnel is no request: once open it counts as a tunnel
//! only.

mod copy;
mod frames;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod poll_on_wake;

use super::{
    Authorization, Error, ForwardedRequest, Inner, Outgoing, ResponseBody, Upgraded, Upstream,
};
use crate::metrics::TunnelEnd;
use crate::websocket;
use copy::BidirectionalCopy;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{Response, StatusCode, upgrade};
use hyper_util::rt::TokioIo;
use limits::conn_limit::{LimitReached, Permit};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The upstream's response to a handshake.
pub enum Opened {
    /// It agreed; its headers belong to the answer for the client.
    Tunnel(HeaderMap, Tunnel),
    /// It answered as to any request.
    Refused(Response<ResponseBody>),
}

/// The far end of a tunnel.
pub struct Tunnel {
    far: Upgraded,
    open: Open,
}

/// The summary of an ended tunnel.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// The reason for its end.
    pub cause: TunnelEnd,
    /// Bytes from the client.
    pub up: u64,
    /// Bytes to the client.
    pub down: u64,
}

/// Counts a tunnel until dropped.
struct Open {
    behind: Arc<Inner>,
    _permit: Permit,
    /// True if it has become a tunnel.
    joined: bool,
    /// Until it is known better: the client left before it had the answer.
    cause: TunnelEnd,
}

impl Upstream {
    /// Asks for a WebSocket for a client whose handshake has been checked; `accept` is the answer
    /// to its key. Over a connection of its own, and only once.
    pub async fn tunnel(
        &self,
        front: &ForwardedRequest<'_>,
        accept: &str,
    ) -> Result<Opened, Error> {
        let started = Instant::now();
        let opened = self.opened(front, accept).await;
        let status = opened.as_ref().map(|opened| match opened {
            Opened::Tunnel(..) => StatusCode::SWITCHING_PROTOCOLS,
            Opened::Refused(response) => response.status(),
        });
        self.count(status, started);
        opened
    }

    async fn opened(&self, front: &ForwardedRequest<'_>, accept: &str) -> Result<Opened, Error> {
        let open = Open::take(&self.0, front.address);
        let mut open = open.map_err(|_| Error::TooManyTunnels)?;
        let place = super::InFlight::take(&self.0, Some(front.address))?;
        let mut head = self.head(front);
        let headers = head.headers_mut();
        websocket::ask(headers);
        if front.authorization == Authorization::Ours
            && let Some(bearer) = self.token().await?
        {
            headers.insert(AUTHORIZATION, bearer.header().clone());
        }
        let asked = headers.clone();
        let request = head.map(|()| Outgoing::empty());
        let (mut response, connection) = self.ask_anew(request).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return self
                .answer(response, connection, place)
                .map(Opened::Refused);
        }
        websocket::agreed(&asked, response.headers(), accept).map_err(Error::Unexpected)?;
        let far = connection.upgrade();
        open.join();
        let headers = std::mem::take(response.headers_mut());
        Ok(Opened::Tunnel(headers, Tunnel { far, open }))
    }
}

impl Tunnel {
    /// Passes bytes both ways until one end closes, accepts nothing for `stall_timeout`, or `cut`
    /// completes.
    pub async fn join(
        mut self,
        client: upgrade::Upgraded,
        stall_timeout: Duration,
        cut: Pin<&mut (impl Future<Output = TunnelEnd> + Send)>,
    ) -> Ended {
        let metrics = Arc::clone(&self.open.behind.metrics);
        let client = TokioIo::new(client);
        let mut copying = BidirectionalCopy::new(client, self.far, stall_timeout, &metrics);
        let cause = tokio::select! {
            biased;
            cause = poll_on_wake::on_ring(cut) => {
                // Boxed: a tunnel need not keep room for its end.
                Box::pin(copying.close(cause)).await;
                cause
            }
            cause = copying.run() => cause,
        };
        self.open.cause = cause;
        let (up, down) = copying.bytes();
        Ended { cause, up, down }
    }
}

impl Open {
    /// For this client.
    fn take(behind: &Arc<Inner>, client: IpAddr) -> Result<Self, LimitReached> {
        Ok(Self {
            behind: Arc::clone(behind),
            _permit: behind.tunnels.admit()?.of(client)?,
            joined: false,
            cause: TunnelEnd::Client,
        })
    }

    fn join(&mut self) {
        self.joined = true;
        self.behind.metrics.tunnel_opened();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.joined {
            self.behind.metrics.tunnel_closed(self.cause);
        }
    }
}
