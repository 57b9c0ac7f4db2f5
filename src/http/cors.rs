//! Cross-origin access (Fetch Standard §3.2): only pages of `[headers] cors_origins` may read
//! responses.
//!
//! A page brings its token itself. Credentials that a browser adds by itself (`credentials`) are
//! never allowed. The CORS headers of a public endpoint pass unchanged: its responses are public
//! anyway.

use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use super::route::{Needs, Route, Target};
use crate::config::Origin;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
    HeaderMap, HeaderValue, ORIGIN, VARY,
};
use hyper::{Method, Response, StatusCode};

/// The methods and headers that pages may send.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const HEADERS: &str = "Authorization, Content-Type, Service-API-Version, Service-Deployment-Type, Node-RED-API-Version, Node-RED-Deployment-Type, Flowgate-Message";
/// The header fields that pages may read.
const EXPOSED: &str = "X-Request-Id, WWW-Authenticate, Retry-After, RateLimit, RateLimit-Policy";
/// For how long a browser may remember it, seconds. Our choice: an origin that is taken out is out
/// soon.
const MAX_AGE: &str = "600";

/// Answers a CORS preflight request, which comes without the page's token. One for a public
/// endpoint is left to its flow.
pub(super) fn preflight(ctx: &RequestContext<'_>, route: &Route<'_>) -> Option<Response<Body>> {
    let headers = &ctx.head.headers;
    let asks =
        ctx.head.method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let public = route.needs == Needs::Nothing && route.target == Target::Endpoint;
    if !asks || public || listed(ctx).is_none() {
        return None;
    }
    let mut response = response::empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    for (name, value) in [
        (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Some(response)
}

/// Lets the page read the answer, if it may.
pub(super) fn allow(ctx: &RequestContext<'_>, headers: &mut HeaderMap) {
    if ctx.gateway.config.headers.cors_origins.is_empty() {
        return;
    }
    headers.append(VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = listed(ctx)
        && !headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN)
    {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        let exposed = HeaderValue::from_static(EXPOSED);
        headers
            .entry(ACCESS_CONTROL_EXPOSE_HEADERS)
            .or_insert(exposed);
    }
}

/// The origin of the page, if it is one of those that may.
fn listed<'c>(ctx: &RequestContext<'c>) -> Option<&'c HeaderValue> {
    let origins = &ctx.gateway.config.headers.cors_origins;
    if origins.is_empty() {
        return None;
    }
    let mut sent = ctx.head.headers.get_all(ORIGIN).iter();
    let (Some(only), None) = (sent.next(), sent.next()) else {
        return None;
    };
    let origin = only.to_str().ok().and_then(Origin::parse)?;
    origins.contains(&origin).then_some(only)
}
