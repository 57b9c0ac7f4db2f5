//! Tabs, subflows and groups that are `locked` in the active flow set: neither they nor what is in
//! them may differ.

use super::changes::Change;
use super::{Deployment, Rule, UNLOCK, Violation, violation};
use flows::{ElementKind, FlowSet, Node};
use smol_str::SmolStr;
use std::collections::HashSet;

pub(super) fn check(deployment: &Deployment<'_>, changes: &[Change<'_>]) -> Option<Violation> {
    if changes.is_empty() {
        return None;
    }
    let before = deployment.before.nodes();
    let locked: HashSet<&SmolStr> = before
        .iter()
        .filter(|node| is_locked(node))
        .map(|node| &node.id)
        .collect();
    if locked.is_empty() {
        return None;
    }
    let inside = |node: &Node, flows: &FlowSet| {
        locked.contains(&node.id) || locked.contains(&node.z) || in_group(node, flows, &locked)
    };
    let refused = changes.iter().filter(|change| {
        change
            .before
            .is_some_and(|node| inside(node, deployment.before))
            || change
                .after
                .is_some_and(|node| inside(node, deployment.after))
    });
    let nodes: Vec<_> = refused.filter_map(Change::node).collect();
    let reason = format!(
        "these are locked, or in a locked tab or group, and changing them needs the permission {UNLOCK}"
    );
    violation(Rule::Locked, &nodes, &reason)
}

fn is_locked(node: &Node) -> bool {
    let is_container = matches!(
        node.part(),
        ElementKind::Tab | ElementKind::Subflow | ElementKind::Group
    );
    // An escaped letter can spell the key, too.
    let may_be = || node.text.contains("locked") || node.text.contains("\\u");
    is_container && may_be() && node.object().get("locked").is_some_and(|is| is == true)
}

/// Returns whether one of the groups around the node is locked. Groups can be written as a circle.
fn in_group(node: &Node, flows: &FlowSet, locked: &HashSet<&SmolStr>) -> bool {
    let mut seen = HashSet::new();
    let mut group = &node.group;
    while !group.is_empty() && seen.insert(group) {
        if locked.contains(group) {
            return true;
        }
        let Some(around) = flows.get(group) else {
            return false;
        };
        group = &around.group;
    }
    false
}
