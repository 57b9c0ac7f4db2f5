//! Which thread of the engine runs which flow.
//!
//! A flow stays on its thread from deployment to deployment, so that what is not changed is not
//! restarted. A flow that is new goes, with all that are joined to it, to the thread whose nodes
//! have the least weight. A full deployment, which restarts everything, places everything anew.

use super::partition::{Group, partition};
use flows::FlowSet;
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;
use std::cmp::Reverse;
use std::sync::Arc;

/// The threads of flows, and of config nodes that are in none.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    flows: Arc<FlowSet>,
    /// By the id of a tab or of a global config node; the first thread for all that is not here.
    threads: FxHashMap<SmolStr, usize>,
}

impl Placement {
    /// That of flows that are not on the first thread.
    pub(crate) fn new(flows: &Arc<FlowSet>, threads: FxHashMap<SmolStr, usize>) -> Self {
        Self {
            flows: Arc::clone(flows),
            threads,
        }
    }

    /// The placement of a flow set that follows. `hosts_functions`: whether function nodes may run
    /// in the node host.
    pub(super) fn next(
        &self,
        flows: &Arc<FlowSet>,
        threads: usize,
        hosts_functions: bool,
        is_full: bool,
    ) -> Self {
        let groups = partition(flows, hosts_functions, &FxHashSet::default());
        let mut weights = vec![0; threads];
        let mut placed = FxHashMap::default();
        let mut place = |group: &Group, thread: usize, weights: &mut [usize]| {
            weights[thread] += group.weight;
            placed.extend(group.members.iter().map(|(id, _)| (id.clone(), thread)));
        };
        let mut new = Vec::new();
        for group in &groups {
            let thread = if group.is_on_first {
                Some(0)
            } else {
                self.majority(group, threads).filter(|_| !is_full)
            };
            match thread {
                Some(thread) => place(group, thread, &mut weights),
                None => new.push(group),
            }
        }
        for group in new {
            // Of equal ones the last: what cannot be elsewhere is on the first.
            let least = (0..threads).min_by_key(|thread| (weights[*thread], Reverse(*thread)));
            place(group, least.unwrap_or(0), &mut weights);
        }
        Self::new(flows, placed)
    }

    /// The thread that has most of a group, by weight; `None`: none of its flows was there before.
    fn majority(&self, group: &Group, threads: usize) -> Option<usize> {
        let mut weights = vec![None; threads];
        for (id, weight) in &group.members {
            if let Some(thread) = self.threads.get(id) {
                *weights[*thread].get_or_insert(0) += weight;
            }
        }
        let had = (0..threads).filter(|thread| weights[*thread].is_some());
        had.max_by_key(|thread| (weights[*thread], Reverse(*thread)))
    }

    /// The thread of a tab, a node, a subflow instance, or of a node inside an instance, by its
    /// running id.
    pub(crate) fn thread_of(&self, id: &str) -> usize {
        if let Some(thread) = self.threads.get(id) {
            return *thread;
        }
        let instance = |(at, _): (usize, &str)| {
            let found = self.flows.get(id.get(..at)?)?;
            found.instance_of().is_some().then_some(found)
        };
        let element = self
            .flows
            .get(id)
            .or_else(|| id.match_indices('-').find_map(instance));
        element.map_or(0, |element| self.thread_of_flow(&element.z))
    }

    /// The thread of a tab, or of a global config node.
    pub(crate) fn thread_of_flow(&self, id: &str) -> usize {
        self.threads.get(id).copied().unwrap_or(0)
    }

    /// The flow set.
    pub(crate) fn flows(&self) -> &FlowSet {
        &self.flows
    }

    /// The position of a tab among the elements of the flow set.
    pub(crate) fn position(&self, tab: &str) -> usize {
        self.flows.position(tab).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    /// Tabs of so many nodes; those of one text in `joined` have wires to the first of them.
    fn set(tabs: &[(&str, usize)], joined: &[&str]) -> Arc<FlowSet> {
        let mut elements: Vec<Json> = Vec::new();
        for (tab, nodes) in tabs {
            elements.push(json!({"id": tab, "type": "tab"}));
            for n in 0..*nodes {
                let wires = if n == 0 && joined.contains(tab) {
                    json!([[format!("{}0", joined[0])]])
                } else {
                    json!([])
                };
                elements.push(json!({"id": format!("{tab}{n}"), "type": "debug", "z": tab, "x": 1, "y": 1, "wires": wires}));
            }
        }
        Arc::new(FlowSet::parse(Json::from(elements).to_string().as_bytes()).unwrap())
    }

    fn threads(placement: &Placement, tabs: &[&str]) -> Vec<usize> {
        tabs.iter().map(|tab| placement.thread_of(tab)).collect()
    }

    #[test]
    fn new_flows_go_to_the_thread_with_the_least_weight() {
        let flows = set(&[("a", 3), ("b", 1), ("c", 1), ("d", 4)], &[]);
        let placement = Placement::default().next(&flows, 2, false, true);
        assert_eq!(threads(&placement, &["a", "b", "c", "d"]), [1, 0, 0, 0]);
        assert_eq!(placement.thread_of("a2"), 1);
        assert_eq!(placement.thread_of("gone"), 0);
    }

    #[test]
    fn a_flow_stays_where_it_is_until_everything_starts_anew() {
        let before = set(&[("a", 1), ("b", 1)], &[]);
        let first = Placement::default().next(&before, 2, false, true);
        assert_eq!(threads(&first, &["a", "b"]), [1, 0]);
        let after = set(&[("c", 5), ("b", 9), ("a", 1)], &[]);
        let nodes = first.next(&after, 2, false, false);
        assert_eq!(threads(&nodes, &["a", "b", "c"]), [1, 0, 1]);
        let full = nodes.next(&after, 2, false, true);
        assert_eq!(threads(&full, &["c", "b", "a"]), [1, 0, 1]);
    }

    #[test]
    fn flows_that_are_joined_move_to_the_thread_of_most_of_their_nodes() {
        let tabs = [("a", 1), ("b", 3)];
        let first = Placement::default().next(&set(&tabs, &[]), 2, false, true);
        assert_eq!(threads(&first, &["a", "b"]), [1, 0]);
        let joined = first.next(&set(&tabs, &["a", "b"]), 2, false, false);
        assert_eq!(threads(&joined, &["a", "b"]), [0, 0]);
        let parted = joined.next(&set(&tabs, &[]), 2, false, false);
        assert_eq!(threads(&parted, &["a", "b"]), [0, 0]);
    }

    #[test]
    fn nodes_inside_instances_are_where_the_instance_is() {
        let elements = json!([
            {"id": "s", "type": "subflow"}, {"id": "n", "type": "debug", "z": "s", "x": 1, "y": 1, "wires": []},
            {"id": "t", "type": "tab"}, {"id": "i-1", "type": "subflow:s", "z": "t", "x": 1, "y": 1, "wires": []},
        ]);
        let flows = Arc::new(FlowSet::parse(elements.to_string().as_bytes()).unwrap());
        let placement = Placement::default().next(&flows, 2, false, true);
        let found = ["t", "i-1", "i-1-n", "i-1-j-n"].map(|id| placement.thread_of(id));
        assert_eq!(found, [1, 1, 1, 1]);
    }
}
