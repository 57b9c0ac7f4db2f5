//! Wires and links that lead nowhere. A runtime drops the messages of both without a word.

use super::{Finding, Lint};
use crate::{FlowSet, Node};
use serde_json::Value;

/// Nodes with wires to elements that do not exist.
pub(super) fn wires(flows: &FlowSet) -> Vec<Finding> {
    let gone = |node: &Node| -> Vec<String> {
        let targets = node.wires.iter().flatten();
        let gone = targets.filter(|id| flows.get(id).is_none());
        gone.map(ToString::to_string).collect()
    };
    let found = |node: &Node| finding(Lint::DanglingWire, node, "wires", &gone(node));
    flows
        .nodes()
        .iter()
        .filter_map(|node| found(node))
        .collect()
}

/// Nodes with links to anything but `link in` nodes. The links of a `link in` node itself count for
/// nothing when the flows run, nor do those of nodes that return or that choose their link by a
/// message.
pub(super) fn links(flows: &FlowSet) -> Vec<Finding> {
    let nodes = flows.nodes().iter();
    let linking = nodes.filter(|node| matches!(node.kind.as_str(), "link out" | "link call"));
    let found = linking.filter_map(|node| {
        let object = node.object();
        let is = |key: &str, value: &str| object.get(key).and_then(Value::as_str) == Some(value);
        if is("mode", "return") || is("linkType", "dynamic") {
            return None;
        }
        let targets = object.get("links").and_then(Value::as_array)?;
        let ids = targets.iter().filter_map(Value::as_str);
        let gone = ids.filter(|id| flows.get(id).is_none_or(|node| node.kind != "link in"));
        let gone: Vec<String> = gone.map(str::to_owned).collect();
        finding(Lint::DanglingLink, node, "links", &gone)
    });
    found.collect()
}

fn finding(lint: Lint, node: &Node, what: &str, gone: &[String]) -> Option<Finding> {
    let (kind, id) = (&node.kind, &node.id);
    (!gone.is_empty()).then(|| Finding {
        lint,
        nodes: vec![id.clone()],
        message: format!(
            "{kind} {id} has {what} to nodes that do not exist: {}",
            gone.join(", ")
        ),
    })
}
