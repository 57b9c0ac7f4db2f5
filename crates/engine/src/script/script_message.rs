//! A message that stays the JavaScript object that it is, on its way from one function to the next: neither is its
//! content copied, however large it is, nor does the one lose sight of what the other has changed (as in Node-RED,
//! docs/reference/node-red-engine.md §3.1, where a message that goes to one node is not cloned).

use super::given::Given;
use super::{Scripts, failure};
use rquickjs::Ctx;
use std::fmt;
use std::rc::Rc;
use value::{Failure, Message};

/// A message on its way from a function to another one of the same thread.
pub struct ScriptMessage {
    // Dropped in this order: the runtime last.
    pub(super) given: Given,
    scripts: Rc<Scripts>,
    /// [`Scripts::has_room`] counts it.
    _waits: Rc<()>,
}

impl fmt::Debug for ScriptMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptMessage")
    }
}

impl ScriptMessage {
    pub(super) fn new(scripts: &Rc<Scripts>, given: Given) -> Self {
        Self {
            given,
            scripts: Rc::clone(scripts),
            _waits: Rc::clone(&scripts.waits),
        }
    }

    /// What is known of it without JavaScript: the message as native code saw it last.
    pub(crate) fn rest(&self) -> &Message {
        &self.given.rest
    }

    /// The message, for a node that is no function. Runs getters and the like of the object, within the time limit. The
    /// failure comes with what is known of the message without them.
    pub(crate) fn into_message(self) -> Result<Message, (Failure, Message)> {
        let Self { given, scripts, .. } = self;
        let Some(library) = scripts.library.get() else {
            return Ok(given.rest);
        };
        let read = |ctx: Ctx<'_>| {
            let message = given.message(&scripts, &ctx);
            message.map_err(|_| failure::pending(&scripts, &ctx))
        };
        scripts.clock.start(scripts.default_limit);
        let message = library.realm.with(read);
        scripts.end_invocation(&library.realm);
        message.map_err(|failure| (failure, given.rest))
    }
}
