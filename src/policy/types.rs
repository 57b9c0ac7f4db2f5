//! `require_types`, `forbid_types`, `restrict_types`: the types of the nodes that are added or changed.

use super::changes::Change;
use super::{Deployment, Rule, Violation, Who, violation};
use crate::config::Policy;
use flows::{Node, type_is_known};
use std::sync::Arc;

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
