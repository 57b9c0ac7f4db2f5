//! Answers callers who read some flows only, with what they see of the engine's flows or of an
//! upstream's.

use super::dialect::{self, Version};
use super::error::Error;
use super::path::Path;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use super::route::{Access, Target, access};
use crate::auth::Permissions;
use crate::deployment::Active;
use crate::policy::Sight;
use bytes::Bytes;
use flows::{FlowError, FlowSet, flow_json};
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// Answers a caller who reads some flows only what is made of what the caller sees, and refuses
/// what the caller does not see. `None`: the request goes the same way as those of all callers.
pub(super) async fn act(
    ctx: &RequestContext<'_>,
    path: &Path<'_>,
    target: Target,
) -> Result<Option<Response<Body>>, Error> {
    match access(target, path) {
        Access::Same => Ok(None),
        Access::Nothing => Err(Error::SomeFlows),
        Access::Element(at) => {
            let sees = sight(ctx).await?.1.sees(&path.parameter(at));
            if sees { Ok(None) } else { Err(Error::NotFound) }
        }
        Access::Flows => {
            let version = dialect::version(&ctx.head.headers)?;
            let (active, sight) = sight(ctx).await?;
            Ok(Some(flow_set(version, &sight.shown(), &active.rev)))
        }
        Access::Flow(at) => {
            dialect::version(&ctx.head.headers)?;
            let flows = sight(ctx).await?.1.shown();
            flow(&flows, &path.parameter(at)).map(Some)
        }
        // An upstream's is reduced where it is passed on.
        Access::State if ctx.backend.runtime.upstream().is_some() => Ok(None),
        Access::State => {
            let sight = sight(ctx).await?.1;
            Ok(Some(state(ctx, |id| sight.sees(id))))
        }
    }
}

/// `GET /flows`
pub(super) fn flow_set(version: Version, flows: &FlowSet, rev: &str) -> Response<Body> {
    let flows = flows.to_json();
    let body = match version {
        Version::V1 => flows,
        Version::V2 => format!("{{\"flows\":{flows},\"rev\":{}}}", json!(rev)),
    };
    response::json(StatusCode::OK, body)
}

/// `GET /flow/:id`
pub(super) fn flow(flows: &FlowSet, id: &str) -> Result<Response<Body>, Error> {
    let json = flow_json(flows, id).map_err(|error| match error {
        FlowError::NoSuchFlow => Error::NotFound,
        FlowError::Malformed(malformed) => Error::Deployment(malformed.into()),
    })?;
    Ok(response::json(StatusCode::OK, json))
}

/// `GET /flows/state`, with the stopped flows that the caller sees, and the revision that was set
/// aside.
pub(super) fn state(ctx: &RequestContext<'_>, sees: impl Fn(&str) -> bool) -> Response<Body> {
    let deployments = &ctx.backend.deployments;
    let mut state = json!({ "state": deployments.state() });
    let mut stopped = deployments.stopped_flows();
    stopped.retain(|flow| flow["id"].as_str().is_some_and(&sees));
    if !stopped.is_empty() {
        state["stopped"] = stopped.into();
    }
    if let Some(rev) = deployments.set_aside() {
        state["set_aside"] = rev.into();
    }
    response::json(StatusCode::OK, state.to_string())
}

/// The body of a request about several nodes, `{"nodes": [id, …]}`, with those that the caller
/// sees.
pub(super) async fn nodes_seen(ctx: &RequestContext<'_>, body: Bytes) -> Result<Bytes, Error> {
    if !ctx.reads_some_flows() {
        return Ok(body);
    }
    let mut body: Json = serde_json::from_slice(&body).unwrap_or_default();
    let Some(nodes) = body.get_mut("nodes").and_then(Json::as_array_mut) else {
        return Err(Error::Body("nodes must be an array of ids".into()));
    };
    let sight = sight(ctx).await?.1;
    nodes.retain(|id| id.as_str().is_some_and(|id| sight.sees(id)));
    Ok(json!({ "nodes": nodes }).to_string().into())
}

/// The active flow set, and what the caller sees of it: found where deployments run, so that a
/// large flow set does not stall a worker.
pub(super) async fn sight(ctx: &RequestContext<'_>) -> Result<(Arc<Active>, Arc<Sight>), Error> {
    let backend = Arc::clone(ctx.backend);
    let mut watch = ctx.detached_watch();
    let task = async move {
        let active = backend.deployments.current(&mut watch).await?;
        let nothing = || Permissions::of(Arc::from([]));
        let permissions = watch
            .caller()
            .map_or_else(nothing, |c| c.permissions.clone());
        let sight = active.sight(&permissions);
        Ok((active, sight))
    };
    ctx.work(task).await?.map_err(Error::Deployment)
}
