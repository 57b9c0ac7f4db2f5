//! `comment`, `global-config` and `unknown`: they do nothing.

use crate::engine::message::Message;
use crate::engine::node::{Host, Node};

struct Silent;

pub(in crate::engine::nodes) fn build() -> Box<dyn Node> {
    Box::new(Silent)
}

impl Node for Silent {
    fn receive(&mut self, _message: Message, _host: &mut Host<'_>) {}
}
