//! The elements in which two flow sets differ, in whatever: unlike for restarts, a node that was
//! moved differs.

use super::Deployment;
use flows::{FlowSet, Node};
use std::sync::Arc;

/// An element that differs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change<'a> {
    /// The element in the active flow set; `None`: it is added.
    pub(super) before: Option<&'a Arc<Node>>,
    /// The element in the submitted one; `None`: it is removed.
    pub(super) after: Option<&'a Arc<Node>>,
}

impl<'a> Change<'a> {
    /// The element, as it is to be if it is to be.
    pub(super) fn node(&self) -> Option<&'a Arc<Node>> {
        self.after.or(self.before)
    }
}

/// Compares two flow sets; a node whose credentials are sent differs. Linear, and an unchanged
/// element costs a look-up and a comparison of its text.
pub(super) fn changes<'a>(deployment: &Deployment<'a>) -> Vec<Change<'a>> {
    let (before, after) = (deployment.before, deployment.after);
    let mut changes = Vec::new();
    let mut kept = 0;
    for node in after.nodes() {
        let was = before.get(&node.id);
        kept += usize::from(was.is_some());
        let same = was.is_some_and(|was| Arc::ptr_eq(was, node) || was.same_content(node));
        if !same || deployment.sent.contains(&node.id) {
            changes.push(Change {
                before: was,
                after: Some(node),
            });
        }
    }
    if kept < before.nodes().len() {
        let removed = before
            .nodes()
            .iter()
            .filter(|node| after.get(&node.id).is_none());
        changes.extend(removed.map(|node| Change {
            before: Some(node),
            after: None,
        }));
    }
    changes
}

/// Returns whether the elements of both flow sets stand in another order.
pub(super) fn is_reordered(deployment: &Deployment<'_>) -> bool {
    let kept = |of: &FlowSet, other: &FlowSet| {
        let there = of
            .nodes()
            .iter()
            .filter(|node| other.get(&node.id).is_some());
        there.map(|node| node.id.clone()).collect::<Vec<_>>()
    };
    let (before, after) = (deployment.before, deployment.after);
    kept(before, after) != kept(after, before)
}
