//! `GET /gateway/export/:rev`: a flow set of the history as a file for another gateway, without
//! credentials.

use super::deployments::entry;
use crate::http::error::Error;
use crate::http::history_error::HistoryError;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use flows::FlowSet;
use hyper::{Response, StatusCode};
use serde_json::json;
use std::collections::HashSet;

/// The version of the file's form.
pub(super) const VERSION: u64 = 1;

/// The entry, the nodes whose credentials are left out, and the flow set.
pub(super) async fn export(ctx: &RequestContext<'_>, rev: &str) -> Result<Response<Body>, Error> {
    let (store, runtime) = (&ctx.gateway.store, super::runtime(ctx));
    let past = store.past(runtime, rev).await?;
    let past = past.ok_or(HistoryError::NoSuchRevision)?;
    let with_credentials = match (ctx.backend.runtime.upstream(), &past.credentials) {
        (Some(_), _) => Some(store.with_credentials(runtime).await?),
        (None, Some(kept)) => Some(kept.nodes.keys().map(ToString::to_string).collect()),
        (None, None) => None,
    };
    let mut file = entry(&past.revision);
    file["flowgate_export"] = VERSION.into();
    file["runtime"] = ctx.backend.mount.name.as_str().into();
    // Parsed: what is secret in it is taken out.
    let flows = ctx
        .blocking(move || past.set(&FlowSet::default()))
        .await??;
    file["without_credentials"] = json!(with_credentials.map(|ids| among(&ids, &flows)));
    let mut file = file.to_string();
    file.pop();
    let file = file + ",\"flows\":" + &flows.to_json() + "}";
    Ok(response::json(StatusCode::OK, file))
}

/// Those of the ids that the flow set has, in its order.
fn among<'f>(ids: &HashSet<String>, flows: &'f FlowSet) -> Vec<&'f str> {
    let found = flows.nodes().iter().map(|node| node.id.as_str());
    found.filter(|id| ids.contains(*id)).collect()
}
