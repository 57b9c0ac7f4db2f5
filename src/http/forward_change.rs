//! Sends a change of the flows to the upstream, under the deployment lock, and answers with its
//! response.

use super::dialect::Version;
use super::error::Error;
use super::forwarding::{forwarded_request, returned_response};
use super::refused_change;
use super::request_context::RequestContext;
use super::requester::Requester;
use super::response;
use super::response_body::Body;
use crate::audit::Event;
use crate::deployment::{self, Approval, Forward, Forwarded, Purpose, Request, name};
use crate::metrics;
use crate::upstream::{Change, Changed, Outcome, Upstream};
use bytes::Bytes;
use flows::{DeploymentType, Submission};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Instant;

type Result<T = Response<Body>> = std::result::Result<T, Error>;

/// Checks and sends a change, or the proposal that is approved, as one task of the control runtime,
/// and counts what came of it. Between the last byte of the request and this task nothing may wait:
/// a client that hangs up ends whatever is not in it.
pub(super) async fn run(
    ctx: &RequestContext<'_>,
    version: Version,
    kind: DeploymentType,
    message: String,
    approval: Option<Approval>,
    prepare: impl FnOnce() -> std::result::Result<Forward, deployment::Error> + Send + 'static,
) -> Result<Forwarded> {
    let (backend, metrics) = (Arc::clone(ctx.backend), Arc::clone(&ctx.gateway.metrics));
    let audit = ctx.gateway.audit.clone();
    let mut requester = Requester::of(ctx, message, approval);
    let upstream = backend
        .runtime
        .upstream()
        .map(Upstream::name)
        .unwrap_or_default()
        .to_owned();
    let turn = ctx.turn().await?;
    let task = async move {
        let prepared = prepare();
        drop(turn);
        let result = match prepared {
            Ok(forward) => {
                let deployments = &backend.deployments;
                let by = requester.authorized();
                deployments.forward(forward, by, Instant::now).await
            }
            Err(error) => Err(error),
        };
        let target = metrics::Target::Upstream;
        metrics.deployment(name(kind), version.number(), outcome(&result), target);
        if let Some(mut facts) = refusal(name(kind), &result) {
            facts["upstream"] = upstream.into();
            audit.record(Event::DeployFail, &requester.actor, requester.now, facts);
        }
        result
    };
    let changed = ctx.work(task).await?;
    changed.map_err(|error| refused_change::refusal(ctx, error))
}

/// The metrics' name for the end of a deployment.
fn outcome(result: &std::result::Result<Forwarded, deployment::Error>) -> metrics::Deployed {
    match result {
        Ok(forwarded) => match forwarded.changed.outcome {
            Outcome::Done(_) => metrics::Deployed::Success,
            Outcome::Stale => metrics::Deployed::Stale,
            Outcome::Refused => metrics::Deployed::Malformed,
        },
        Err(error) => deployment::failed(error),
    }
}

/// The audit fields of a change that did not happen, or whose outcome is unknown.
fn refusal(kind: &str, result: &std::result::Result<Forwarded, deployment::Error>) -> Option<Json> {
    let reason = match result {
        Ok(forwarded) => match forwarded.changed.outcome {
            Outcome::Done(_) => return None,
            Outcome::Stale => "stale",
            Outcome::Refused => "refused",
        },
        Err(deployment::Error::Proposed(_)) => return None,
        Err(error) => return Some(deployment::refusal(kind, error)),
    };
    Some(json!({ "type": kind, "reason": reason }))
}

/// Deploys a flow set that the client has not sent.
pub(super) async fn deploy_set(
    ctx: &RequestContext<'_>,
    upstream: &Upstream,
    submission: Submission,
    kind: DeploymentType,
    message: String,
    approval: Option<Approval>,
) -> Result<Changed> {
    let change = whole_flow_set(ctx, upstream, kind, submission.to_json().into());
    let prepare = move || {
        Ok(Forward {
            change,
            purpose: Purpose::Flows(Request::Flows { submission, kind }),
            merges: false,
        })
    };
    let forwarded = run(ctx, Version::V2, kind, message, approval, prepare).await?;
    Ok(forwarded.changed)
}

/// `POST /flows` at the upstream with a body of version v2, whatever path the client asked for.
pub(super) fn whole_flow_set(
    ctx: &RequestContext<'_>,
    upstream: &Upstream,
    kind: DeploymentType,
    body: Bytes,
) -> Change {
    let path = upstream.flows_path();
    let front = forwarded_request(ctx, &path, Some(upstream));
    upstream.deployment(&front, "v2", name(kind), body)
}

/// The answer to a change.
pub(super) fn answer(ctx: &RequestContext<'_>, upstream: &Upstream, changed: Changed) -> Result {
    let response = changed.response;
    no_refusal(upstream, response.status())?;
    if let Some(error_page) = error_page_as_json(response.status(), response.headers()) {
        return Ok(error_page);
    }
    Ok(returned_response(ctx, upstream, response).map(|body| Body::Theirs(body, None)))
}

/// Fails on a 401: the caller is authorized, so the upstream refuses the gateway.
pub(super) fn no_refusal(upstream: &Upstream, status: StatusCode) -> Result<()> {
    if status == StatusCode::UNAUTHORIZED {
        return Err(upstream.refused().into());
    }
    Ok(())
}

/// Instead of an error page, which may show paths and stacks, the same error as JSON.
pub(super) fn error_page_as_json(
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<Response<Body>> {
    let error = status.is_client_error() || status.is_server_error();
    let html = headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    (error && html).then(|| response::upstream_page(status))
}
