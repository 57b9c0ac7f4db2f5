//! Rights to single flows: cases by hand, and for random flow sets, users and submissions, that
//! what differs is covered by what the user holds.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::policy::*;
use flows::DeploymentType;
use proptest::collection::btree_set;
use proptest::option;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn set(elements: &str) -> FlowSet {
    FlowSet::parse(format!("[{elements}]").as_bytes()).unwrap()
}

fn refused(names: &[&str], before: &FlowSet, after: &FlowSet) -> Vec<Vec<SmolStr>> {
    let permissions = Permissions::of(names.iter().map(SmolStr::new).collect());
    let who = Who {
        user: "ann",
        permissions: &permissions,
    };
    let deployment = Deployment {
        before,
        after,
        sent: &HashSet::new(),
        types: None,
    };
    let violations = verdict(&Policy::default(), who, &deployment).0;
    let flows = violations.into_iter().filter(|v| v.rule == Rule::Flows);
    flows.map(|violation| violation.nodes).collect()
}

const TWO: &str = concat!(
    r#"{"id":"t1","type":"tab","label":"Line 3","env":[{"name":"TEAM","value":"pack-2","type":"str"}]},"#,
    r#"{"id":"t2","type":"tab","label":"Line 4"},"#,
    r#"{"id":"n1","type":"x","z":"t1","x":1,"y":1},{"id":"n2","type":"x","z":"t2","x":1,"y":1}"#
);

#[test]
fn a_flow_is_held_by_its_id_its_label_or_a_variable() {
    let after = TWO.replace(r#""id":"n1","type":"x""#, r#""id":"n1","type":"y""#);
    for (name, holds) in [
        ("flows.write", true),
        ("write", true),
        ("flows.write:t1", true),
        ("flows.write:Line?3", true),
        ("flows.write:Line*", true),
        ("flows.write:TEAM=pack-*", true),
        ("flows.write:TEAM=line-*", false),
        ("flows.write:t2", false),
        ("flows.write:shared", false),
        ("flows.write:", false),
        ("flows.read:t1", false),
    ] {
        let found = refused(&[name], &set(TWO), &set(&after));
        assert_eq!(found.is_empty(), holds, "{name}: {found:?}");
    }
}

#[test]
fn the_scope_and_the_user_must_both_hold_the_flow() {
    let names = |list: &[&str]| list.iter().map(SmolStr::new).collect();
    let permissions = Permissions::new(
        names(&["flows.write:t1", "flows.write:t2"]),
        names(&["flows.write:Line?3"]),
    );
    assert!(permissions.cover_part(WRITE, |part| ["t1", "Line?3"].contains(&part)));
    assert!(!permissions.cover_part(WRITE, |part| part == "t2"));
    assert!(permissions.cover_some(WRITE) && !permissions.cover(WRITE));
}

#[test]
fn a_node_that_moves_to_another_flow_needs_both() {
    let after = TWO.replace(
        r#""id":"n1","type":"x","z":"t1""#,
        r#""id":"n1","type":"x","z":"t2""#,
    );
    let (before, after) = (set(TWO), set(&after));
    for names in [&["flows.write:t1"], &["flows.write:t2"]] {
        assert_eq!(refused(names, &before, &after), [["n1"]]);
    }
    let both = &["flows.write:t1", "flows.write:t2"];
    assert_eq!(refused(both, &before, &after), [[""; 0]; 0]);
}

#[test]
fn a_full_deployment_of_a_user_of_some_flows_restarts_these_only() {
    let sets = [&set(TWO), &set(TWO)];
    for (names, kind, tabs) in [
        (&["flows.write:t1"][..], DeploymentType::Flows, &["t1"][..]),
        (&["flows.write:t?"], DeploymentType::Flows, &["t1", "t2"]),
        (&["flows.write", "flows.read:t1"], DeploymentType::Full, &[]),
        (&["*"], DeploymentType::Full, &[]),
    ] {
        let permissions = Permissions::of(names.iter().map(SmolStr::new).collect());
        assert_eq!(deployment_type(&permissions, DeploymentType::Full), kind);
        let restarted = restarted(&permissions, DeploymentType::Full, sets);
        assert_eq!(
            restarted,
            tabs.iter().map(SmolStr::new).collect(),
            "{names:?}"
        );
    }
    let permissions = Permissions::of([SmolStr::new("flows.write:t1")].into());
    for kind in [DeploymentType::Nodes, DeploymentType::Flows] {
        assert_eq!(deployment_type(&permissions, kind), kind);
        assert!(super::restarted(&permissions, kind, sets).is_empty());
    }
}

#[test]
fn the_order_of_other_tabs_stays() {
    let tabs = |order: [&str; 3]| {
        set(&order
            .map(|id| format!(r#"{{"id":"{id}","type":"tab"}}"#))
            .join(","))
    };
    let before = tabs(["a", "b", "c"]);
    let with = |order| refused(&["flows.write:a"], &before, &tabs(order));
    assert_eq!(with(["b", "a", "c"]), [[""; 0]; 0]);
    assert_eq!(with(["a", "c", "b"]), [["c", "b"]]);
}

#[test]
fn a_new_flow_needs_a_right_to_it_and_an_unused_shared_element_the_right_to_shared_ones() {
    let with = |name: &str, added: &str| {
        let after = format!("{TWO},{added}");
        refused(&[name], &set(TWO), &set(&after)).is_empty()
    };
    let tab = r#"{"id":"t9","type":"tab","label":"Line 9"}"#;
    assert!(with("flows.write:Line?9", tab) && !with("flows.write:t1", tab));
    let config = r#"{"id":"broker","type":"mqtt-broker"}"#;
    assert!(with("flows.write:shared", config) && !with("flows.write:t*", config));
    // An escaped letter hides no user: this node of another flow uses it.
    let used = r#"{"id":"broker","type":"mqtt-broker"},{"id":"n9","type":"x","z":"t1","x":1,"y":1,"b":"broker"}"#;
    assert!(with("flows.write:t1", used));
    let before =
        format!(r#"{TWO},{{"id":"n8","type":"x","z":"t2","x":1,"y":1,"b":"brok\u0065r"}}"#);
    let after = format!("{before},{used}");
    let found = refused(&["flows.write:t1"], &set(&before), &set(&after));
    assert_eq!(found, [["broker"]]);
}

/// A flow set of three tabs, nodes on them, two config nodes, and a subflow with one node inside.
#[derive(Debug, Clone)]
struct World {
    labels: [u8; 3],
    nodes: [Option<Placed>; 4],
    configs: [Option<u8>; 2],
    inner: u8,
    inner_uses: Option<usize>,
}

/// A node on a tab.
#[derive(Debug, Clone, PartialEq)]
struct Placed {
    tab: usize,
    uses: Option<usize>,
    is_instance: bool,
    version: u8,
}

impl World {
    fn flows(&self) -> FlowSet {
        let config = |uses: Option<usize>| {
            uses.map_or_else(String::new, |c| format!(r#","uses":"config{c}""#))
        };
        let mut all = Vec::new();
        for (i, label) in self.labels.iter().enumerate() {
            all.push(format!(
                r#"{{"id":"tab{i}","type":"tab","info":"{label}"}}"#
            ));
        }
        for (i, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            let kind = if node.is_instance { "subflow:sub" } else { "x" };
            let (tab, version, uses) = (node.tab, node.version, config(node.uses));
            all.push(format!(
                r#"{{"id":"node{i}","type":"{kind}","z":"tab{tab}","x":1,"y":1,"version":{version}{uses}}}"#
            ));
        }
        for (i, version) in self.configs.iter().enumerate() {
            if let Some(version) = version {
                all.push(format!(
                    r#"{{"id":"config{i}","type":"c","version":{version}}}"#
                ));
            }
        }
        all.push(r#"{"id":"sub","type":"subflow"}"#.to_owned());
        let (version, uses) = (self.inner, config(self.inner_uses));
        all.push(format!(
            r#"{{"id":"inner","type":"x","z":"sub","x":1,"y":1,"version":{version}{uses}}}"#
        ));
        set(&all.join(","))
    }

    fn instances(&self) -> BTreeSet<usize> {
        let nodes = self.nodes.iter().flatten();
        nodes
            .filter(|node| node.is_instance)
            .map(|node| node.tab)
            .collect()
    }

    fn users(&self, config: usize) -> BTreeSet<usize> {
        let nodes = self.nodes.iter().flatten();
        let using = nodes.filter(|node| node.uses == Some(config));
        let mut tabs: BTreeSet<usize> = using.map(|node| node.tab).collect();
        if self.inner_uses == Some(config) {
            tabs.extend(self.instances());
        }
        tabs
    }
}

/// Returns whether a user who holds these tabs, and shared elements or not, may make one of the
/// other.
fn is_covered(tabs: &BTreeSet<usize>, shared: bool, before: &World, after: &World) -> bool {
    let common = |users: BTreeSet<usize>| shared || (!users.is_empty() && users.is_subset(tabs));
    let labels = (0..3).all(|i| before.labels[i] == after.labels[i] || tabs.contains(&i));
    let nodes =
        before.nodes.iter().zip(&after.nodes).all(|(old, new)| {
            old == new || old.iter().chain(new).all(|node| tabs.contains(&node.tab))
        });
    let configs = (0..2).all(|i| {
        before.configs[i] == after.configs[i]
            || common(before.users(i).union(&after.users(i)).copied().collect())
    });
    let inside = before.inner == after.inner && before.inner_uses == after.inner_uses;
    let users = before
        .instances()
        .union(&after.instances())
        .copied()
        .collect();
    labels && nodes && configs && (inside || common(users))
}

fn placed() -> impl Strategy<Value = Placed> {
    (0..3_usize, option::of(0..2_usize), any::<bool>(), 0..2_u8).prop_map(
        |(tab, uses, is_instance, version)| Placed {
            tab,
            uses,
            is_instance,
            version,
        },
    )
}

fn world() -> impl Strategy<Value = World> {
    let nodes = prop::array::uniform4(option::of(placed()));
    let configs = prop::array::uniform2(option::of(0..2_u8));
    let labels = prop::array::uniform3(0..2_u8);
    (labels, nodes, configs, 0..2_u8, option::of(0..2_usize)).prop_map(
        |(labels, nodes, configs, inner, inner_uses)| World {
            labels,
            nodes,
            configs,
            inner,
            inner_uses,
        },
    )
}

/// A world and another one that differs in few places.
fn change() -> impl Strategy<Value = (World, World)> {
    (
        world(),
        world(),
        prop::array::uniform12(prop::bool::weighted(0.2)),
    )
        .prop_map(|(before, other, takes)| {
            let mut after = before.clone();
            let mut takes = takes.into_iter();
            let mut take = || takes.next().unwrap();
            for (label, other) in after.labels.iter_mut().zip(other.labels) {
                if take() {
                    *label = other;
                }
            }
            for (node, other) in after.nodes.iter_mut().zip(&other.nodes) {
                if take() {
                    node.clone_from(other);
                }
            }
            for (config, other) in after.configs.iter_mut().zip(other.configs) {
                if take() {
                    *config = other;
                }
            }
            if take() {
                after.inner = other.inner;
            }
            if take() {
                after.inner_uses = other.inner_uses;
            }
            (before, after)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_deployment_is_allowed_exactly_if_what_differs_is_covered(
        (before, after) in change(),
        tabs in btree_set(0..3_usize, 0..3),
        shared in any::<bool>(),
    ) {
        let mut names: Vec<String> = tabs.iter().map(|i| format!("flows.write:tab{i}")).collect();
        if shared {
            names.push("flows.write:shared".to_owned());
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = refused(&names, &before.flows(), &after.flows());
        prop_assert_eq!(found.is_empty(), is_covered(&tabs, shared, &before, &after), "{:?}", found);
    }
}
