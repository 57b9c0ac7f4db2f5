//! The order in which nodes start (docs/reference/node-red-engine.md §1.5): global config nodes,
//! then flow by flow; in each, config nodes after those that they refer to, then the other nodes in
//! the order received.

use super::model::ElementKind;
use super::references::each_reference;
use super::{FlowSet, Node};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use std::collections::VecDeque;
use std::sync::Arc;

/// Some of the nodes of one flow.
#[derive(Debug)]
pub(super) struct Flow {
    /// The id of its tab; empty: the global config nodes.
    pub(super) id: SmolStr,
    /// Its config nodes, in the order in which they start.
    pub(super) configs: Vec<SmolStr>,
    /// Its other nodes, in the order in which they start.
    pub(super) nodes: Vec<SmolStr>,
}

impl Flow {
    /// All of it in the order in which it starts.
    pub(super) fn starting(self) -> impl Iterator<Item = SmolStr> {
        self.configs.into_iter().chain(self.nodes)
    }
}

/// Those of these nodes that run, by flow, in the order of their start: global first, then the tabs
/// as received, then flows without a tab. The nodes come in the order received.
pub(super) fn running<'f>(
    flows: &'f FlowSet,
    nodes: impl Iterator<Item = &'f Arc<Node>>,
) -> Vec<Flow> {
    let mut list: Vec<Flow> = Vec::new();
    let mut place: FxHashMap<SmolStr, usize> = FxHashMap::default();
    for node in nodes.filter(|node| flows.runs(node)) {
        let i = *place.entry(node.z.clone()).or_insert_with(|| {
            list.push(empty(node.z.clone()));
            list.len() - 1
        });
        if let Some(flow) = list.get_mut(i) {
            let part = if node.part() == ElementKind::Config {
                &mut flow.configs
            } else {
                &mut flow.nodes
            };
            part.push(node.id.clone());
        }
    }
    // Flows without a tab stay in the order of their first nodes.
    list.sort_by_cached_key(|flow| rank(flows, &flow.id));
    for flow in &mut list {
        flow.configs = after_their_references(flows, std::mem::take(&mut flow.configs));
    }
    list
}

/// The rank of a flow in the order of starts.
fn rank(flows: &FlowSet, id: &str) -> usize {
    let is_tab = |at: &usize| {
        let found = flows.nodes().get(*at);
        found.is_some_and(|node| node.part() == ElementKind::Tab)
    };
    match flows.position(id).filter(is_tab) {
        _ if id.is_empty() => 0,
        Some(at) => at + 1,
        None => usize::MAX,
    }
}

fn empty(id: SmolStr) -> Flow {
    Flow {
        id,
        configs: Vec::new(),
        nodes: Vec::new(),
    }
}

/// Sorts config nodes so that each comes after those among them that it refers to, else as
/// received. Those in a circle come last; that they cannot start properly is found out when they
/// do.
fn after_their_references(flows: &FlowSet, configs: Vec<SmolStr>) -> Vec<SmolStr> {
    if configs.len() < 2 {
        return configs;
    }
    let place: FxHashMap<&str, usize> = configs
        .iter()
        .enumerate()
        .map(|(i, id)| (id.as_str(), i))
        .collect();
    let mut waits = vec![0_usize; configs.len()];
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); configs.len()];
    for (i, node) in configs
        .iter()
        .enumerate()
        .filter_map(|(i, id)| Some((i, flows.get(id)?)))
    {
        each_reference(node, |key| {
            let target = place.get(key).copied().filter(|target| *target != i);
            if let (Some(list), Some(count)) =
                (target.and_then(|t| waiting.get_mut(t)), waits.get_mut(i))
            {
                list.push(i);
                *count += 1;
            }
        });
    }
    let mut ready: VecDeque<usize> = (0..configs.len())
        .filter(|i| waits.get(*i) == Some(&0))
        .collect();
    let mut order = Vec::with_capacity(configs.len());
    while let Some(i) = ready.pop_front() {
        order.push(i);
        for next in waiting.get_mut(i).map(std::mem::take).unwrap_or_default() {
            if let Some(count) = waits.get_mut(next) {
                *count -= 1;
                if *count == 0 {
                    ready.push_back(next);
                }
            }
        }
    }
    order.extend((0..configs.len()).filter(|i| waits.get(*i).is_some_and(|count| *count > 0)));
    order
        .into_iter()
        .filter_map(|i| configs.get(i).cloned())
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn order(json: &str) -> Vec<String> {
        let flows = FlowSet::parse(json.as_bytes()).unwrap();
        running(&flows, flows.nodes().iter())
            .into_iter()
            .flat_map(Flow::starting)
            .map(|id| id.to_string())
            .collect()
    }

    #[test]
    fn global_config_nodes_come_first_then_tabs_then_unknown_tabs() {
        let json = r#"[{"id":"n","type":"x","z":"?","x":1,"y":1},{"id":"b","type":"x","z":"B","x":1,"y":1},{"id":"a","type":"x","z":"A","x":1,"y":1},
            {"id":"A","type":"tab"},{"id":"B","type":"tab"},{"id":"cfg b","type":"x","z":"B"},{"id":"cfg","type":"x"}]"#;
        assert_eq!(order(json), ["cfg", "a", "cfg b", "b", "n"]);
    }

    #[test]
    fn a_config_node_waits_for_those_it_refers_to() {
        assert_eq!(
            order(
                r#"[{"id":"1","type":"x","p":"2"},{"id":"2","type":"x","p":"3"},{"id":"3","type":"x"}]"#
            ),
            ["3", "2", "1"]
        );
    }

    #[test]
    fn config_nodes_in_a_cycle_come_last_and_none_is_lost() {
        let json = r#"[{"id":"1","type":"x","p":"2"},{"id":"2","type":"x","p":"1"},{"id":"3","type":"x","name":"3"}]"#;
        assert_eq!(order(json), ["3", "1", "2"]);
    }
}
