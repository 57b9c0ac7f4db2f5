//! `max_nodes`, `max_bytes`: the size of a flow set. One that is too large already may shrink.

use super::{Deployment, Rule, Violation};
use crate::config::Policy;

pub(super) fn check(policy: &Policy, deployment: &Deployment<'_>) -> Vec<Violation> {
    let (before, after) = (deployment.before, deployment.after);
    let nodes = |max| {
        let (is, was) = (after.nodes().len(), before.nodes().len());
        let sentence = format!("the flows have {is} elements, and at most {max} are allowed");
        exceeds(is, was, max).then(|| violation(Rule::MaxNodes, sentence))
    };
    let bytes = |max| {
        let (is, was) = (after.json_size(), before.json_size());
        let sentence = format!("the flows have {is} bytes, and at most {max} are allowed");
        exceeds(is, was, max).then(|| violation(Rule::MaxBytes, sentence))
    };
    let found = [
        policy.max_nodes.and_then(nodes),
        policy.max_bytes.and_then(bytes),
    ];
    found.into_iter().flatten().collect()
}

fn exceeds(is: usize, was: usize, max: usize) -> bool {
    is > max && is > was
}

fn violation(rule: Rule, message: String) -> Violation {
    Violation {
        rule,
        nodes: Vec::new(),
        message,
    }
}
