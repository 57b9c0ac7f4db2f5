//! The time that connections are measured by: milliseconds since their worker was made, short
//! enough for an atomic.
//!
//! It is read several times per request, and never needed exactly: the system's coarse clock is as
//! fresh as its last tick (1 to 10 ms) and costs a fifth of the exact one.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Counts from its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock(u64);

impl Clock {
    pub(super) fn start() -> Self {
        Self(since_boot())
    }

    pub(super) fn now(self) -> u64 {
        since_boot().saturating_sub(self.0)
    }

    pub(super) fn since(self, then: u64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(then))
    }
}

fn since_boot() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    // Neither part of a monotonic clock is ever negative.
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * 1000 + u64::try_from(time.tv_nsec / 1_000_000).unwrap_or_default()
}
