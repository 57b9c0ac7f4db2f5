//! The history of deployments: what was deployed, what differs, and back to it.

mod deploy;
mod deployments;
mod diff;
mod export;
mod import;
mod nodes;
mod rollback;
mod tags;

use super::error::Error;
use super::path::Path;
use super::request_context::RequestContext;
use super::response_body::Body;
use super::route::History;
use crate::deployment::Active;
use crate::store::ENGINE;
use crate::upstream::Upstream;
use flows::json;
use hyper::Response;
use serde_json::Value as Json;
use std::sync::Arc;

/// Handles a request by its route.
pub(super) async fn act(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    history: History,
) -> Result<Response<Body>, Error> {
    match history {
        History::List => deployments::list(ctx).await,
        History::Entry => deployments::one(ctx, &path.parameter(2)).await,
        History::Rollback => rollback::roll_back(ctx, &path.parameter(2)).await,
        History::Diff => diff::read(ctx).await,
        History::Export => export::export(ctx, &path.parameter(2)).await,
        History::Import => import::import(ctx).await,
        History::Tags => tags::list(ctx).await,
        History::Tag => tags::set(ctx, path.parameter(2)).await,
        History::RemoveTag => tags::remove(ctx, path.parameter(2)).await,
        History::Node => nodes::read(ctx, path.parameter(2)).await,
    }
}

/// `rev` of a body; `sentence` says what it must be.
fn rev_of(body: &[u8], sentence: &str) -> Result<String, Error> {
    let text = json::text(body).map_err(|invalid| Error::Body(invalid.to_string()))?;
    let body: Json = serde_json::from_str(text).map_err(|error| Error::Body(error.to_string()))?;
    match body.get("rev") {
        Some(Json::String(rev)) => Ok(rev.clone()),
        _ => Err(Error::Body(sentence.to_owned())),
    }
}

/// The active flow set; an upstream is asked, and its credentials are not known.
async fn current(ctx: &RequestContext<'_>) -> Result<Arc<Active>, Error> {
    let backend = Arc::clone(ctx.backend);
    let mut watch = ctx.detached_watch();
    let task = async move { backend.deployments.current(&mut watch).await };
    Ok(ctx.work(task).await??)
}

/// The name under which the history has the runtime of a request.
fn runtime<'c>(ctx: &'c RequestContext<'_>) -> &'c str {
    ctx.backend
        .runtime
        .upstream()
        .map_or(ENGINE, Upstream::name)
}
