//! `server.trusted_proxy_headers`: the header fields in which a trusted proxy identifies the user.

use super::error::SpannedError;
use super::networks::Networks;
use super::raw::List;
use super::setting::Source;
use hyper::header::HeaderName;
use toml::Spanned;

const EXPECTED: &str = "the name of a header field such as \"X-Authentik-Username\", which is neither the gateway's own nor one of a connection, a credential or a message's framing";

/// Fields that no proxy may set for an upstream: the gateway sets them, acts on them, or no sender
/// may set them.
const NEVER: [&str; 30] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-request-id",
    "x-rewrite-url",
];

/// Beginnings of the same: the gateway's own, both dialects of the admin API, and WebSocket
/// handshakes.
const NEVER_BEGIN: [&str; 4] = ["x-flowgate-", "node-red-", "service-", "sec-websocket-"];

/// Reads the names, in lower case; none without the key.
pub(super) fn names(
    list: List,
    trusted: &Networks,
    source: &Source<'_>,
) -> Result<Vec<HeaderName>, SpannedError> {
    let span = list.as_ref().map(Spanned::span).unwrap_or_default();
    let names = source.list(list, EXPECTED, name)?.unwrap_or_default();
    if !names.is_empty() && trusted.is_empty() {
        let sentence = "server.trusted_proxies is empty, so no proxy may set these header fields";
        return Err(SpannedError::rule(span, sentence));
    }
    Ok(names)
}

fn name(text: &str) -> Option<HeaderName> {
    let name = HeaderName::try_from(text).ok()?;
    // `_` and `-` are one character to many programs.
    let spelled = name.as_str().replace('_', "-");
    let never = NEVER.contains(&spelled.as_str())
        || NEVER_BEGIN.iter().any(|begin| spelled.starts_with(begin));
    (!never && !name.as_str().contains('_')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_identity_header_fields_can_be_named() {
        for text in [
            "X-Authentik-Username",
            "Remote-User",
            "x-forwarded-user",
            "X-Ours",
        ] {
            assert_eq!(
                name(text).map(|name| name.to_string()),
                Some(text.to_ascii_lowercase()),
                "{text}"
            );
        }
        for text in [
            "",
            "a b",
            "Authorization",
            "Content-Length",
            "Transfer-Encoding",
            "Host",
            "X-Forwarded-For",
            "X-Flowgate-User",
            "Node-RED-API-Version",
            "Remote_User",
            "X-HTTP-Method-Override",
        ] {
            assert_eq!(name(text), None, "{text}");
        }
    }
}
