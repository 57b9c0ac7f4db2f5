//! A message that stays the JavaScript object that it is, on its way from one function to the next,
//! also through nodes that pass on what they do not touch: neither is its content copied, however
//! large it is, nor does the one function lose sight of what the other has changed (as in Node-RED,
//! docs/reference/node-red-engine.md §3.1, where a message that goes to one node is not cloned).

use super::given::Given;
use super::{Scripts, failure};
use rquickjs::Ctx;
use std::fmt;
use std::rc::Rc;
use value::{Failure, Message};

/// A message of which JavaScript has a part, or all of it.
#[derive(Clone)]
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

    /// The same with this in place of what native code had of it.
    pub(crate) fn with(mut self, rest: Message) -> Self {
        self.given.rest = rest;
        self
    }

    /// Returns whether the id is in [`Self::rest`], if the message has one.
    pub(crate) fn has_native_id(&self) -> bool {
        !self.given.has("_msgid")
    }

    /// Takes the part of the message that native code has, with all that a node touches; the other
    /// properties stay here. As [`Self::into_message`] otherwise.
    pub(crate) fn read(&mut self, touches: &dyn Fn(&str) -> bool) -> Result<Message, Failure> {
        let present = self.given.present.as_ref();
        if present.is_none_or(|present| present.iter().any(|name| touches(name))) {
            let Self { given, scripts, .. } = self;
            enter(scripts, |ctx| given.read(scripts, ctx, touches))?;
        }
        Ok(std::mem::take(&mut self.given.rest))
    }

    /// The message, for a node that is no function. Runs getters and the like of the object, within
    /// the time limit. The failure comes with what is known of the message without them.
    pub(crate) fn into_message(self) -> Result<Message, (Failure, Message)> {
        let Self { given, scripts, .. } = self;
        if given.present.as_ref().is_some_and(|names| names.is_empty()) {
            return Ok(given.rest);
        }
        let message = enter(&scripts, |ctx| given.message(&scripts, ctx));
        message.map_err(|failure| (failure, given.rest))
    }
}

/// Runs in no node's name.
fn enter<R>(
    scripts: &Scripts,
    run: impl FnOnce(&Ctx<'_>) -> rquickjs::Result<R>,
) -> Result<R, Failure> {
    let library = scripts
        .library()
        .map_err(|e| Failure::error(e.to_string()))?;
    scripts.clock.start(scripts.default_limit);
    let result = (library.realm).with(|ctx| run(&ctx).map_err(|_| failure::pending(scripts, &ctx)));
    scripts.end_invocation(&library.realm);
    result
}
