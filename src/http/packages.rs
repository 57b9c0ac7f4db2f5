//! Requests for what npm packages serve: forwarded to the node host, which decides where a package
//! asks for a permission of its own.

use super::error::Error;
use super::forwarding::returned_response;
use super::pass::{exchange, streamed};
use super::path::Path;
use super::request_context::RequestContext;
use super::response_body::Body;
use super::{redact, tunnel};
use crate::audit::Event;
use crate::gateway::{PackageServers, Runtime};
use crate::upstream::{self, Authorization, Upstream};
use crate::websocket;
use hyper::header::HeaderName;
use hyper::{Response, StatusCode};
use serde_json::json;

/// On a response that no package has made (`node_host/host/http.js`).
const UNHANDLED: HeaderName = HeaderName::from_static("x-flowgate-unhandled");
/// On a refusal: the permission that a package asks for and the caller lacks.
const NEEDS: HeaderName = HeaderName::from_static("x-flowgate-needs");
/// Bytes of the permissions in it, at most.
const MAX_NEEDS: usize = 256;

/// Forwards a request for an endpoint of a package, or opens a WebSocket to one.
pub(super) async fn endpoint(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
) -> Result<Response<Body>, Error> {
    let servers = package_servers(ctx)?;
    ctx.redacted = redact::head(ctx, ctx.authorization);
    if websocket::is_wanted(ctx.head) {
        let opened = tunnel::open(ctx, path, &servers.endpoints).await;
        return opened.map_err(|error| match error {
            // The runtime closes the connection of an upgrade that no package has taken within 5 s.
            Error::Upstream(upstream::Error::Closed(_)) if package_servers(ctx).is_ok() => {
                Error::NotFound
            }
            other => of_node_host(other),
        });
    }
    let response = forwarded(ctx, path, &servers.endpoints).await?;
    Ok(returned(ctx, &servers.endpoints, response))
}

/// Forwards a request for a route that a package has added to the admin API.
pub(super) async fn admin(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
) -> Result<Response<Body>, Error> {
    let servers = package_servers(ctx)?;
    ctx.redacted = redact::head(ctx, Authorization::None);
    let response = forwarded(ctx, path, &servers.admin).await?;
    if let Some(needs) = refusal(ctx, &response) {
        ctx.gateway.metrics.permission_check(false);
        let facts = json!({ "needs": needs, "asked_by": "package" });
        ctx.audit(Event::Denied, ctx.actor(), facts);
        return Err(Error::Scope);
    }
    Ok(returned(ctx, &servers.admin, response))
}

/// The permission for which a package refuses its caller, of those that the caller lacks: a package
/// may set the header itself.
fn refusal(
    ctx: &RequestContext<'_>,
    response: &Response<upstream::ResponseBody>,
) -> Option<String> {
    if response.status() != StatusCode::UNAUTHORIZED {
        return None;
    }
    let needs = response.headers().get(NEEDS)?.to_str().ok()?;
    let is_name = |name: &str| {
        let in_name = |c: u8| c.is_ascii_alphanumeric() || b".-_*".contains(&c);
        !name.is_empty() && name.bytes().all(in_name)
    };
    if needs.len() > MAX_NEEDS || !needs.split(',').all(is_name) {
        return None;
    }
    let caller = ctx.caller.as_ref();
    let lacks = |need| caller.is_none_or(|caller| !caller.permissions.cover(need));
    needs.split(',').any(lacks).then(|| needs.to_owned())
}

/// A response of a package for its client, without the headers of the host's own protocol.
fn returned(
    ctx: &RequestContext<'_>,
    from: &Upstream,
    mut response: Response<upstream::ResponseBody>,
) -> Response<Body> {
    for header in [UNHANDLED, NEEDS] {
        response.headers_mut().remove(header);
    }
    returned_response(ctx, from, response).map(Body::Upstream)
}

/// The servers of the node host, which runs.
fn package_servers<'g>(ctx: &RequestContext<'g>) -> Result<&'g PackageServers, Error> {
    let servers = ctx.gateway.packages.as_ref().ok_or(Error::NotFound)?;
    match &ctx.backend.runtime {
        Runtime::Own(engine) if engine.serves_packages() => Ok(servers),
        Runtime::Own(_) | Runtime::Upstream(_) => Err(engine::Error::NodeHostDown.into()),
    }
}

async fn forwarded(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    to: &Upstream,
) -> Result<Response<upstream::ResponseBody>, Error> {
    let body = streamed(ctx);
    let response = exchange(ctx, path, body, to).await.map_err(of_node_host)?;
    let is_unhandled = response.headers().contains_key(UNHANDLED);
    if is_unhandled && response.status() == StatusCode::NOT_FOUND {
        return Err(Error::NotFound);
    }
    Ok(response)
}

/// A connection that cannot be made, or ends, says that the process has ended.
fn of_node_host(error: Error) -> Error {
    use upstream::Error as E;
    match error {
        Error::Upstream(
            E::Unreachable(_) | E::NotListening(_) | E::ConnectTimeout | E::Closed(_),
        ) => engine::Error::NodeHostDown.into(),
        Error::Upstream(E::Timeout) => Error::EndpointTimeout,
        other => other,
    }
}
