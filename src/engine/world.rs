//! What all nodes of an engine thread share: the queue, timers, contexts, listeners of errors and status.

use super::context::Contexts;
use smol_str::SmolStr;
use std::cell::RefCell;
use std::rc::Rc;

/// The surroundings of every node on one engine thread.
pub struct World {
    pub(super) now: f64,
    pub(super) contexts: Rc<RefCell<Contexts>>,
    pub(super) config: crate::config::Engine,
}

impl World {
    pub(super) fn fresh_id(&mut self) -> SmolStr {
        todo!()
    }
}
