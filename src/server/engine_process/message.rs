//! What the gateway and the engine's process tell each other, a line of JSON each, after the
//! gateway has sent the configuration.

use crate::store::EngineState;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::time::Duration;

/// What the gateway tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToEngine {
    /// The process may run flows until then, on the clock of [`engine::lease::now`].
    Lease(Duration),
    /// Its state, before it opens its own; empty: that stays.
    TakeOver(EngineState),
    /// The flows that the main engine has, and whether they run.
    Follow(EngineState),
    /// The state that it has asked to keep is kept, or why not.
    Kept(Result<(), String>),
}

/// What the process tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToGateway {
    /// It has taken the state over.
    TakenOver,
    /// It serves.
    Ready,
    /// It has got a lease, and acts.
    Alive,
    /// A part of its state is to be kept before it counts.
    Keep(EngineState),
}

/// A line with the message.
pub(super) fn line(message: &impl Serialize) -> io::Result<String> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    Ok(line)
}

/// The message of a line.
pub(super) fn of_line<M: DeserializeOwned>(line: &[u8]) -> io::Result<M> {
    serde_json::from_slice(line).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}
