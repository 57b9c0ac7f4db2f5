//! Properties of every flow set that a client may send, and of every deployment of one over
//! another.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a check: it may panic"
)]

mod made;

use super::{
    DeploymentType, ElementKind, FlowSet, Node, Plan, Submission, add_flow, check_flow, diff,
    flow_json, plan, remove_flow, replace_flow, touched,
};
use crate::json::Members;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// An accepted submission is kept unchanged, reads back the same, and holds no credentials.
pub fn submission(data: &[u8]) {
    let Some((version, body)) = data.split_first() else {
        return;
    };
    let parsed = match version & 1 {
        0 => Submission::v1(&FlowSet::default(), body),
        _ => Submission::v2(&FlowSet::default(), body),
    };
    let Ok(submission) = parsed else { return };
    let flows = &submission.flows;
    let json = flows.to_json();
    let again = FlowSet::parse(json.as_bytes()).unwrap();
    assert!(again == *flows && again.same_content(flows));
    for node in flows.nodes() {
        let object = node.object();
        assert_eq!(object["id"], node.id.as_str());
        assert_eq!(object["type"], node.kind.as_str());
        assert!(object.get("credentials").is_none());
    }
    let none = HashSet::new();
    let same = diff(flows, &again, &none);
    assert!(same.touched().count() == 0 && same.tabs.is_empty() && same.depending.is_empty());
}

/// A flow that is added is shown as it is, can be sent back, and goes without a trace.
pub fn single(data: &[u8]) {
    let base = FlowSet::parse(made::SAMPLE.as_bytes()).unwrap();
    let Ok((flows, _)) = add_flow(&base, data, "new") else {
        return;
    };
    check_flow(data, None).unwrap();
    let shown = flow_json(&flows, "new").unwrap();
    let (again, _) = replace_flow(&flows, "new", shown.as_bytes()).unwrap();
    let object = |set: &FlowSet| -> BTreeMap<_, _> {
        let nodes = set.nodes().iter();
        nodes.map(|n| (n.id.clone(), n.object())).collect()
    };
    assert_eq!(object(&again), object(&flows));
    assert!(remove_flow(&flows, "new").unwrap().same_content(&base));
}

/// A plan makes what runs of the new flow set of what runs of the old one, restarts all that means
/// something else now, rewires what is only wired otherwise, and touches nothing else.
pub fn deployment(data: &[u8]) {
    let (old, new, credentials) = made::two_sets(data);
    let Ok(old) = FlowSet::parse(old.as_bytes()) else {
        return;
    };
    let parsed = (
        FlowSet::parse(new.as_bytes()),
        Submission::v1(&old, new.as_bytes()).map(|sent| sent.flows),
    );
    let (Ok(alone), Ok(new)) = parsed else {
        assert!(parsed.0.is_err() && parsed.1.is_err(), "{new}");
        return;
    };
    assert!(
        new == alone,
        "what was before changes what is: {}",
        alone.to_json()
    );
    assert_eq!(
        touched(&old, &new, &credentials),
        touched(&old, &alone, &credentials)
    );
    for kind in [
        DeploymentType::Full,
        DeploymentType::Nodes,
        DeploymentType::Flows,
        DeploymentType::Reload,
    ] {
        let context =
            |words: &str| format!("{words}, {kind:?}: {} to {}", old.to_json(), new.to_json());
        let planned_to = |new: &FlowSet| plan(&old, new, &diff(&old, new, &credentials), kind);
        let planned = planned_to(&new);
        assert!(
            planned == planned_to(&alone),
            "{}",
            context("what both share changes the plan")
        );
        let kept = apply(&old, &new, &planned, &context);
        nothing_kept_differs(&old, &new, &kept, &credentials, &context);
        if matches!(kind, DeploymentType::Full | DeploymentType::Reload) {
            assert!(planned.everything && kept.is_empty());
        } else {
            let idle = plan(&new, &new, &diff(&new, &new, &HashSet::new()), kind);
            assert_eq!(idle, Plan::default());
        }
        if kind == DeploymentType::Flows {
            whole_flows(&old, &planned, &context);
        }
    }
}

type Context<'t> = &'t dyn Fn(&str) -> String;

/// What goes on running means the same as before.
fn nothing_kept_differs(
    old: &FlowSet,
    new: &FlowSet,
    kept: &BTreeSet<SmolStr>,
    credentials: &HashSet<SmolStr>,
    context: Context,
) {
    for id in kept {
        assert!(
            !credentials.contains(id),
            "{}",
            context("its credentials were sent")
        );
        let (was, is) = (meaning(old, id, old), meaning(new, id, old));
        assert!(
            was == is,
            "{}",
            context(&format!("{id} means something else"))
        );
        let broken = refers_to_changed(old, new, id, &mut BTreeSet::new());
        assert!(
            !broken,
            "{}",
            context(&format!("{id} refers to what has changed"))
        );
    }
}

/// Applies the plan to the running nodes; returns those not touched, except for wires.
fn apply(old: &FlowSet, new: &FlowSet, plan: &Plan, context: Context) -> BTreeSet<SmolStr> {
    let runs = |set: &FlowSet| -> BTreeSet<SmolStr> {
        let nodes = set.nodes().iter().filter(|n| set.runs(n));
        nodes.map(|n| n.id.clone()).collect()
    };
    let mut running = runs(old);
    for stop in &plan.stop {
        assert!(running.remove(&stop.id), "{}", context("it does not run"));
        let gone = new.get(&stop.id).is_none_or(|n| !new.runs(n));
        assert_eq!(stop.removed, gone, "{}", context(&stop.id));
    }
    let kept = running.clone();
    for id in &plan.start {
        assert!(running.insert(id.clone()), "{}", context("it runs already"));
    }
    assert_eq!(running, runs(new), "{}", context("what runs"));
    let rewired: BTreeSet<_> = plan.rewire.iter().cloned().collect();
    let wires = |set: &FlowSet, id: &SmolStr| set.get(id).map(|n| n.wires.clone());
    let other = |id: &&SmolStr| wires(old, id) != wires(new, id);
    let wanted: BTreeSet<_> = kept.iter().filter(other).cloned().collect();
    assert_eq!(rewired, wanted, "{}", context("what is rewired"));
    kept
}

/// A flow restarts whole or not at all.
fn whole_flows(old: &FlowSet, plan: &Plan, context: Context) {
    let stopped: HashSet<_> = plan.stop.iter().map(|stop| &stop.id).collect();
    let mut flows: BTreeMap<&SmolStr, BTreeSet<bool>> = BTreeMap::new();
    let running = old.nodes().iter().filter(|n| old.runs(n));
    for node in running.filter(|n| !n.z.is_empty()) {
        let restarts = stopped.contains(&node.id);
        flows.entry(&node.z).or_default().insert(restarts);
    }
    for (flow, both) in flows {
        assert!(both.len() == 1, "{}", context(&format!("a part of {flow}")));
    }
}

/// All that defines a running node, except its wires and references. Elements not in `known` do not
/// count: as in Node-RED, a dangling reference that now resolves is no change of the referrer.
fn meaning(set: &FlowSet, id: &str, known: &FlowSet) -> Vec<String> {
    let Some(node) = set.get(id) else {
        return Vec::new();
    };
    let mut all = vec![own(&node.text, &["x", "y", "wires"])];
    let tab = set
        .get(&node.z)
        .filter(|tab| tab.part() == ElementKind::Tab);
    all.extend(tab.map(|tab| format!("{:?}", tab.object().get("env"))));
    let is_group = |node: &Arc<Node>| node.part() == ElementKind::Group;
    let mut group = set.get(&node.group);
    for _ in 0..4 {
        let counts = |g: &&Arc<Node>| is_group(g) && known.get(&g.id).is_some_and(is_group);
        let Some(found) = group.filter(counts) else {
            break;
        };
        all.push(own(
            &found.text,
            &["x", "y", "w", "h", "nodes", "style", "wires"],
        ));
        group = set.get(&found.group);
    }
    let subflow = node.instance_of().filter(|id| known.subflow(id).is_some());
    if let Some(subflow) = subflow.and_then(|id| set.subflow(id)) {
        all.push(own(&subflow.text, &["x", "y", "wires"]));
        let inner = set.nodes().iter();
        let inner = inner.filter(|n| n.z == subflow.id && !n.disabled);
        let inner: BTreeMap<_, _> = inner.map(|n| (&n.id, &n.wires)).collect();
        for (id, wires) in inner {
            all.push(format!("{wires:?}"));
            all.extend(meaning(set, id, known));
        }
    }
    all
}

/// An object's members by name, without those that do not count.
fn own(text: &str, without: &[&str]) -> String {
    let Members(mut members) = serde_json::from_str(text).unwrap();
    members.retain(|(key, _)| !without.contains(&key.as_ref()));
    members.sort_by(|(a, _), (b, _)| a.cmp(b));
    let members: Vec<String> = members.iter().map(|(k, v)| format!("{k}:{v}")).collect();
    members.join("\n")
}

/// Returns whether a config node that it refers to, itself or through others, has changed or gone.
fn refers_to_changed(old: &FlowSet, new: &FlowSet, id: &str, seen: &mut BTreeSet<SmolStr>) -> bool {
    let Some(node) = new.get(id).filter(|_| seen.insert(id.into())) else {
        return false;
    };
    let config = node
        .object()
        .get("config")
        .and_then(|c| Some(SmolStr::new(c.as_str()?)));
    let broken = config.is_some_and(|config| {
        let was = old.get(&config).filter(|n| old.enabled(n));
        let is = new.get(&config).filter(|n| new.enabled(n));
        let other = was.is_some_and(|was| {
            is.is_none_or(|is| {
                own(&was.text, &["x", "y", "wires"]) != own(&is.text, &["x", "y", "wires"])
            })
        });
        other || refers_to_changed(old, new, &config, seen)
    });
    let inside = node.instance_of().filter(|id| old.subflow(id).is_some());
    let inside = inside.and_then(|id| new.subflow(id));
    broken
        || inside.is_some_and(|subflow| {
            let mut inner = new
                .nodes()
                .iter()
                .filter(|n| n.z == subflow.id && !n.disabled);
            inner.any(|n| refers_to_changed(old, new, &n.id, seen))
        })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn fuzz_checks_pass_on_seeds_and_random_input() {
        testing::inputs::check_all(&[
            ("deployment", super::deployment),
            ("single", super::single),
            ("submission", super::submission),
        ]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Two random flow sets with tabs, groups, config nodes, subflows, instances and links.
        #[test]
        fn a_plan_makes_exactly_the_changes_between_two_flow_sets(data in vec(any::<u8>(), 0..400)) {
            super::deployment(&data);
        }
    }
}
