//! `junction`, `link in`, `catch`, `status` and `complete`: they pass on what reaches them.
//!
//! Which messages reach a catch, status or complete node, and what is added to them, is decided by
//! the engine; link wires are wires.

use crate::node::{Host, Node};
use value::Message;

struct PassOn;

pub(in crate::nodes) fn build() -> Box<dyn Node> {
    Box::new(PassOn)
}

impl Node for PassOn {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        host.pass(message);
    }
}
