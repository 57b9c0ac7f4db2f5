//! Status, headers and body of every response that the gateway makes. The only place that decides
//! them.
//!
//! Errors are JSON `{"code", "message"}`, those of `/auth/token` are RFC 6749's; 401 is empty. No
//! internal detail is disclosed.

mod access;
mod audit;
mod conditional;
mod for_editor;
mod history;
mod oauth;
mod proposals;
#[cfg(feature = "engine")]
mod runtime;
mod upstream_error;

pub(super) use audit::log;
pub(super) use conditional::tagged;
#[cfg(feature = "engine")]
pub(super) use conditional::{file, words};
pub(super) use upstream_error::upstream_page;

use super::audit_error::AuditLogError;
use super::error::Error;
use crate::auth::Lapsed;
use crate::deployment;
#[cfg(feature = "engine")]
use crate::http::admin_error::AdminError;
use crate::http::response_body::Body;
use crate::http::sign_in_html::{self, Page};
use crate::policy::{Rule, Verdict};
use crate::store;
use crate::upstream;
use bytes::Bytes;
use hyper::body::Body as _;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    HeaderMap, HeaderName, HeaderValue, LOCATION, PRAGMA, REFERRER_POLICY, RETRY_AFTER,
    SEC_WEBSOCKET_VERSION, UPGRADE, WWW_AUTHENTICATE,
};
use hyper::{Method, Response, StatusCode};
use serde_json::json;
use std::time::Duration;

/// An answer in JSON.
pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    content(status, "application/json; charset=utf-8", body.into())
}

/// Public keys, which a verifier keeps for some minutes; RFC 7517 §8.5.2 has the type.
pub(super) fn jwks(keys: Bytes) -> Response<Body> {
    let mut response = content(StatusCode::OK, "application/jwk-set+json", keys);
    let cached = HeaderValue::from_static("public, max-age=300");
    response.headers_mut().insert(CACHE_CONTROL, cached);
    response
}

/// An answer in plain text.
#[cfg(feature = "engine")]
pub(super) fn text(status: StatusCode, body: &'static str) -> Response<Body> {
    content(
        status,
        "text/plain; charset=utf-8",
        Bytes::from_static(body.as_bytes()),
    )
}

/// A page of the editor, or a part of it.
#[cfg(feature = "engine")]
pub(super) fn html(body: impl Into<Bytes>) -> Response<Body> {
    let mut response = content(StatusCode::OK, "text/html; charset=utf-8", body.into());
    set(&mut response, CONTENT_SECURITY_POLICY, EDITOR_POLICY);
    response
}

/// The content security policy of the stock editor's page: its own files, and scripts and styles
/// that are inline, made at run time, or in blobs (observed on 4.1 and 5.0).
#[cfg(feature = "engine")]
const EDITOR_POLICY: &str = "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; \
                             style-src 'self' 'unsafe-inline'; \
                             img-src 'self' data: https:; font-src 'self' data:; worker-src 'self' blob:; \
                             object-src 'none'; base-uri 'none'; frame-ancestors 'none'";

/// An answer in plain text of others.
#[cfg(feature = "engine")]
pub(super) fn their_text(body: String) -> Response<Body> {
    content(StatusCode::OK, "text/plain; charset=utf-8", body.into())
}

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    with_room(status, Body::default())
}

/// A response whose headers need not grow for those that every response gets.
fn with_room(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = HeaderMap::with_capacity(FIELDS);
    response
}

/// As many fields as most responses of the gateway have.
const FIELDS: usize = 12;

/// A permanent redirect (RFC 9110 §15.4.2).
pub(super) fn moved(location: &str) -> Response<Body> {
    with(empty(StatusCode::MOVED_PERMANENTLY), LOCATION, location)
}

/// The answer of `/auth/token` and `/auth/revoke`: never kept by a cache (RFC 6749 §5.1).
pub(super) fn uncached(mut response: Response<Body>) -> Response<Body> {
    set(&mut response, CACHE_CONTROL, "no-store");
    set(&mut response, PRAGMA, "no-cache");
    response
}

/// To a listed path with another method: `OPTIONS` learns the methods, everything else is refused
/// with them.
pub(super) fn other_method(method: &Method, allow: String) -> Result<Response<Body>, Error> {
    if *method != Method::OPTIONS {
        return Err(Error::Method { allow });
    }
    Ok(with(empty(StatusCode::NO_CONTENT), ALLOW, &allow))
}

/// The same answer without its body where the method wants none, but with its length (RFC 9110
/// §9.3.2).
pub(super) fn for_method(method: &Method, mut response: Response<Body>) -> Response<Body> {
    if *method == Method::HEAD {
        if let Some(length) = response
            .body()
            .size_hint()
            .exact()
            .filter(|&length| length > 0)
        {
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        *response.body_mut() = Body::default();
    }
    response
}

/// Returns whether a server error is ours and to be logged for each request. Load shedding is not,
/// nor an outage of the upstream, which is logged where it is found.
pub(super) fn is_ours(error: &Error) -> bool {
    use upstream::Error::{NotListening, SignedOut, Unavailable};
    let is_logged = matches!(
        error,
        Error::Deployment(deployment::Error::Upstream(SignedOut | NotListening(_)))
            | Error::Upstream(SignedOut | Unavailable | NotListening(_))
            | Error::TooManyWaiting
            | Error::MemoryBusy
            | Error::WorkBusy
            | Error::AuditLog(AuditLogError::Busy)
    );
    #[cfg(feature = "engine")]
    let is_logged = is_logged
        || matches!(
            error,
            Error::Admin(AdminError::Draining | AdminError::Palette(crate::palette::Error::Busy))
                | Error::EditorBusy
                | Error::TooManySockets
                | Error::Engine(
                    engine::Error::Busy
                        | engine::Error::Full
                        | engine::Error::TooManyProfiles
                        | engine::Error::NodeHostDown
                )
        );
    !is_logged
}

/// The response to an error.
pub(super) fn refusal(error: &Error) -> Response<Body> {
    use StatusCode as S;
    let refuse = |status, code| coded(status, code, &error.to_string());
    match error {
        Error::Framing(_) | Error::Unencrypted | Error::MethodName | Error::Host => last(error),
        Error::TooManyHeaders => refuse(S::REQUEST_HEADER_FIELDS_TOO_LARGE, "too_many_headers"),
        Error::BodyTooLarge { .. } => refuse(S::PAYLOAD_TOO_LARGE, "body_too_large"),
        Error::Path(_) => refuse(S::BAD_REQUEST, "invalid_path"),
        Error::Method { allow } => with(refuse(S::METHOD_NOT_ALLOWED, OTHER_METHOD), ALLOW, allow),
        Error::Misdirected(_) => misdirected(error),
        Error::NotFound | Error::NoEngine => refuse(S::NOT_FOUND, "not_found"),
        Error::UpgradeRequired => upgrade(refuse(S::UPGRADE_REQUIRED, "upgrade_required")),
        Error::Handshake(_) => refuse(S::BAD_REQUEST, "invalid_handshake"),
        Error::Origin => refuse(S::FORBIDDEN, "invalid_origin"),
        Error::TooManyWaiting => busy(error, "too_many_channels"),
        #[cfg(feature = "engine")]
        Error::EditorBusy | Error::TooManySockets => runtime::full(error),
        Error::MemoryBusy => busy(error, "memory_busy"),
        Error::WorkBusy => busy(error, "work_busy"),
        Error::WebSocketVersion => version_13(refuse(S::UPGRADE_REQUIRED, OTHER_VERSION)),
        Error::Authorization | Error::TokenInQuery => invalid_token_header(error),
        Error::NoToken => unauthorized(BEARER),
        Error::BadToken | Error::NewToken => lapsed(Lapsed::Session),
        Error::BadTokens { wait } => retry_after(refuse(S::TOO_MANY_REQUESTS, BAD_TOKENS), *wait),
        Error::Scope => lapsed(Lapsed::Permission),
        Error::Access(error) => access::response(error),
        Error::SomeFlows => refuse(S::FORBIDDEN, "some_flows"),
        Error::DoubledHeader(_) | Error::Message(_) => refuse(S::BAD_REQUEST, "invalid_header"),
        Error::ApiVersion => refuse(S::BAD_REQUEST, "invalid_api_version"),
        Error::DeploymentType => refuse(S::BAD_REQUEST, "invalid_deployment_type"),
        Error::ContentType | Error::ContentEncoding => refuse(S::UNSUPPORTED_MEDIA_TYPE, MEDIA),
        Error::BodyTimeout => refuse(S::REQUEST_TIMEOUT, "body_timeout"),
        Error::BodyBroken => refuse(S::BAD_REQUEST, "incomplete_body"),
        Error::UnexpectedBody => refuse(S::BAD_REQUEST, "unexpected_body"),
        Error::AuditLog(reason) => audit::error(error, reason),
        Error::History(error) => history::response(error),
        Error::CutOff | Error::Store(store::Error::Unreachable(_) | store::Error::Busy { .. }) => {
            busy(error, UNREACHABLE)
        }
        Error::Store(_) => history::storage_failed(),
        Error::Body(_) | Error::Parameter(_) => refuse(S::BAD_REQUEST, "invalid_request"),
        Error::Form(reason) => oauth::described(S::BAD_REQUEST, "invalid_request", reason),
        Error::Client => challenge(oauth::of(error, S::UNAUTHORIZED, "invalid_client"), BEARER),
        Error::GrantType => oauth::of(error, S::BAD_REQUEST, "unsupported_grant_type"),
        Error::SignIn(error) => oauth::sign_in(error),
        Error::SignInUnrecorded(_) => oauth::unrecorded_sign_in(),
        Error::Revoke(error) => oauth::revocation(error),
        Error::Audit(_) => refuse(S::SERVICE_UNAVAILABLE, "audit_unavailable"),
        Error::NeedsApproval(waiting) => proposals::waiting(waiting),
        Error::ForEditor(error) => for_editor::response(error),
        Error::Deployment(error) => deployment(error),
        Error::Upstream(error) => upstream_error::response(error),
        #[cfg(feature = "engine")]
        Error::Engine(error) => runtime::engine(error),
        #[cfg(feature = "engine")]
        Error::EndpointTimeout | Error::EndpointStatus(_) => runtime::endpoint(error),
        #[cfg(feature = "engine")]
        Error::Admin(error) => runtime::admin(error),
        Error::Broken => refuse(S::INTERNAL_SERVER_ERROR, "internal_error"),
    }
}

/// The token is malformed, doubled or in the wrong place (RFC 6750 §3.1).
fn invalid_token_header(error: &Error) -> Response<Body> {
    let refused = coded(
        StatusCode::BAD_REQUEST,
        "invalid_request",
        &error.to_string(),
    );
    challenge(refused, INVALID_REQUEST)
}

/// The sign-in page. Without a referrer policy of its own, its form would have no `Origin`.
pub(super) fn page(status: StatusCode, page: &Page<'_>) -> Response<Body> {
    let text = sign_in_html::text(page).into();
    let response = content(status, "text/html; charset=utf-8", text);
    let mut response = with(
        response,
        CONTENT_SECURITY_POLICY,
        sign_in_html::policy(page),
    );
    set(&mut response, REFERRER_POLICY, "same-origin");
    uncached(response)
}

/// Leads a browser elsewhere, with `GET` (RFC 9110 §15.4.4).
pub(super) fn see_other(location: &str) -> Response<Body> {
    uncached(with(empty(StatusCode::SEE_OTHER), LOCATION, location))
}

/// There is no room for now.
fn busy(error: &Error, code: &str) -> Response<Body> {
    let refused = coded(StatusCode::SERVICE_UNAVAILABLE, code, &error.to_string());
    retry_after(refused, RETRY_DELAY)
}

/// RFC 9110 §15.5.20: the client may have taken this connection for one to another host.
fn misdirected(error: &Error) -> Response<Body> {
    let status = StatusCode::MISDIRECTED_REQUEST;
    coded(status, "misdirected_request", &error.to_string())
}

/// A response after which the connection is closed.
fn last(error: &Error) -> Response<Body> {
    let code = match error {
        Error::Unencrypted => "tls_required",
        Error::MethodName => "invalid_method",
        Error::Host => "invalid_host",
        _ => "malformed_request",
    };
    closing(coded(StatusCode::BAD_REQUEST, code, &error.to_string()))
}

const UNREACHABLE: &str = "store_unreachable";
const BAD_TOKENS: &str = "too_many_bad_tokens";
const OTHER_METHOD: &str = "method_not_allowed";
const MEDIA: &str = "unsupported_media_type";
const OTHER_VERSION: &str = "invalid_websocket_version";
const BEARER: &str = "Bearer realm=\"flowgate\"";
const INVALID_REQUEST: &str = "Bearer realm=\"flowgate\", error=\"invalid_request\"";
const INSUFFICIENT_SCOPE: &str = "Bearer realm=\"flowgate\", error=\"insufficient_scope\"";

const INVALID_TOKEN: &str = "Bearer realm=\"flowgate\", error=\"invalid_token\"";

/// The challenge for a missing or lapsed authorization (RFC 6750 §3.1).
fn lapsed(lapsed: Lapsed) -> Response<Body> {
    unauthorized(match lapsed {
        Lapsed::Session => INVALID_TOKEN,
        Lapsed::Permission => INSUFFICIENT_SCOPE,
    })
}

fn deployment(error: &deployment::Error) -> Response<Body> {
    use StatusCode as S;
    let refuse = |status, code| coded(status, code, &error.to_string());
    match error {
        deployment::Error::Stale { .. } => refuse(S::CONFLICT, "version_mismatch"),
        deployment::Error::Malformed(_) => refuse(S::BAD_REQUEST, "invalid_flows"),
        deployment::Error::Policy(verdict) => policy(verdict),
        deployment::Error::Proposed(_) => refuse(S::FORBIDDEN, "approval_required"),
        deployment::Error::Proposal(error) => proposals::error(error),
        deployment::Error::StorageInvalid(_) => refuse(S::INTERNAL_SERVER_ERROR, "storage_invalid"),
        deployment::Error::Store(store::Error::Unreachable(_) | store::Error::Busy { .. }) => {
            retry_after(refuse(S::SERVICE_UNAVAILABLE, UNREACHABLE), RETRY_DELAY)
        }
        deployment::Error::Store(error @ store::Error::UnreadableCredentials { .. }) => {
            coded(S::CONFLICT, "credentials_unreadable", &error.to_string())
        }
        deployment::Error::Store(_) => refuse(S::INTERNAL_SERVER_ERROR, "storage_failed"),
        deployment::Error::NoSuchFlow => refuse(S::NOT_FOUND, "not_found"),
        deployment::Error::Runtime => refuse(S::SERVICE_UNAVAILABLE, "runtime_gone"),
        deployment::Error::Audit(_) => refuse(S::SERVICE_UNAVAILABLE, "audit_unavailable"),
        deployment::Error::Lapsed(lapsed) => self::lapsed(*lapsed),
        deployment::Error::Upstream(error) => upstream_error::response(error),
    }
}

/// RFC 6585 §3 has a status for a missing precondition.
fn policy(verdict: &Verdict) -> Response<Body> {
    let first = verdict.rules().next();
    let status = first.map_or(StatusCode::FORBIDDEN, policy_status);
    let code = match status {
        StatusCode::PRECONDITION_REQUIRED => "rev_required",
        _ => "policy_refused",
    };
    coded(status, code, &verdict.to_string())
}

/// The status of a deployment that violates this rule.
pub(super) fn policy_status(rule: Rule) -> StatusCode {
    match rule {
        Rule::Rev => StatusCode::PRECONDITION_REQUIRED,
        Rule::ReadOnly
        | Rule::Freeze
        | Rule::MissingTypes
        | Rule::ForbiddenTypes
        | Rule::RestrictedTypes
        | Rule::MaxNodes
        | Rule::MaxBytes
        | Rule::Locked
        | Rule::Flows
        | Rule::Approve
        | Rule::Place => StatusCode::FORBIDDEN,
    }
}

/// When to try again while there is no room. Our choice.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The stock editor may show it as HTML, so names in the message must not be read as such.
fn coded(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    let body = json!({ "code": code, "message": message }).to_string();
    let body = body.replace('<', "\\u003c").replace('&', "\\u0026");
    json(status, body)
}

fn unauthorized(authenticate: &'static str) -> Response<Body> {
    challenge(empty(StatusCode::UNAUTHORIZED), authenticate)
}

fn challenge(mut response: Response<Body>, authenticate: &'static str) -> Response<Body> {
    set(&mut response, WWW_AUTHENTICATE, authenticate);
    response
}

/// RFC 9110 §15.5.22.
fn upgrade(mut response: Response<Body>) -> Response<Body> {
    set(&mut response, UPGRADE, "websocket");
    set(&mut response, CONNECTION, "upgrade");
    response
}

/// The last answer of its connection.
fn closing(mut response: Response<Body>) -> Response<Body> {
    set(&mut response, CONNECTION, "close");
    response
}

/// Whole seconds, rounded up (RFC 9110 §10.2.3).
pub(super) fn retry_after(mut response: Response<Body>, wait: Duration) -> Response<Body> {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    response
        .headers_mut()
        .insert(RETRY_AFTER, seconds.max(1).into());
    response
}

fn version_13(response: Response<Body>) -> Response<Body> {
    with(upgrade(response), SEC_WEBSOCKET_VERSION, "13")
}

fn with(mut response: Response<Body>, name: HeaderName, value: &str) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}

pub(super) fn content(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Body> {
    let mut response = with_room(status, Body::Ours(body));
    set(&mut response, CONTENT_TYPE, kind);
    response
}

fn set(response: &mut Response<Body>, name: HeaderName, value: &'static str) {
    response
        .headers_mut()
        .insert(name, HeaderValue::from_static(value));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
