//! The upgrade of a client's connection to a WebSocket, after [`crate::websocket`] has checked the
//! handshake.

use super::error::Error;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use crate::websocket;
use hyper::header::{HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Response, StatusCode};
use std::future::Future;

/// A checked handshake, not yet answered.
pub(super) struct Opening {
    accept: String,
    upgrade: OnUpgrade,
}

impl Opening {
    /// Checks the handshake of a request that [wants](websocket::is_wanted) a WebSocket.
    pub(super) fn check(ctx: &mut RequestContext<'_>) -> Result<Self, Error> {
        let accept = websocket::check(ctx.head)?;
        let upgrade = ctx.upgrade.take().ok_or(Error::UpgradeRequired)?;
        Ok(Self { accept, upgrade })
    }

    /// The answer to the client's key.
    pub(super) fn accept_key(&self) -> &str {
        &self.accept
    }

    /// Answers `101`; once the client has it, `then` owns the connection, on this thread.
    pub(super) fn accept<F>(
        self,
        then: impl FnOnce(Upgraded) -> F + Send + 'static,
    ) -> Response<Body>
    where
        F: Future<Output = ()> + Send,
    {
        let mut response = response::empty(StatusCode::SWITCHING_PROTOCOLS);
        let headers = response.headers_mut();
        websocket::ask(headers);
        if let Ok(accept) = HeaderValue::try_from(self.accept) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        let upgrade = self.upgrade;
        tokio::spawn(async move {
            // An error: the client has gone before it had the answer.
            if let Ok(upgraded) = upgrade.await {
                // Boxed, so that what lives long takes its room once: a task has room for each step
                // it goes through.
                Box::pin(then(upgraded)).await;
            }
        });
        response
    }
}

/// Adds the subprotocol that the client wants most, as the stock runtime does.
pub(super) fn with_first_protocol(
    asked: &HeaderMap,
    mut response: Response<Body>,
) -> Response<Body> {
    if let Some(protocol) = first_protocol(asked) {
        let headers = response.headers_mut();
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    response
}

/// The subprotocol that the client wants most.
fn first_protocol(headers: &HeaderMap) -> Option<HeaderValue> {
    let offered = headers.get(SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    let first = offered.split(',').next()?.trim();
    // `token` of RFC 9110 §5.6.2
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let token = !first.is_empty() && first.bytes().all(plain);
    HeaderValue::from_str(first).ok().filter(|_| token)
}
