//! `comment`, `global-config` and `unknown`: they do nothing.

use crate::node::{Host, Node};
use value::Message;

struct Silent;

pub(in crate::nodes) fn build() -> Box<dyn Node> {
    Box::new(Silent)
}

impl Node for Silent {
    fn receive(&mut self, _message: Message, _host: &mut Host<'_>) {}
}
