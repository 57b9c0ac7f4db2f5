//! The concurrent map that holds the sessions.
//!
//! A name of our own, because a test puts a map in its place that a scheduler can look into (`tests/schedules`).

pub(super) use dashmap::DashMap;
