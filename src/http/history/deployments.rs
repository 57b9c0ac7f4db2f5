//! The history of deployments: `GET /gateway/deployments`, and one of them.

use crate::audit::{from_rfc3339, rfc3339};
use crate::http::error::Error;
use crate::http::history_error::HistoryError;
use crate::http::query::{flag, page_limit, parameter};
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use crate::store::{self, Page, Revision};
use flows::FlowSet;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};
use std::borrow::Cow;

/// `GET /gateway/deployments?limit=…&before=…&user=…&since=…&node=…&flow=…`
pub(super) async fn list(ctx: &RequestContext<'_>) -> Result<Response<Body>, Error> {
    let page = page(ctx.head, super::runtime(ctx))?;
    let limit = page.limit;
    // One more shows whether there is another page.
    let limited = Page {
        limit: limit + 1,
        ..page
    };
    let entries = ctx.gateway.store.page(limited).await?;
    let mut entries = entries.ok_or(HistoryError::NoSuchRevision)?;
    let is_last = entries.len() <= limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| !is_last);
    let next = next.map(|last| last.number);
    let list = json!({
        "deployments": entries.iter().map(entry).collect::<Vec<_>>(),
        "next": next,
    });
    Ok(response::json(StatusCode::OK, list.to_string()))
}

/// `GET /gateway/deployments/:rev?flows=true`
pub(super) async fn one(ctx: &RequestContext<'_>, rev: &str) -> Result<Response<Body>, Error> {
    let (store, runtime) = (&ctx.gateway.store, super::runtime(ctx));
    let text = if flag(ctx.head, "flows", "flows must be true or false")? {
        let past = store.past(runtime, rev).await?;
        let past = past.ok_or(HistoryError::NoSuchRevision)?;
        // Parsed: what is secret in it is taken out.
        let parsed = ctx.blocking(move || {
            Ok::<_, store::Error>((past.set(&FlowSet::default())?, past.revision))
        });
        let (flows, revision) = parsed.await??;
        let mut text = entry(&revision).to_string();
        text.pop();
        text + ",\"flows\":" + &flows.to_json() + "}"
    } else {
        let revision = store.entry(runtime, rev).await?;
        entry(&revision.ok_or(HistoryError::NoSuchRevision)?).to_string()
    };
    Ok(response::json(StatusCode::OK, text))
}

/// An entry as clients see it.
pub(super) fn entry(revision: &Revision) -> Json {
    let changes = revision.counts.map(|counts| {
        json!({
            "elements": counts.nodes,
            "added": counts.added,
            "changed": counts.changed,
            "removed": counts.removed,
        })
    });
    json!({
        "number": revision.number,
        "rev": revision.rev,
        "parent": revision.parent,
        "user": revision.user,
        "by": revision.how,
        "address": revision.address,
        "type": revision.kind,
        "time": rfc3339(revision.at),
        "message": revision.message,
        "tags": revision.tags,
        "changes": changes,
    })
}

fn page(head: &Parts, runtime: &str) -> Result<Page, Error> {
    let since = match parameter(head, "since") {
        None => Some(0),
        Some(since) => from_rfc3339(&since),
    };
    let text = |name: &str| parameter(head, name).map(Cow::into_owned);
    Ok(Page {
        runtime: runtime.to_owned(),
        before: text("before"),
        user: text("user"),
        since: since.ok_or(Error::Parameter(
            "since must be a time like 2026-11-20T20:43:02Z",
        ))?,
        node: text("node"),
        flow: text("flow"),
        limit: page_limit(head)?,
    })
}
