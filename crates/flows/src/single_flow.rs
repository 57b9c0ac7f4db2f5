//! Single flows: adds, replaces, removes and shows those of `/flow`, as functions from flow set to
//! flow set.
//!
//! Knows the shape `{id, label, nodes, configs?, subflows?}` and its errors
//! (docs/reference/node-red-admin-api.md §2). `global` names what is on no tab: global config nodes
//! and subflows.

use super::model::ElementKind;
use super::parse::{Place, node, string};
use super::{Credentials, FlowSet, Malformed, Node};
use crate::json::{Members, shown, text, with};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use smol_str::SmolStr;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;
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

/// Checks what can be wrong with a body whatever the flow set is: to be added, or to replace the
/// flow of that id.
pub fn check_flow(body: &[u8], id: Option<&str>) -> Result<(), Error> {
    let nodes = match id {
        // The tab is the first, and has no id of its own yet.
        None => added(body, "new")?.nodes.split_off(1),
        Some(id) => replaced(body, id)?.nodes,
    };
    unique(nodes)?;
    Ok(())
}

/// Adds the flow that `body` describes, under the fresh `id`; an id in the body is ignored.
/// Credentials are taken out.
pub fn add_flow(flows: &FlowSet, body: &[u8], id: &str) -> Result<(FlowSet, Credentials), Error> {
    let added = added(body, id)?;
    let nodes = flows.nodes().iter().cloned().chain(added.nodes).collect();
    Ok((unique(nodes)?, added.credentials))
}

/// Replaces the flow of that id by what `body` describes, in its place; `{}` empties it. An id in
/// the body is ignored.
pub fn replace_flow(
    flows: &FlowSet,
    id: &str,
    body: &[u8],
) -> Result<(FlowSet, Credentials), Error> {
    let new = replaced(body, id)?;
    let gone = members(flows, id)?;
    let stays = |node: &&Arc<Node>| !gone.contains(&node.id);
    // Elements before the tab stay before it: tabs start in their order in the flow set.
    let at = flows.position(id).unwrap_or(flows.nodes().len());
    let (before, after) = flows.nodes().split_at(at);
    let before = before.iter().filter(stays).cloned();
    let nodes = before
        .chain(new.nodes)
        .chain(after.iter().filter(stays).cloned())
        .collect();
    Ok((unique(nodes)?, new.credentials))
}

fn added(body: &[u8], id: &str) -> Result<Elements, Error> {
    let body = Body::parse(body)?;
    if body.member("nodes").is_none() {
        return Err(wrong("missing nodes property"));
    }
    tab(&body, id)
}

fn replaced(body: &[u8], id: &str) -> Result<Elements, Error> {
    let body = Body::parse(body)?;
    if id == GLOBAL {
        global(&body)
    } else {
        tab(&body, id)
    }
}

/// Removes the flow of that id with all that is on it.
pub fn remove_flow(flows: &FlowSet, id: &str) -> Result<FlowSet, Error> {
    if id == GLOBAL {
        return Err(wrong("not allowed to remove global"));
    }
    let gone = members(flows, id)?;
    let stay = flows.nodes().iter().filter(|node| !gone.contains(&node.id));
    Ok(FlowSet::new(stay.cloned().collect())?)
}

/// The flow of that id as `GET /flow/:id` shows it.
pub fn flow_json(flows: &FlowSet, id: &str) -> Result<String, Error> {
    let mut shown = Map::new();
    if id == GLOBAL {
        shown.insert("id".into(), GLOBAL.into());
    } else {
        shown = flows
            .get(id)
            .filter(|tab| tab.part() == ElementKind::Tab)
            .ok_or(Error::NoSuchFlow)?
            .object();
        shown.shift_remove("type");
        shown.insert(
            "nodes".into(),
            list(flows, id, |node| node.part() != ElementKind::Config).into(),
        );
    }
    let own = if id == GLOBAL { "" } else { id };
    let subflows: Vec<Value> = flows
        .nodes()
        .iter()
        .filter(|node| node.part() == ElementKind::Subflow && node.z == own)
        .map(|subflow| {
            let mut shown = subflow.object();
            shown.insert(
                "nodes".into(),
                list(flows, &subflow.id, |node| {
                    node.part() != ElementKind::Config
                })
                .into(),
            );
            insert_some(
                &mut shown,
                "configs",
                list(flows, &subflow.id, |node| {
                    node.part() == ElementKind::Config
                }),
            );
            Value::Object(shown)
        })
        .collect();
    insert_some(
        &mut shown,
        "configs",
        list(flows, own, |node| node.part() == ElementKind::Config),
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
    let inside = flows.nodes().iter().filter(|node| {
        node.z == z && !matches!(node.part(), ElementKind::Tab | ElementKind::Subflow)
    });
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
            node.part() != ElementKind::Tab
                && (node.z.is_empty() || flows.subflow(&node.z).is_some())
        }));
    }
    flows
        .get(id)
        .filter(|tab| tab.part() == ElementKind::Tab)
        .ok_or(Error::NoSuchFlow)?;
    Ok(ids(&|node| node.id == id || node.z == id))
}

/// The elements that a body describes: the tab, then `nodes`, then `configs`, all with the tab's id
/// as their `z`.
fn tab(body: &Body<'_>, id: &str) -> Result<Elements, Error> {
    let quoted = quoted(id);
    let mut tab = format!("{{\"id\":{quoted},\"type\":\"tab\"");
    for (key, value) in &body.0 {
        if !["id", "type", "nodes", "configs", "subflows"].contains(&key.as_ref()) {
            let _ = write!(tab, ",{}:{}", self::quoted(key), value.get());
        }
    }
    tab.push('}');
    let mut all = Elements::default();
    all.add(&Place::In("flow", 0), &tab)?;
    all.inside(body, "nodes", &quoted)?;
    all.inside(body, "configs", &quoted)?;
    Ok(all)
}

/// The elements that a body for `global` describes: `configs` without `z`, then `subflows` with
/// what is in each.
fn global(body: &Body<'_>) -> Result<Elements, Error> {
    let mut all = Elements::default();
    all.inside(body, "configs", "")?;
    for (i, raw) in body.list("subflows")?.into_iter().enumerate() {
        let place = Place::In("subflows", i);
        let not = |what: &str| wrong(&format!("{place} {what}"));
        let subflow = Body::of(raw).map_err(|_| not("must be an object"))?;
        if subflow.text("type").as_deref() != Some("subflow") {
            return Err(not("is not of type \"subflow\""));
        }
        let alone = with(raw, "nodes", None).and_then(|rest| with(&rest, "configs", None));
        all.add(&place, &alone.map_err(|_| not("must be an object"))?)?;
        let id = quoted(&subflow.text("id").unwrap_or_default());
        all.inside(&subflow, "nodes", &id)?;
        all.inside(&subflow, "configs", &id)?;
    }
    Ok(all)
}

/// The additions to the flow set.
#[derive(Default)]
struct Elements {
    nodes: Vec<Arc<Node>>,
    credentials: Credentials,
}

impl Elements {
    fn add(&mut self, place: &Place<'_>, element: &str) -> Result<(), Malformed> {
        let node = node(place, element, &mut self.credentials)?;
        self.nodes.push(Arc::new(node));
        Ok(())
    }

    /// Adds the elements of one list of the body, each with this text as its `z` (empty: with
    /// none).
    fn inside(&mut self, body: &Body<'_>, list: &str, z: &str) -> Result<(), Error> {
        for (i, raw) in body.list(list)?.into_iter().enumerate() {
            let place = Place::In(list, i);
            let element =
                Body::of(raw).map_err(|_| wrong(&format!("{place} must be an object")))?;
            if let Some(kind @ ("tab" | "subflow")) = element.text("type").as_deref() {
                return Err(wrong(&format!("{place}: invalid node type: {kind}")));
            }
            let z = Some(z).filter(|z| !z.is_empty());
            let placed =
                with(raw, "z", z).map_err(|_| wrong(&format!("{place} must be an object")))?;
            self.add(&place, &placed)?;
        }
        Ok(())
    }
}

/// An object of the body, its members as texts.
struct Body<'b>(Vec<(Cow<'b, str>, &'b RawValue)>);

impl<'b> Body<'b> {
    fn parse(body: &'b [u8]) -> Result<Self, Error> {
        let json = text(body).map_err(Malformed::from)?;
        Self::of(json).map_err(|_| wrong("a flow must be an object"))
    }

    /// A text that is known to be good; an error means that it is no object.
    fn of(json: &'b str) -> Result<Self, serde_json::Error> {
        let Members(members) = serde_json::from_str(json)?;
        Ok(Self(members))
    }

    fn member(&self, key: &str) -> Option<&'b str> {
        let found = self.0.iter().find(|(own, _)| own == key);
        found.map(|(_, value)| value.get())
    }

    /// A member that is a string.
    fn text(&self, key: &str) -> Option<SmolStr> {
        self.member(key).and_then(string)
    }

    /// A member that is a list; absent: empty.
    fn list(&self, key: &str) -> Result<Vec<&'b str>, Error> {
        let Some(list) = self.member(key) else {
            return Ok(Vec::new());
        };
        let list: Vec<&RawValue> =
            serde_json::from_str(list).map_err(|_| wrong(&format!("{key:?} must be an array")))?;
        Ok(list.into_iter().map(RawValue::get).collect())
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A flow set of these nodes; the stock runtime's words for an id that is there twice.
fn unique(nodes: Vec<Arc<Node>>) -> Result<FlowSet, Malformed> {
    let mut ids = HashSet::with_capacity(nodes.len());
    if let Some(node) = nodes.iter().find(|node| !ids.insert(&node.id)) {
        return Err(Malformed(format!("duplicate id {}", shown(&node.id))));
    }
    FlowSet::new(nodes)
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
    fn a_flow_is_added_at_the_end_with_a_new_id() {
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
    fn a_refused_flow_gives_the_error_of_the_stock_runtime() {
        let add = |body: &str| message(add_flow(&set(), body.as_bytes(), "new"));
        assert_eq!(add("{}"), "missing nodes property");
        assert_eq!(
            add(r#"{"nodes":[{"id":"a1","type":"x"}]}"#),
            "duplicate id \"a1\""
        );
        assert_eq!(
            add(r#"{"nodes":[{"id":"zz1","type":"tab"}]}"#),
            "nodes[0]: invalid node type: tab"
        );
        assert_eq!(
            add(r#"{"nodes":[{"type":"x"}]}"#),
            "nodes[0]: \"id\" must be a non-empty string"
        );
        assert_eq!(add("[]"), "a flow must be an object");
    }

    #[test]
    fn a_flow_is_replaced_at_its_position() {
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
            "duplicate id \"b1\""
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
    fn global_can_be_replaced_and_a_shown_flow_sent_back() {
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
    fn a_flow_is_removed_with_all_its_nodes() {
        assert_eq!(ids(&remove_flow(&set(), "b").unwrap()), "a a1 c S s1");
        assert_eq!(remove_flow(&set(), "nope").unwrap_err(), Error::NoSuchFlow);
        assert_eq!(
            message(remove_flow(&set(), "global")),
            "not allowed to remove global"
        );
    }

    #[test]
    fn a_flow_is_shown_with_separate_nodes_and_config_nodes() {
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
