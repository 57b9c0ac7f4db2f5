//! The flow set over HTTP: `/flows`, `/flow`, `/flows/state` (docs/reference/admin-api.md §4.4;
//! docs/reference/node-red-admin-api.md §2, §3).
//!
//! Knows the shapes of requests and answers. Parsing and deploying run on the control runtime: a worker never stalls
//! on a large flow set, and a client that hangs up stops nothing.

use super::admin_error::AdminError;
use super::dialect::{self, Version};
use super::error::Error;
use super::path::Path;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use crate::allocator;
use crate::audit::Event;
use crate::deployment::{self, Deployed, Request, name};
use crate::metrics::{self, Phase, Target};
use flows::{DeploymentType, FlowError, Submission, flow_json};
use hyper::{Response, StatusCode};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

type Answer = Result<Response<Body>, Error>;

/// `GET /flows`
pub(super) fn read(call: &RequestContext<'_>) -> Answer {
    let version = dialect::version(&call.head.headers)?;
    let active = call.backend.deployments.active();
    Ok(match version {
        Version::V1 => response::json(StatusCode::OK, active.flows.to_json()),
        Version::V2 => {
            let (flows, rev) = (active.flows.to_json(), json!(active.rev));
            response::json(
                StatusCode::OK,
                format!("{{\"flows\":{flows},\"rev\":{rev}}}"),
            )
        }
    })
}

/// `POST /flows`
pub(super) async fn deploy(call: &mut RequestContext<'_>) -> Answer {
    let version = dialect::version(&call.head.headers)?;
    let kind = dialect::deployment_type(&call.head.headers)?;
    let deployed = if kind == DeploymentType::Reload {
        // Whatever the body is, it counts for nothing; it is read so that the client can finish sending it.
        let limit = call.gateway.config.limits.body;
        call.read(limit).await?;
        run(call, version, kind, || Ok(Request::Reload)).await?
    } else {
        let body = call.read_json().await?;
        let backend = Arc::clone(call.backend);
        let parse = move || {
            let before = backend.deployments.active();
            let submission = match version {
                Version::V1 => Submission::v1(&before.flows, &body),
                Version::V2 => Submission::v2(&before.flows, &body),
            };
            Ok(Request::Flows {
                submission: submission?,
                kind,
            })
        };
        run(call, version, kind, parse).await?
    };
    Ok(match version {
        Version::V1 => response::empty(StatusCode::NO_CONTENT),
        Version::V2 => response::json(StatusCode::OK, json!({ "rev": deployed.rev }).to_string()),
    })
}

/// `GET /flow/:id`
pub(super) fn read_one(call: &RequestContext<'_>, path: &Path<'_>) -> Answer {
    let active = call.backend.deployments.active();
    let json = flow_json(&active.flows, &path.parameter(1)).map_err(|error| match error {
        FlowError::NoSuchFlow => Error::NotFound,
        FlowError::Malformed(malformed) => Error::Deployment(malformed.into()),
    })?;
    Ok(response::json(StatusCode::OK, json))
}

/// `POST /flow`
pub(super) async fn add(call: &mut RequestContext<'_>) -> Answer {
    let body = call.read_json().await?;
    one(call, Request::AddFlow(body)).await
}

/// `PUT /flow/:id`
pub(super) async fn replace(call: &mut RequestContext<'_>, path: &Path<'_>) -> Answer {
    let body = call.read_json().await?;
    one(call, Request::ReplaceFlow(path.parameter(1), body)).await
}

/// `DELETE /flow/:id`
pub(super) async fn remove(call: &mut RequestContext<'_>, path: &Path<'_>) -> Answer {
    one(call, Request::RemoveFlow(path.parameter(1))).await
}

/// A deployment of a single flow: of type `flows`, without a revision (docs/reference/node-red-engine.md §1.2).
async fn one(call: &RequestContext<'_>, request: Request) -> Answer {
    let deployed = run(call, Version::V1, DeploymentType::Flows, || Ok(request)).await?;
    Ok(match deployed.flow {
        Some(id) => response::json(StatusCode::OK, json!({ "id": id }).to_string()),
        None => response::empty(StatusCode::NO_CONTENT),
    })
}

/// Parses and deploys as one task of the control runtime, and counts what came of it.
async fn run(
    call: &RequestContext<'_>,
    version: Version,
    kind: DeploymentType,
    parse: impl FnOnce() -> Result<Request, deployment::Error> + Send + 'static,
) -> Result<Deployed, Error> {
    let (backend, metrics) = (Arc::clone(call.backend), Arc::clone(&call.gateway.metrics));
    let (actor, now, audit) = (call.actor(), call.now, call.gateway.audit.clone());
    let mut watch = call.detached_watch();
    let task = async move {
        let started = Instant::now();
        let parsed = parse();
        metrics.phase(name(kind), Phase::Parse, started.elapsed());
        let result = match parsed {
            Ok(request) => {
                backend
                    .deployments
                    .deploy(request, (&actor, &mut watch), now, Instant::now)
                    .await
            }
            Err(error) => Err(error),
        };
        let api = match version {
            Version::V1 => 1,
            Version::V2 => 2,
        };
        metrics.deployment(
            name(kind),
            api,
            result
                .as_ref()
                .map_or_else(deployment::failed, |_| metrics::Deployed::Success),
            Target::Engine,
        );
        if let Err(error) = &result {
            let facts = deployment::refusal(name(kind), error);
            audit.record(Event::DeployFail, &actor, now, facts);
        }
        // A refused flow set needed as much as one that is deployed.
        tokio::spawn(async { allocator::purge() });
        result
    };
    call.control(task).await?.map_err(Error::Deployment)
}

/// `GET /flows/state`
pub(super) fn state(call: &RequestContext<'_>) -> Response<Body> {
    let state = call.backend.deployments.state();
    response::json(StatusCode::OK, format!("{{\"state\":\"{state}\"}}"))
}

/// `POST /flows/state`
pub(super) async fn set_state(call: &mut RequestContext<'_>) -> Answer {
    let (_, state_wanted) = call.read_state().await?;
    let running = match state_wanted.as_deref() {
        Some("start") => true,
        Some("stop") => false,
        Some(_) | None => return Err(AdminError::RunState.into()),
    };
    let backend = Arc::clone(call.backend);
    let (actor, now) = (call.actor(), call.now);
    let mut watch = call.detached_watch();
    let task = async move {
        let by = (&actor, &mut watch);
        backend.deployments.set_running(running, by, now).await
    };
    call.control(task).await??;
    Ok(state(call))
}
