//! `comment`, `global-config` and `unknown`: they do nothing.

use crate::node::{BoxedNode, Build, Host, Node, boxed};
use value::{Failure, Message};

pub(in crate::nodes) struct Noop;

#[expect(
    clippy::unnecessary_wraps,
    reason = "as every constructor of the palette"
)]
pub(in crate::nodes) fn build(_: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    Ok(boxed(Noop))
}

impl Node for Noop {
    fn receive(&mut self, _message: Message, _host: &mut Host<'_>) {}
}
