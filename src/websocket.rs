//! `WebSockets` (RFC 6455), where the gateway is their server and where it is their client: the
//! opening handshake, checked strictly, and the close with its time-out.
//!
//! HTTP/1.1 only; a WebSocket over HTTP/2 (RFC 8441) is not offered, so browsers open a connection
//! of their own. The engine's nodes leave both to tungstenite, whose handshake is more lenient, as
//! Node-RED's is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::SinkExt;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::{Method, Version};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

/// The time-out for the peer's Close after ours. Our choice.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a client's handshake is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeError {
    /// It does not ask for a WebSocket.
    NotWanted,
    /// Another version of the protocol than 13.
    Version,
    /// It is not what §4.2.1 asks for.
    Malformed(&'static str),
}

/// Returns whether the client asks for a WebSocket, even if the handshake is malformed.
pub(crate) fn is_wanted(head: &Parts) -> bool {
    head.version == Version::HTTP_11
        && head.method == Method::GET
        && lists(&head.headers, &UPGRADE, "websocket")
}

/// Checks a client's handshake (§4.2.1); returns the `Sec-WebSocket-Accept` for its key.
pub(crate) fn check(head: &Parts) -> Result<String, HandshakeError> {
    let headers = &head.headers;
    if !is_wanted(head) || !lists(headers, &CONNECTION, "upgrade") {
        return Err(HandshakeError::NotWanted);
    }
    let length = headers.get(CONTENT_LENGTH).is_some_and(|l| l != "0");
    if length || headers.contains_key(TRANSFER_ENCODING) {
        return Err(HandshakeError::Malformed("it has a body"));
    }
    if only(headers, &SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(HandshakeError::Version);
    }
    let key = only(headers, &SEC_WEBSOCKET_KEY)
        .filter(|key| STANDARD.decode(key).is_ok_and(|nonce| nonce.len() == 16))
        .ok_or(HandshakeError::Malformed(
            "Sec-WebSocket-Key is not 16 bytes in base64",
        ))?;
    Ok(accept_key(key.as_bytes()))
}

/// Adds the fields by which both sides name the protocol.
pub(crate) fn ask(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

/// `Sec-WebSocket-Accept` for a key (§4.2.2).
pub(crate) fn accept_key(key: &[u8]) -> String {
    derive_accept_key(key)
}

/// Checks what a client must check of the server's handshake (§4.1): both ends must mean the same
/// by the frames.
pub(crate) fn agreed(
    asked: &HeaderMap,
    response: &HeaderMap,
    accept: &str,
) -> Result<(), &'static str> {
    if !lists(response, &UPGRADE, "websocket") || !lists(response, &CONNECTION, "upgrade") {
        return Err("it changes to another protocol");
    }
    let mut accepted = response.get_all(SEC_WEBSOCKET_ACCEPT).iter();
    let first = accepted.next();
    if first.is_none_or(|value| value != accept) || accepted.next().is_some() {
        return Err("its Sec-WebSocket-Accept is not for the key");
    }
    let mut chosen = list(response, &SEC_WEBSOCKET_PROTOCOL);
    let offered = |chosen: &str| list(asked, &SEC_WEBSOCKET_PROTOCOL).any(|one| one == chosen);
    if chosen.next().is_some_and(|chosen| !offered(chosen)) || chosen.next().is_some() {
        return Err("it speaks a subprotocol that was not offered");
    }
    let name = |extension: &str| extension.split(';').next().map(|n| n.trim().to_owned());
    let offered = |extension: &str| {
        list(asked, &SEC_WEBSOCKET_EXTENSIONS).any(|one| name(one) == name(extension))
    };
    if !list(response, &SEC_WEBSOCKET_EXTENSIONS).all(offered) {
        return Err("it uses an extension that was not offered");
    }
    Ok(())
}

/// Sends a Close and ends the connection, within the time-out. What the peer still sends is read
/// and thrown away: otherwise the system would reset the connection, and the peer might never read
/// the Close (RFC 1122 §4.2.2.13).
pub(crate) async fn close<S>(mut socket: WebSocketStream<S>, code: Option<CloseCode>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let closed = async move {
        // The peer may have closed first.
        let _ = socket.close(code.map(close_frame)).await;
        let _ = socket.flush().await;
        let mut stream = socket.into_inner();
        if stream.shutdown().await.is_ok() {
            let _ = copy(&mut stream, &mut sink()).await;
        }
    };
    let _ = timeout(CLOSE_TIMEOUT, closed).await;
}

/// A Close with this code.
pub(crate) fn close_frame(code: CloseCode) -> CloseFrame {
    CloseFrame {
        code,
        reason: "".into(),
    }
}

/// The close code for a peer that has violated the protocol (§7.4.1); `None`: the connection is
/// lost.
pub(crate) fn violation(error: &Error) -> Option<CloseCode> {
    match error {
        Error::Capacity(_) => Some(CloseCode::Size),
        Error::Utf8(_) => Some(CloseCode::Invalid),
        Error::Protocol(_) => Some(CloseCode::Protocol),
        _ => None,
    }
}

/// The value of a header that must stand once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok().map(str::trim),
        _ => None,
    }
}

/// Returns whether a comma-separated header names this.
fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    list(headers, name).any(|one| one.eq_ignore_ascii_case(wanted))
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

    #[test]
    fn the_accept_key_matches_the_example_of_rfc_6455() {
        // RFC 6455 §1.3
        let accept = accept_key(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        let fields = fields.iter().cloned();
        fields
            .map(|(name, value)| (name, HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_handshake_accepts_only_requested_protocols_and_extensions() {
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
        let check = |more: &[(HeaderName, &'static str)]| {
            agreed(&asked, &headers(&[&plain[..], more].concat()), "right")
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[(SEC_WEBSOCKET_PROTOCOL, "log")]), Ok(()));
        let deflate = "permessage-deflate; server_no_context_takeover";
        assert_eq!(check(&[(SEC_WEBSOCKET_EXTENSIONS, deflate)]), Ok(()));
        for wrong in [
            (SEC_WEBSOCKET_PROTOCOL, "other"),
            (SEC_WEBSOCKET_PROTOCOL, "chat, log"),
            (SEC_WEBSOCKET_EXTENSIONS, "permessage-deflate, x-mux"),
            (SEC_WEBSOCKET_ACCEPT, "right"),
        ] {
            assert!(check(std::slice::from_ref(&wrong)).is_err(), "{wrong:?}");
        }
        for left_out in 0..plain.len() {
            let mut fields = plain.to_vec();
            fields.remove(left_out);
            assert!(agreed(&asked, &headers(&fields), "right").is_err());
        }
        assert!(agreed(&asked, &headers(&plain), "wrong").is_err());
    }
}
