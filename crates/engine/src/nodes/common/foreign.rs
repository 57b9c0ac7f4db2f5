//! The node that stands for a foreign one: it hands its messages to the node host.

use crate::node::{BoxedNode, Host, Node, boxed};
use value::{Failure, Message};

struct Foreign;

/// A node of a type that the engine lacks. Fails if there is no node host.
pub(in crate::nodes) fn build(host: &Host<'_>) -> Result<BoxedNode, Failure> {
    match host.node_host() {
        Some(_) => Ok(boxed(Foreign)),
        None => Err(Failure::error(format!(
            "unknown node type: {}",
            host.info().kind()
        ))),
    }
}

impl Node for Foreign {
    fn start(&mut self, host: &mut Host<'_>) {
        if let Some(status) = host.node_host().and_then(|node_host| node_host.trouble()) {
            host.status(status);
        }
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let Some(node_host) = host.node_host() else {
            return;
        };
        if let Err(failure) = node_host.deliver(&host.info().id, &message) {
            host.error(failure, Some(message));
        }
    }
}
