//! Requests to endpoints made by http-in nodes.
//!
//! Knows what may pass between HTTP and a flow: no hop-by-hop header, no token of the admin API, no
//! impossible status.

use super::beyond_path;
use super::error::Error;
use super::forwarding::forwarded_request;
use super::path::{self, Path};
use super::request_body;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use super::{packages, redact, ws_endpoint};
use crate::auth::Caller;
use crate::gateway::Runtime;
use crate::upstream::{Authorization, seen_by_flows};
use crate::websocket;
use engine::Engine;
use engine::http::{Endpoint, METHODS, Memory, Reply, Request, User};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, PROXY_AUTHENTICATE, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Response, StatusCode};
use limits::quota::Exhausted;
use smol_str::SmolStr;
use std::pin::pin;

/// Headers that belong to a connection (RFC 9110 §7.6.1), and the length, which the gateway sets.
const NOT_PASSED_ON: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    CONTENT_LENGTH,
];

/// Sends a request through the flow whose endpoint it names, and waits for the flow's answer.
pub(super) async fn call(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
) -> Result<Response<Body>, Error> {
    let gateway = ctx.gateway;
    let Runtime::Own(engine) = &ctx.backend.runtime else {
        return Err(Error::NotFound);
    };
    if websocket::is_wanted(ctx.head)
        && let Some(listening) = engine.listening(path.as_str())
    {
        return ws_endpoint::open(ctx, path, engine, &listening);
    }
    let method = &ctx.head.method;
    let Some(endpoint) = engine.endpoint(method, path.as_str()) else {
        return of_package(ctx, path, engine).await;
    };
    // A token that let the caller in stays here: a flow could use it for more.
    ctx.authorization = match ctx.caller {
        Some(_) if !ctx.peer.is_gateway => Authorization::None,
        _ => Authorization::Client,
    };
    ctx.redacted = redact::head(ctx, ctx.authorization);
    let content = ctx.read(gateway.config.limits.body).await?;
    let memory = charged(ctx)?;
    let request = request(ctx, path, &endpoint, content);
    let wait = gateway.config.timeouts.endpoint;
    let answer = pin!(tokio::time::timeout(
        wait,
        engine.call(endpoint, request, memory)
    ));
    let answer = ctx.during(answer).await?;
    let answer = answer.map_err(|_| Error::EndpointTimeout)??;
    let (reply, held) = answer.map_err(|Exhausted| Error::MemoryBusy)?;
    Ok(response(reply)?.map(|body| body.charged(held)))
}

/// Handles a request for a path without an http-in node of this method: a package may have an
/// endpoint there.
async fn of_package(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    engine: &Engine,
) -> Result<Response<Body>, Error> {
    let answered = match ctx.gateway.packages {
        Some(_) => Box::pin(packages::endpoint(ctx, path)).await,
        None => Err(Error::NotFound),
    };
    match (answered, others(engine, path)) {
        (Err(Error::NotFound | Error::Engine(engine::Error::NodeHostDown)), Some(allow)) => {
            response::other_method(&ctx.head.method, allow)
        }
        (answered, _) => answered,
    }
}

/// The memory charged to an unauthenticated caller: for the request until the engine is done with
/// it, even if the caller leaves, and for the response, which the caller may be slow to read.
fn charged(ctx: &mut RequestContext<'_>) -> Result<Option<Memory>, Error> {
    if ctx.caller.as_ref().is_some_and(Caller::is_known) {
        return Ok(None);
    }
    let quota = &ctx.gateway.shares.unauthenticated;
    let grant = || quota.grant(ctx.peer.address.ip());
    let (mut request, head) = match ctx.held.take() {
        // Its fields were charged before the body was read.
        Some(held) => (held, 0),
        None => (grant(), request_body::head_size(&ctx.head.headers)),
    };
    let target = ctx.head.uri.path_and_query();
    let target = target.map_or(0, |target| target.as_str().len());
    let taken = request.try_grow(head + target);
    taken.map_err(|Exhausted| Error::MemoryBusy)?;
    let reply = grant();
    Ok(Some(Memory { request, reply }))
}

fn request(
    ctx: &RequestContext<'_>,
    path: &Path<'_>,
    endpoint: &Endpoint,
    body: bytes::Bytes,
) -> Request {
    let uri = &ctx.outgoing().uri;
    let target = PathAndQuery::from_static("/");
    let front = forwarded_request(ctx, &target, None);
    Request {
        method: ctx.head.method.clone(),
        path: path.decoded(),
        url: uri
            .path_and_query()
            .map_or("/", |url| url.as_str())
            .to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        params: endpoint
            .params
            .iter()
            .map(|(name, value)| decoded(name, value))
            .collect(),
        headers: seen_by_flows(&front),
        body,
        address: ctx.peer.address.ip(),
        secure: ctx.peer.secure,
        user: user(ctx),
    }
}

/// The caller as the flow sees it.
fn user(ctx: &RequestContext<'_>) -> Option<User> {
    let caller = ctx.caller.as_ref().filter(|caller| caller.is_known())?;
    let permissions = caller.permissions.shown();
    Some(User {
        username: caller.user.clone(),
        permissions: permissions.names().map(SmolStr::new).collect(),
    })
}

/// A part of the path as the flow sees it: decoded, like the path itself.
fn decoded(name: &SmolStr, value: &SmolStr) -> (SmolStr, SmolStr) {
    (name.clone(), path::decode(value).into())
}

/// The methods that the path has, if any.
fn others(engine: &Engine, path: &Path<'_>) -> Option<String> {
    let mut allow = String::new();
    for method in METHODS {
        if engine.endpoint(&method, path.as_str()).is_some() {
            allow.push_str(method.as_str());
            allow.push_str(if method == Method::GET {
                ", HEAD, "
            } else {
                ", "
            });
        }
    }
    (!allow.is_empty()).then(|| allow + "OPTIONS")
}

/// The flow's answer as HTTP. A status below 200 is no answer (RFC 9110 §15.2).
fn response(answer: Reply) -> Result<Response<Body>, Error> {
    let status = StatusCode::from_u16(answer.status)
        .ok()
        .filter(|status| !status.is_informational())
        .ok_or(Error::EndpointStatus(answer.status))?;
    let bodyless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let body = if bodyless {
        Body::Theirs(bytes::Bytes::new(), None)
    } else {
        Body::Theirs(answer.body, None)
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = passed_on(answer.headers);
    Ok(response)
}

fn passed_on(mut headers: HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in NOT_PASSED_ON.into_iter().chain(named) {
        headers.remove(name);
    }
    beyond_path::withhold(&mut headers);
    headers
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hyper::body::Body as _;
    use hyper::header::HeaderValue;

    fn answer(status: u16, fields: &[(&'static str, &'static str)]) -> Reply {
        let field = |&(name, value)| {
            let name: HeaderName = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        };
        Reply {
            status,
            headers: fields.iter().map(field).collect(),
            body: Bytes::from_static(b"hello"),
        }
    }

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let fields = [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("content-length", "999"),
            ("upgrade", "h2c"),
            ("x-kept", "1"),
        ];
        let response = response(answer(201, &fields)).unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(response.headers().len(), 1);
        assert!(response.headers().contains_key("x-kept"));
    }

    #[test]
    fn responses_with_a_bodiless_status_have_no_body() {
        for status in [204, 304] {
            let response = response(answer(status, &[])).unwrap();
            assert_eq!(response.body().size_hint().exact(), Some(0));
        }
    }

    #[test]
    fn an_invalid_response_status_is_an_error() {
        for status in [0, 99, 100, 101, 1000] {
            let result = response(answer(status, &[]));
            assert!(
                matches!(result, Err(Error::EndpointStatus(s)) if s == status),
                "{status}"
            );
        }
        assert!(response(answer(999, &[])).is_ok());
    }
}
