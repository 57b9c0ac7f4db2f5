//! `GET /gateway/diff?from=…&to=…`: what differs between two flow sets of the history, by flow.

use super::HistoryError;
use crate::http::error::Error;
use crate::http::query::parameter;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use crate::store;
use flows::{Compared, Credentials, Difference, FlowSet, Property, compare, flow_of};
use hyper::{Response, StatusCode};
use serde_json::{Map, Value as Json, json};
use smol_str::SmolStr;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The most elements listed. Our choice: more than a person reads; all are counted.
const MAX_LISTED: usize = 1_000;

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
    let shown = ctx.blocking(move || shown(&old, &new)).await?;
    let Json::Object(mut shown) = shown else {
        return Err(Error::Broken);
    };
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

fn shown(old: &Side, new: &Side) -> Json {
    let secrets = match (&old.credentials, &new.credentials) {
        (Some(old), Some(new)) => Some(old.differing(new)),
        _ => None,
    };
    let compared = compare(
        &old.flows,
        &new.flows,
        secrets.as_ref().unwrap_or(&HashSet::new()),
    );
    let count = |difference: Difference| {
        let same = compared.iter().filter(|one| one.difference == difference);
        same.count()
    };
    let listed = &compared[..compared.len().min(MAX_LISTED)];
    json!({
        "added": count(Difference::Added),
        "removed": count(Difference::Removed),
        "changed": count(Difference::Changed),
        "moved": count(Difference::Moved),
        "repositioned": count(Difference::Repositioned),
        "credentials_compared": secrets.is_some(),
        "omitted": compared.len() - listed.len(),
        "flows": by_flow(listed, &old.flows, &new.flows),
    })
}

/// The flows in the order in which they first occur; elements on none are under the id `null`.
fn by_flow(compared: &[Compared], old: &FlowSet, new: &FlowSet) -> Vec<Json> {
    let mut flows: Vec<(&SmolStr, Vec<Json>)> = Vec::new();
    let mut places = HashMap::new();
    for one in compared {
        let id = flow_of(&one.node);
        let place = *places.entry(id).or_insert(flows.len());
        if place == flows.len() {
            flows.push((id, Vec::new()));
        }
        flows[place].1.push(element(one));
    }
    let label = |id: &SmolStr| {
        let mut object = new.get(id).or_else(|| old.get(id))?.object();
        object.remove("label").or_else(|| object.remove("name"))
    };
    let flows = flows.into_iter().map(|(id, elements)| {
        let shown = Some(id).filter(|id| !id.is_empty());
        json!({ "id": shown, "label": label(id), "elements": elements })
    });
    flows.collect()
}

fn element(one: &Compared) -> Json {
    let mut shown = json!({
        "id": one.node.id,
        "type": one.node.kind,
        "name": one.node.object().remove("name"),
        "difference": one.difference.name(),
    });
    if one.credentials {
        shown["credentials"] = "changed".into();
    }
    if !one.properties.is_empty() {
        shown["properties"] = properties(&one.properties);
    }
    shown
}

/// The properties that differ, each with its values before and after.
pub(super) fn properties(properties: &[Property]) -> Json {
    let shown = properties.iter().map(|(name, before, after)| {
        let mut values = Map::new();
        values.extend(before.clone().map(|before| ("before".to_owned(), before)));
        values.extend(after.clone().map(|after| ("after".to_owned(), after)));
        (name.clone(), Json::Object(values))
    });
    shown.collect::<Map<_, _>>().into()
}
