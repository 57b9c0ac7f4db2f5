//! `GET /gateway/verify`: tells a reverse proxy in front of another application who sends a
//! request, so that the application shares the sign-in (nginx `auth_request`, Caddy and Traefik
//! `forward_auth`).
//!
//! 200 with the headers that an upstream with `identity_headers` gets, 401 for a request without a
//! valid credential, 403 for one without the permission that the query names. Nothing is passed on.

use super::access_error::AccessError;
use super::error::Error;
use super::forwarding;
use super::page_session;
use super::query::parameter;
use super::refused_permission::refused;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use crate::audit::Event;
use crate::config::{AmbientCredentials, is_permission};
use hyper::header::HeaderName;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::json;

/// The method of the request that the proxy asks about, as Caddy and Traefik name it.
const FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");

/// The credentials that the query accepts beside bearer tokens and certificates: `?sign_in=page`.
pub(super) fn ambient(head: &Parts) -> Result<AmbientCredentials, Error> {
    match parameter(head, "sign_in").as_deref() {
        None => Ok(AmbientCredentials::default()),
        Some("page") => Ok(AmbientCredentials {
            page: true,
            ..AmbientCredentials::default()
        }),
        Some(_) => Err(Error::Parameter("sign_in must be page")),
    }
}

/// Verifies the caller, who is identified.
pub(super) fn verify(ctx: &RequestContext<'_>) -> Result<Response<Body>, Error> {
    let Some(caller) = &ctx.caller else {
        return Err(Error::NoToken);
    };
    if caller.has_page() && !page_session::is_of_own_page(ctx, &method(ctx.head)) {
        ctx.audit(Event::Denied, ctx.actor(), json!({ "reason": "origin" }));
        return Err(Error::Origin);
    }
    let needs = parameter(ctx.head, "permission");
    if needs.as_ref().is_some_and(|needs| !is_permission(needs)) {
        return Err(Error::Parameter("permission must name one permission"));
    }
    let audience = parameter(ctx.head, "audience");
    let identity = ctx.gateway.identity.load();
    if audience
        .as_deref()
        .is_some_and(|name| !identity.has_audience(name))
    {
        return Err(Error::Parameter(
            "audience must be one of identity.audiences",
        ));
    }
    // What anonymous callers may do is no sign-in: they need a permission that is asked for.
    if needs.is_none() && !caller.is_known() {
        return Err(Error::NoToken);
    }
    let granted = needs
        .as_ref()
        .is_none_or(|needs| caller.permissions.cover(needs));
    if let Some(needs) = needs.filter(|_| !granted) {
        return Err(match refused(ctx, &needs) {
            Error::Scope => AccessError::VerifyForbidden.into(),
            refused => refused,
        });
    }
    let mut response = response::uncached(response::empty(StatusCode::OK));
    if caller.is_known() {
        forwarding::identity(ctx, caller, audience.as_deref()).set(response.headers_mut());
    }
    Ok(response)
}

/// The method of the proxied request. One that is not named counts as safe: that of a request to
/// nginx' `auth_request` is always `GET`, and the browser names the page of an unsafe one anyway.
fn method(head: &Parts) -> Method {
    let named = head.headers.get(FORWARDED_METHOD);
    match named.map(|named| Method::from_bytes(named.as_bytes())) {
        None => Method::GET,
        Some(Ok(method)) => method,
        // Unsafe.
        Some(Err(_)) => Method::POST,
    }
}
