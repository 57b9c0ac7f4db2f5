//! A request as its upstream is to see it, and the head of the upstream's response as the client is to see it.

use super::forwarded;
use super::page_session;
use super::request_context::RequestContext;
use crate::metrics::RouteClass;
use crate::upstream::{ForwardedRequest, Identity, Passing, Upstream, returned};
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Response};

/// The request, for this target at the upstream.
pub(super) fn forwarded_request<'c>(
    ctx: &'c RequestContext<'_>,
    target: &'c PathAndQuery,
    upstream: Option<&Upstream>,
) -> ForwardedRequest<'c> {
    ForwardedRequest {
        head: ctx.outgoing(),
        target,
        prefix: &ctx.backend.mount.prefix,
        address: ctx.peer.address.ip(),
        secure: ctx.peer.secure,
        asked: forwarded::host(ctx),
        passing: Passing {
            from_proxies: &ctx.gateway.config.server.trusted_proxy_headers,
            trusted: ctx.peer.trusted,
        },
        id: &ctx.id,
        authorization: ctx.authorization,
        identity: ctx
            .caller
            .as_ref()
            .filter(|caller| upstream.is_some_and(|to| to.receives_identity(caller.is_known())))
            .map(|caller| Identity::new(&caller.user, caller.permissions.shown().names())),
    }
}

/// The response with what the client may see of its head.
pub(super) fn returned_response<B>(
    ctx: &RequestContext<'_>,
    upstream: &Upstream,
    mut response: Response<B>,
) -> Response<B> {
    let admin = ctx.class != RouteClass::Endpoint;
    let bodiless = ctx.head.method == Method::HEAD;
    returned(response.headers_mut(), admin, bodiless);
    page_session::withhold(response.headers_mut());
    upstream.rewrite(response.headers_mut(), &ctx.backend.mount.prefix);
    if admin {
        let nosniff = HeaderValue::from_static("nosniff");
        let name = HeaderName::from_static("x-content-type-options");
        response.headers_mut().entry(name).or_insert(nosniff);
    }
    response
}
