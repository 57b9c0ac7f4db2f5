//! The way of a request: limit → route → identify → authorize → act → answer.
//!
//! The only module, beside `server` and the HTTP nodes, that uses status codes.

mod access_error;
mod accounts;
mod act;
#[cfg(feature = "engine")]
mod admin;
#[cfg(feature = "engine")]
mod admin_error;
mod amended;
mod audit_error;
mod audit_log;
mod auth;
mod authorize;
mod authorized_body;
mod basic;
mod beyond_path;
mod check;
mod clock;
mod comms;
mod console;
mod cors;
mod dialect;
mod editor_refusal;
#[cfg(feature = "engine")]
mod endpoint;
mod entity_tag;
mod error;
mod establish;
mod file_body;
mod flow_diff;
#[cfg(feature = "engine")]
mod flows;
mod form;
mod forward;
mod forward_change;
mod forwarded;
mod forwarded_caller;
mod forwarding;
#[cfg(feature = "engine")]
mod fragments;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod granted;
mod history;
mod history_error;
mod host;
mod host_error;
mod host_policy;
mod identify;
mod message;
#[cfg(feature = "engine")]
mod meter;
mod new_token;
mod now;
mod openapi;
mod origin;
#[cfg(feature = "engine")]
mod packages;
mod page_sandbox;
mod page_session;
mod pass;
mod passkeys;
mod path;
mod pieces;
mod proposals;
mod provider_sign_in;
mod provider_sign_out;
mod query;
mod rate_limit;
mod record;
mod redact;
mod refused_change;
mod refused_permission;
mod request_body;
mod request_context;
mod requester;
mod response;
mod response_body;
mod route;
mod sessions;
mod settings;
mod sign_in_html;
mod sign_in_page;
mod step_up;
mod trace;
mod tunnel;
mod upgrade;
mod user_agent;
mod verify;
mod visible_flows;
#[cfg(feature = "engine")]
mod ws_endpoint;
mod ws_session;

pub use authorized_body::ResponseBody;
pub use clock::unix_time;
pub use error::FramingError;

use crate::auth::{Auth, Caller, Certificate};
use crate::config::RESOURCE_POLICY;
use crate::gateway::Gateway;
use crate::metrics::{RouteClass, Traffic};
use crate::upstream::{Authorization, ClientBody};
use error::Error;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CACHE_CONTROL, HeaderName, HeaderValue, STRICT_TRANSPORT_SECURITY};
use hyper::http::request::Parts;
use hyper::http::uri::Scheme;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use path::{Path, Refused};
use request_context::RequestContext;
use response_body::Body;
use route::Target;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The other end of a connection; behind a trusted proxy, its client.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// True if it came over TLS.
    pub secure: bool,
    /// True if it is behind a trusted proxy: `X-Forwarded-For`, `-Proto` and `-Host` are believed.
    pub trusted: bool,
    /// True if it is the gateway in front of this engine, which has authorized the request.
    pub is_gateway: bool,
    /// The client certificate of its connection; never a trusted proxy's, which does not identify
    /// its clients.
    pub certificate: Option<Arc<Certificate>>,
}

/// Answers one request; whatever happens, there is an answer, a count and a line in the access log.
///
/// `flaw`: why it has more than one reading, if it has.
pub async fn answer(
    gateway: &Arc<Gateway>,
    peer: &Peer,
    request: Request<Incoming>,
    flaw: Option<FramingError>,
) -> Response<ResponseBody> {
    let started = Instant::now();
    let (mut head, body) = request.into_parts();
    let upgrade = head.extensions.remove::<OnUpgrade>();
    // One connection of a proxy may bring requests of many clients.
    let client = peer
        .trusted
        .then(|| forwarded::client(gateway, peer, &head.headers));
    let mut path = Path::parse(head.uri.path());
    let mut ctx = RequestContext::new(gateway, client.as_ref().unwrap_or(peer), &head);
    let body = ClientBody::received(body, head.version, gateway.config.limits.body);
    (ctx.body, ctx.upgrade) = (Some(body), upgrade);
    let proceeded = match flaw {
        Some(flaw) => Err(flaw.into()),
        None => proceed(&mut ctx, path.as_mut().map_err(|refused| *refused)).await,
    };
    let charged = proceeded.and_then(|response| Ok((ctx.charge(&response)?, response)));
    let (memory, response) = charged.unwrap_or_else(|error| {
        let refusal = response::refusal(&error);
        report(&ctx, &error, refusal.status());
        (None, refusal)
    });
    let response = match ctx.record.take() {
        Some(record) => record.end(response).await,
        None => response,
    };
    let path = path.as_ref().map_or("-", Path::as_str);
    let response = finish(&ctx, path, started.elapsed(), response);
    response.map(|body| {
        let watch = body.lasts().then(|| ctx.watch_the_rest()).flatten();
        ResponseBody::new(body, watch, memory)
    })
}

/// Counts and logs a request that could not be parsed: hyper has answered it itself, with nothing
/// but a status.
pub fn unreadable(gateway: &Arc<Gateway>, peer: &Peer, too_large: bool) {
    let (mut head, ()) = Request::new(()).into_parts();
    head.method = Method::from_bytes(b"-").unwrap_or_default();
    let ctx = RequestContext::new(gateway, peer, &head);
    let answered = response::empty(if too_large {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    } else {
        StatusCode::BAD_REQUEST
    });
    finish(&ctx, "-", Duration::ZERO, answered);
}

/// The steps in order; each may refuse.
async fn proceed(
    ctx: &mut RequestContext<'_>,
    path: Result<&mut Path<'_>, Refused>,
) -> Result<Response<Body>, Error> {
    let gateway = ctx.gateway;

    // 1. limit: what can be refused without a look at the request's meaning
    limit(ctx, &gateway.config.limits)?;

    // 2. route: before authorize, because the permission depends on the endpoint
    let path = path?;
    ctx.backend = gateway
        .backends
        .find(|| host::named(ctx.head), path.lower())?;
    path.enter(&ctx.backend.mount);
    let path = &*path;
    // Read before any decision: a change from now on requires a new decision.
    ctx.generation = gateway.auth.as_ref().map_or(0, Auth::generation);
    let rules = ctx.backend.rules.load();
    let route = granted::route(ctx.backend, &ctx.head.method, path, &rules);
    ctx.class = route.class;
    host_policy::check_side(ctx)?;
    ctx.may_serve_pages = page_sandbox::may_serve_pages(ctx, path, &route);
    beyond_path::check_service_worker(ctx)?;
    ctx.authorization = if ctx.peer.is_gateway {
        // What must not pass has stayed at the gateway in front.
        Authorization::Client
    } else {
        route.authorization
    };
    ctx.in_flight = Some(gateway.metrics.in_flight(route.class));

    if let Some(answer) = cors::preflight(ctx, &route) {
        return Ok(answer);
    }

    // 3. and 4. identify, authorize
    let some_flows = authorize::authorize(ctx, path, &route, &rules).await?;
    let (target, recorded) = (route.target, route.recorded(&ctx.head.method));
    drop(rules);
    if takes_no_body(ctx, target) {
        ctx.read_none().await?;
    }
    ctx.begin_record(path, recorded).await?;

    if some_flows && let Some(answer) = Box::pin(visible_flows::act(ctx, path, target)).await? {
        return Ok(answer);
    }

    // 5. act
    act::act(ctx, path, target).await
}

/// No endpoint of the admin API takes a body with these methods.
fn takes_no_body(ctx: &RequestContext<'_>, target: Target) -> bool {
    ctx.class != RouteClass::Endpoint
        && !matches!(target, Target::OtherMethod(_))
        && matches!(ctx.head.method, Method::GET | Method::HEAD | Method::DELETE)
}

/// Refuses what is too much, and what is malformed.
fn limit(ctx: &RequestContext<'_>, limits: &crate::config::Limits) -> Result<(), Error> {
    let headers = &ctx.head.headers;
    well_formed(ctx.head)?;
    host_policy::check(ctx)?;
    if headers.len() > limits.headers {
        return Err(Error::TooManyHeaders);
    }
    request_body::announced(headers, limits.body)
}

/// Refuses a malformed method, scheme or host.
fn well_formed(head: &Parts) -> Result<(), Error> {
    let method = head.method.as_str();
    if !method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-') {
        return Err(Error::MethodName);
    }
    if let Some(scheme) = head.uri.scheme()
        && *scheme != Scheme::HTTP
        && *scheme != Scheme::HTTPS
    {
        return Err(Refused("the scheme must be http or https").into());
    }
    if !host::is_one(head) {
        return Err(Error::Host);
    }
    Ok(())
}

/// 6. answer: the request's id goes along; counted and written down.
fn finish(
    ctx: &RequestContext<'_>,
    path: &str,
    duration: Duration,
    response: Response<Body>,
) -> Response<Body> {
    let method = &ctx.head.method;
    let mut response = response::for_method(method, with_security_headers(ctx, response));
    if let Ok(mut id) = HeaderValue::from_str(&ctx.id) {
        // It never comes again: HTTP/2 keeps it out of the connection's table (RFC 7541 §6.2.3),
        // which is searched for each field and would hold nothing else.
        id.set_sensitive(true);
        response
            .headers_mut()
            .insert(HeaderName::from_static("x-request-id"), id);
    }
    let status = response.status().as_u16();
    let sent = response.body().size_hint().lower();
    let traffic = Traffic {
        duration,
        received: ctx.received,
        sent,
    };
    let metrics = &ctx.gateway.metrics;
    metrics.request(ctx.class, method, status, traffic);
    trace::end(ctx, response.status());
    if ctx.gateway.config.log.access {
        tracing::info!(
            target: "access",
            id = ctx.id.as_str(),
            method = method.as_str(),
            path,
            status,
            bytes = sent,
            // In milliseconds down to the microsecond: a float of seconds is written as 9.8e-5,
            // which is hard to read.
            duration_ms = duration.as_micros() as f64 / 1000.0,
            user = ctx.user(),
            upstream = ctx.upstream(),
            address = %ctx.peer.address.ip().to_canonical(),
        );
    }
    response
}

/// Adds the header fields for browsers, see `[headers]`.
fn with_security_headers(ctx: &RequestContext<'_>, mut response: Response<Body>) -> Response<Body> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    let config = &ctx.gateway.config.headers;
    let ours = response.body().is_ours();
    let headers = response.headers_mut();
    for (name, value) in if ours { &config.own } else { &config.others } {
        headers.entry(name).or_insert_with(|| value.clone());
    }
    if !ours {
        page_sandbox::add(ctx, headers);
    }
    // Public responses are meant for pages of other sites too.
    if let Some(policy) = &config.resource_policy
        && ctx.caller.is_some()
    {
        headers
            .entry(RESOURCE_POLICY)
            .or_insert_with(|| policy.clone());
    }
    // What a page shows to its user is not for others who use the same cache; of a token all caches
    // know that (RFC 9111 §3.5).
    if ctx.caller.as_ref().is_some_and(Caller::has_page) {
        let private = HeaderValue::from_static("private");
        headers.entry(CACHE_CONTROL).or_insert(private);
    }
    if let Some(hsts) = &config.hsts
        && ctx.peer.secure
        && (ours || config.everywhere)
    {
        let hsts = || hsts.clone();
        headers
            .entry(STRICT_TRANSPORT_SECURITY)
            .or_insert_with(hsts);
    }
    rate_limit::tell(&ctx.rate_limits, headers);
    cors::allow(ctx, headers);
    response
}

/// Logs errors of the gateway with their causes; the client's errors are in the access log.
fn report(ctx: &RequestContext<'_>, error: &Error, status: StatusCode) {
    if status.is_server_error() && response::is_ours(error) {
        let mut causes = String::new();
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            causes.push_str(": ");
            causes.push_str(&inner.to_string());
            cause = inner.source();
        }
        tracing::error!(
            id = ctx.id.as_str(),
            upstream = ctx.upstream(),
            "{error}{causes}"
        );
    }
}
