//! `POST /gateway/import?rev=…`: deploys a file of [`super::export`], of this gateway or another
//! one.

use super::deploy::{Deployed, deploy, kind};
use super::export::VERSION;
use crate::http::error::Error;
use crate::http::message::message;
use crate::http::query::parameter;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use bytes::Bytes;
use flows::{Credentials, FlowSet, Submission};
use hyper::{Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashSet;

/// Characters of the names that an entry takes over from a file. Our choice: twice those of a
/// revision.
const MAX_NAME: usize = 128;

/// What the file says about itself.
#[derive(Deserialize)]
struct Origin {
    flowgate_export: u64,
    rev: String,
    runtime: String,
    without_credentials: Option<Vec<String>>,
}

/// An ordinary deployment with `rev`, the active revision; the message of its entry says where it
/// came from. The answer names the nodes that had credentials there and have none here.
pub(super) async fn import(ctx: &mut RequestContext<'_>) -> Result<Response<Body>, Error> {
    kind(ctx)?;
    let missing = Error::Parameter("rev must be the active revision, as GET /flows has it");
    let rev = parameter(ctx.head, "rev").ok_or(missing)?.into_owned();
    let said = message(&ctx.head.headers)?;
    let body = ctx.read_json().await?;
    let (origin, submission) = ctx.blocking(move || read(&body)).await??;
    let message = match said.as_str() {
        "" => format!("import of {} from {}", origin.rev, origin.runtime),
        said => format!("{said} (import of {} from {})", origin.rev, origin.runtime),
    };
    let make = move |_: &FlowSet, _: &Credentials| Ok(submission);
    let rev = match deploy(ctx, rev, message, make).await? {
        Deployed::Active(rev) => rev,
        Deployed::Refused(response) => return Ok(*response),
    };
    let kept = kept(ctx).await?;
    let lacking = origin.without_credentials.map(|mut ids| {
        ids.retain(|id| !kept.contains(id));
        ids
    });
    let answer = json!({ "rev": rev, "without_credentials": lacking });
    Ok(response::json(StatusCode::OK, answer.to_string()))
}

fn read(body: &Bytes) -> Result<(Origin, Submission), Error> {
    let submission = Submission::v2(&FlowSet::default(), body);
    let submission = submission.map_err(|malformed| Error::Body(malformed.to_string()))?;
    let sentence = "the body must be a file of GET /gateway/export";
    let origin = serde_json::from_slice::<Origin>(body);
    let origin = origin.map_err(|error| Error::Body(format!("{sentence}: {error}")))?;
    let is_plain = |name: &str| name.len() <= MAX_NAME && !name.contains(char::is_control);
    if origin.flowgate_export != VERSION {
        let sentence = format!("flowgate_export must be {VERSION}, the version that is known here");
        return Err(Error::Body(sentence));
    }
    if !is_plain(&origin.rev) || !is_plain(&origin.runtime) {
        let sentence = "rev and runtime must have at most 128 bytes without control characters";
        return Err(Error::Body(sentence.to_owned()));
    }
    if !submission.credential_ids().is_empty() {
        let sentence = "a file to import has no credentials: send them with POST /flows";
        return Err(Error::Body(sentence.to_owned()));
    }
    Ok((origin, submission))
}

/// The nodes that have credentials here, as far as flowgate knows.
async fn kept(ctx: &RequestContext<'_>) -> Result<HashSet<String>, Error> {
    if ctx.backend.runtime.upstream().is_some() {
        let store = &ctx.gateway.store;
        return Ok(store.with_credentials(super::runtime(ctx)).await?);
    }
    let active = super::current(ctx).await?;
    Ok(active
        .credentials
        .nodes
        .keys()
        .map(ToString::to_string)
        .collect())
}
