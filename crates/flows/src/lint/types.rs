//! Nodes whose type the runtime lacks: nothing starts before it is there.

use super::{Finding, Lint};
use crate::{ElementKind, FlowSet, Node};

/// Returns whether the runtime has the type of the node; of an instance, whether the flow set has
/// its subflow.
pub fn type_is_known(node: &Node, flows: &FlowSet, types: impl Fn(&str) -> bool) -> bool {
    match node.part() {
        ElementKind::Tab | ElementKind::Subflow | ElementKind::Group => true,
        ElementKind::Config | ElementKind::Node => match node.instance_of() {
            Some(subflow) => flows.subflow(subflow).is_some(),
            None => types(&node.kind),
        },
    }
}

pub(super) fn missing(flows: &FlowSet, types: impl Fn(&str) -> bool) -> Vec<Finding> {
    let nodes = flows.nodes().iter();
    let missing = nodes.filter(|node| !type_is_known(node, flows, &types));
    let finding = |node: &Node| Finding {
        lint: Lint::MissingType,
        nodes: vec![node.id.clone()],
        message: format!(
            "node {} has the type {}, which the runtime lacks",
            node.id, node.kind
        ),
    };
    missing.map(|node| finding(node)).collect()
}
