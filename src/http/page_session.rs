//! The cookie of a browser that has signed in with the page of [`super::sign_in_page`], and where
//! browsers are led to that page.
//!
//! A browser sends the cookie by itself, whatever page makes it. So it counts for a `[[route]]`
//! with `sign_in = "page"` and for `GET /gateway/verify` only, and there for requests of pages of
//! this origin, and for links that a user follows.

use super::access_error::AccessError;
use super::error::Error;
use super::origin;
use super::path::Path;
use super::request_context::RequestContext;
use crate::config::Mount;
use crate::websocket;
use hyper::Method;
use hyper::header::{ACCEPT, COOKIE, HeaderMap, HeaderName, HeaderValue, ORIGIN, SET_COOKIE};
use hyper::http::request::Parts;
use std::time::Duration;

/// The cookie's name. Browsers take `__Host-` only with `Secure`, for the whole of one host, and
/// not from its subdomains (RFC 6265bis §4.1.3.2).
const NAME: &str = "__Host-flowgate";

/// The name of the cookie of a sign-in with a provider that has begun.
const PENDING: &str = "__Host-flowgate-sign-in";

/// The name of the cookie of a challenge for a passkey.
const CHALLENGE: &str = "__Host-flowgate-passkey";

/// W3C Fetch Metadata §2.
static SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
static SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Sent by the libraries of pages with requests that are no navigation.
static X_REQUESTED_WITH: HeaderName = HeaderName::from_static("x-requested-with");

/// Bytes of a path to return to. Our choice: what `limits.header_bytes` leaves room for as a part
/// of another one.
const MAX_RETURN: usize = 2048;

/// The cookie of a request.
pub(super) fn cookie(headers: &HeaderMap) -> Option<&str> {
    named(headers, NAME)
}

/// The cookie of the sign-in with a provider that the browser has begun.
pub(super) fn pending_cookie(headers: &HeaderMap) -> Option<&str> {
    named(headers, PENDING)
}

/// The cookie of the challenge for a passkey that the browser has asked for.
pub(super) fn challenge_cookie(headers: &HeaderMap) -> Option<&str> {
    named(headers, CHALLENGE)
}

fn named<'h>(headers: &'h HeaderMap, wanted: &str) -> Option<&'h str> {
    let fields = headers.get_all(COOKIE).iter();
    // One member that is no text, which any page of the host may set, hides no other.
    let members = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b';'));
    members
        .filter_map(|member| str::from_utf8(member).ok()?.trim().split_once('='))
        .find_map(|(name, value)| (name == wanted).then_some(value))
}

/// Returns whether a member of `Cookie` is the gateway's: no flow and no upstream may see it.
pub(super) fn is_own(member: &[u8]) -> bool {
    let member = member.trim_ascii();
    [NAME, PENDING, CHALLENGE].iter().any(|name| {
        let rest = member.strip_prefix(name.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"="))
    })
}

/// Removes cookies of the gateway's own name from the response of a flow or an upstream: they would
/// sign the browser in with a session of another user, or out.
pub(super) fn withhold(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(SET_COOKIE).iter();
    if !cookies.any(|cookie| sets_own(cookie.as_bytes())) {
        return;
    }
    let kept = headers.get_all(SET_COOKIE).iter();
    let kept = kept.filter(|cookie| !sets_own(cookie.as_bytes()));
    let kept: Vec<HeaderValue> = kept.cloned().collect();
    headers.remove(SET_COOKIE);
    for cookie in kept {
        headers.append(SET_COOKIE, cookie);
    }
}

/// Returns whether a cookie's name begins with ours in any letter case. Browsers skip white space
/// before it, and send the value of a cookie without a name like a name (RFC 6265bis §5.6, §5.8.3).
fn sets_own(cookie: &[u8]) -> bool {
    let skipped =
        |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || *byte == b'=';
    let start = cookie.iter().position(|byte| !skipped(byte));
    let name = cookie.get(start.unwrap_or(0)..).unwrap_or_default();
    let begins = name.get(..NAME.len());
    begins.is_some_and(|begins| begins.eq_ignore_ascii_case(NAME.as_bytes()))
}

/// `Set-Cookie` for a token; an empty one ends the cookie.
pub(super) fn set_cookie(token: &str, lifetime: Duration) -> Option<HeaderValue> {
    set(NAME, token, "Lax", lifetime)
}

/// The same for a sign-in with a provider that has begun. `Lax`: the provider's page leads back
/// here.
pub(super) fn set_pending(sealed: &str, lifetime: Duration) -> Option<HeaderValue> {
    set(PENDING, sealed, "Lax", lifetime)
}

/// The same for a challenge for a passkey, which pages of this origin only answer.
pub(super) fn set_challenge(sealed: &str, lifetime: Duration) -> Option<HeaderValue> {
    set(CHALLENGE, sealed, "Strict", lifetime)
}

fn set(name: &str, value: &str, same_site: &str, lifetime: Duration) -> Option<HeaderValue> {
    let age = lifetime.as_secs();
    let text =
        format!("{name}={value}; Path=/; Max-Age={age}; Secure; HttpOnly; SameSite={same_site}");
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Returns whether a request with the cookie, of this method, is one that a page of this origin
/// makes, or a link that the user follows. An unsafe method and a WebSocket need the browser's word
/// for it.
pub(super) fn is_of_own_page(ctx: &RequestContext<'_>, method: &Method) -> bool {
    let acts = !method.is_safe() || websocket::is_wanted(ctx.head);
    is_of_no_other_page(ctx, method) && (!acts || is_shown(&ctx.head.headers))
}

/// Returns whether a request is of no other origin's page, but for a link that the user follows. A
/// program names no page.
pub(super) fn is_of_no_other_page(ctx: &RequestContext<'_>, method: &Method) -> bool {
    let follows_link = || is(&ctx.head.headers, &SEC_FETCH_MODE, &["navigate"]);
    origin::page(ctx, &[]).is_ours() || (method.is_safe() && follows_link())
}

/// Returns whether the browser has named the page that makes the request.
fn is_shown(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.contains_key(&SEC_FETCH_SITE)
}

/// Returns whether the user has asked for a page, as opposed to a page or program for data: then a
/// sign-in helps.
fn wants_page(head: &Parts) -> bool {
    let headers = &head.headers;
    let accepted = headers.get_all(ACCEPT).iter();
    let html = accepted
        .filter_map(|field| field.to_str().ok())
        .any(|field| field.to_ascii_lowercase().contains("text/html"));
    let absent_or = |name, values| !headers.contains_key(name) || is(headers, name, values);
    matches!(head.method, Method::GET | Method::HEAD)
        && html
        && absent_or(&SEC_FETCH_MODE, &["navigate"])
        && absent_or(&SEC_FETCH_DEST, &["document", "iframe", "frame"])
        && !headers.contains_key(&X_REQUESTED_WITH)
        && !websocket::is_wanted(head)
}

/// Returns whether a field is there once, with one of these values.
fn is(headers: &HeaderMap, name: &HeaderName, values: &[&str]) -> bool {
    let mut sent = headers.get_all(name).iter();
    let only = sent.next().filter(|_| sent.next().is_none());
    only.is_some_and(|only| values.iter().any(|value| only == value))
}

/// The refusal of a request for a route with a sign-in page, for the user in front of the browser:
/// leads to the sign-in if that can help. All other clients get the refusal as it is.
pub(super) fn led(ctx: &RequestContext<'_>, refusal: Error) -> Error {
    let has_page = ctx.gateway.auth.is_some() && wants_page(ctx.head);
    let caller = ctx.caller.as_ref().filter(|caller| caller.is_known());
    match (&refusal, caller) {
        (Error::NoToken, _) | (Error::Scope, None) if has_page => {
            let location = location(ctx);
            AccessError::SignInNeeded { location }.into()
        }
        (Error::Scope, Some(caller)) if has_page && caller.has_page() => {
            let user = caller.user.clone();
            let sign_out = relative(ctx.head.uri.path(), &sign_out(&ctx.backend.mount));
            AccessError::PageForbidden { user, sign_out }.into()
        }
        _ => refusal,
    }
}

/// The sign-in page, which leads back here.
fn location(ctx: &RequestContext<'_>) -> String {
    let uri = &ctx.head.uri;
    let page = relative(uri.path(), &sign_in(&ctx.backend.mount));
    let here = uri.path_and_query().map_or("/", |here| here.as_str());
    match returned(here) {
        None => page,
        Some(here) => {
            let encoded = form_urlencoded::byte_serialize(here.as_bytes());
            page + "?return=" + &encoded.collect::<String>()
        }
    }
}

/// The path of the sign-in page of a runtime.
pub(super) fn sign_in(mount: &Mount) -> String {
    format!("{}{}/gateway/sign-in", mount.path, mount.admin_root)
}

/// The path of the script that the sign-in page has for passkeys.
pub(super) fn passkey_script(mount: &Mount) -> String {
    format!(
        "{}{}/gateway/passkeys/sign-in.js",
        mount.path, mount.admin_root
    )
}

/// The path that ends the session of a page.
pub(super) fn sign_out(mount: &Mount) -> String {
    format!("{}{}/gateway/sign-out", mount.path, mount.admin_root)
}

/// A path and query that the sign-in may return to: of this host, and read in one way by all
/// browsers.
pub(super) fn returned(text: &str) -> Option<&str> {
    let path = text.split_once('?').map_or(text, |(path, _)| path);
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let fits = text.len() <= MAX_RETURN && is_plain && Path::parse(path).is_ok();
    fits.then_some(text)
}

/// A path as seen from another one (RFC 3986 §4.2), so that it is right behind a proxy that removes
/// a part of both. It names no host and cannot lead to another one.
pub(super) fn relative(from: &str, to: &str) -> String {
    let ups = from.matches('/').count().saturating_sub(1);
    let start = if ups == 0 {
        "./".to_owned()
    } else {
        "../".repeat(ups)
    };
    start + to.trim_start_matches('/')
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_found_among_others_and_recognised_by_its_whole_name() {
        let headers = |lines: &[&'static str]| -> HeaderMap {
            let lines = lines.iter().copied().map(HeaderValue::from_static);
            lines.map(|line| (COOKIE, line)).collect()
        };
        assert_eq!(
            cookie(&headers(&["a=1; __Host-flowgate=x; b=2"])),
            Some("x")
        );
        assert_eq!(cookie(&headers(&["a=1", "__Host-flowgate=x"])), Some("x"));
        let mut other = HeaderMap::new();
        let field = HeaderValue::from_bytes(b"__Host-flowgate=x; a=\xe9").unwrap();
        other.insert(COOKIE, field);
        assert_eq!(cookie(&other), Some("x"));
        assert_eq!(
            cookie(&headers(&["__Host-flowgate2=x", "__host-flowgate=x", "a"])),
            None
        );
        assert!(is_own(b" __Host-flowgate=x") && is_own(b"__Host-flowgate"));
        assert!(!is_own(b"__Host-flowgate2=x") && !is_own(b"a=__Host-flowgate"));
    }

    #[test]
    fn a_relative_path_leads_there_from_every_depth() {
        for (from, to, expected) in [
            ("/", "/gateway/sign-in", "./gateway/sign-in"),
            ("/a", "/gateway/sign-in", "./gateway/sign-in"),
            ("/a/", "/gateway/sign-in", "../gateway/sign-in"),
            ("/a/b/c", "/a/gateway/sign-in", "../../a/gateway/sign-in"),
            ("/gateway/sign-in", "/", "../"),
        ] {
            assert_eq!(relative(from, to), expected, "{from}");
        }
    }

    #[test]
    fn only_a_path_of_this_host_is_returned_to() {
        for path in ["/", "/a/b?c=d&e=%2F%2Fevil", "/dash/", "/a:b"] {
            assert_eq!(returned(path), Some(path));
        }
        for path in [
            "",
            "a",
            "//evil",
            "/\\evil",
            "/a//b",
            "/a/../b",
            "/%2e%2e/b",
            "/%2Fevil",
            "https://evil",
            "/a b",
            "/a\r\nb",
            "/a#b",
            "/\u{e9}",
            "?x",
        ] {
            assert_eq!(returned(path), None, "{path}");
        }
        assert_eq!(returned(&format!("/{}", "a".repeat(3000))), None);
    }
}
