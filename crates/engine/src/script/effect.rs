//! The effects that the code of a function node requests.

use super::script_message::ScriptMessage;
use crate::log_level::Level;
use std::time::Duration;
use value::{Failure, Message, Value};

/// One thing to do for the code, in the order in which it asked.
#[derive(Debug)]
pub enum Effect {
    /// Send a message to the first output; the code has finished with it.
    Pass(Message),
    /// Send a message to the one node at the first output, which takes it as it is; the code has
    /// finished with it.
    Feed(ScriptMessage),
    /// Send a message to the first output.
    SendFirst(Message),
    /// Send messages to outputs, in one go.
    Send(Vec<(usize, Message)>),
    /// The code has finished with a message.
    Done(Message),
    /// A failure; with a message, it is reported to catch nodes.
    Error(Failure, Option<Message>),
    /// Show a status.
    Status(Value),
    /// Write to the log.
    Log(Level, Value),
    /// Call [`super::Sandbox::timer`] with this number after this delay.
    SetTimer(u32, Duration),
    /// Forget a timer.
    ClearTimer(u32),
}
