//! Plans the nodes that a deployment stops, starts and rewires, and their order
//! (docs/reference/node-red-engine.md §1.2, §1.3, §1.5; docs/reference/admin-api.md §4.4).
//!
//! Knows two flow sets and their difference; not what is really running.

use super::model::ElementKind;
use super::references::dependants;
use super::start_order::{Flow, running};
use super::{Diff, FlowSet, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;
use std::sync::Arc;

/// The part of the running flow set that a deployment touches (docs/reference/admin-api.md §4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeploymentType {
    /// Everything stops before the new flow set starts.
    Full,
    /// Only modified nodes stop.
    Nodes,
    /// Only flows (tabs) that contain modified nodes stop.
    Flows,
    /// The flow set is read from storage again and everything restarts.
    Reload,
}

/// A node to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Its id; a subflow instance stops with all that is inside.
    pub id: SmolStr,
    /// True if the node is gone from the new flow set (or disabled in it), and is closed as
    /// removed.
    pub removed: bool,
}

/// The steps, in order: stops, then rewires, then starts. Ids are those of the flow set; a subflow
/// instance represents all its inner nodes. Rewiring an instance rewires those of its inner nodes
/// that feed its outputs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Everything stops and all flow objects are thrown away, whatever `stop` lists.
    pub everything: bool,
    /// Nodes to stop.
    pub stop: Vec<Stop>,
    /// Nodes to start.
    pub start: Vec<SmolStr>,
    /// Nodes whose wires change in place.
    pub rewire: Vec<SmolStr>,
}

/// Makes the plan of a deployment. Linear in the number of nodes.
pub fn plan(old: &FlowSet, new: &FlowSet, diff: &Diff, kind: DeploymentType) -> Plan {
    let everything = matches!(kind, DeploymentType::Full | DeploymentType::Reload);
    let restart = match kind {
        DeploymentType::Full | DeploymentType::Reload => Restart::All,
        DeploymentType::Nodes | DeploymentType::Flows if diff.global => Restart::All,
        DeploymentType::Nodes => nodes(diff),
        DeploymentType::Flows => flows(old, new, diff),
    };
    let stop = stops([old, new], diff, &restart);
    let stopped: FxHashSet<&SmolStr> = stop.iter().map(|stop| &stop.id).collect();
    let starts = |node: &&Arc<Node>| {
        stopped.contains(&node.id) || old.get(&node.id).is_none_or(|was| !old.runs(was))
    };
    let nodes = concerned([new, old], &restart).into_iter();
    let start: Vec<SmolStr> = running(new, nodes.filter(starts))
        .into_iter()
        .flat_map(Flow::starting)
        .collect();
    let runs = |set: &FlowSet, id: &SmolStr| set.get(id).is_some_and(|node| set.runs(node));
    let in_place = |id: &&SmolStr| !stopped.contains(id) && runs(old, id) && runs(new, id);
    let rewire = diff.rewired.iter().filter(in_place).cloned().collect();
    Plan {
        everything,
        stop,
        start,
        rewire,
    }
}

/// The running nodes to restart.
enum Restart<'a> {
    All,
    /// These flows whole, and these nodes, with their ranks.
    Some {
        flows: FxHashSet<&'a str>,
        nodes: FxHashMap<&'a str, Rank>,
    },
}

/// The order of stops within a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    #[default]
    Changed,
    Depending,
    Removed,
}

/// The ranks of the nodes that differ.
fn ranks(diff: &Diff) -> FxHashMap<&str, Rank> {
    let changed = diff.changed.iter().map(|id| (id, Rank::Changed));
    let depending = diff.depending.iter().map(|id| (id, Rank::Depending));
    let removed = diff.removed.iter().map(|id| (id, Rank::Removed));
    let all = changed.chain(depending).chain(removed);
    all.map(|(id, rank)| (id.as_str(), rank)).collect()
}

/// `nodes`: all that differs, its dependants, and whole tabs with another environment.
fn nodes(diff: &Diff) -> Restart<'_> {
    Restart::Some {
        flows: diff.tabs.iter().map(SmolStr::as_str).collect(),
        nodes: ranks(diff),
    }
}

/// `flows`: every flow with a modified node whole, and global config nodes by themselves
/// (docs/reference/admin-api.md §4.4).
///
/// Unlike in `nodes`, only config nodes, groups and subflows hand a change on: "a node refers to a
/// node" modifies no flow.
fn flows<'a>(old: &'a FlowSet, new: &'a FlowSet, diff: &'a Diff) -> Restart<'a> {
    let shared = |id: &str| {
        let part = new.get(id).or_else(|| old.get(id)).map(|node| node.part());
        matches!(
            part,
            Some(ElementKind::Config | ElementKind::Group | ElementKind::Subflow)
        )
    };
    let seeds = diff.changed.iter().chain(&diff.removed).cloned().collect();
    let depending = dependants(new, &seeds, &shared);
    let mut flows: FxHashSet<&str> = diff.tabs.iter().map(SmolStr::as_str).collect();
    let ranks = ranks(diff);
    let mut nodes = FxHashMap::default();
    for id in diff.touched().chain(&depending) {
        for set in [old, new] {
            let Some(node) = set.get(id).filter(|node| set.runs(node)) else {
                continue;
            };
            if node.z.is_empty() {
                let id = node.id.as_str();
                nodes.insert(id, ranks.get(id).copied().unwrap_or_default());
            } else {
                flows.insert(&node.z);
            }
        }
    }
    Restart::Some { flows, nodes }
}

/// A restart of more than this part of a flow set looks at all of it: that is faster than to sort
/// them. Our choice.
const FEW: usize = 4;

/// The nodes of `set` that can stop or start, in the order received. If all that differs is a few
/// nodes, it is these alone: of 50,000 nodes no other is looked at.
fn concerned<'a>([set, other]: [&'a FlowSet; 2], restart: &Restart<'_>) -> Vec<&'a Arc<Node>> {
    let all = || set.nodes().iter().collect();
    let Restart::Some { flows, nodes } = restart else {
        return all();
    };
    if !flows.is_empty() || nodes.len() > set.nodes().len() / FEW {
        return all();
    }
    let is_around =
        |node: &&Arc<Node>| matches!(node.part(), ElementKind::Tab | ElementKind::Subflow);
    let differing: Vec<_> = set.not_shared_with(other).collect();
    if differing.iter().any(is_around) || other.not_shared_with(set).any(|node| is_around(&node)) {
        return all();
    }
    let ids = differing.iter().map(|node| node.id.as_str());
    let ids = ids.chain(nodes.keys().copied());
    let mut positions: Vec<usize> = ids.filter_map(|id| set.position(id)).collect();
    positions.sort_unstable();
    positions.dedup();
    let node = |at| set.nodes().get(at);
    positions.into_iter().filter_map(node).collect()
}

/// The stops: flows in order of creation, global last; in each, normal nodes before config nodes,
/// and those in the order of the diff: changed, depending, removed
/// (docs/reference/node-red-engine.md §1.5). A node that no longer runs stops in any case.
fn stops(sets: [&FlowSet; 2], diff: &Diff, restart: &Restart<'_>) -> Vec<Stop> {
    let [old, new] = sets;
    let removed: FxHashSet<&str> = diff.removed.iter().map(SmolStr::as_str).collect();
    let gone = |id: &str| new.get(id).is_none_or(|node| !new.runs(node));
    let stops = |node: &&Arc<Node>| match restart {
        Restart::All => true,
        Restart::Some { flows, nodes } => {
            nodes.contains_key(node.id.as_str())
                || flows.contains(node.z.as_str())
                || gone(&node.id)
        }
    };
    let nodes = concerned(sets, restart).into_iter();
    let mut flows = running(old, nodes.filter(stops));
    if flows.first().is_some_and(|flow| flow.id.is_empty()) {
        flows.rotate_left(1);
    }
    if let Restart::Some {
        flows: whole,
        nodes,
    } = restart
    {
        let rank = |id: &SmolStr| nodes.get(id.as_str()).copied().unwrap_or_default();
        let partly = |flow: &&mut Flow| !whole.contains(flow.id.as_str());
        for flow in flows.iter_mut().filter(partly) {
            flow.nodes.sort_by_cached_key(rank);
            flow.configs.sort_by_cached_key(rank);
        }
    }
    let mut stop = Vec::new();
    for flow in flows {
        stop.extend(flow.nodes.into_iter().chain(flow.configs).map(|id| {
            let removed = removed.contains(id.as_str()) || gone(&id);
            Stop { id, removed }
        }));
    }
    stop
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Submission, diff};
    use std::collections::HashSet;

    #[test]
    fn nodes_that_did_not_run_are_started_and_not_rewired() {
        let node = |wires: &str| {
            format!(r#"{{"id":"n","type":"x","z":"s","x":1,"y":1,"wires":[["{wires}"]]}}"#)
        };
        let set = |json: String| FlowSet::parse(json.as_bytes()).unwrap();
        let old = set(format!(r#"[{{"id":"s","type":"subflow"}},{}]"#, node("a")));
        let new = set(format!("[{}]", node("b")));
        for kind in [DeploymentType::Full, DeploymentType::Nodes] {
            let plan = plan(&old, &new, &diff(&old, &new, &HashSet::new()), kind);
            assert_eq!((plan.start, plan.rewire), (vec!["n".into()], vec![]));
        }
    }

    #[test]
    fn nodes_stop_when_their_tab_becomes_a_subflow_and_start_when_it_is_a_tab_again() {
        let others = (0..20).map(|n| format!(r#",{{"id":"{n}","type":"x","z":"t","x":1,"y":1}}"#));
        let others: String = others.collect();
        let set = |before: &FlowSet, around: &str| {
            let json = format!(
                r#"[{{"id":"s","type":"{around}"}},{{"id":"n","type":"x","z":"s","x":1,"y":1}}{others}]"#
            );
            Submission::v1(before, json.as_bytes()).unwrap().flows
        };
        let tab = set(&FlowSet::default(), "tab");
        let subflow = set(&tab, "subflow");
        let planned = |old: &FlowSet, new: &FlowSet| {
            plan(
                old,
                new,
                &diff(old, new, &HashSet::new()),
                DeploymentType::Nodes,
            )
        };
        let stop = vec![Stop {
            id: "n".into(),
            removed: true,
        }];
        assert_eq!(planned(&tab, &subflow).stop, stop);
        assert_eq!(planned(&subflow, &tab).start, ["n"]);
    }
}
