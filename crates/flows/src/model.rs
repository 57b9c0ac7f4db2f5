//! The model: a flow set is a list of nodes in the order received; a node keeps its own JSON text.
//!
//! Knows which element runs where; never what its type does. Texts become nodes in `parse`.

use super::{Credentials, expansion, json_eq, parse};
use crate::json::{self, shown};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxBuildHasher;
use serde_json::{Map, Value};
use smol_str::SmolStr;
use std::hash::BuildHasher;
use std::iter::once;
use std::sync::Arc;

/// The error in a submission, worded for the client: the element and the field.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Malformed(pub String);

impl From<json::Invalid> for Malformed {
    fn from(invalid: json::Invalid) -> Self {
        Self(invalid.to_string())
    }
}

/// One element of a flow set: a tab, subflow, group, config node or flow node.
///
/// The JSON text is compact and holds no credentials. Fields that routing needs are extracted; the
/// rest is parsed when the node starts.
#[derive(Debug, Default, PartialEq)]
pub struct Node {
    /// `id`.
    pub id: SmolStr,
    /// `type`.
    pub kind: SmolStr,
    /// `z`: the tab or subflow it is on; empty: none.
    pub z: SmolStr,
    /// `g`: the group it is in; empty: none.
    pub group: SmolStr,
    /// `d` is true (or, of a tab, `disabled`).
    pub disabled: bool,
    /// Has both `x` and `y`: a flow node, not a config node (docs/reference/node-red-engine.md
    /// §2.1).
    pub placed: bool,
    /// `wires`: per output, the ids of the targets.
    pub wires: Box<[Box<[SmolStr]>]>,
    /// The element as compact JSON, keys in the order received.
    pub text: Box<str>,
}

/// The kind of an element of a flow set (docs/reference/node-red-engine.md §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementKind {
    /// A flow: the tab itself.
    Tab,
    /// A subflow's definition.
    Subflow,
    /// A group of nodes on a tab.
    Group,
    /// A node without a position, which other nodes share.
    Config,
    /// A node with a position; an instance of a subflow too.
    Node,
}

impl Node {
    /// The kind of this element.
    pub fn part(&self) -> ElementKind {
        match self.kind.as_str() {
            "tab" => ElementKind::Tab,
            "subflow" => ElementKind::Subflow,
            "group" => ElementKind::Group,
            _ if self.placed => ElementKind::Node,
            _ => ElementKind::Config,
        }
    }

    /// The id of the subflow that this node is an instance of.
    pub fn instance_of(&self) -> Option<&str> {
        self.kind.strip_prefix("subflow:")
    }

    /// Returns whether both are the same element with equal values, however they are formatted and
    /// their keys are ordered.
    pub fn same_content(&self, other: &Self) -> bool {
        self.text == other.text
            || (self.id == other.id && json_eq::texts(&self.text, &other.text, |_| true))
    }

    /// All properties. The text was checked when it came in, so this is empty for no other reason
    /// than an empty element.
    pub fn object(&self) -> Map<String, Value> {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

/// The whole configuration. A clone shares the nodes.
#[derive(Debug, Clone, Default)]
pub struct FlowSet {
    nodes: Vec<Arc<Node>>,
    /// The positions of the nodes, by the hashes of their ids: the ids themselves are in the nodes.
    /// Shared by flow sets that have the same ids in the same order.
    index: Arc<HashTable<u32>>,
}

impl PartialEq for FlowSet {
    fn eq(&self, other: &Self) -> bool {
        self.nodes == other.nodes
    }
}

impl FlowSet {
    /// Parses a JSON array of node objects. Credentials in it are dropped.
    pub fn parse(json: &[u8]) -> Result<Self, Malformed> {
        Self::parse_with_credentials(json).map(|(flows, _)| flows)
    }

    /// Parses a JSON array of node objects, and takes the credentials out of it.
    pub fn parse_with_credentials(json: &[u8]) -> Result<(Self, Credentials), Malformed> {
        Self::parse_after(&Self::default(), json, Vec::new())
    }

    /// The same, of a text in which there may be elements of the flow set before that are
    /// [`known`](super::reuse).
    pub(super) fn parse_after(
        before: &Self,
        json: &[u8],
        known: Vec<Arc<Node>>,
    ) -> Result<(Self, Credentials), Malformed> {
        let (nodes, credentials) = parse::array(json::text(json)?, known)?;
        Ok((Self::after(before, nodes)?, credentials))
    }

    /// A flow set of these nodes, in this order. Ids must be unique, and subflows expand within
    /// limits.
    pub fn new(nodes: Vec<Arc<Node>>) -> Result<Self, Malformed> {
        Self::after(&Self::default(), nodes)
    }

    /// The same; shares what it can with the flow set before.
    pub(super) fn after(before: &Self, nodes: Vec<Arc<Node>>) -> Result<Self, Malformed> {
        let same_id = |(a, b): (&Arc<Node>, &Arc<Node>)| Arc::ptr_eq(a, b) || a.id == b.id;
        let index =
            if nodes.len() == before.nodes.len() && nodes.iter().zip(&before.nodes).all(same_id) {
                Arc::clone(&before.index)
            } else {
                Arc::new(index(&nodes)?)
            };
        let flows = Self { nodes, index };
        expansion::check(&flows)?;
        Ok(flows)
    }

    /// All nodes in the order received.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// The node of that id.
    pub fn get(&self, id: &str) -> Option<&Arc<Node>> {
        self.position(id).and_then(|i| self.nodes.get(i))
    }

    /// The nodes that are not the very same ones in the other flow set, in the order received.
    pub fn not_shared_with<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a Arc<Node>> {
        // The position in the other flow set that probably follows.
        let mut next = 0;
        self.nodes.iter().filter(move |node| {
            let same = |at: &usize| other.nodes.get(*at).is_some_and(|n| Arc::ptr_eq(n, node));
            let at = Some(next).filter(same).or_else(|| other.position(&node.id));
            next = at.map_or(next, |at| at + 1);
            !at.is_some_and(|at| same(&at))
        })
    }

    /// The position, in the order received, of the node with that id.
    pub fn position(&self, id: &str) -> Option<usize> {
        let found = self
            .index
            .find(hash(id), |at| self.nodes[*at as usize].id == id);
        found.map(|at| *at as usize)
    }

    /// The tabs, in the order received.
    pub fn tabs(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes
            .iter()
            .filter(|node| node.part() == ElementKind::Tab)
    }

    /// The definition of the subflow of that id.
    pub fn subflow(&self, id: &str) -> Option<&Arc<Node>> {
        self.get(id)
            .filter(|node| node.part() == ElementKind::Subflow)
    }

    /// Neither the node nor its tab is disabled.
    pub fn enabled(&self, node: &Node) -> bool {
        !node.disabled && !self.get(&node.z).is_some_and(|around| stands_still(around))
    }

    /// Returns whether the node is one that runs by itself: an enabled flow node on a tab, or an
    /// enabled config node that is not inside a subflow. A flow node without `z` never runs; an
    /// unknown `z` counts as a tab (docs/reference/node-red-engine.md §2.1).
    pub fn runs(&self, node: &Node) -> bool {
        let place = match node.part() {
            ElementKind::Node => !node.z.is_empty(),
            ElementKind::Config => true,
            ElementKind::Tab | ElementKind::Subflow | ElementKind::Group => false,
        };
        let still =
            |around: &Arc<Node>| around.part() == ElementKind::Subflow || stands_still(around);
        place && !node.disabled && !self.get(&node.z).is_some_and(still)
    }

    /// The same with these tabs and nodes disabled.
    #[must_use]
    pub fn disabling(&self, is_disabled: impl Fn(&str) -> bool) -> Self {
        let disabled = |node: &Arc<Node>| {
            if node.disabled || !is_disabled(&node.id) {
                return Arc::clone(node);
            }
            let key = match node.part() {
                ElementKind::Tab => "disabled",
                _ => "d",
            };
            let mut object = node.object();
            object.insert(key.to_owned(), true.into());
            Arc::new(Node {
                id: node.id.clone(),
                kind: node.kind.clone(),
                z: node.z.clone(),
                group: node.group.clone(),
                disabled: true,
                placed: node.placed,
                wires: node.wires.clone(),
                text: Value::from(object).to_string().into(),
            })
        };
        Self {
            nodes: self.nodes.iter().map(disabled).collect(),
            index: Arc::clone(&self.index),
        }
    }

    /// The same flow set, with the nodes of another one where their content is the same, however it
    /// is formatted.
    #[must_use]
    pub fn with_texts_of(&self, other: &Self) -> Self {
        let nodes = self.nodes.iter().map(|node| match other.get(&node.id) {
            Some(kept) if kept.same_content(node) => Arc::clone(kept),
            _ => Arc::clone(node),
        });
        Self {
            nodes: nodes.collect(),
            index: Arc::clone(&self.index),
        }
    }

    /// The flow set as a compact JSON array: the body of `GET /flows` v1 and the content of
    /// `flows.json`.
    pub fn to_json(&self) -> String {
        let mut json = String::with_capacity(self.json_size());
        json.extend(self.json_pieces());
        json
    }

    /// The same in small pieces, for a writer.
    pub fn json_pieces(&self) -> impl Iterator<Item = &str> {
        let elements = self.nodes.iter().enumerate();
        let elements = elements.flat_map(|(i, node)| [if i == 0 { "[" } else { "," }, &node.text]);
        let end = if self.nodes.is_empty() { "[]" } else { "]" };
        elements.chain(once(end))
    }

    /// The bytes of that array.
    pub fn json_size(&self) -> usize {
        let elements: usize = self.nodes.iter().map(|node| node.text.len()).sum();
        elements + self.nodes.len().saturating_sub(1) + "[]".len()
    }

    /// Returns whether both hold equal elements in the same order, however they are formatted and
    /// their keys are ordered.
    pub fn same_content(&self, other: &Self) -> bool {
        self.nodes.len() == other.nodes.len()
            && self
                .nodes
                .iter()
                .zip(&other.nodes)
                .all(|(a, b)| a.same_content(b))
    }
}

fn index(nodes: &[Arc<Node>]) -> Result<HashTable<u32>, Malformed> {
    let id = |at: &u32| nodes[*at as usize].id.as_str();
    let mut index = HashTable::with_capacity(nodes.len());
    for (i, node) in (0..).zip(nodes) {
        match index.entry(hash(&node.id), |at| id(at) == node.id, |at| hash(id(at))) {
            Entry::Vacant(free) => drop(free.insert(i)),
            Entry::Occupied(first) => {
                let (first, id) = (first.get(), shown(&node.id));
                return Err(Malformed(format!(
                    "elements {first} and {i} have the same id, {id}"
                )));
            }
        }
    }
    Ok(index)
}

fn hash(id: &str) -> u64 {
    FxBuildHasher.hash_one(id)
}

/// A disabled tab: nothing on it runs.
fn stands_still(around: &Node) -> bool {
    around.disabled && around.part() == ElementKind::Tab
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn set(json: &str) -> FlowSet {
        FlowSet::parse(json.as_bytes()).unwrap()
    }

    #[test]
    fn a_flow_set_serializes_to_its_input() {
        let json = r#"[{"id":"t","type":"tab","label":"é \" [ {"},{"id":"n","type":"x","z":"t","x":1.50,"y":1e3,"wires":[["n"],[]]}]"#;
        assert_eq!(set(json).to_json(), json);
        assert_eq!(set("[]").to_json(), "[]");
        let two = set(r#"[{"id":"a","type":"x"},{"id":"b","type":"é"}]"#);
        assert_eq!(two.json_size(), two.to_json().len());
    }

    #[test]
    fn white_space_is_removed_between_tokens_and_kept_in_strings() {
        let flows =
            set("[ {\n\t\"id\" : \"a b\",\r\n \"type\": \"x\\\" y\" , \"l\": [ 1 , 2 ] } ]\n");
        assert_eq!(
            flows.to_json(),
            r#"[{"id":"a b","type":"x\" y","l":[1,2]}]"#
        );
    }

    #[test]
    fn same_content_ignores_only_format_and_key_order() {
        let a = set(r#"[{"id":"a","type":"x","n":1,"o":{"p":1,"q":[2]}},{"id":"b","type":"x"}]"#);
        assert!(a.same_content(&set(
            r#"[{"type":"x", "o":{"q":[2.0],"p":1}, "n":1, "id":"a"},{"id":"b","type":"x"}]"#
        )));
        assert!(!a.same_content(&set(
            r#"[{"id":"a","type":"x","n":2,"o":{"p":1,"q":[2]}},{"id":"b","type":"x"}]"#
        )));
        assert!(!a.same_content(&set(
            r#"[{"id":"b","type":"x"},{"id":"a","type":"x","n":1,"o":{"p":1,"q":[2]}}]"#
        )));
    }

    #[test]
    fn only_enabled_config_nodes_and_nodes_on_a_tab_run() {
        let flows = set(
            r#"[{"id":"t","type":"tab"},{"id":"off","type":"tab","disabled":true},{"id":"s","type":"subflow"},
            {"id":"node","type":"x","z":"t","x":1,"y":1},{"id":"config","type":"x"},{"id":"on unknown tab","type":"x","z":"?","x":1,"y":1},
            {"id":"d","type":"x","z":"t","x":1,"y":1,"d":true},{"id":"on off","type":"x","z":"off","x":1,"y":1},
            {"id":"inside","type":"x","z":"s","x":1,"y":1},{"id":"nowhere","type":"x","x":1,"y":1},{"id":"g","type":"group","z":"t","x":1,"y":1}]"#,
        );
        let running: Vec<_> = flows
            .nodes()
            .iter()
            .filter(|n| flows.runs(n))
            .map(|n| n.id.as_str())
            .collect();
        assert_eq!(running, ["node", "config", "on unknown tab"]);
    }
}
