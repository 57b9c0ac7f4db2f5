//! A WebSocket through to the upstream: asked for under the client's own key, so that afterwards the frames can be
//! passed on as they are.
//!
//! Knows the opening handshake (RFC 6455 §4), never what the frames mean; [`copy`] passes them on, [`frames`] tells
//! where one ends. A tunnel is no request: once open it counts as a tunnel only.

mod copy;
mod frames;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod poll_on_wake;

use super::{Authorization, Error, ForwardedRequest, Inner, Outgoing, ResponseBody, Upstream};
use crate::metrics::TunnelEnd;
use copy::BidirectionalCopy;
use hyper::header::{
    AUTHORIZATION, CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use hyper::upgrade::Upgraded;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use limits::conn_limit::{LimitReached, Permit};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What the upstream made of a handshake.
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

/// How a tunnel was.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// What ended it.
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
    /// Whether it has become a tunnel.
    joined: bool,
    /// Until it is known better: the client left before it had the answer.
    cause: TunnelEnd,
}

impl Upstream {
    /// Asks for a WebSocket for a client whose handshake has been checked; `accept` is the answer to its key. Over a
    /// connection of its own, and only once.
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
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if front.authorization == Authorization::Ours
            && let Some(bearer) = self.token().await?
        {
            headers.insert(AUTHORIZATION, bearer.header().clone());
        }
        let asked = headers.clone();
        let request = head.map(|()| Outgoing::empty());
        let (mut response, sender) = self.ask_anew(request, None).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return self
                .answer(response, sender, None, place)
                .map(Opened::Refused);
        }
        agreed(&asked, response.headers(), accept).map_err(Error::Unexpected)?;
        let upgrade = hyper::upgrade::on(&mut response);
        let far = upgrade.await.map_err(Error::Closed)?;
        open.join();
        let headers = std::mem::take(response.headers_mut());
        Ok(Opened::Tunnel(headers, Tunnel { far, open }))
    }
}

impl Tunnel {
    /// Passes bytes both ways until one end closes, takes nothing for as long as `patience`, or `cut` says that it is
    /// over.
    pub async fn join(
        mut self,
        client: Upgraded,
        patience: Duration,
        cut: Pin<&mut (impl Future<Output = TunnelEnd> + Send)>,
    ) -> Ended {
        let metrics = Arc::clone(&self.open.behind.metrics);
        let (client, far) = (TokioIo::new(client), TokioIo::new(self.far));
        let mut copying = BidirectionalCopy::new((client, far), patience, &metrics);
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

/// Checks what a client must check (RFC 6455 §4.1): frames are only passed on if both ends mean the same by them.
fn agreed(asked: &HeaderMap, told: &HeaderMap, accept: &str) -> Result<(), &'static str> {
    let names = |name, wanted: &str| list(told, name).any(|one| one.eq_ignore_ascii_case(wanted));
    if !names(&UPGRADE, "websocket") || !names(&CONNECTION, "upgrade") {
        return Err("it changes to another protocol");
    }
    let mut accepted = told.get_all(SEC_WEBSOCKET_ACCEPT).iter();
    let first = accepted.next();
    if first.is_none_or(|value| value != accept) || accepted.next().is_some() {
        return Err("its Sec-WebSocket-Accept is not for the key");
    }
    let mut chosen = list(told, &SEC_WEBSOCKET_PROTOCOL);
    let offered = |chosen: &str| list(asked, &SEC_WEBSOCKET_PROTOCOL).any(|one| one == chosen);
    if chosen.next().is_some_and(|chosen| !offered(chosen)) || chosen.next().is_some() {
        return Err("it speaks a subprotocol that was not offered");
    }
    let name = |extension: &str| extension.split(';').next().map(|n| n.trim().to_owned());
    let offered = |extension: &str| {
        list(asked, &SEC_WEBSOCKET_EXTENSIONS).any(|one| name(one) == name(extension))
    };
    if !list(told, &SEC_WEBSOCKET_EXTENSIONS).all(offered) {
        return Err("it uses an extension that was not offered");
    }
    Ok(())
}

/// The members of a comma-separated header.
fn list<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|one| !one.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        let fields = fields.iter().cloned();
        fields
            .map(|(name, value)| (name, HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn an_agreement_is_about_what_was_asked_for() {
        let asked = headers(&[
            (SEC_WEBSOCKET_PROTOCOL, "chat, log"),
            (
                SEC_WEBSOCKET_EXTENSIONS,
                "permessage-deflate; client_max_window_bits",
            ),
        ]);
        let plain = [
            (UPGRADE, "WebSocket"),
            (CONNECTION, "keep-alive, upgrade"),
            (SEC_WEBSOCKET_ACCEPT, "right"),
        ];
        let told = |more: &[(HeaderName, &'static str)]| {
            agreed(&asked, &headers(&[&plain[..], more].concat()), "right")
        };
        assert_eq!(told(&[]), Ok(()));
        assert_eq!(told(&[(SEC_WEBSOCKET_PROTOCOL, "log")]), Ok(()));
        let deflate = "permessage-deflate; server_no_context_takeover";
        assert_eq!(told(&[(SEC_WEBSOCKET_EXTENSIONS, deflate)]), Ok(()));
        for wrong in [
            (SEC_WEBSOCKET_PROTOCOL, "other"),
            (SEC_WEBSOCKET_PROTOCOL, "chat, log"),
            (SEC_WEBSOCKET_EXTENSIONS, "permessage-deflate, x-mux"),
            (SEC_WEBSOCKET_ACCEPT, "right"),
        ] {
            assert!(told(std::slice::from_ref(&wrong)).is_err(), "{wrong:?}");
        }
        for left_out in 0..plain.len() {
            let mut told = plain.to_vec();
            told.remove(left_out);
            assert!(agreed(&asked, &headers(&told), "right").is_err());
        }
        assert!(agreed(&asked, &headers(&plain), "wrong").is_err());
    }
}
