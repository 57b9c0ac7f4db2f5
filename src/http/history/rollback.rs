//! `POST /gateway/deployments/:rev/rollback`: back to an earlier flow set, or one flow of it.

use super::deploy::{Deployed, deploy, kind};
use super::rev_of;
use crate::deployment;
use crate::http::error::Error;
use crate::http::history_error::HistoryError;
use crate::http::message::message;
use crate::http::query::parameter;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use crate::store::Past;
use flows::{Credentials, FlowError, FlowSet, Submission, flow_of, take_back};
use hyper::{Response, StatusCode};
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// `POST /gateway/deployments/:rev/rollback?flow=…` with `{"rev"}`, the active revision: an
/// ordinary deployment of the earlier flow set, or of the active one with one flow as it was.
pub(super) async fn roll_back(
    ctx: &mut RequestContext<'_>,
    rev: &str,
) -> Result<Response<Body>, Error> {
    kind(ctx)?;
    let said = message(&ctx.head.headers)?;
    let active_rev = rev_of(
        &ctx.read_json().await?,
        "the body must be {\"rev\": …} with the active revision, as GET /flows has it",
    )?;
    let flow = parameter(ctx.head, "flow").map(Cow::into_owned);
    let runtime = super::runtime(ctx).to_owned();
    let past = ctx.gateway.store.past(&runtime, rev).await?;
    let past = past.ok_or(HistoryError::NoSuchRevision)?;
    let is_upstream = ctx.backend.runtime.upstream().is_some();
    let credentials = if past.credentials.is_some() && !is_upstream {
        "restored"
    } else {
        "kept"
    };
    let make =
        move |flows: &FlowSet, kept: &Credentials| submission(flows, kept, &past, flow.as_deref());
    let rev = match deploy(ctx, active_rev, said, make).await? {
        Deployed::Active(rev) => rev,
        Deployed::Refused(response) => return Ok(*response),
    };
    let mut answer = json!({ "rev": rev, "credentials": credentials });
    if is_upstream {
        let lacking = ctx.gateway.store.lacking_credentials(&runtime, &rev);
        answer["without_credentials"] = lacking.await?.into();
    }
    Ok(response::json(StatusCode::OK, answer.to_string()))
}

/// The deployment that leads back. Credentials that differ are replaced by those of the history, if
/// it has them.
fn submission(
    active: &FlowSet,
    kept: &Credentials,
    past: &Past,
    flow: Option<&str>,
) -> Result<Submission, deployment::Error> {
    let earlier = past.set(active).map_err(deployment::Error::Store)?;
    let flows = match flow {
        None => earlier,
        Some(flow) => take_back(active, &earlier, flow).map_err(|error| match error {
            FlowError::NoSuchFlow => deployment::Error::NoSuchFlow,
            FlowError::Malformed(malformed) => malformed.into(),
        })?,
    };
    let replacing = past
        .credentials
        .as_ref()
        .map_or_else(Credentials::default, |was| {
            replaced(kept, was, &flows, flow)
        });
    Ok(Submission {
        flows,
        credentials: Credentials::default(),
        replacing,
        rev: None,
    })
}

/// The earlier credentials of the elements whose credentials differ now; of an element that had
/// none, none.
fn replaced(
    now: &Credentials,
    was: &Credentials,
    flows: &FlowSet,
    flow: Option<&str>,
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
