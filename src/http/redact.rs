//! Removes the gateway's own tokens from a request before a flow or an upstream sees it.
//!
//! The cookie of the sign-in page is one, whatever it holds. A token is valid at the gateway only,
//! with all permissions of its session, so a program behind can only misuse it. Header fields and
//! the query are searched; bodies and WebSocket frames are passed on unread.

use super::page_session;
use super::path::percent_decoded;
use super::request_context::RequestContext;
use crate::auth::{Auth, TOKEN_LENGTH};
use crate::upstream::Authorization;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper::header::{AUTHORIZATION, COOKIE, HeaderName, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use hyper::http::request::Parts;
use std::borrow::Cow;

/// The head of a request without tokens of the gateway's; `None`: it contains none. With another
/// `authorization` than the client's, the field of that name stays behind anyway and is not
/// searched.
pub(super) fn head(ctx: &RequestContext<'_>, authorization: Authorization) -> Option<Box<Parts>> {
    let auth = ctx.gateway.auth.as_ref()?;
    let sent = ctx.head;
    let passes =
        |name: &HeaderName| *name != AUTHORIZATION || authorization == Authorization::Client;
    let fields = sent.headers.iter();
    let fields: Vec<HeaderName> = fields
        .filter(|(name, value)| passes(name) && field_holds(auth, name, value))
        .map(|(name, _)| name.clone())
        .collect();
    let query = sent.uri.query().and_then(|query| without(auth, query));
    if fields.is_empty() && query.is_none() {
        return None;
    }
    let mut head = Box::new(sent.clone());
    for name in fields {
        let values: Vec<HeaderValue> = head
            .headers
            .get_all(&name)
            .iter()
            .filter_map(|value| kept(auth, &name, value))
            .collect();
        head.headers.remove(&name);
        for value in values {
            head.headers.append(name.clone(), value);
        }
    }
    if let Some(query) = query {
        head.uri = with_query(&head.uri, &query);
    }
    Some(head)
}

fn field_holds(auth: &Auth, name: &HeaderName, value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    let own_cookie = || bytes.split(|byte| *byte == b';').any(page_session::is_own);
    if *name == COOKIE && own_cookie() {
        return true;
    }
    holds(auth, bytes) || (*name == AUTHORIZATION && basic_holds(auth, bytes))
}

/// Returns whether the user name or the password of `Basic` is a token.
fn basic_holds(auth: &Auth, value: &[u8]) -> bool {
    let Some((scheme, encoded)) = value.split_at_checked("Basic ".len()) else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"Basic ")
        && STANDARD
            .decode(encoded.trim_ascii())
            .is_ok_and(|pair| holds(auth, &pair))
}

/// The maximum number of percent-decodings: an address in the query of another one is encoded once
/// more. Our choice.
const DECODINGS: usize = 4;

/// Returns whether the text contains a token, as it is or percent-encoded.
fn holds(auth: &Auth, text: &[u8]) -> bool {
    if holds_plain(auth, text) {
        return true;
    }
    let mut text = Cow::Borrowed(text);
    // A percent-encoded token is longer than a plain one, never shorter.
    for _ in 0..DECODINGS {
        if text.len() < TOKEN_LENGTH || !text.contains(&b'%') {
            return false;
        }
        text = Cow::Owned(percent_decoded(&text));
        if holds_plain(auth, &text) {
            return true;
        }
    }
    false
}

/// Returns whether the text contains a token as it is, delimited by characters that tokens do not
/// have.
fn holds_plain(auth: &Auth, text: &[u8]) -> bool {
    // Most values are shorter than any token.
    if text.len() < TOKEN_LENGTH {
        return false;
    }
    let mut start = 0;
    while let Some(window) = text.get(start..start + TOKEN_LENGTH) {
        // Most windows have a separator near their end, so few bytes are read.
        if let Some(at) = window.iter().rposition(|byte| !is_token_byte(*byte)) {
            start += at + 1;
            continue;
        }
        let rest = &text[start + TOKEN_LENGTH..];
        let more = rest.iter().position(|byte| !is_token_byte(*byte));
        match more.unwrap_or(rest.len()) {
            0 if auth.is_own_token(window) => return true,
            more => start += TOKEN_LENGTH + more + 1,
        }
    }
    let is_of_jwt = |byte: u8| is_token_byte(byte) || byte == b'.';
    let mut parts = text.split(|byte| !is_of_jwt(*byte));
    parts.any(|part| part.len() > TOKEN_LENGTH && auth.is_own_jwt(part))
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// A field's value without tokens: a list keeps its other members, any other field is dropped.
fn kept(auth: &Auth, name: &HeaderName, value: &HeaderValue) -> Option<HeaderValue> {
    if !field_holds(auth, name, value) {
        return Some(value.clone());
    }
    let (separator, joint) = match *name {
        COOKIE => (b';', &b"; "[..]),
        SEC_WEBSOCKET_PROTOCOL => (b',', &b", "[..]),
        _ => return None,
    };
    let members = value.as_bytes().split(|byte| *byte == separator);
    let members: Vec<&[u8]> = members
        .map(<[u8]>::trim_ascii)
        .filter(|member| !holds(auth, member))
        .filter(|member| *name != COOKIE || !page_session::is_own(member))
        .collect();
    let value = HeaderValue::from_bytes(&members.join(joint)).ok();
    value.filter(|value| !value.is_empty())
}

/// The query without the pairs that contain a token; `None`: none does.
fn without(auth: &Auth, query: &str) -> Option<String> {
    let own = |pair: &&str| {
        pair.len() >= TOKEN_LENGTH
            && form_urlencoded::parse(pair.as_bytes())
                .any(|(name, value)| holds(auth, name.as_bytes()) || holds(auth, value.as_bytes()))
    };
    if query.len() < TOKEN_LENGTH || !query.split('&').any(|pair| own(&pair)) {
        return None;
    }
    let kept: Vec<&str> = query.split('&').filter(|pair| !own(pair)).collect();
    Some(kept.join("&"))
}

/// The same URI with another query; an empty one is left out.
fn with_query(uri: &Uri, query: &str) -> Uri {
    let path = uri.path();
    let target = if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = target.parse().ok();
    // Parts of the query were left out of a URI that was one, so it still is one.
    Uri::from_parts(parts).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_decoded_and_invalid_sequences_stay() {
        for (text, decoded) in [
            ("Bearer%20a", "Bearer a"),
            ("%3f%3F%2", "??%2"),
            ("%zz%%41", "%zz%A"),
            ("%", "%"),
        ] {
            assert_eq!(percent_decoded(text.as_bytes()), decoded.as_bytes());
        }
    }

    #[test]
    fn a_query_changes_and_the_rest_of_the_uri_stays() {
        for (uri, query, changed) in [
            ("/a?x=1&y", "y", "/a?y"),
            ("/a?x=1", "", "/a"),
            ("https://h:1/a?x=1", "", "https://h:1/a"),
        ] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(with_query(&uri, query).to_string(), changed);
        }
    }
}
