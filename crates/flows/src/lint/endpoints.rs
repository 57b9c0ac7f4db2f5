//! Endpoints that several enabled nodes have: of `http in` nodes, and of `websocket-listener`
//! nodes. Those of subflows are not looked at: a path there may have the instance's variables.

use super::{Finding, Lint};
use crate::{FlowSet, Node};
use serde_json::Value;
use smol_str::SmolStr;
use std::collections::HashMap;

pub(super) fn duplicates(flows: &FlowSet) -> Vec<Finding> {
    let mut places: Vec<(String, Vec<SmolStr>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let running = flows.nodes().iter().filter(|node| flows.runs(node));
    for (node, endpoint) in running.filter_map(|node| Some((node, endpoint(node)?))) {
        let place = *known.entry(endpoint.clone()).or_insert_with(|| {
            places.push((endpoint, Vec::new()));
            places.len() - 1
        });
        if let Some((_, nodes)) = places.get_mut(place) {
            nodes.push(node.id.clone());
        }
    }
    let several = places.into_iter().filter(|(_, nodes)| nodes.len() > 1);
    let finding = |(endpoint, nodes): (String, Vec<SmolStr>)| Finding {
        lint: Lint::DuplicateEndpoint,
        message: format!("{} nodes have the endpoint {endpoint}", nodes.len()),
        nodes,
    };
    several.map(finding).collect()
}

/// The endpoint of a node as requests find it: case and a slash at the end do not count.
fn endpoint(node: &Node) -> Option<String> {
    let (key, verb) = match node.kind.as_str() {
        "http in" => ("url", "method"),
        "websocket-listener" => ("path", ""),
        _ => return None,
    };
    let object = node.object();
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let path = text(key).trim_matches('/').to_ascii_lowercase();
    let verb = match verb {
        "" => "WebSocket".to_owned(),
        key => text(key).to_ascii_uppercase(),
    };
    // Without a path the node has no endpoint.
    (!text(key).is_empty()).then(|| format!("{verb} /{path}"))
}
