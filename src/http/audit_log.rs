//! `/gateway/audit`: pages of the audit log, its chain part by part, and a copy of it.

use super::audit_error::AuditLogError;
use super::error::Error;
use super::file_body::Reading;
use super::query::{flag, page_limit, parameter};
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use super::route::AuditAction;
use crate::audit::{ChainPart, Event, LogFiles, Page, Query, from_rfc3339};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use serde_json::json;
use std::borrow::Cow;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Characters of a text to search for, and of a name. Our choice: longer ones are not in the log.
const MAX_TEXT: usize = 256;
/// The highest number: what every program reads from JSON as it stands there (RFC 8259 §6).
const MAX_NUMBER: u64 = (1 << 53) - 1;
/// The longest wait for other requests that read the log. Our choice: each takes a fraction of a
/// second.
const WAIT: Duration = Duration::from_secs(10);

/// Handles a request by its route.
pub(super) async fn act(
    ctx: &mut RequestContext<'_>,
    action: AuditAction,
) -> Result<Response<Body>, Error> {
    let files = ctx.gateway.audit.files();
    let files = files.ok_or(AuditLogError::Elsewhere)?;
    match action {
        AuditAction::Page => {
            let query = query(ctx.head)?;
            let page = search(ctx, move || files.page(&query)).await?;
            Ok(uncached(shown(&page)))
        }
        AuditAction::Verify => {
            let from = number(ctx.head, "from")?.unwrap_or(0);
            let part = search(ctx, move || files.verify_part(from)).await?;
            Ok(uncached(part_shown(&part)))
        }
        AuditAction::Export => export(ctx, files).await,
    }
}

fn uncached(text: String) -> Response<Body> {
    response::uncached(response::json(StatusCode::OK, text))
}

/// Reads the log beside few other requests, until the authorization lapses.
async fn search<T: Send + 'static>(
    ctx: &mut RequestContext<'_>,
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let searches = Arc::clone(&ctx.gateway.shares.log_searches);
    let permit = pin!(timeout(WAIT, searches.acquire_owned()));
    let permit = ctx.during(permit).await?;
    let Ok(Ok(permit)) = permit else {
        return Err(AuditLogError::Busy.into());
    };
    // The permit is the thread's: a client that disconnects does not make room for another search.
    let found = ctx.blocking(move || (read(), permit).0).await?;
    ctx.check()?;
    Ok(found.map_err(AuditLogError::from)?)
}

/// The lines are JSON objects as they stand in the log.
fn shown(page: &Page) -> String {
    let lines = page.lines.join(",");
    let rest = json!({ "next": page.next, "reached": page.reached }).to_string();
    let rest = rest.strip_prefix('{').unwrap_or_default();
    format!("{{\"records\":[{lines}],{rest}")
}

fn part_shown(part: &ChainPart) -> String {
    json!({
        "from": part.from,
        "to": part.to,
        "time": part.time,
        "next": part.next,
        "repairs": part.repairs,
        "checkpoint": part.checkpoint,
        "removed": part.removed,
        "fault": part.fault.map(|fault| fault.to_string()),
    })
    .to_string()
}

/// `GET /gateway/audit/export?from=…`: the lines as they stand in the files.
async fn export(ctx: &mut RequestContext<'_>, files: LogFiles) -> Result<Response<Body>, Error> {
    let from = number(ctx.head, "from")?.unwrap_or(0);
    let copies = &ctx.gateway.shares.log_copies;
    let mut permit = copies.grant(ctx.peer.address.ip());
    permit.try_grow(1).map_err(|_| AuditLogError::Busy)?;
    let fields = json!({ "from": from });
    let actor = ctx.actor();
    let audit = &ctx.gateway.audit;
    audit
        .written(Event::Export, &actor, ctx.now, fields)
        .await?;
    let sections = search(ctx, move || files.copy(from)).await?;
    let control = ctx.gateway.control.clone();
    let reading = Reading::sections(sections, control, Arc::new(permit));
    Ok(response::log(reading))
}

fn query(head: &Parts) -> Result<Query, Error> {
    let failed = match parameter(head, "failed") {
        None => None,
        Some(_) => Some(flag(head, "failed", "failed must be true or false")?),
    };
    Ok(Query {
        before: number(head, "before")?,
        after: number(head, "after")?.unwrap_or(0),
        limit: page_limit(head)?,
        user: text(head, "user")?,
        event: text(head, "event")?,
        failed,
        since: time(head, "since")?,
        until: time(head, "until")?,
        text: text(head, "text")?,
    })
}

fn number(head: &Parts, name: &str) -> Result<Option<u64>, Error> {
    let refused = Error::Parameter("after, before and from must be numbers of records");
    let Some(number) = parameter(head, name) else {
        return Ok(None);
    };
    let number = number.parse().ok().filter(|number| *number <= MAX_NUMBER);
    number.map(Some).ok_or(refused)
}

fn time(head: &Parts, name: &str) -> Result<Option<u64>, Error> {
    let refused = Error::Parameter("since and until must be times like 2026-11-20T20:43:02Z");
    match parameter(head, name).map(|time| from_rfc3339(&time)) {
        None => Ok(None),
        Some(Some(time)) => Ok(Some(time)),
        Some(None) => Err(refused),
    }
}

fn text(head: &Parts, name: &str) -> Result<Option<String>, Error> {
    let text = parameter(head, name).map(Cow::into_owned);
    match text {
        Some(text) if text.chars().count() > MAX_TEXT => Err(Error::Parameter(
            "user, event and text have 256 characters at most",
        )),
        text => Ok(text),
    }
}
