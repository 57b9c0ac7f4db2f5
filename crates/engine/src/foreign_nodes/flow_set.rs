//! The part of the flow set that the node host runs: the foreign nodes, and what they are in. Native nodes are left out;
//! inside subflow definitions disabled stand-ins keep their wires.

use crate::hosted_functions::HostedFunctions;
use crate::node_host::HostFlows;
use crate::nodes;
use flows::{Credentials, FlowSet, HiddenVariables, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The type of the stand-ins; `host/runtime.js` registers it.
const STAND_IN: &str = "flowgate-native";

/// Native config nodes that packages use too: the host has those that its elements refer to, besides the engine.
const SHARED: [&str; 3] = ["tls-config", "http proxy", "mqtt-broker"];

/// Whether the engine lacks this type, which a package may have.
pub(crate) fn is_foreign(kind: &str) -> bool {
    !matches!(kind, "tab" | "subflow" | "group")
        && !kind.starts_with("subflow")
        && !nodes::knows(kind)
}

/// Selects what the host runs. `epochs`: how often the engine's plans have restarted an element; the host restarts what
/// has another one. `functions`: the function nodes among it.
pub(super) fn select(
    flows: &FlowSet,
    credentials: &Credentials,
    (epochs, functions): (&FxHashMap<SmolStr, u32>, &HostedFunctions),
    hidden: &HiddenVariables,
) -> HostFlows {
    let runs_there = |node: &Node| is_foreign(&node.kind) || functions.ids.contains(&node.id);
    if !flows.nodes().iter().any(|node| runs_there(node)) {
        return HostFlows {
            flows: "[]".to_owned(),
            ..HostFlows::default()
        };
    }
    let definitions = definitions(flows, &runs_there);
    let has_foreign = |node: &Node| {
        runs_there(node) || node.instance_of().is_some_and(|d| definitions.contains(d))
    };
    let containers: FxHashSet<&str> = flows
        .nodes()
        .iter()
        .filter(|node| has_foreign(node))
        .map(|node| node.z.as_str())
        .collect();
    let mut texts: Vec<Option<String>> = Vec::with_capacity(flows.nodes().len());
    for node in flows.nodes() {
        texts.push(match node.kind.as_str() {
            "tab" => containers.contains(node.id.as_str()).then(|| whole(node)),
            "subflow" => definitions.contains(node.id.as_str()).then(|| whole(node)),
            "group" => containers.contains(node.z.as_str()).then(|| whole(node)),
            kind if SHARED.contains(&kind) => None,
            kind if has_foreign(node) || kind == "global-config" => Some(with_epoch(node, epochs)),
            _ => definitions
                .contains(node.z.as_str())
                .then(|| stand_in(node)),
        });
    }
    add_shared(flows, epochs, &mut texts);
    let mut host = HostFlows::default();
    for (node, _) in flows
        .nodes()
        .iter()
        .zip(&texts)
        .filter(|(_, t)| t.is_some())
    {
        if let Some(given) = credentials.nodes.get(&node.id) {
            host.credentials.insert(node.id.clone(), given.clone());
        }
        if node.z.is_empty() && is_foreign(&node.kind) {
            host.globals.insert(node.id.clone());
        }
    }
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    host.flows = format!("[{}]", texts.join(","));
    host.environment = environment(&host, hidden);
    host
}

/// Adds the shared config nodes that the elements refer to, also by other config nodes.
fn add_shared(flows: &FlowSet, epochs: &FxHashMap<SmolStr, u32>, texts: &mut [Option<String>]) {
    let nodes = flows.nodes().iter().enumerate();
    let is_shared = |kind: &str| SHARED.contains(&kind);
    let mut left: Vec<_> = nodes.filter(|(_, node)| is_shared(&node.kind)).collect();
    loop {
        let before = left.len();
        left.retain(|(at, node)| {
            let id = Json::from(node.id.as_str()).to_string();
            if !texts.iter().flatten().any(|text| text.contains(&id)) {
                return true;
            }
            let text = with_epoch(node, epochs);
            texts[*at] = Some(if connects_twice(flows, node, &id) {
                with_property(&text, "_twice", "true")
            } else {
                text
            });
            false
        });
        if left.len() == before {
            return;
        }
    }
}

/// Whether native nodes use this broker too; a container may name it for them.
fn connects_twice(flows: &FlowSet, broker: &Arc<Node>, id: &str) -> bool {
    let mut others = flows.nodes().iter().filter(|node| node.id != broker.id);
    broker.kind == "mqtt-broker"
        && others.any(|node| !is_foreign(&node.kind) && node.text.contains(id))
}

/// Leaves out the elements of types that no package has.
pub(super) fn leave_out(host: &mut HostFlows, is_missing: &dyn Fn(&str) -> bool) {
    let Ok(mut elements) = serde_json::from_str::<Vec<Json>>(&host.flows) else {
        return;
    };
    elements.retain(|e| !e["type"].as_str().is_some_and(is_missing));
    host.flows = Json::Array(elements).to_string();
}

/// The subflow definitions that have foreign nodes, also in instances of others.
fn definitions<'f>(flows: &'f FlowSet, runs_there: &dyn Fn(&Node) -> bool) -> FxHashSet<&'f str> {
    let mut found = FxHashSet::default();
    loop {
        let before = found.len();
        for node in flows.nodes() {
            let is_inside = flows.subflow(&node.z).is_some();
            let has = runs_there(node) || node.instance_of().is_some_and(|d| found.contains(d));
            if is_inside && has {
                found.insert(node.z.as_str());
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn whole(node: &Arc<Node>) -> String {
    node.text.to_string()
}

/// The element with its epoch as one more property, by which the host's runtime sees a change.
fn with_epoch(node: &Arc<Node>, epochs: &FxHashMap<SmolStr, u32>) -> String {
    let epoch = epochs.get(&node.id).copied().unwrap_or(0);
    with_property(&node.text, "_epoch", &epoch.to_string())
}

fn with_property(element: &str, key: &str, json: &str) -> String {
    let open = element.strip_suffix('}').unwrap_or(element);
    format!("{open},\"{key}\":{json}}}")
}

/// A disabled node in the place of a native one.
fn stand_in(node: &Arc<Node>) -> String {
    let mut element = json!({
        "id": node.id.as_str(), "type": STAND_IN, "z": node.z.as_str(), "d": true,
        "wires": node.wires.iter().map(|w| w.iter().map(SmolStr::as_str).collect()).collect::<Vec<Vec<_>>>(),
    });
    if node.placed {
        (element["x"], element["y"]) = (0.into(), 0.into());
    }
    if !node.group.is_empty() {
        element["g"] = node.group.as_str().into();
    }
    element.to_string()
}

/// The variables of the process that the elements name in one of the ways of Node-RED: `${NAME}`, `$(NAME)`, or a text
/// of its own. Those that flows do not see are left out.
fn environment(host: &HostFlows, hidden: &HiddenVariables) -> BTreeMap<String, String> {
    let is_named = |name: &str| {
        let ways = [
            format!("{{{name}}}"),
            format!("({name})"),
            format!("\"{name}\""),
            // In the code of a function.
            format!("'{name}'"),
            format!("\\\"{name}\\\""),
        ];
        ways.iter().any(|way| host.flows.contains(way))
    };
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !hidden.hides(name) && is_named(name))
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn selected(flows: &Json, epochs: &[(&str, u32)]) -> Vec<Json> {
        let set = FlowSet::parse(flows.to_string().as_bytes()).unwrap();
        let epochs = epochs.iter().map(|(id, n)| ((*id).into(), *n)).collect();
        let host = select(
            &set,
            &Credentials::default(),
            (&epochs, &HostedFunctions::default()),
            &HiddenVariables::default(),
        );
        serde_json::from_str(&host.flows).unwrap()
    }

    fn ids(elements: &[Json]) -> Vec<&str> {
        elements.iter().filter_map(|e| e["id"].as_str()).collect()
    }

    #[test]
    fn native_nodes_and_tabs_without_foreign_nodes_are_left_out() {
        let flows = json!([
            {"id": "t1", "type": "tab"}, {"id": "t2", "type": "tab"},
            {"id": "g", "type": "group", "z": "t1", "nodes": ["f"]},
            {"id": "f", "type": "foreign", "z": "t1", "g": "g", "x": 1, "y": 1, "wires": [["n"]]},
            {"id": "n", "type": "debug", "z": "t1", "x": 1, "y": 1, "wires": []},
            {"id": "m", "type": "debug", "z": "t2", "x": 1, "y": 1, "wires": []},
            {"id": "b", "type": "mqtt-broker"}, {"id": "tls", "type": "tls-config"},
        ]);
        let host = selected(&flows, &[("f", 3)]);
        assert_eq!(ids(&host), ["t1", "g", "f"]);
        assert_eq!(host[2]["_epoch"], 3);
        assert_eq!(host[2]["wires"], json!([["n"]]));
    }

    #[test]
    fn native_config_nodes_that_foreign_nodes_refer_to_are_in_the_host_too() {
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
        assert_eq!(ids(&host), ["t", "tls", "own", "both", "f"]);
        assert_eq!(
            (&host[2]["_twice"], &host[3]["_twice"]),
            (&Json::Null, &json!(true))
        );
    }

    #[test]
    fn native_nodes_of_a_subflow_become_disabled_stand_ins() {
        let flows = json!([
            {"id": "outer", "type": "subflow"}, {"id": "inner", "type": "subflow"}, {"id": "other", "type": "subflow"},
            {"id": "t", "type": "tab"},
            {"id": "i", "type": "subflow:outer", "z": "t", "x": 1, "y": 1, "wires": []},
            {"id": "j", "type": "subflow:inner", "z": "outer", "x": 1, "y": 1, "wires": []},
            {"id": "k", "type": "subflow:other", "z": "outer", "x": 1, "y": 1, "wires": []},
            {"id": "n", "type": "function", "func": "secret", "z": "inner", "x": 1, "y": 1, "wires": [["f"]]},
            {"id": "f", "type": "foreign", "z": "inner", "x": 1, "y": 1, "wires": []},
            {"id": "d", "type": "debug", "z": "other", "x": 1, "y": 1, "wires": []},
        ]);
        let host = selected(&flows, &[]);
        assert_eq!(ids(&host), ["outer", "inner", "t", "i", "j", "k", "n", "f"]);
        let native = json!({"id": "n", "type": STAND_IN, "z": "inner", "d": true, "x": 0, "y": 0, "wires": [["f"]]});
        assert_eq!(host[6], native);
        assert_eq!(host[5]["type"], STAND_IN);
    }

    #[test]
    fn a_flow_set_without_foreign_nodes_needs_no_host() {
        let flows = json!([
            {"id": "t", "type": "tab"}, {"id": "n", "type": "debug", "z": "t", "x": 1, "y": 1, "wires": []},
            {"id": "tls", "type": "tls-config"},
        ]);
        assert!(selected(&flows, &[]).is_empty());
    }
}
