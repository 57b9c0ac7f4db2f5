//! Computes the difference between two flow sets (docs/reference/node-red-engine.md §1.3).
//!
//! Compares ids and texts; `plan` derives the actions from the difference.

use super::model::ElementKind;
use super::references::dependants;
use super::{FlowSet, Node, json_eq};
use smol_str::SmolStr;
use std::collections::HashSet;
use std::sync::Arc;

/// The difference, as lists of ids, each in the order of the flow set. A disabled node counts as
/// absent.
#[derive(Debug, Default)]
pub struct Diff {
    /// In the new set only.
    pub added: Vec<SmolStr>,
    /// In the old set only.
    pub removed: Vec<SmolStr>,
    /// In both, and different in more than position or wires; or a subflow of which something
    /// inside differs.
    pub changed: Vec<SmolStr>,
    /// Not different, but depending on a node that is changed or removed.
    pub depending: Vec<SmolStr>,
    /// In both, with different wires.
    pub rewired: Vec<SmolStr>,
    /// Tabs whose environment differs: all that is on them is to restart.
    pub tabs: Vec<SmolStr>,
    /// The global environment differs (a `global-config` node): everything is to restart.
    pub global: bool,
}

/// Compares two flow sets; `credentials` are the ids whose credentials were sent.
#[allow(clippy::implicit_hasher, reason = "one caller, with the usual hasher")]
pub fn diff(old: &FlowSet, new: &FlowSet, credentials: &HashSet<SmolStr>) -> Diff {
    let is_tab = |node: &Arc<Node>| node.part() == ElementKind::Tab;
    let not_tab = |node: &&Arc<Node>| !is_tab(node);
    // An element that both share differs only through its tab or its credentials.
    let differing = |a, b| FlowSet::not_shared_with(a, b).cloned().collect::<Vec<_>>();
    let (mut old_nodes, mut new_nodes) = (differing(old, new), differing(new, old));
    let mut diff = Diff::default();
    if !credentials.is_empty() || old_nodes.iter().chain(&new_nodes).any(is_tab) {
        diff.tabs = tabs(old, new, credentials);
        (old_nodes, new_nodes) = (old.nodes().to_vec(), new.nodes().to_vec());
    }
    for node in old_nodes.iter().filter(not_tab) {
        let was = old.enabled(node);
        match new
            .get(&node.id)
            .filter(|now| now.part() != ElementKind::Tab)
        {
            Some(now) => {
                let is = new.enabled(now);
                let same = Arc::ptr_eq(node, now);
                if was && !is {
                    diff.removed.push(node.id.clone());
                } else if is && !was {
                    diff.added.push(node.id.clone());
                } else if credentials.contains(&node.id) || (!same && changed(node, now)) {
                    diff.changed.push(node.id.clone());
                } else if !same && node.wires != now.wires {
                    diff.rewired.push(node.id.clone());
                }
            }
            // A group is around its nodes even if it is disabled.
            None if was || node.part() == ElementKind::Group => diff.removed.push(node.id.clone()),
            None => {}
        }
    }
    let absent = |node: &&Arc<Node>| {
        old.get(&node.id)
            .is_none_or(|was| was.part() == ElementKind::Tab)
    };
    let added = new_nodes
        .iter()
        .filter(not_tab)
        .filter(absent)
        .filter(|node| new.enabled(node));
    diff.added.extend(added.map(|node| node.id.clone()));
    let is_global =
        |set: &FlowSet, id: &SmolStr| set.get(id).is_some_and(|node| node.kind == "global-config");
    let global = diff
        .touched()
        .any(|id| is_global(old, id) || is_global(new, id));
    diff.global = global;
    mark_subflows(&mut diff, old, new);
    let seeds = diff.changed.iter().chain(&diff.removed).cloned().collect();
    diff.depending = dependants(new, &seeds, &|_| true);
    diff
}

impl Diff {
    /// The ids of all elements that differ themselves.
    pub fn touched(&self) -> impl Iterator<Item = &SmolStr> {
        self.changed
            .iter()
            .chain(&self.added)
            .chain(&self.removed)
            .chain(&self.rewired)
    }
}

/// The tabs whose `env` differs. A tab that is not there has none: its nodes live on as on an
/// unnamed tab.
fn tabs(old: &FlowSet, new: &FlowSet, credentials: &HashSet<SmolStr>) -> Vec<SmolStr> {
    let env = |set: &FlowSet, id: &str| {
        let tab = set.get(id).filter(|node| node.part() == ElementKind::Tab);
        tab.and_then(|tab| tab.object().remove("env"))
            .filter(|env| env.as_array().is_none_or(|list| !list.is_empty()))
    };
    let same_env = |id: &SmolStr| match (env(old, id), env(new, id)) {
        (Some(a), Some(b)) => json_eq::values(&a, &b),
        (a, b) => a.is_none() && b.is_none(),
    };
    let same_text = |id: &SmolStr| {
        old.get(id)
            .zip(new.get(id))
            .is_some_and(|(a, b)| a.text == b.text)
    };
    let gone = old.tabs().filter(|tab| new.get(&tab.id).is_none());
    let ids = new.tabs().chain(gone).map(|tab| &tab.id);
    ids.filter(|id| credentials.contains(*id) || (!same_text(id) && !same_env(id)))
        .cloned()
        .collect()
}

/// Returns whether two elements of the same id differ in more than position, wires and, of a group,
/// members and looks.
fn changed(old: &Node, new: &Node) -> bool {
    let group = new.part() == ElementKind::Group;
    let counts = |key: &str| match key {
        "x" | "y" | "wires" => false,
        "nodes" | "style" | "w" | "h" => !group,
        _ => true,
    };
    old.text != new.text
        && (old.kind != new.kind
            || old.part() != new.part()
            || !json_eq::texts(&old.text, &new.text, counts))
}

/// A subflow is changed when anything inside it is, or comes or goes
/// (docs/reference/node-red-engine.md §1.3).
fn mark_subflows(diff: &mut Diff, old: &FlowSet, new: &FlowSet) {
    let around = |set: &FlowSet, id: &SmolStr| {
        set.get(id)
            .filter(|node| set.subflow(&node.z).is_some())
            .map(|node| node.z.clone())
    };
    let known: HashSet<SmolStr> = diff
        .changed
        .iter()
        .chain(&diff.added)
        .chain(&diff.removed)
        .cloned()
        .collect();
    let mut marked: HashSet<SmolStr> = diff
        .touched()
        .flat_map(|id| [around(old, id), around(new, id)])
        .flatten()
        .collect();
    marked.retain(|id| !known.contains(id) && new.subflow(id).is_some());
    if marked.is_empty() {
        return;
    }
    diff.changed.extend(
        new.nodes()
            .iter()
            .filter(|node| marked.contains(&node.id))
            .map(|node| node.id.clone()),
    );
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn between(old: &str, new: &str) -> Diff {
        let parse = |json: &str| FlowSet::parse(json.as_bytes()).unwrap();
        diff(&parse(old), &parse(new), &HashSet::new())
    }

    #[test]
    fn position_and_key_order_and_number_spelling_are_no_change() {
        let d = between(
            r#"[{"id":"a","type":"x","n":1,"x":1,"y":1}]"#,
            r#"[{"type":"x","y":2,"x":9,"n":1.0,"id":"a"}]"#,
        );
        assert_eq!(d.touched().count(), 0);
    }

    #[test]
    fn one_more_key_is_a_change() {
        assert_eq!(
            between(
                r#"[{"id":"a","type":"x"}]"#,
                r#"[{"id":"a","type":"x","u":null}]"#
            )
            .changed,
            ["a"]
        );
    }

    #[test]
    fn nodes_depend_on_a_group_that_is_removed_even_if_it_was_disabled() {
        let group = r#"{"id":"g","type":"group","z":"t","d":true,"nodes":["a"]},"#;
        let set = |group: &str| {
            format!(r#"[{{"id":"t","type":"tab"}},{group}{{"id":"a","type":"x","z":"t","g":"g"}}]"#)
        };
        let d = between(&set(group), &set(""));
        assert_eq!(
            (d.removed, d.depending),
            (vec!["g".into()], vec!["a".into()])
        );
    }

    #[test]
    fn a_tab_differs_by_its_environment_only() {
        let tab = |more: &str| {
            format!(
                r#"[{{"id":"t","type":"tab","label":"L","env":[{{"name":"A","value":"1"}}]{more}}}]"#
            )
        };
        assert!(
            between(&tab(""), &tab(r#","info":"i","locked":true"#))
                .tabs
                .is_empty()
        );
        assert_eq!(
            between(&tab(""), &tab("").replace("\"1\"", "\"2\"")).tabs,
            ["t"]
        );
        assert_eq!(between(&tab(""), "[]").tabs, ["t"]);
        assert!(
            between(
                r#"[{"id":"t","type":"tab"}]"#,
                r#"[{"id":"t","type":"tab","env":[]}]"#
            )
            .tabs
            .is_empty()
        );
    }

    #[test]
    fn a_reference_to_a_changed_node_is_depending_in_flow_set_order() {
        let set = |v: u8| {
            format!(
                r#"[{{"id":"a","type":"x","p":"b"}},{{"id":"b","type":"x","p":"c"}},{{"id":"c","type":"x","v":{v}}}]"#
            )
        };
        let d = between(&set(1), &set(2));
        assert_eq!(
            (d.changed, d.depending),
            (vec!["c".into()], vec!["a".into(), "b".into()])
        );
    }

    #[test]
    fn adding_or_removing_a_global_config_changes_everything() {
        let gc = r#"[{"id":"g","type":"global-config","env":[]}]"#;
        assert!(between("[]", gc).global && between(gc, "[]").global && !between(gc, gc).global);
    }
}
