//! The difference of two flow sets as clients get it: what differs, by flow.

use flows::{Compared, Difference, FlowSet, Property, compare, flow_of};
use serde_json::{Map, Value as Json, json};
use smol_str::SmolStr;
use std::collections::{HashMap, HashSet};

/// The most elements listed. Our choice: more than a person reads; all are counted.
const MAX_LISTED: usize = 1_000;

/// The difference from `old` to `new`. `secrets` are the ids whose credentials differ; `None`: that is not known.
pub(super) fn shown(
    old: &FlowSet,
    new: &FlowSet,
    secrets: Option<&HashSet<SmolStr>>,
) -> Map<String, Json> {
    let compared = compare(old, new, secrets.unwrap_or(&HashSet::new()));
    let count = |difference: Difference| {
        let same = compared.iter().filter(|one| one.difference == difference);
        same.count()
    };
    let listed = &compared[..compared.len().min(MAX_LISTED)];
    let mut shown = Map::new();
    for difference in [
        Difference::Added,
        Difference::Removed,
        Difference::Changed,
        Difference::Moved,
        Difference::Repositioned,
    ] {
        shown.insert(difference.name().into(), count(difference).into());
    }
    shown.insert("credentials_compared".into(), secrets.is_some().into());
    shown.insert("omitted".into(), (compared.len() - listed.len()).into());
    shown.insert("flows".into(), by_flow(listed, old, new).into());
    shown
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
