//! A WebSocket of the gateway's own to the upstream: the client's side of the handshake (RFC 6455
//! §4.1) on a connection of its own.

use super::{Error, ForwardedRequest, Outgoing, Upgraded, Upstream};
use crate::websocket;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crypto::random;
use hyper::header::{AUTHORIZATION, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use limits::conn_limit::Permit;
use std::net::IpAddr;

/// The stock runtime's spelling; it accepts no other (docs/reference/node-red-admin-api.md §4).
const PATH: &str = "/comms";

/// The handshake for one client.
pub struct LinkHead {
    parts: Parts,
    client: IpAddr,
}

impl Upstream {
    /// The head of a handshake for a client: it contains the client's address, and none of its
    /// headers. The gateway's token is not in it: the stock runtime drops a handshake with an
    /// unknown `Authorization` (docs/reference/node-red-admin-api.md §4).
    pub fn link_head(&self, front: &ForwardedRequest<'_>) -> LinkHead {
        let (mut head, ()) = self.own_head(front).into_parts();
        head.method = Method::GET;
        // The config has let through nothing that could not stand in a path.
        head.uri = format!("{}{PATH}", self.0.config.root)
            .parse()
            .unwrap_or_default();
        head.headers.remove(AUTHORIZATION);
        LinkHead {
            parts: head,
            client: front.address,
        }
    }

    /// A permit for the connection of a client's WebSocket: it counts like a tunnel, because it
    /// takes as much.
    pub fn link_permit(&self, head: &LinkHead) -> Result<Permit, Error> {
        let permit = self.0.tunnels.admit();
        let permit = permit.and_then(|permit| permit.of(head.client));
        self.counted(permit.map_err(|_| Error::TooManyTunnels))
    }

    /// Shakes hands on a new connection. Neither extensions nor subprotocols are offered.
    pub async fn websocket(&self, head: &LinkHead) -> Result<Upgraded, Error> {
        let key = STANDARD.encode(random::<16>());
        let mut request = Request::from_parts(head.parts.clone(), Outgoing::empty());
        let headers = request.headers_mut();
        websocket::ask(headers);
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        if let Ok(key) = HeaderValue::from_str(&key) {
            headers.insert(SEC_WEBSOCKET_KEY, key);
        }
        let asked = headers.clone();
        let accept = websocket::accept_key(key.as_bytes());
        let (answer, connection) = self.ask_anew(request).await?;
        let switched = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
        if !switched || websocket::agreed(&asked, answer.headers(), &accept).is_err() {
            return Err(Error::Unexpected("it does not take a WebSocket there"));
        }
        Ok(connection.upgrade())
    }
}
