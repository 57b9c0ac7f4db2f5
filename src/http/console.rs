//! Serves the console: its page at `/gateway/`, and the page's files with their version in the
//! path.
//!
//! They are the same for everyone and need no sign-in; what the page shows it asks the API for, as
//! its user.

use super::error::Error;
use super::path::Path;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use crate::console;
use bytes::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, HeaderMap,
    HeaderName, HeaderValue, VARY,
};
use hyper::{Response, StatusCode};

/// The page's content security policy: its own files, this origin's API, in no frame; and no way to
/// make HTML of a text (W3C Trusted Types), so that a name of a node is never more than a text.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'",
);

/// HTML Standard §7.1.3: pages of other origins keep no reference to the window.
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// `GET /gateway/`
pub(super) fn page(ctx: &RequestContext<'_>) -> Result<Response<Body>, Error> {
    enabled(ctx)?;
    // Its paths are relative to the slash at the end.
    if !ctx.head.uri.path().ends_with('/') {
        return Ok(response::moved("gateway/"));
    }
    let tag = format!("\"{}\"", console::version());
    let mut response = response::tagged(&ctx.head.headers, &tag, || {
        let page = Bytes::from_static(console::page().as_bytes());
        response::content(StatusCode::OK, "text/html; charset=utf-8", page)
    });
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    Ok(response)
}

/// `GET /gateway/console/:version/:name`
pub(super) fn file(ctx: &RequestContext<'_>, path: &Path<'_>) -> Result<Response<Body>, Error> {
    enabled(ctx)?;
    let file = console::file(&path.parameter(2), &path.parameter(3)).ok_or(Error::NotFound)?;
    let brotli = takes_brotli(&ctx.head.headers);
    let bytes = if brotli { file.brotli } else { file.plain };
    let mut response = response::content(StatusCode::OK, file.kind(), Bytes::from_static(bytes));
    let headers = response.headers_mut();
    if brotli {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("br"));
    }
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    let for_ever = "public, max-age=31536000, immutable";
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(for_ever));
    Ok(response)
}

/// `[console] enabled`
fn enabled(ctx: &RequestContext<'_>) -> Result<(), Error> {
    let enabled = ctx.gateway.config.console.enabled;
    enabled.then_some(()).ok_or(Error::NotFound)
}

/// Returns whether the client takes Brotli: it names it, and not with a weight of 0 (RFC 9110
/// §12.5.3).
fn takes_brotli(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(ACCEPT_ENCODING).iter();
    let mut codings = fields.flat_map(|field| field.to_str().unwrap_or_default().split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
        name.trim().eq_ignore_ascii_case("br") && weight.parse().is_ok_and(|q: f32| q > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn brotli_is_sent_to_clients_that_take_it() {
        for (value, takes) in [
            ("gzip, deflate, br", true),
            ("BR;q=0.5", true),
            ("br; q=1.0", true),
            ("gzip, br;q=0", false),
            ("br;q=x", false),
            ("brotli", false),
            ("*", false),
            ("", false),
        ] {
            assert_eq!(
                takes_brotli(&headers(ACCEPT_ENCODING, value)),
                takes,
                "{value}"
            );
        }
        assert!(!takes_brotli(&HeaderMap::new()));
    }
}
