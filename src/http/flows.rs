//! The flow set over HTTP: `/flows`, `/flow`, `/flows/state` (docs/reference/admin-api.md §4.4;
//! docs/reference/node-red-admin-api.md §2, §3).
//!
//! Knows the shapes of requests and answers. Parsing and deploying run on the control runtime: a
//! worker never stalls on a large flow set, and a client that hangs up stops nothing.

use super::admin_error::AdminError;
use super::dialect::{self, Version};
use super::error::Error;
use super::message::message;
use super::path::Path;
use super::refused_change;
use super::request_context::RequestContext;
use super::requester::Requester;
use super::response;
use super::response_body::Body;
use super::trace;
use super::visible_flows::{flow, flow_set, state};
use crate::allocator::AtOnce;
use crate::audit::Event;
use crate::deployment::{self, Approval, Deployed, Request, name};
use crate::metrics::{self, Phase, Target};
use flows::DeploymentType;
use hyper::{Response, StatusCode};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

type Answer = Result<Response<Body>, Error>;

/// `GET /flows`
pub(super) fn read(ctx: &RequestContext<'_>) -> Answer {
    let version = dialect::version(&ctx.head.headers)?;
    let active = ctx.backend.deployments.active();
    let whole = || flow_set(version, &active.flows, &active.rev);
    Ok(match version {
        Version::V1 => whole(),
        Version::V2 => {
            let tag = deployment::entity_tag(&active.rev);
            response::tagged(&ctx.head.headers, &tag, whole)
        }
    })
}

/// `POST /flows`
pub(super) async fn deploy(ctx: &mut RequestContext<'_>) -> Answer {
    let version = dialect::version(&ctx.head.headers)?;
    let kind = dialect::deployment_type(&ctx.head.headers)?;
    let message = message(&ctx.head.headers)?;
    let deployed = if kind == DeploymentType::Reload {
        // Whatever the body is, it counts for nothing; it is read so that the client can finish
        // sending it.
        let limit = ctx.gateway.config.limits.body;
        ctx.read(limit).await?;
        run(ctx, version, kind, message, None, || Ok(Request::Reload)).await?
    } else {
        let body = ctx.read_json().await?;
        let backend = Arc::clone(ctx.backend);
        let parse = move || {
            let before = backend.deployments.active();
            let submission = version.submission(&before.flows, &body)?;
            Ok(Request::Flows { submission, kind })
        };
        run(ctx, version, kind, message, None, parse).await?
    };
    Ok(match version {
        Version::V1 => response::empty(StatusCode::NO_CONTENT),
        Version::V2 => response::json(StatusCode::OK, json!({ "rev": deployed.rev }).to_string()),
    })
}

/// `GET /flow/:id`
pub(super) fn read_one(ctx: &RequestContext<'_>, path: &Path<'_>) -> Answer {
    let active = ctx.backend.deployments.active();
    flow(&active.flows, &path.parameter(1))
}

/// `POST /flow`
pub(super) async fn add(ctx: &mut RequestContext<'_>) -> Answer {
    let body = ctx.read_json().await?;
    one(ctx, Request::AddFlow(body)).await
}

/// `PUT /flow/:id`
pub(super) async fn replace(ctx: &mut RequestContext<'_>, path: &Path<'_>) -> Answer {
    let body = ctx.read_json().await?;
    one(ctx, Request::ReplaceFlow(path.parameter(1), body)).await
}

/// `DELETE /flow/:id`
pub(super) async fn remove(ctx: &mut RequestContext<'_>, path: &Path<'_>) -> Answer {
    one(ctx, Request::RemoveFlow(path.parameter(1))).await
}

/// A deployment of a single flow: of type `flows`, without a revision
/// (docs/reference/node-red-engine.md §1.2).
async fn one(ctx: &RequestContext<'_>, request: Request) -> Answer {
    let (kind, message) = (DeploymentType::Flows, message(&ctx.head.headers)?);
    let deployed = run(ctx, Version::V1, kind, message, None, || Ok(request)).await?;
    Ok(match deployed.flow {
        Some(id) => response::json(StatusCode::OK, json!({ "id": id }).to_string()),
        None => response::empty(StatusCode::NO_CONTENT),
    })
}

/// Parses and deploys, or deploys the proposal that is approved, as one task, and counts what came
/// of it.
pub(super) async fn run(
    ctx: &RequestContext<'_>,
    version: Version,
    kind: DeploymentType,
    message: String,
    approval: Option<Approval>,
    parse: impl FnOnce() -> Result<Request, deployment::Error> + Send + 'static,
) -> Result<Deployed, Error> {
    let (backend, metrics) = (Arc::clone(ctx.backend), Arc::clone(&ctx.gateway.metrics));
    let audit = ctx.gateway.audit.clone();
    let mut requester = Requester::of(ctx, message, approval);
    let turn = ctx.turn().await?;
    let task = async move {
        // It makes all nodes anew.
        let _at_once = (kind == DeploymentType::Full).then(AtOnce::begin);
        let started = Instant::now();
        let parsed = parse();
        drop(turn);
        metrics.phase(name(kind), Phase::Parse, started.elapsed());
        trace::parsed(requester.trace(), started);
        let result = match parsed {
            Ok(request) => {
                let deployments = &backend.deployments;
                let by = requester.authorized();
                deployments.deploy(request, by, Instant::now).await
            }
            Err(error) => Err(error),
        };
        let outcome = result
            .as_ref()
            .map_or_else(deployment::failed, |_| metrics::Deployed::Success);
        metrics.deployment(name(kind), version.number(), outcome, Target::Engine);
        if let Err(error) = &result
            && !matches!(error, deployment::Error::Proposed(_))
        {
            let facts = deployment::refusal(name(kind), error);
            audit.record(Event::DeployFail, &requester.actor, requester.now, facts);
        }
        result
    };
    let deployed = ctx.work(task).await?;
    deployed.map_err(|error| refused_change::refusal(ctx, error))
}

/// `POST /flows/state`
pub(super) async fn set_state(ctx: &mut RequestContext<'_>) -> Answer {
    let (_, state_wanted) = ctx.read_state().await?;
    let running = match state_wanted.as_deref() {
        Some("start") => true,
        Some("stop") => false,
        Some(_) | None => return Err(AdminError::RunState.into()),
    };
    let backend = Arc::clone(ctx.backend);
    let mut requester = Requester::silent(ctx);
    let task = async move {
        let by = requester.authorized();
        backend.deployments.set_running(running, by).await
    };
    ctx.work(task).await??;
    Ok(state(ctx, |_| true))
}
