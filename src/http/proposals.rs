//! `/gateway/proposals`: changes that wait for the approval of another user, for flowgate's own
//! engine and in front of an upstream.

use super::error::Error;
use super::flow_diff;
#[cfg(feature = "engine")]
use super::flows;
use super::forward_change::{answer, deploy_set};
use super::message::message;
use super::path::Path;
use super::query::{flag, parameter};
use super::refused_change::url;
use super::request_context::RequestContext;
use super::requester::Requester;
use super::response;
use super::response_body::Body;
use super::route::ProposalAction;
use crate::audit::{Event, rfc3339};
use crate::config::is_reason;
use crate::deployment::{self, Approval, Closing, ProposalError};
use crate::gateway::Runtime;
use crate::store::{self, Proposal, ProposalContent, ProposalFilter, ProposalState};
use crate::visible_json;
use ::flows::{DeploymentType, Submission};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};
use std::sync::Arc;

type Answer = Result<Response<Body>, Error>;

/// The entries of a page without `limit`, and the most of one. Our choice, as for deployments.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 200;

/// Handles a request by its route.
pub(super) async fn act(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    action: ProposalAction,
) -> Answer {
    // A number that is none names no proposal.
    let number = path.parameter(2).parse().unwrap_or(0);
    match action {
        ProposalAction::List => list(ctx, path).await,
        ProposalAction::Read => read(ctx, path, number).await,
        ProposalAction::Approve => approve(ctx, number).await,
        ProposalAction::Reject => {
            let reason = reason(&ctx.read_json().await?)?;
            close(ctx, path, number, Closing::Reject(reason)).await
        }
        ProposalAction::Withdraw => close(ctx, path, number, Closing::Withdraw).await,
        ProposalAction::Rebase => rebase(ctx, number).await,
    }
}

/// `GET /gateway/proposals?state=…&before=…&limit=…`
async fn list(ctx: &RequestContext<'_>, path: &Path<'_>) -> Answer {
    let filter = filter(ctx.head, ctx.backend.deployments.runtime_name())?;
    let limit = filter.limit;
    // One more shows whether there is another page.
    let limited = ProposalFilter {
        limit: limit + 1,
        ..filter
    };
    let found = ctx.gateway.store.proposals(limited).await;
    let mut found = found.map_err(failed)?;
    let is_last = found.len() <= limit;
    found.truncate(limit);
    let next = found.last().filter(|_| !is_last).map(|last| last.number);
    let entries: Vec<Json> = found.iter().map(|found| entry(path, found)).collect();
    let list = json!({ "proposals": entries, "next": next });
    Ok(response::json(StatusCode::OK, list.to_string()))
}

fn filter(head: &Parts, runtime: &str) -> Result<ProposalFilter, Error> {
    let state = parameter(head, "state").map(|name| {
        let expected = "state must be open, approved, rejected, withdrawn or expired";
        ProposalState::of(&name).ok_or(Error::Parameter(expected))
    });
    let before = parameter(head, "before").map(|before| {
        let expected = "before must be the number of a proposal";
        before.parse().map_err(|_| Error::Parameter(expected))
    });
    let limit = parameter(head, "limit").map_or(Some(DEFAULT_LIMIT), |limit| limit.parse().ok());
    let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
    Ok(ProposalFilter {
        runtime: runtime.to_owned(),
        state: state.transpose()?,
        before: before.transpose()?,
        limit: limit.ok_or(Error::Parameter(
            "limit must be a whole number from 1 to 200",
        ))?,
    })
}

/// `GET /gateway/proposals/:id?flows=true`
async fn read(ctx: &RequestContext<'_>, path: &Path<'_>, number: u64) -> Answer {
    let with_flows = flag(ctx.head, "flows", "flows must be true or false")?;
    let offset = flow_diff::offset(ctx.head)?;
    let deployments = &ctx.backend.deployments;
    let proposal = deployments.proposal(number).await?;
    let content = deployments.proposal_content(number).await?;
    let entry = entry(path, &proposal);
    let shown = move || shown(entry, &content, with_flows, offset);
    let text = ctx.blocking(shown).await?.map_err(failed)?;
    Ok(response::json(StatusCode::OK, text))
}

fn shown(
    mut entry: Json,
    content: &ProposalContent,
    with_flows: bool,
    offset: usize,
) -> Result<String, store::Error> {
    let (before, after) = content.sets()?;
    let secrets = content.credential_ids();
    entry["diff"] = flow_diff::shown(&before, &after, secrets.as_ref(), offset).into();
    let mut text = visible_json::escaped(entry.to_string());
    if with_flows {
        text.pop();
        text = text + ",\"flows\":" + &after.to_json() + "}";
    }
    Ok(text)
}

/// An entry as clients see it.
fn entry(path: &Path<'_>, proposal: &Proposal) -> Json {
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    json!({
        "id": proposal.number,
        "url": url(path, proposal.number),
        "state": proposal.state.name(),
        "user": proposal.user,
        "by": proposal.how,
        "address": proposal.address,
        "time": rfc3339(proposal.at),
        "expires": rfc3339(proposal.expires),
        "type": proposal.kind,
        "base": proposal.base,
        "message": given(&proposal.message),
        "decided_by": given(&proposal.decided_by),
        "decided": proposal.decided_at.map(rfc3339),
        "reason": given(&proposal.reason),
        "rev": given(&proposal.rev),
    })
}

/// `POST /gateway/proposals/:id/approve`
async fn approve(ctx: &mut RequestContext<'_>, number: u64) -> Answer {
    ctx.read_json_if_any().await?;
    let message = message(&ctx.head.headers)?;
    let begun = begin(ctx, number).await;
    let (approval, submission, kind) = begun.map_err(|error| failure(ctx, number, error))?;
    let backend = Arc::clone(ctx.backend);
    match &backend.runtime {
        #[cfg(feature = "engine")]
        Runtime::Own(_) => {
            let request = move || Ok(deployment::Request::Flows { submission, kind });
            let version = super::dialect::Version::V2;
            let deployed = flows::run(ctx, version, kind, message, Some(approval), request).await?;
            let body = json!({ "rev": deployed.rev });
            Ok(response::json(StatusCode::OK, body.to_string()))
        }
        Runtime::Upstream(upstream) => {
            let changed =
                deploy_set(ctx, upstream, submission, kind, message, Some(approval)).await?;
            answer(ctx, upstream, changed)
        }
    }
}

type Approved = (Approval, Submission, DeploymentType);

/// The proposal and what is to be deployed, read where deployments run.
async fn begin(ctx: &RequestContext<'_>, number: u64) -> Result<Approved, Error> {
    let (backend, now) = (Arc::clone(ctx.backend), ctx.now);
    let of_user = Arc::clone(ctx.backend);
    let permissions = move |user: &str| of_user.permissions_of(user, now);
    let task = async move {
        let deployments = &backend.deployments;
        let proposal = deployments.proposal(number).await?;
        let begun = deployments.approval(number, now, permissions).await?;
        Ok::<_, deployment::Error>((begun.0, begun.1, deployment::kind(&proposal.kind)))
    };
    Ok(ctx.work(task).await??)
}

/// `POST /gateway/proposals/:id/reject` with `{"reason"}`, and `DELETE /gateway/proposals/:id`
async fn close(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    number: u64,
    closing: Closing,
) -> Answer {
    let backend = Arc::clone(ctx.backend);
    let mut requester = Requester::silent(ctx);
    let task = async move {
        let by = requester.authorized();
        let deployments = &backend.deployments;
        deployments.close_proposal(number, closing, by).await?;
        deployments.proposal(number).await
    };
    let closed = ctx.work(task).await?;
    let closed = closed.map_err(|error| failure(ctx, number, error.into()))?;
    let body = entry(path, &closed).to_string();
    Ok(response::json(StatusCode::OK, body))
}

/// `POST /gateway/proposals/:id/rebase`
async fn rebase(ctx: &mut RequestContext<'_>, number: u64) -> Answer {
    ctx.read_json_if_any().await?;
    let backend = Arc::clone(ctx.backend);
    let mut requester = Requester::silent(ctx);
    let task = async move {
        let by = requester.authorized();
        backend.deployments.rebase_proposal(number, by).await
    };
    let base = ctx.work(task).await?;
    let base = base.map_err(|error| failure(ctx, number, error.into()))?;
    let body = json!({ "base": base });
    Ok(response::json(StatusCode::OK, body.to_string()))
}

/// Records that a proposal was not decided.
fn failure(ctx: &RequestContext<'_>, number: u64, error: Error) -> Error {
    let reason = match &error {
        Error::Deployment(deployment::Error::Proposal(ProposalError::NoSuch)) => return error,
        Error::Deployment(error) => deployment::reason(error),
        _ => return error,
    };
    let facts = json!({ "proposal": number, "reason": reason });
    ctx.audit(Event::ProposalFail, ctx.actor(), facts);
    error
}

fn failed(error: store::Error) -> Error {
    Error::Deployment(deployment::Error::Store(error))
}

/// `reason` of the body.
fn reason(body: &[u8]) -> Result<String, Error> {
    let body: Json =
        serde_json::from_slice(body).map_err(|error| Error::Body(error.to_string()))?;
    let reason = body.get("reason").and_then(Json::as_str);
    let reason = reason.filter(|reason| is_reason(reason));
    let expected = "the body must be {\"reason\": …} with at most 200 characters on one line";
    reason
        .map(str::to_owned)
        .ok_or_else(|| Error::Body(expected.to_owned()))
}
