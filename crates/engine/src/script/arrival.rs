//! A message as it comes to a function: from native code, or as the object of another function.

use super::Scripts;
use super::given::Given;
use super::script_message::ScriptMessage;
use rquickjs::{Ctx, Result};
use smol_str::SmolStr;
use std::rc::Rc;
use value::Message;

/// A message as it comes to a function.
pub(super) enum Arrival {
    Message(Message),
    Script(ScriptMessage),
}

impl Arrival {
    /// What is known of it without JavaScript.
    pub(super) fn rest(&self) -> &Message {
        match self {
            Self::Message(message) => message,
            Self::Script(message) => message.rest(),
        }
    }

    /// The message as it came, or the nearest that can be said of it.
    pub(super) fn message(&self, scripts: &Scripts, ctx: &Ctx<'_>) -> Message {
        let Self::Script(script) = self else {
            return self.rest().clone();
        };
        let message = script.given.message(scripts, ctx);
        message.unwrap_or_else(|_| {
            drop(ctx.catch());
            self.rest().clone()
        })
    }

    /// The message for code that sees these properties.
    pub(super) fn open(
        &self,
        scripts: &Scripts,
        ctx: &Ctx<'_>,
        visible: Option<&Rc<[SmolStr]>>,
    ) -> Result<Given> {
        match self {
            Self::Message(message) => Given::new(scripts, ctx, message, visible),
            Self::Script(message) => {
                let mut given = message.given.clone();
                if given.show(scripts, ctx, visible).is_ok() {
                    return Ok(given);
                }
                // A frozen object, for one, takes back nothing that native code has read.
                drop(ctx.catch());
                let message = message.given.message(scripts, ctx)?;
                Given::new(scripts, ctx, &message, visible)
            }
        }
    }
}
