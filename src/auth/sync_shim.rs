//! The synchronization primitives of users, sessions and watches.
//!
//! Imported from here only, because `tests/schedules` compiles those files with shuttle's
//! primitives instead.

pub(super) use arc_swap::ArcSwap;
pub(super) use dashmap::DashMap;
pub(super) use parking_lot::Mutex;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU64};
