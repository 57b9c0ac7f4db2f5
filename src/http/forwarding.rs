//! A request as its upstream is to see it, and the head of the upstream's response as the client is
//! to see it.

use super::beyond_path;
use super::forwarded;
use super::request_context::RequestContext;
use crate::auth::Caller;
use crate::gateway::IdentityClaims;
use crate::metrics::RouteClass;
use crate::traces::Trace;
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
            .zip(upstream)
            .filter(|(caller, to)| to.receives_identity(caller.is_known()))
            .map(|(caller, to)| identity(ctx, caller, Some(to.name()))),
        trace: ctx.trace.as_deref().and_then(Trace::headers),
    }
}

/// The caller's identity, signed for an upstream or an application.
pub(super) fn identity(
    ctx: &RequestContext<'_>,
    caller: &Caller,
    audience: Option<&str>,
) -> Identity {
    let permissions = caller.permissions.shown();
    let sign = |audience| {
        ctx.gateway.identity.load().token(&IdentityClaims {
            user: &caller.user,
            permissions: permissions.names().collect(),
            audience,
            request: &ctx.id,
            now: ctx.now,
        })
    };
    let token = audience.and_then(sign);
    Identity::new(&caller.user, permissions.names()).with_token(token)
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
    beyond_path::withhold(response.headers_mut());
    upstream.rewrite(response.headers_mut(), &ctx.backend.mount.prefix);
    if admin {
        let nosniff = HeaderValue::from_static("nosniff");
        let name = HeaderName::from_static("x-content-type-options");
        response.headers_mut().entry(name).or_insert(nosniff);
    }
    response
}
