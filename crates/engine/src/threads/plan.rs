//! Splits the plan of a deployment: each thread gets the part of its own nodes. Nodes that move
//! from one thread to another stop there and start here.

use super::placement::Placement;
use flows::{Plan, Stop};
use rustc_hash::FxHashSet;
use smol_str::SmolStr;

/// The plan of each thread.
pub(super) fn split(
    plan: &Plan,
    before: &Placement,
    after: &Placement,
    threads: usize,
) -> Vec<Plan> {
    let empty = || Plan {
        everything: plan.everything,
        ..Plan::default()
    };
    let mut plans: Vec<Plan> = (0..threads).map(|_| empty()).collect();
    for stop in &plan.stop {
        plans[before.thread_of(&stop.id)].stop.push(stop.clone());
    }
    let moving = moving(plan, before, after);
    for id in &moving {
        plans[before.thread_of(id)].stop.push(Stop {
            id: id.clone(),
            removed: false,
        });
    }
    for id in plan.start.iter().chain(&moving) {
        plans[after.thread_of(id)].start.push(id.clone());
    }
    for id in &plan.rewire {
        plans[after.thread_of(id)].rewire.push(id.clone());
    }
    plans
}

/// The nodes that the plan does not stop, and that run on another thread from now on: nodes first,
/// then config nodes.
fn moving(plan: &Plan, before: &Placement, after: &Placement) -> Vec<SmolStr> {
    if plan.everything {
        return Vec::new();
    }
    let stopped: FxHashSet<&SmolStr> = plan.stop.iter().map(|stop| &stop.id).collect();
    let mut moving: Vec<_> = before
        .flows()
        .nodes()
        .iter()
        .filter(|node| before.flows().runs(node) && !stopped.contains(&node.id))
        .filter(|node| before.thread_of(&node.id) != after.thread_of(&node.id))
        .collect();
    moving.sort_by_key(|node| !node.placed);
    moving.into_iter().map(|node| node.id.clone()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use flows::{DeploymentType, FlowSet, diff, plan};
    use serde_json::{Value as Json, json};
    use std::collections::HashSet;
    use std::sync::Arc;

    fn set(elements: &Json) -> Arc<FlowSet> {
        Arc::new(FlowSet::parse(elements.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn nodes_that_move_stop_on_one_thread_and_start_on_the_other() {
        let elements = |wires: Json, label: &str| {
            json!([
                {"id": "a", "type": "tab"}, {"id": "b", "type": "tab"},
                {"id": "a1", "type": "debug", "z": "a", "x": 1, "y": 1, "wires": wires},
                {"id": "b1", "type": "debug", "z": "b", "x": 1, "y": 1, "wires": []},
                {"id": "b2", "type": "debug", "z": "b", "x": 1, "y": 1, "label": label, "wires": []},
            ])
        };
        let (old, new) = (
            set(&elements(json!([]), "")),
            set(&elements(json!([["b1"]]), "x")),
        );
        let before = Placement::default().next(&old, 2, false, true);
        let after = before.next(&new, 2, false, false);
        assert_eq!(["a", "b"].map(|tab| before.thread_of(tab)), [1, 0]);
        assert_eq!(["a", "b"].map(|tab| after.thread_of(tab)), [0, 0]);
        let difference = diff(&old, &new, &HashSet::new());
        let whole = plan(&old, &new, &difference, DeploymentType::Nodes);
        let plans = split(&whole, &before, &after, 2);
        let stops = plans.iter().map(|plan| {
            let ids = plan.stop.iter().map(|stop| stop.id.as_str());
            ids.collect::<Vec<_>>()
        });
        assert_eq!(stops.collect::<Vec<_>>(), [vec!["b2"], vec!["a1"]]);
        assert_eq!(plans[0].start, ["b2", "a1"]);
        assert!(plans[1].start.is_empty() && plans[1].rewire.is_empty());
    }
}
