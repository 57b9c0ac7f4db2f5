//! Native config nodes that packages use too: the host has those that its elements name, besides
//! the engine.

use super::element::{with_epoch, with_property};
use crate::nodes::is_foreign;
use flows::{FlowSet, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::sync::Arc;

/// Returns whether config nodes of this type may be on both sides.
pub(super) fn is_shared(kind: &str) -> bool {
    matches!(kind, "tls-config" | "http proxy" | "mqtt-broker")
}

/// Adds the shared config nodes that the selected elements name, also by one another. `texts`: the
/// text of each element of the flow set that is selected.
pub(super) fn add(flows: &FlowSet, epochs: &FxHashMap<SmolStr, u32>, texts: &mut [Option<String>]) {
    let all = flows.nodes().iter().enumerate();
    let mut left: FxHashMap<String, (usize, &Arc<Node>)> = all
        .filter(|(_, node)| is_shared(&node.kind))
        .map(|(at, node)| (literal(&node.id), (at, node)))
        .collect();
    if left.is_empty() {
        return;
    }
    let mut named = Vec::new();
    for text in texts.iter().flatten() {
        named.extend(literals(text).filter_map(|id| left.remove(id)));
    }
    let mut read = 0;
    while let Some((_, node)) = named.get(read) {
        named.extend(literals(&node.text).filter_map(|id| left.remove(id)));
        read += 1;
    }
    let twice = connected_twice(flows, &named);
    for (at, node) in named {
        let text = with_epoch(node, epochs);
        let is_twice = twice.contains(&node.id);
        let text = if is_twice {
            with_property(&text, "_twice", "true")
        } else {
            text
        };
        if let Some(slot) = texts.get_mut(at) {
            *slot = Some(text);
        }
    }
}

/// Those of the brokers that native nodes use too; a container may name one for them.
fn connected_twice(flows: &FlowSet, named: &[(usize, &Arc<Node>)]) -> FxHashSet<SmolStr> {
    let brokers = named.iter().map(|(_, node)| *node);
    let mut left: FxHashMap<String, &Arc<Node>> = brokers
        .filter(|node| node.kind == "mqtt-broker")
        .map(|node| (literal(&node.id), node))
        .collect();
    let mut found = FxHashSet::default();
    for node in flows.nodes().iter().filter(|n| !is_foreign(&n.kind)) {
        if left.is_empty() {
            break;
        }
        let own = literal(&node.id);
        for id in literals(&node.text).filter(|id| *id != own) {
            found.extend(left.remove(id).map(|broker| broker.id.clone()));
        }
    }
    found
}

/// An id as JSON.
fn literal(id: &str) -> String {
    Json::from(id).to_string()
}

/// The strings of a JSON text, as they are written there.
fn literals(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = json;
    std::iter::from_fn(move || {
        let text = rest.get(rest.find('"')?..)?;
        let mut is_escaped = false;
        let length = text.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        })?;
        let (found, after) = text.split_at(length + 2);
        rest = after;
        Some(found)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::foreign_nodes::selected;
    use serde_json::json;

    #[test]
    fn native_config_nodes_that_foreign_nodes_name_are_in_the_host_too() {
        let flows = json!([
            {"id": "t", "type": "tab"},
            {"id": "tls", "type": "tls-config"}, {"id": "other", "type": "tls-config"},
            {"id": "own", "type": "mqtt-broker", "tls": "tls"}, {"id": "both", "type": "mqtt-broker"},
            {"id": "native", "type": "mqtt-broker", "tls": "other"}, {"id": "proxy", "type": "http proxy"},
            {"id": "f", "type": "foreign", "z": "t", "x": 1, "y": 1, "wires": [], "servers": [{"broker": "own"}], "b": "both"},
            {"id": "m", "type": "mqtt in", "z": "t", "x": 1, "y": 1, "wires": [], "broker": "both"},
            {"id": "n", "type": "mqtt in", "z": "t", "x": 1, "y": 1, "wires": [], "broker": "native"},
        ]);
        let host = selected(&flows, &[]);
        let ids: Vec<&Json> = host.iter().map(|element| &element["id"]).collect();
        assert_eq!(ids, ["t", "tls", "own", "both", "f"]);
        assert_eq!(
            (&host[2]["_twice"], &host[3]["_twice"]),
            (&Json::Null, &json!(true))
        );
    }

    #[test]
    fn the_strings_of_a_text_are_found_with_their_escapes() {
        let text = json!({"a": "b\\", "c\"d": ["", {"e": "\"f\""}], "ä": 1}).to_string();
        let found: Vec<String> = literals(&text)
            .map(|literal| serde_json::from_str(literal).unwrap())
            .collect();
        assert_eq!(found, ["a", "b\\", "c\"d", "", "e", "\"f\"", "ä"]);
        assert_eq!(literals("{\"open").count(), 0);
    }
}
