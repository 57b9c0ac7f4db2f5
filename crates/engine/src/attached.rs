//! Messages of which JavaScript has a part: which nodes take them, and the part of the message that
//! a node has just now.

use crate::node_info::NodeInfo;
use crate::script::ScriptMessage;
use std::rc::Rc;

/// The nodes that take such messages, and the one that has such a message now.
#[derive(Default)]
pub(crate) struct Attached {
    /// By slot.
    takers: Vec<Option<Rc<NodeInfo>>>,
    now: Option<Part>,
}

/// The part that JavaScript has of the message that a node handles.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) script: ScriptMessage,
    /// True if the next node has got the object: another one gets a copy.
    pub(crate) is_sent: bool,
}

impl Attached {
    /// The node in a slot takes such messages; `None`: it does not.
    pub(crate) fn set_taker(&mut self, slot: u32, taker: Option<&Rc<NodeInfo>>) {
        let slot = slot as usize;
        if slot >= self.takers.len() && taker.is_some() {
            self.takers.resize(slot + 1, None);
        }
        if let Some(place) = self.takers.get_mut(slot) {
            *place = taker.cloned();
        }
    }

    /// Returns whether the node in a slot takes such messages of this node. Both must be in the
    /// same flow or instance of a subflow: code of the one can act in the other, so users who may
    /// change one of them must be those who may change the other.
    pub(crate) fn takes(&self, slot: u32, from: &NodeInfo) -> bool {
        let taker = self.takers.get(slot as usize).and_then(Option::as_ref);
        taker.is_some_and(|taker| taker.container.path == from.container.path)
    }

    /// Begins with a message.
    pub(crate) fn begin(&mut self, script: ScriptMessage) {
        let is_sent = false;
        self.now = Some(Part { script, is_sent });
    }

    /// Returns whether JavaScript has a part of the message that is handled now.
    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.now.is_some()
    }

    /// That part.
    pub(crate) fn part(&self) -> Option<&Part> {
        self.now.as_ref()
    }

    /// Takes that part away.
    pub(crate) fn take(&mut self) -> Option<Part> {
        self.now.take()
    }

    /// Puts it back.
    pub(crate) fn put(&mut self, part: Part) {
        self.now = Some(part);
    }
}
