//! `GET /gateway/diff?from=…&to=…`: what differs between two flow sets of the history, by flow.

use crate::http::error::Error;
use crate::http::flow_diff;
use crate::http::history_error::HistoryError;
use crate::http::query::parameter;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use crate::store::{self, Past};
use crate::visible_json;
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

/// The same, perhaps not parsed yet.
enum Found {
    Active(Side),
    Past(Box<Past>),
}

/// `to` is the active flow set, if it is not there.
pub(super) async fn read(ctx: &RequestContext<'_>) -> Result<Response<Body>, Error> {
    let missing = Error::Parameter("from must be a revision");
    let from = parameter(ctx.head, "from").ok_or(missing)?;
    let (from, old) = found(ctx, Some(&from)).await?;
    let (to, new) = found(ctx, parameter(ctx.head, "to").as_deref()).await?;
    let offset = flow_diff::offset(ctx.head)?;
    let is_upstream = ctx.backend.runtime.upstream().is_some();
    let active = ctx.backend.deployments.active();
    let shown = ctx.blocking(move || {
        let (mut old, mut new) = sides(old, new, &active.flows)?;
        if is_upstream {
            (old.credentials, new.credentials) = (None, None);
        }
        let mut shown = shown(&old, &new, offset);
        shown.insert("from".into(), from.into());
        shown.insert("to".into(), to.into());
        Ok::<_, store::Error>(visible_json::escaped(Json::from(shown).to_string()))
    });
    Ok(response::json(StatusCode::OK, shown.await??))
}

/// A flow set with its revision; without one, the active flow set. The engine's active one need not
/// be in the history: it may never have been deployed.
async fn found(ctx: &RequestContext<'_>, rev: Option<&str>) -> Result<(String, Found), Error> {
    if rev.is_none() || ctx.backend.runtime.upstream().is_none() {
        let active = super::current(ctx).await?;
        if rev.is_none_or(|rev| rev == active.rev) {
            let side = Side {
                flows: Arc::clone(&active.flows),
                credentials: Some(Arc::clone(&active.credentials)),
            };
            return Ok((active.rev.clone(), Found::Active(side)));
        }
    }
    let rev = rev.unwrap_or_default();
    let past = ctx.gateway.store.past(super::runtime(ctx), rev).await?;
    let past = past.ok_or(HistoryError::NoSuchRevision)?;
    let rev = past.revision.rev.clone();
    Ok((rev, Found::Past(Box::new(past))))
}

/// Both, parsed: one after the other, because most of their elements are the same, and mostly those
/// of the engine's active flow set.
fn sides(old: Found, new: Found, active: &FlowSet) -> Result<(Side, Side), store::Error> {
    if let Found::Active(old) = old {
        let new = new.parsed(&old.flows)?;
        return Ok((old, new));
    }
    let new = new.parsed(active)?;
    Ok((old.parsed(&new.flows)?, new))
}

impl Found {
    fn parsed(self, other: &FlowSet) -> Result<Side, store::Error> {
        match self {
            Self::Active(side) => Ok(side),
            Self::Past(past) => Ok(Side {
                flows: Arc::new(past.set(other)?),
                credentials: past.credentials.map(Arc::new),
            }),
        }
    }
}

fn shown(old: &Side, new: &Side, offset: usize) -> Map<String, Json> {
    let secrets = match (&old.credentials, &new.credentials) {
        (Some(old), Some(new)) => Some(old.differing(new)),
        _ => None,
    };
    flow_diff::shown(&old.flows, &new.flows, secrets.as_ref(), offset)
}
