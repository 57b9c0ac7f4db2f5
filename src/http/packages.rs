//! Requests for what npm packages serve: forwarded to the node host, which decides where a package asks for a permission
//! of its own.

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
use hyper::Response;
use hyper::header::HeaderName;
use serde_json::json;

/// On a response that no package has made (`node_host/host/http.js`).
const UNHANDLED: HeaderName = HeaderName::from_static("x-flowgate-unhandled");
/// On a refusal: the permission that a package asks for and the caller lacks.
const NEEDS: HeaderName = HeaderName::from_static("x-flowgate-needs");

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
    forwarded(ctx, path, &servers.endpoints).await
}

/// Forwards a request for a route that a package has added to the admin API.
pub(super) async fn admin(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
) -> Result<Response<Body>, Error> {
    let servers = package_servers(ctx)?;
    ctx.redacted = redact::head(ctx, Authorization::None);
    forwarded(ctx, path, &servers.admin).await
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
) -> Result<Response<Body>, Error> {
    let body = streamed(ctx);
    let response = exchange(ctx, path, body, to).await.map_err(of_node_host)?;
    if response.headers().contains_key(UNHANDLED) {
        return Err(Error::NotFound);
    }
    if let Some(needs) = response.headers().get(NEEDS) {
        let needs = needs.to_str().unwrap_or_default();
        ctx.gateway.metrics.permission_check(false);
        ctx.audit(Event::Denied, ctx.actor(), json!({ "needs": needs }));
        return Err(Error::Scope);
    }
    Ok(returned_response(ctx, to, response).map(Body::Upstream))
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
