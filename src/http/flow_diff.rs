//! The difference of two flow sets as clients get it: what differs, by flow, changes first.

use super::error::Error;
use super::query::parameter;
use flows::{Compared, Difference, FlowSet, Property, compare, flow_of};
use hyper::http::request::Parts;
use serde_json::{Map, Value as Json, json};
use smol_str::SmolStr;
use std::collections::{HashMap, HashSet};

/// The most elements of a page. Our choice: more than a person reads at once; all are counted.
const PAGE: usize = 1_000;

/// The number of elements before the page that a request asks for.
pub(super) fn offset(head: &Parts) -> Result<usize, Error> {
    let offset = parameter(head, "offset").map_or(Some(0), |offset| offset.parse().ok());
    offset.ok_or(Error::Parameter("offset must be a whole number"))
}

/// The difference from `old` to `new`, from `offset` on. `secrets` are the ids whose credentials
/// differ; `None`: that is not known.
pub(super) fn shown(
    old: &FlowSet,
    new: &FlowSet,
    secrets: Option<&HashSet<SmolStr>>,
    offset: usize,
) -> Map<String, Json> {
    let mut compared = compare(old, new, secrets.unwrap_or(&HashSet::new()));
    // Many new elements hide no change of one that runs.
    compared.sort_by_key(|one| one.difference.rank());
    let count = |difference: Difference| {
        let same = compared.iter().filter(|one| one.difference == difference);
        same.count()
    };
    let rest = compared.get(offset..).unwrap_or_default();
    let listed = &rest[..rest.len().min(PAGE)];
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
    shown.insert("omitted".into(), (rest.len() - listed.len()).into());
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn set(elements: &Json) -> FlowSet {
        FlowSet::parse(elements.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_change_comes_before_any_number_of_new_elements_and_the_pages_have_them_all() {
        let function =
            |code: &str| json!({ "id": "f", "type": "function", "z": "t", "func": code });
        let mut after: Vec<Json> = (0..1_500)
            .map(|n| json!({ "id": format!("a{n:04}"), "type": "comment", "z": "t" }))
            .collect();
        after.push(function("return 2"));
        let (before, after) = (set(&json!([function("return 1")])), set(&after.into()));
        let page = |offset| shown(&before, &after, None, offset);
        let elements = |page: &Map<String, Json>| page["flows"][0]["elements"].clone();
        let first = page(0);
        assert_eq!(
            (&first["added"], &first["omitted"]),
            (&json!(1_500), &json!(501))
        );
        assert_eq!(
            elements(&first)[0]["properties"]["func"]["after"],
            "return 2"
        );
        let second = page(1_000);
        assert_eq!(second["omitted"], 0);
        assert_eq!(elements(&second).as_array().unwrap().len(), 501);
        assert_eq!(page(1_501)["flows"], json!([]));
        assert_eq!(page(usize::MAX)["flows"], json!([]));
    }
}
