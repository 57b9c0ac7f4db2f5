//! `junction`, `link in`, `catch`, `status` and `complete`: they pass on what reaches them.
//!
//! The engine decides which messages reach a catch, status or complete node, and which properties
//! they get; link wires are wires.

use crate::node::{BoxedNode, Build, Host, Node, boxed};
use value::{Failure, Message};

struct Passthrough;

#[expect(
    clippy::unnecessary_wraps,
    reason = "as every constructor of the palette"
)]
pub(in crate::nodes) fn build(_: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    Ok(boxed(Passthrough))
}

impl Node for Passthrough {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        host.pass(message);
    }

    fn takes_scripts(&self) -> bool {
        true
    }

    fn touches(&self, _property: &str) -> bool {
        false
    }
}
