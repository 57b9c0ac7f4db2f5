//! The elements of a flow set as the graph is built from them: by container, with the definitions
//! of subflows.

use super::env::{Entry as EnvEntry, Evaluator};
use crate::{Credentials, FlowSet, Node};
use rustc_hash::FxHashMap;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use smol_str::SmolStr;
use std::rc::Rc;
use std::sync::Arc;

/// The elements of a flow set but for tabs.
pub(super) struct Elements<'a> {
    pub credentials: &'a Credentials,
    /// By their `z`.
    pub children: FxHashMap<&'a str, Vec<&'a Arc<Node>>>,
    /// Subflows, with their definition unless it is malformed.
    pub definitions: FxHashMap<&'a str, (&'a Arc<Node>, Option<Rc<Definition>>)>,
}

impl<'a> Elements<'a> {
    pub(super) fn of(flows: &'a FlowSet, credentials: &'a Credentials) -> Self {
        let mut children: FxHashMap<&str, Vec<&Arc<Node>>> = FxHashMap::default();
        let mut definitions = FxHashMap::default();
        for node in flows.nodes() {
            match node.kind.as_str() {
                "tab" => {}
                "subflow" => {
                    let parsed: Option<Definition> = serde_json::from_str(&node.text).ok();
                    let parsed = parsed.map(|definition| Rc::new(definition.indexed()));
                    definitions.insert(node.id.as_str(), (node, parsed));
                }
                _ => children.entry(node.z.as_str()).or_default().push(node),
            }
        }
        Self {
            credentials,
            children,
            definitions,
        }
    }
}

/// A subflow's definition.
#[derive(Deserialize)]
pub(super) struct Definition {
    #[serde(default, rename = "in")]
    pub inputs: Vec<Port>,
    #[serde(default, rename = "out")]
    pub outputs: Vec<Port>,
    #[serde(default)]
    pub status: Option<Port>,
    #[serde(default)]
    pub env: Vec<EnvEntry>,
    /// By the node inside, what its outputs feed.
    #[serde(skip)]
    feeds: FxHashMap<SmolStr, Vec<Feed>>,
}

/// A wire from the output of a node inside to an output of the subflow.
pub(super) struct Feed {
    /// The output of the node.
    pub port: usize,
    /// The output of the subflow; `None`: its status.
    pub output: Option<usize>,
}

impl Definition {
    fn indexed(mut self) -> Self {
        let outputs = self.outputs.iter().enumerate();
        let outputs = outputs.map(|(output, port)| (Some(output), port));
        let status = self.status.iter().map(|port| (None, port));
        for (output, port) in outputs.chain(status) {
            for wire in &port.wires {
                let port = wire.port;
                let feeds = self.feeds.entry(wire.id.clone()).or_default();
                feeds.push(Feed { port, output });
            }
        }
        self
    }

    /// The outputs of the subflow, then its status, that a node inside feeds.
    pub(super) fn feeds(&self, node: &str) -> &[Feed] {
        self.feeds.get(node).map_or(&[], Vec::as_slice)
    }
}

/// An input or output of a subflow.
#[derive(Deserialize)]
pub(super) struct Port {
    #[serde(default)]
    pub wires: Vec<PortWire>,
}

/// A wire between a port of a subflow and a node inside, or the subflow's own input.
#[derive(Deserialize)]
pub(super) struct PortWire {
    pub id: SmolStr,
    #[serde(default, deserialize_with = "output_number")]
    pub port: usize,
}

/// Reads the number of an output, however it is spelled: `0` and `0.0` are one number in
/// JavaScript.
fn output_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    // The sum has no sign where it is zero.
    let number = f64::deserialize(deserializer)? + 0.0;
    number.to_string().parse().map_err(D::Error::custom)
}

/// The name and the variables of a tab, instance or `global-config`.
#[derive(Deserialize, Default)]
pub struct Scope {
    /// `label`, of a tab.
    #[serde(default)]
    pub label: SmolStr,
    /// `name`, of any other element.
    #[serde(default)]
    pub name: Option<SmolStr>,
    /// The variables.
    #[serde(default)]
    pub env: Vec<EnvEntry>,
}

/// The name and the variables of an element; none if they are malformed.
pub fn scope(node: &Node, evaluator: &dyn Evaluator) -> Scope {
    serde_json::from_str(&node.text).unwrap_or_else(|error| {
        evaluator.malformed_element(&node.id, &error);
        Scope::default()
    })
}
