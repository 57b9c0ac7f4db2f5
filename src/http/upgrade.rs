//! The opening handshake of a WebSocket (RFC 6455 §4.2): checked strictly, then the connection changes hands.
//!
//! Knows HTTP/1.1 only; a WebSocket over HTTP/2 (RFC 8441) is not offered, so browsers open a connection of their own.

use super::error::Error;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Response, StatusCode, Version};
use std::future::Future;

/// A checked handshake, not yet answered.
pub(super) struct Opening {
    accept: String,
    upgrade: OnUpgrade,
}

/// Whether the client asks for a WebSocket, however well.
pub(super) fn is_wanted(head: &Parts) -> bool {
    head.version == Version::HTTP_11
        && head.method == Method::GET
        && lists(&head.headers, &UPGRADE, "websocket")
}

impl Opening {
    /// Checks the handshake of a request that [wants](is_wanted) a WebSocket.
    pub(super) fn check(call: &mut RequestContext<'_>) -> Result<Self, Error> {
        let headers = &call.head.headers;
        if !is_wanted(call.head) || !lists(headers, &CONNECTION, "upgrade") {
            return Err(Error::UpgradeRequired);
        }
        let length = headers.get(CONTENT_LENGTH).is_some_and(|l| l != "0");
        if length || headers.contains_key(TRANSFER_ENCODING) {
            return Err(Error::Handshake("it has a body"));
        }
        if only(headers, &SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return Err(Error::WebSocketVersion);
        }
        let key = only(headers, &SEC_WEBSOCKET_KEY)
            .filter(|key| STANDARD.decode(key).is_ok_and(|nonce| nonce.len() == 16))
            .ok_or(Error::Handshake(
                "Sec-WebSocket-Key is not 16 bytes in base64",
            ))?;
        let accept = accept(key.as_bytes());
        let upgrade = call.upgrade.take().ok_or(Error::UpgradeRequired)?;
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
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::try_from(self.accept) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        let upgrade = self.upgrade;
        tokio::spawn(async move {
            // An error: the client has gone before it had the answer.
            if let Ok(upgraded) = upgrade.await {
                // Boxed, so that what lives long takes its room once: a task has room for each step it goes through.
                Box::pin(then(upgraded)).await;
            }
        });
        response
    }
}

/// `Sec-WebSocket-Accept` for a key (RFC 6455 §4.2.2).
fn accept(key: &[u8]) -> String {
    tokio_tungstenite::tungstenite::handshake::derive_accept_key(key)
}

/// The value of a header that must stand once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok().map(str::trim),
        _ => None,
    }
}

/// Whether a comma-separated header names this.
fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|value| value.trim().eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_key_is_that_of_the_rfc() {
        // RFC 6455 §1.3
        let accept = accept(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
