//! `require_types`, `forbid_types`, `restrict_types`: the types of the nodes that are added or
//! changed.

use super::changes::Change;
use super::{Deployment, Rule, Violation, Who, violation};
use crate::config::Policy;
use flows::{FlowSet, Node, type_is_known};
use smol_str::SmolStr;
use std::collections::HashSet;
use std::sync::Arc;

/// Refuses nodes whose type the runtime lacks, or whose subflow: with one of them, no flow starts,
/// of other users neither.
pub(super) fn stop_everything(
    deployment: &Deployment<'_>,
    changes: &[Change<'_>],
) -> Option<Violation> {
    let Deployment { before, after, .. } = *deployment;
    let is_known = |node: &Node, flows: &FlowSet| {
        let runtime_has = |kind: &str| deployment.types.is_none_or(|types| types(kind));
        type_is_known(node, flows, runtime_has)
    };
    let added: HashSet<&SmolStr> = changes.iter().filter_map(|c| Some(&c.after?.id)).collect();
    // An instance loses its type with its subflow.
    let is_new = |node: &&Arc<Node>| {
        added.contains(&node.id) || (node.instance_of().is_some() && is_known(node, before))
    };
    let nodes = after.nodes().iter().filter(is_new);
    let missing: Vec<_> = nodes.filter(|node| !is_known(node, after)).collect();
    let reason = "the runtime does not have the types of these nodes, and while it lacks one no flow starts, also of others";
    violation(Rule::MissingTypes, &missing, reason)
}

/// Returns whether a deployment has types of nodes that the flow set before has not: only the
/// runtime knows whether it has them.
pub(super) fn adds_types(before: &FlowSet, after: &FlowSet) -> bool {
    let known: HashSet<&SmolStr> = before.nodes().iter().map(|node| &node.kind).collect();
    let mut nodes = after.nodes().iter();
    nodes.any(|node| !known.contains(&node.kind))
}

pub(super) fn check(
    policy: &Policy,
    who: Who<'_>,
    deployment: &Deployment<'_>,
    changes: &[Change<'_>],
) -> Vec<Violation> {
    let all = |is: &dyn Fn(&Node) -> bool| -> Vec<&Arc<Node>> {
        let nodes = changes.iter().filter_map(|change| change.after);
        nodes.filter(|node| is(node)).collect()
    };
    let lists = |list: &[String], node: &Node| list.iter().any(|kind| *kind == node.kind);
    let permitted = |kind: &str| who.permissions.cover(&format!("node-types:{kind}"));

    let missing = deployment.types.filter(|_| policy.require_types);
    let missing = missing.map(|types| {
        let reason = "the runtime does not have the types of these nodes";
        let nodes = all(&|node| !type_is_known(node, deployment.after, types));
        violation(Rule::MissingTypes, &nodes, reason)
    });
    let forbidden = all(&|node| lists(&policy.forbid_types, node));
    let restricted = all(&|node| lists(&policy.restrict_types, node) && !permitted(&node.kind));
    let found = [
        missing.flatten(),
        violation(
            Rule::ForbiddenTypes,
            &forbidden,
            "nodes of these types must not be added or changed here",
        ),
        violation(
            Rule::RestrictedTypes,
            &restricted,
            "adding or changing these nodes needs the permission node-types:TYPE",
        ),
    ];
    found.into_iter().flatten().collect()
}
