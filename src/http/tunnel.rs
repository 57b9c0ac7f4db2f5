//! Tunnels: a WebSocket of a flow, through to the upstream. Opened for authorized callers, closed
//! when the authorization lapses.
//!
//! The frames pass in [`crate::upstream`], unread.

use super::error::Error;
use super::forwarding::{forwarded_request, returned_response};
use super::path::Path;
use super::request_context::RequestContext;
use super::response_body::Body;
use super::trace;
use super::upgrade::Opening;
use super::ws_session::OpenSocket;
use crate::upstream::{Opened, Upstream};
use hyper::header::CONTENT_LENGTH;
use hyper::{Response, StatusCode};
use std::pin::pin;
use std::time::Instant;

/// Opens a tunnel for a client that wants a WebSocket; any other response of the upstream is passed
/// back as it is.
pub(super) async fn open(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    upstream: &Upstream,
) -> Result<Response<Body>, Error> {
    let opening = Opening::check(ctx)?;
    let target = path.target(&ctx.outgoing().uri)?;
    let began = trace::begin_call(ctx);
    let mut watch = ctx.watch();
    let opened = {
        let front = forwarded_request(ctx, &target, Some(upstream));
        let opened = pin!(upstream.tunnel(&front, opening.accept_key()));
        watch.during(opened).await
    };
    let opened = opened.map_err(|lapsed| ctx.lapsed(lapsed))?;
    let status = opened.as_ref().map(|opened| match opened {
        Opened::Tunnel(..) => StatusCode::SWITCHING_PROTOCOLS,
        Opened::Refused(response) => response.status(),
    });
    trace::end_call(ctx, upstream, began, status);
    let (headers, tunnel) = match opened? {
        Opened::Tunnel(headers, tunnel) => (headers, tunnel),
        Opened::Refused(response) => {
            return Ok(returned_response(ctx, upstream, response).map(Body::Upstream));
        }
    };
    let mut socket = OpenSocket::of(ctx, path);
    let stall_timeout = ctx.gateway.config.timeouts.body_idle;
    let mut response = opening.accept(async move |client| {
        let opened = Instant::now();
        let ended = tunnel
            .join(client, stall_timeout, pin!(socket.over()))
            .await;
        socket.log(ended, opened.elapsed());
    });
    let mut answer = Response::new(());
    *answer.headers_mut() = headers;
    let mut headers = returned_response(ctx, upstream, answer)
        .into_parts()
        .0
        .headers;
    // It has no meaning in a response that ends with its head.
    headers.remove(CONTENT_LENGTH);
    headers.extend(std::mem::take(response.headers_mut()));
    *response.headers_mut() = headers;
    Ok(response)
}
