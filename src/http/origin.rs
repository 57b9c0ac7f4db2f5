//! Determines which web page made a request, as far as its browser reports it: `Origin` (RFC 6454)
//! and `Sec-Fetch-Site` (W3C Fetch Metadata). No page can forge them; programs send neither.
//!
//! It matters for what a browser adds by itself, without the page knowing it: a client's
//! certificate, its address, a WebSocket. A token is never such a thing.

use super::forwarded;
use super::request_context::RequestContext;
use crate::config::Origin;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The origin of the page that made a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// From here; or the request is from a program or the user, not from a page.
    Ours,
    /// From somewhere that the operator trusts with it.
    Trusted,
    /// From elsewhere.
    Foreign,
}

impl Page {
    pub(super) fn is_ours(self) -> bool {
        self == Self::Ours
    }
}

/// Classifies the requesting page. The two headers must agree.
pub(super) fn page(ctx: &RequestContext<'_>, trusted: &[Origin]) -> Page {
    let headers = &ctx.head.headers;
    let near = is_near(headers);
    let Some(origin) = headers.get(ORIGIN) else {
        return if near { Page::Ours } else { Page::Foreign };
    };
    let one = headers.get_all(ORIGIN).iter().count() == 1;
    let origin = origin.to_str().ok().filter(|_| one);
    let Some(origin) = origin.and_then(Origin::parse) else {
        return Page::Foreign;
    };
    if near && own(ctx).is_some_and(|own| origin.is_of(&own)) {
        Page::Ours
    } else if trusted.contains(&origin) {
        Page::Trusted
    } else {
        Page::Foreign
    }
}

/// Returns whether `Sec-Fetch-Site`, if it is sent, rules out another page: `none` is a request by
/// the user.
fn is_near(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    sites.all(|site| site == "same-origin" || site == "none")
}

/// Returns whether a request is made by a page in a browser.
pub(super) fn is_of_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(SEC_FETCH_SITE)
}

/// The host and port of the gateway as the browser sees them.
pub(super) fn own(ctx: &RequestContext<'_>) -> Option<Authority> {
    let named = |host: &HeaderValue| Authority::try_from(host.as_bytes()).ok();
    forwarded::host(ctx)
        .and_then(named)
        .or_else(|| ctx.head.uri.authority().cloned())
        .or_else(|| ctx.head.headers.get(HOST).and_then(named))
}
