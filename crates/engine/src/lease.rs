//! Until when this process may run flows, where another machine runs them when it does not.
//!
//! Nothing of flows happens later: the event loop looks before it delivers messages. A process that
//! was stopped, or cut off from what extends the lease, ends itself; it does not wait for an order.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The end of the lease in nanoseconds of [`now`]; the largest number: it does not end.
static UNTIL: AtomicU64 = AtomicU64::new(u64::MAX);

/// The time since the machine was started, in which it may have slept (`CLOCK_BOOTTIME`): the same
/// for all processes of a machine, and not changed by those who set clocks.
pub fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Sets the end, as [`now`] counts.
pub fn extend(until: Duration) {
    let nanoseconds = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
    UNTIL.store(nanoseconds, Ordering::Release);
}

/// The time that is left; `None`: there is no end.
pub fn left() -> Option<Duration> {
    match UNTIL.load(Ordering::Acquire) {
        u64::MAX => None,
        until => Some(Duration::from_nanos(until).saturating_sub(now())),
    }
}

/// Ends the process if the lease has ended. At once: nothing that it would still do may reach the
/// world.
pub fn check() {
    if left() == Some(Duration::ZERO) {
        std::process::abort();
    }
}
