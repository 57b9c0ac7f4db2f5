//! Identifies a running node, and a timer that it set, inside the engine.

use std::time::Instant;

/// A running node, as timers, futures and endpoints refer to it: a slot is used again, an epoch never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instance {
    pub slot: u32,
    pub epoch: u32,
}

/// A timer of one node: when it is due, and a number that no other timer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TimerId(pub(crate) Instant, pub(crate) u64);
