//! Single flows: what `/flow` adds, replaces, removes and shows, as functions from flow set to flow set.
//!
//! Knows the shape `{id, label, nodes, configs?, subflows?}` and its errors (facts admin API §2). `global` names what
//! is on no tab: global config nodes and subflows.

use super::json::{syntax, text};
use super::model::Part;
use super::parse::elements;
use super::{Credentials, FlowSet, Malformed, Node};
use serde_json::{Map, Value};
use smol_str::SmolStr;
use std::collections::HashSet;
use std::sync::Arc;

/// Why a single flow was not added, replaced, removed or shown.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The request is malformed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// There is no tab of that id.
    #[error("no such flow")]
    NoSuchFlow,
}

const GLOBAL: &str = "global";

/// Adds the flow that `body` describes, under the fresh `id`; an id in the body is ignored. Credentials are taken out.
pub fn add_flow(flows: &FlowSet, body: &[u8], id: &str) -> Result<(FlowSet, Credentials), Error> {
    let body = object(body)?;
    if !body.contains_key("nodes") {
        return Err(wrong("missing nodes property"));
    }
    let (added, credentials) = tab(&body, id)?;
    let nodes = flows.nodes().iter().cloned().chain(added).collect();
    Ok((unique(nodes)?, credentials))
}

/// Replaces the flow of that id by what `body` describes, in its place; `{}` empties it. An id in the body is ignored.
pub fn replace_flow(
    flows: &FlowSet,
    id: &str,
    body: &[u8],
) -> Result<(FlowSet, Credentials), Error> {
    let body = object(body)?;
    let gone = members(flows, id)?;
    let (new, credentials) = if id == GLOBAL {
        global(&body)?
    } else {
        tab(&body, id)?
    };
    let stays = |node: &&Arc<Node>| !gone.contains(&node.id);
    // What stands before the tab stays before it: the order of tabs is the order of their start.
    let at = flows.position(id).unwrap_or(flows.nodes().len());
    let (before, after) = flows.nodes().split_at(at);
    let before = before.iter().filter(stays).cloned();
    let nodes = before
        .chain(new)
        .chain(after.iter().filter(stays).cloned())
        .collect();
    Ok((unique(nodes)?, credentials))
}

/// Removes the flow of that id with all that is on it.
pub fn remove_flow(flows: &FlowSet, id: &str) -> Result<FlowSet, Error> {
    if id == GLOBAL {
        return Err(wrong("not allowed to remove global"));
    }
    let gone = members(flows, id)?;
    Ok(unique(
        flows
            .nodes()
            .iter()
            .filter(|node| !gone.contains(&node.id))
            .cloned()
            .collect(),
    )?)
}

/// The flow of that id as `GET /flow/:id` shows it.
pub fn flow_json(flows: &FlowSet, id: &str) -> Result<String, Error> {
    let mut shown = Map::new();
    if id == GLOBAL {
        shown.insert("id".into(), GLOBAL.into());
    } else {
        shown = flows
            .get(id)
            .filter(|tab| tab.part() == Part::Tab)
            .ok_or(Error::NoSuchFlow)?
            .object();
        shown.shift_remove("type");
        shown.insert(
            "nodes".into(),
            list(flows, id, |node| node.part() != Part::Config).into(),
        );
    }
    let own = if id == GLOBAL { "" } else { id };
    let subflows: Vec<Value> = flows
        .nodes()
        .iter()
        .filter(|node| node.part() == Part::Subflow && node.z == own)
        .map(|subflow| {
            let mut shown = subflow.object();
            shown.insert(
                "nodes".into(),
                list(flows, &subflow.id, |node| node.part() != Part::Config).into(),
            );
            insert_some(
                &mut shown,
                "configs",
                list(flows, &subflow.id, |node| node.part() == Part::Config),
            );
            Value::Object(shown)
        })
        .collect();
    insert_some(
        &mut shown,
        "configs",
        list(flows, own, |node| node.part() == Part::Config),
    );
    insert_some(&mut shown, "subflows", subflows);
    Ok(Value::Object(shown).to_string())
}

fn insert_some(object: &mut Map<String, Value>, key: &str, list: Vec<Value>) {
    if !list.is_empty() {
        object.insert(key.into(), list.into());
    }
}

/// The elements on this tab or subflow that are so; tabs and subflows are none.
fn list(flows: &FlowSet, z: &str, so: impl Fn(&Node) -> bool) -> Vec<Value> {
    let inside = flows
        .nodes()
        .iter()
        .filter(|node| node.z == z && !matches!(node.part(), Part::Tab | Part::Subflow));
    inside
        .filter(|node| so(node))
        .map(|node| Value::Object(node.object()))
        .collect()
}

/// The ids of all that belongs to a flow: the tab and what is on it, or what is on no tab.
fn members(flows: &FlowSet, id: &str) -> Result<HashSet<SmolStr>, Error> {
    let ids = |belongs: &dyn Fn(&Node) -> bool| {
        flows
            .nodes()
            .iter()
            .filter(|node| belongs(node))
            .map(|node| node.id.clone())
            .collect()
    };
    if id == GLOBAL {
        return Ok(ids(&|node| {
            node.part() != Part::Tab && (node.z.is_empty() || flows.subflow(&node.z).is_some())
        }));
    }
    flows
        .get(id)
        .filter(|tab| tab.part() == Part::Tab)
        .ok_or(Error::NoSuchFlow)?;
    Ok(ids(&|node| node.id == id || node.z == id))
}

/// The elements that a body describes: the tab, then `nodes`, then `configs`, all with the tab's id as their `z`.
fn tab(body: &Map<String, Value>, id: &str) -> Result<(Vec<Arc<Node>>, Credentials), Error> {
    let mut tab = Map::new();
    tab.insert("id".into(), id.into());
    tab.insert("type".into(), "tab".into());
    let own =
        |key: &&String| !["id", "type", "nodes", "configs", "subflows"].contains(&key.as_str());
    for key in body.keys().filter(own) {
        tab.insert(key.clone(), body.get(key).cloned().unwrap_or_default());
    }
    let mut all = vec![Value::Object(tab)];
    inside(&mut all, body, "nodes", id)?;
    inside(&mut all, body, "configs", id)?;
    parsed(all)
}

/// The elements that a body for `global` describes: `configs` without `z`, then `subflows` with what is in each.
fn global(body: &Map<String, Value>) -> Result<(Vec<Arc<Node>>, Credentials), Error> {
    let mut all = Vec::new();
    inside(&mut all, body, "configs", "")?;
    for subflow in array(body, "subflows")? {
        let Value::Object(mut subflow) = subflow.clone() else {
            return Err(wrong("an element of \"subflows\" is no object"));
        };
        if subflow.get("type").and_then(Value::as_str) != Some("subflow") {
            return Err(wrong(
                "an element of \"subflows\" is not of type \"subflow\"",
            ));
        }
        let id = subflow
            .get("id")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let mut within = Vec::new();
        inside(&mut within, &subflow, "nodes", &id)?;
        inside(&mut within, &subflow, "configs", &id)?;
        subflow.shift_remove("nodes");
        subflow.shift_remove("configs");
        all.push(Value::Object(subflow));
        all.extend(within);
    }
    parsed(all)
}

/// Appends the elements of one list of the body, each with this `z` (empty: with none).
fn inside(
    all: &mut Vec<Value>,
    body: &Map<String, Value>,
    key: &str,
    z: &str,
) -> Result<(), Error> {
    for element in array(body, key)? {
        let mut element = element.clone();
        if let Value::Object(object) = &mut element {
            if let Some(kind @ ("tab" | "subflow")) = object.get("type").and_then(Value::as_str) {
                return Err(wrong(&format!("invalid node type: {kind}")));
            }
            if z.is_empty() {
                object.shift_remove("z");
            } else {
                object.insert("z".into(), z.into());
            }
        }
        all.push(element);
    }
    Ok(())
}

/// A list of the body; absent: empty.
fn array<'a>(body: &'a Map<String, Value>, key: &str) -> Result<&'a [Value], Error> {
    match body.get(key) {
        None => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(wrong(&format!("{key:?} must be an array"))),
    }
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Error> {
    match serde_json::from_str(text(body)?).map_err(|e| syntax(&e, (0, 0)))? {
        Value::Object(object) => Ok(object),
        _ => Err(wrong("a flow must be an object")),
    }
}

fn parsed(all: Vec<Value>) -> Result<(Vec<Arc<Node>>, Credentials), Error> {
    let json = Value::Array(all).to_string();
    Ok(elements(&json, &json)?)
}

fn unique(nodes: Vec<Arc<Node>>) -> Result<FlowSet, Malformed> {
    FlowSet::new(nodes).map_err(|_| Malformed("duplicate id".into()))
}

fn wrong(what: &str) -> Error {
    Error::Malformed(Malformed(what.into()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const SET: &str = concat!(
        r#"[{"id":"a","type":"tab","label":"A"},{"id":"b","type":"tab","label":"B","disabled":true},"#,
        r#"{"id":"a1","type":"x","z":"a","x":1,"y":1},{"id":"b1","type":"x","z":"b","x":1,"y":1},{"id":"bc","type":"x","z":"b"},"#,
        r#"{"id":"c","type":"x"},{"id":"S","type":"subflow","name":"s"},{"id":"s1","type":"x","z":"S","x":1,"y":1}]"#
    );

    fn set() -> FlowSet {
        FlowSet::parse(SET.as_bytes()).unwrap()
    }

    fn ids(flows: &FlowSet) -> String {
        flows
            .nodes()
            .iter()
            .map(|node| node.id.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn message<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_flow_is_added_at_the_end_with_its_own_id() {
        let body = br#"{"id":"mine","label":"N","nodes":[{"id":"n1","type":"x","z":"?","credentials":{"p":"q"}}],"configs":[{"id":"n2","type":"y"}]}"#;
        let (flows, credentials) = add_flow(&set(), body, "new").unwrap();
        assert_eq!(ids(&flows), "a b a1 b1 bc c S s1 new n1 n2");
        assert_eq!(
            &*flows.get("new").unwrap().text,
            r#"{"id":"new","type":"tab","label":"N"}"#
        );
        assert_eq!(
            &*flows.get("n1").unwrap().text,
            r#"{"id":"n1","type":"x","z":"new"}"#
        );
        assert!(credentials.nodes.contains_key("n1"));
    }

    #[test]
    fn what_cannot_be_added_is_named_as_the_stock_runtime_names_it() {
        let add = |body: &str| message(add_flow(&set(), body.as_bytes(), "new"));
        assert_eq!(add("{}"), "missing nodes property");
        assert_eq!(add(r#"{"nodes":[{"id":"a1","type":"x"}]}"#), "duplicate id");
        assert_eq!(
            add(r#"{"nodes":[{"id":"zz1","type":"tab"}]}"#),
            "invalid node type: tab"
        );
        assert_eq!(
            add(r#"{"nodes":[{"type":"x"}]}"#),
            "element 1: \"id\" must be a non-empty string"
        );
        assert_eq!(add("[]"), "a flow must be an object");
    }

    #[test]
    fn a_flow_is_replaced_in_its_place() {
        let (flows, _) = replace_flow(
            &set(),
            "a",
            br#"{"id":"b","label":"A2","nodes":[{"id":"a9","type":"x"}]}"#,
        )
        .unwrap();
        assert_eq!(ids(&flows), "a a9 b b1 bc c S s1");
        assert_eq!(flows.get("a9").unwrap().z, "a");
        let (flows, _) = replace_flow(&set(), "a", b"{}").unwrap();
        assert_eq!(ids(&flows), "a b b1 bc c S s1");
        assert_eq!(
            message(replace_flow(
                &set(),
                "a",
                br#"{"nodes":[{"id":"b1","type":"x"}]}"#
            )),
            "duplicate id"
        );
        assert_eq!(
            replace_flow(&set(), "nope", b"{}").unwrap_err(),
            Error::NoSuchFlow
        );
        assert_eq!(
            replace_flow(&set(), "c", b"{}").unwrap_err(),
            Error::NoSuchFlow
        );
    }

    #[test]
    fn global_is_replaced_too_and_what_is_shown_can_be_sent_back() {
        assert_eq!(
            ids(&replace_flow(&set(), "global", b"{}").unwrap().0),
            "a b a1 b1 bc"
        );
        for id in ["global", "a", "b"] {
            let (flows, _) =
                replace_flow(&set(), id, flow_json(&set(), id).unwrap().as_bytes()).unwrap();
            assert_eq!(flows.nodes().len(), set().nodes().len());
            for node in set().nodes() {
                assert_eq!(flows.get(&node.id).unwrap().object(), node.object());
            }
        }
    }

    #[test]
    fn a_flow_is_removed_with_all_that_is_on_it() {
        assert_eq!(ids(&remove_flow(&set(), "b").unwrap()), "a a1 c S s1");
        assert_eq!(remove_flow(&set(), "nope").unwrap_err(), Error::NoSuchFlow);
        assert_eq!(
            message(remove_flow(&set(), "global")),
            "not allowed to remove global"
        );
    }

    #[test]
    fn a_flow_is_shown_with_its_nodes_and_config_nodes_apart() {
        assert_eq!(
            flow_json(&set(), "b").unwrap(),
            r#"{"id":"b","label":"B","disabled":true,"nodes":[{"id":"b1","type":"x","z":"b","x":1,"y":1}],"configs":[{"id":"bc","type":"x","z":"b"}]}"#
        );
        assert_eq!(
            flow_json(&FlowSet::default(), "global").unwrap(),
            r#"{"id":"global"}"#
        );
        assert_eq!(
            flow_json(&set(), "global").unwrap(),
            r#"{"id":"global","configs":[{"id":"c","type":"x"}],"subflows":[{"id":"S","type":"subflow","name":"s","nodes":[{"id":"s1","type":"x","z":"S","x":1,"y":1}]}]}"#
        );
        assert_eq!(flow_json(&set(), "a1").unwrap_err(), Error::NoSuchFlow);
    }
}
