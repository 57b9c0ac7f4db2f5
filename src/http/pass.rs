//! Passes a request on to an upstream as it is, and the response back.

use super::dialect;
use super::error::Error;
use super::forward_change::{error_page_as_json, no_refusal};
use super::forwarding::{forwarded_request, returned_response};
use super::path::Path;
use super::request_context::RequestContext;
use super::response_body::Body;
use super::trace;
use crate::metrics::RouteClass;
use crate::upstream::{self, Authorization, Outgoing, Pace, Refusal, Upstream};
use hyper::{Method, Response};
use std::pin::pin;

type Result<T = Response<Body>> = std::result::Result<T, Error>;

/// A body, to be passed on as it comes.
pub(super) fn streamed(ctx: &mut RequestContext<'_>) -> Outgoing {
    let config = &ctx.gateway.config;
    let Some(incoming) = ctx.body.take() else {
        return Outgoing::empty();
    };
    let pace = Pace::new(&config.timeouts, &config.limits);
    let body = Outgoing::stream(incoming, config.limits.body, pace);
    if body.progress().is_none() {
        return body;
    }
    let mut watch = ctx.detached_watch();
    body.allowed_while(move || watch.glance().is_ok())
}

/// Passes a request on, and the answer back.
pub(super) async fn pass(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    body: Outgoing,
    upstream: &Upstream,
) -> Result {
    let response = exchange(ctx, path, body, upstream).await?;
    if ctx.class != RouteClass::Endpoint {
        no_refusal(upstream, response.status())?;
        if let Some(error_page) = error_page_as_json(response.status(), response.headers()) {
            return Ok(error_page);
        }
    }
    Ok(returned_response(ctx, upstream, response).map(Body::Upstream))
}

/// Sends a request to an upstream, and waits for the head of its response.
pub(super) async fn exchange(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    body: Outgoing,
    upstream: &Upstream,
) -> Result<Response<upstream::ResponseBody>> {
    if matches!(ctx.head.method, Method::TRACE | Method::CONNECT) {
        // An answer to TRACE would show the headers that we add (RFC 9110 §9.3.8).
        let allow = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS".to_owned();
        return Err(Error::Method { allow });
    }
    check_version(ctx)?;
    let target = path.target(&ctx.outgoing().uri)?;
    let progress = body.progress();
    let began = trace::begin_call(ctx);
    let mut watch = ctx.watch();
    let sent = {
        let front = forwarded_request(ctx, &target, Some(upstream));
        let head = || upstream.head(&front);
        let client = Some(ctx.peer.address.ip());
        let sent = pin!(async {
            match ctx.authorization {
                Authorization::Ours => upstream.send(head, body, client).await,
                Authorization::None | Authorization::Client => {
                    upstream.send_bare(head, body, client).await
                }
            }
        });
        watch.during(sent).await
    };
    ctx.received = progress.map_or(0, |progress| progress.bytes());
    let sent = sent.map_err(|lapsed| ctx.lapsed(lapsed))?;
    ctx.keep(watch);
    trace::end_call(ctx, upstream, began, sent.as_ref().map(Response::status));
    if let Err(upstream::Error::Request(Refusal::NotAllowed)) = &sent {
        ctx.check()?;
    }
    Ok(sent?)
}

/// The admin API's headers must be unambiguous before the upstream reads them.
pub(super) fn check_version(ctx: &RequestContext<'_>) -> Result<()> {
    if ctx.class != RouteClass::Endpoint {
        dialect::version(&ctx.head.headers)?;
    }
    Ok(())
}
