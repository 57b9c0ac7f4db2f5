//! The model: a flow set is a list of nodes in the order received; a node keeps its own JSON text.

use smol_str::SmolStr;
use std::collections::HashMap;
use std::sync::Arc;

/// What is wrong with a submission, in words for the client: which element, which field.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Malformed(pub String);

/// One element of a flow set: a tab, subflow, group, config node or flow node.
///
/// The JSON text is compact and holds no credentials. What routing needs is taken out; the rest is parsed when the node starts.
#[derive(Debug, PartialEq)]
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
    /// Has both `x` and `y`: a flow node, not a config node (facts engine §2.1).
    pub placed: bool,
    /// `wires`: per output, the ids of the targets.
    pub wires: Vec<Vec<SmolStr>>,
    /// The element as compact JSON, keys in the order received.
    pub text: Box<str>,
}

/// The whole configuration.
#[derive(Debug, Default, PartialEq)]
pub struct FlowSet {
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) index: HashMap<SmolStr, usize>,
}

impl FlowSet {
    /// Parses a JSON array of node objects.
    pub fn parse(_json: &[u8]) -> Result<Self, Malformed> {
        todo!()
    }

    /// All nodes in the order received.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// The node of that id.
    pub fn get(&self, id: &str) -> Option<&Arc<Node>> {
        self.index.get(id).map(|&i| &self.nodes[i])
    }

    /// The flow set as a compact JSON array: the body of `GET /flows` v1 and the content of `flows.json`.
    pub fn to_json(&self) -> String {
        todo!()
    }
}
