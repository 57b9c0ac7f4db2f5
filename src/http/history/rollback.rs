//! `POST /gateway/deployments/:rev/rollback`: back to an earlier flow set, or one flow of it.

use super::HistoryError;
use crate::deployment::{self, Request};
use crate::http::dialect::{self, Version};
use crate::http::error::Error;
use crate::http::flows::run;
use crate::http::query::parameter;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use crate::store::Past;
use flows::{
    Credentials, DeploymentType, FlowError, FlowSet, Submission, flow_of, json, take_back,
};
use hyper::{Response, StatusCode};
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// `POST /gateway/deployments/:rev/rollback?flow=…` with `{"rev"}`, the active revision: an ordinary deployment of the
/// earlier flow set, or of the active one with one flow as it was.
pub(super) async fn deploy(
    ctx: &mut RequestContext<'_>,
    rev: &str,
) -> Result<Response<Body>, Error> {
    let kind = dialect::deployment_type(&ctx.head.headers)?;
    if kind == DeploymentType::Reload {
        let sentence = "a rollback is no reload: the type must be full, nodes or flows";
        return Err(Error::Body(sentence.to_owned()));
    }
    let active_rev = active_rev(&ctx.read_json().await?)?;
    let flow = parameter(ctx.head, "flow").map(Cow::into_owned);
    let past = ctx.gateway.store.past(super::runtime(ctx), rev).await?;
    let past = past.ok_or(HistoryError::NoSuchRevision)?;
    let credentials = if past.credentials.is_some() {
        "restored"
    } else {
        "kept"
    };
    let backend = Arc::clone(ctx.backend);
    let request = move || {
        let active = backend.deployments.active();
        // If another flow set is active by then, the deployment is refused for its revision.
        let submission = submission(&active, &past, flow.as_deref())?;
        Ok(Request::Flows {
            submission: Submission {
                rev: Some(active_rev),
                ..submission
            },
            kind,
        })
    };
    let deployed = run(ctx, Version::V2, kind, request).await?;
    let answer = serde_json::json!({ "rev": deployed.rev, "credentials": credentials });
    Ok(response::json(StatusCode::OK, answer.to_string()))
}

/// `rev` of the body.
fn active_rev(body: &[u8]) -> Result<String, Error> {
    let text = json::text(body).map_err(|invalid| Error::Body(invalid.to_string()))?;
    let body: Json = serde_json::from_str(text).map_err(|error| Error::Body(error.to_string()))?;
    match body.get("rev") {
        Some(Json::String(rev)) => Ok(rev.clone()),
        _ => Err(Error::Body(
            "the body must be {\"rev\": …} with the active revision, as GET /flows has it".into(),
        )),
    }
}

/// The deployment that leads back. Credentials that differ are replaced by those of the history, if it has them.
fn submission(
    active: &deployment::Active,
    past: &Past,
    flow: Option<&str>,
) -> Result<Submission, deployment::Error> {
    let earlier = past.set().map_err(deployment::Error::Store)?;
    let flows = match flow {
        None => earlier,
        Some(flow) => take_back(&active.flows, &earlier, flow).map_err(|error| match error {
            FlowError::NoSuchFlow => deployment::Error::NoSuchFlow,
            FlowError::Malformed(malformed) => malformed.into(),
        })?,
    };
    let replacing = past
        .credentials
        .as_ref()
        .map_or_else(Credentials::default, |was| {
            replaced(&active.credentials, was, (&flows, flow))
        });
    Ok(Submission {
        flows,
        credentials: Credentials::default(),
        replacing,
        rev: None,
    })
}

/// The earlier credentials of the elements whose credentials differ now; of an element that had none, none.
fn replaced(
    now: &Credentials,
    was: &Credentials,
    (flows, flow): (&FlowSet, Option<&str>),
) -> Credentials {
    let taken = |id: &str| {
        let node = flows.get(id);
        node.is_some_and(|node| flow.is_none_or(|flow| flow_of(node) == flow))
    };
    let ids = now.nodes.keys().chain(was.nodes.keys());
    let differing = ids.filter(|id| now.nodes.get(*id) != was.nodes.get(*id) && taken(id));
    let fields = |id| was.nodes.get(id).cloned().unwrap_or_default();
    let nodes: BTreeMap<_, _> = differing.map(|id| (id.clone(), fields(id))).collect();
    Credentials { nodes }
}
