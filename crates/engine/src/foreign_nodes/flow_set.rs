//! The part of the flow set that the node host runs: the foreign nodes, and what they are in.
//! Native nodes are left out; inside subflow definitions disabled stand-ins keep their wires.

use super::element::{stand_in, whole, with_epoch, without_layout};
use super::shared_config;
use crate::hosted_functions::HostedFunctions;
use crate::node_host::{Authority, HostFlows, Role};
use crate::nodes::is_foreign;
use flows::{Credentials, FlowSet, HiddenVariables, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// Selects what the host runs. `epochs`: how often the engine's plans have restarted an element;
/// the host restarts what has another one. `functions`: the function nodes among it.
pub(super) fn select(
    flows: &FlowSet,
    credentials: &Credentials,
    epochs: &FxHashMap<SmolStr, u32>,
    functions: &HostedFunctions,
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
            "group" => containers
                .contains(node.z.as_str())
                .then(|| without_layout(node)),
            kind if shared_config::is_shared(kind) => None,
            kind if has_foreign(node) || kind == "global-config" => Some(with_epoch(node, epochs)),
            _ => definitions
                .contains(node.z.as_str())
                .then(|| stand_in(node)),
        });
    }
    shared_config::add(flows, epochs, &mut texts);
    let mut host = HostFlows {
        authority: authority(flows, &texts, &runs_there),
        ..HostFlows::default()
    };
    for (id, given) in &credentials.nodes {
        // Native nodes inside subflows keep theirs.
        if host.authority.has(id) {
            host.credentials.insert(id.clone(), given.clone());
        }
    }
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    host.flows = format!("[{}]", texts.join(","));
    host.environment = environment(&host, hidden);
    host
}

/// Lists the elements that the host may name: those with a text, without the stand-ins.
fn authority(
    flows: &FlowSet,
    texts: &[Option<String>],
    runs_there: &dyn Fn(&Node) -> bool,
) -> Authority {
    let nodes = flows.nodes().iter().zip(texts);
    let given: FxHashSet<&str> = nodes
        .filter(|(_, text)| text.is_some())
        .map(|(node, _)| node.id.as_str())
        .collect();
    Authority::over(flows, &|node| {
        let is_given = |id: &str| given.contains(id);
        match node.kind.as_str() {
            _ if !is_given(&node.id) => None,
            "tab" | "subflow" | "group" | "global-config" => Some(Role::Other),
            kind if shared_config::is_shared(kind) => Some(Role::Other),
            _ if runs_there(node) => Some(Role::Foreign),
            // The definition of an instance is given; other native nodes have stand-ins.
            _ => node
                .instance_of()
                .filter(|id| is_given(id))
                .map(|_| Role::Instance),
        }
    })
}

/// Leaves out the elements of types that no package has.
pub(super) fn leave_out(host: &mut HostFlows, is_missing: &dyn Fn(&str) -> bool) {
    let Ok(mut elements) = serde_json::from_str::<Vec<Json>>(&host.flows) else {
        return;
    };
    elements.retain(|e| {
        let runs = !e["type"].as_str().is_some_and(is_missing);
        if !runs {
            host.authority
                .leave_out(e["id"].as_str().unwrap_or_default());
        }
        runs
    });
    host.flows = Json::Array(elements).to_string();
}

/// The subflow definitions that have foreign nodes, also in instances of others.
fn definitions<'f>(flows: &'f FlowSet, runs_there: &dyn Fn(&Node) -> bool) -> FxHashSet<&'f str> {
    let mut users: FxHashMap<&str, Vec<&str>> = FxHashMap::default();
    let mut left = Vec::new();
    let inside = flows
        .nodes()
        .iter()
        .filter(|n| flows.subflow(&n.z).is_some());
    for node in inside {
        if runs_there(node) {
            left.push(node.z.as_str());
        } else if let Some(definition) = node.instance_of() {
            users.entry(definition).or_default().push(&node.z);
        }
    }
    let mut found = FxHashSet::default();
    while let Some(definition) = left.pop() {
        if found.insert(definition) {
            left.extend(users.remove(definition).unwrap_or_default());
        }
    }
    found
}

/// The variables of the process that the elements name in one of the ways of Node-RED: `${NAME}`,
/// `$(NAME)`, or a text of its own. Those that flows do not see are left out.
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
pub(crate) mod tests {
    use super::super::element::STAND_IN;
    use super::*;
    use serde_json::json;

    pub(crate) fn selected(flows: &Json, epochs: &[(&str, u32)]) -> Vec<Json> {
        let set = FlowSet::parse(flows.to_string().as_bytes()).unwrap();
        let epochs = epochs.iter().map(|(id, n)| ((*id).into(), *n)).collect();
        let host = select(
            &set,
            &Credentials::default(),
            &epochs,
            &HostedFunctions::default(),
            &HiddenVariables::default(),
        );
        serde_json::from_str(&host.flows).unwrap()
    }

    pub(in super::super) fn ids(elements: &[Json]) -> Vec<&str> {
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
    fn a_group_is_the_same_wherever_it_is_drawn() {
        let flows = |x: u32, nodes: Json| {
            json!([
                {"id": "t", "type": "tab"},
                {"id": "g", "type": "group", "z": "t", "x": x, "y": x, "w": x, "h": x, "style": {}, "nodes": nodes,
                    "env": [{"name": "A", "type": "str", "value": "1"}]},
                {"id": "f", "type": "foreign", "z": "t", "g": "g", "x": 1, "y": 1, "wires": []},
            ])
        };
        let host = selected(&flows(1, json!(["f"])), &[]);
        assert_eq!(host[1]["env"][0]["value"], "1");
        assert_eq!(host, selected(&flows(2, json!(["f", "n"])), &[]));
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
    fn native_nodes_of_a_subflow_keep_their_credentials() {
        let flows = json!([
            {"id": "s", "type": "subflow"}, {"id": "t", "type": "tab"},
            {"id": "i", "type": "subflow:s", "z": "t", "x": 1, "y": 1, "wires": []},
            {"id": "n", "type": "http request", "z": "s", "x": 1, "y": 1, "wires": []},
            {"id": "f", "type": "foreign", "z": "s", "x": 1, "y": 1, "wires": []},
        ]);
        let set = FlowSet::parse(flows.to_string().as_bytes()).unwrap();
        let secret = || [("password".to_owned(), json!("secret"))].into_iter();
        let nodes = ["s", "i", "n", "f"].map(|id| (id.into(), secret().collect()));
        let credentials = Credentials {
            nodes: nodes.into_iter().collect(),
        };
        let host = select(
            &set,
            &credentials,
            &FxHashMap::default(),
            &HostedFunctions::default(),
            &HiddenVariables::default(),
        );
        let given: Vec<&str> = host.credentials.keys().map(SmolStr::as_str).collect();
        assert_eq!(given, ["f", "i", "s"]);
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
