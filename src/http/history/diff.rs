//! `GET /gateway/diff?from=…&to=…`: what differs between two flow sets of the history, by flow.

use super::HistoryError;
use crate::http::error::Error;
use crate::http::flow_diff;
use crate::http::query::parameter;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use crate::store;
use flows::{Credentials, FlowSet};
use hyper::{Response, StatusCode};
use serde_json::{Map, Value as Json};
use std::sync::Arc;

/// One of the two flow sets.
struct Side {
    flows: Arc<FlowSet>,
    /// `None`: they cannot be decrypted, or are an upstream's.
    credentials: Option<Arc<Credentials>>,
}

/// `to` is the active flow set, if it is not there.
pub(super) async fn read(ctx: &RequestContext<'_>) -> Result<Response<Body>, Error> {
    let missing = Error::Parameter("from must be a revision");
    let from = parameter(ctx.head, "from").ok_or(missing)?;
    let (from, old) = side(ctx, Some(&from)).await?;
    let (to, new) = side(ctx, parameter(ctx.head, "to").as_deref()).await?;
    let mut shown = ctx.blocking(move || shown(&old, &new)).await?;
    shown.insert("from".into(), from.into());
    shown.insert("to".into(), to.into());
    Ok(response::json(
        StatusCode::OK,
        Json::Object(shown).to_string(),
    ))
}

/// A flow set with its revision; without one, the active flow set. The engine's active one need not be in the history:
/// it may never have been deployed.
async fn side(ctx: &RequestContext<'_>, rev: Option<&str>) -> Result<(String, Side), Error> {
    let is_upstream = ctx.backend.runtime.upstream().is_some();
    if rev.is_none() || !is_upstream {
        let active = super::current(ctx).await?;
        if rev.is_none_or(|rev| rev == active.rev) {
            let side = Side {
                flows: Arc::clone(&active.flows),
                credentials: (!is_upstream).then(|| Arc::clone(&active.credentials)),
            };
            return Ok((active.rev.clone(), side));
        }
    }
    let rev = rev.unwrap_or_default();
    let past = ctx.gateway.store.past(super::runtime(ctx), rev).await?;
    let past = past.ok_or(HistoryError::NoSuchRevision)?;
    let parsed = ctx.blocking(move || {
        let side = Side {
            flows: Arc::new(past.set()?),
            credentials: past.credentials.filter(|_| !is_upstream).map(Arc::new),
        };
        Ok::<_, store::Error>((past.revision.rev, side))
    });
    Ok(parsed.await??)
}

fn shown(old: &Side, new: &Side) -> Map<String, Json> {
    let secrets = match (&old.credentials, &new.credentials) {
        (Some(old), Some(new)) => Some(old.differing(new)),
        _ => None,
    };
    flow_diff::shown(&old.flows, &new.flows, secrets.as_ref())
}
