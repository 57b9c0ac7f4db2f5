//! `GET /gateway/nodes/:id/history`: which deployments touched a node, and how.

use super::deployments::entry;
use crate::http::error::Error;
use crate::http::flow_diff::properties;
use crate::http::history_error::HistoryError;
use crate::http::query::page_limit;
use crate::http::query::parameter;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use crate::store::{NodeChange, NodePage};
use flows::differing_properties;
use hyper::{Response, StatusCode};
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;

/// `GET /gateway/nodes/:id/history?limit=…&before=…`
pub(super) async fn read(ctx: &RequestContext<'_>, node: String) -> Result<Response<Body>, Error> {
    let limit = page_limit(ctx.head)?;
    let page = NodePage {
        runtime: super::runtime(ctx).to_owned(),
        node,
        before: parameter(ctx.head, "before").map(Cow::into_owned),
        // One more shows whether there is another page.
        limit: limit + 1,
    };
    let node = page.node.clone();
    let changes = ctx.gateway.store.node_history(page).await?;
    let mut changes = changes.ok_or(HistoryError::NoSuchRevision)?;
    let is_last = changes.len() <= limit;
    changes.truncate(limit);
    let last = changes.last().filter(|_| !is_last);
    let shown = json!({
        "node": node,
        "history": changes.iter().map(change).collect::<Vec<_>>(),
        "next": last.map(|last| last.revision.number),
    });
    Ok(response::json(StatusCode::OK, shown.to_string()))
}

/// The entry of the deployment, and what it did to the node.
fn change(change: &NodeChange) -> Json {
    let mut shown = entry(&change.revision);
    shown["difference"] = change.difference.as_str().into();
    shown["flow"] = Some(&change.flow)
        .filter(|flow| !flow.is_empty())
        .cloned()
        .into();
    if let Some(left) = &change.left {
        shown["left"] = Some(left).filter(|left| !left.is_empty()).cloned().into();
    }
    if change.credentials {
        shown["credentials"] = "changed".into();
    }
    let is_in_both = !["added", "removed"].contains(&change.difference.as_str());
    if is_in_both {
        let object = |text: &String| serde_json::from_str::<Map<String, Json>>(text).ok();
        let before = change.before.as_ref().and_then(object);
        let after = change.after.as_ref().and_then(object);
        let both = before.zip(after);
        let found = both.map(|(before, after)| properties(&differing_properties(before, after)));
        shown["properties"] = found.into();
    }
    shown
}
