//! Identifies a running node, and a timer that it set, inside the engine.

use std::time::{Duration, Instant};

/// A running node, as timers, futures and endpoints refer to it: a slot is used again, an epoch
/// never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instance {
    pub slot: u32,
    pub epoch: u32,
}

/// A timer of one node: when it is due, and a number that no other timer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TimerId(pub(crate) Instant, pub(crate) u64);

/// The longest delay of a timer in Node.js, in milliseconds.
const MAX_DELAY: f64 = 2_147_483_647.0;

/// The delay of a timer as Node.js takes it: whole milliseconds, and one in place of a delay below
/// or beyond its range.
pub(crate) fn timer_delay(milliseconds: f64) -> Duration {
    let delay = if (1.0..=MAX_DELAY).contains(&milliseconds) {
        milliseconds.trunc()
    } else {
        1.0
    };
    Duration::from_secs_f64(delay / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_whole_milliseconds_of_the_range_of_node_js() {
        let milliseconds = |given: f64| timer_delay(given).as_millis();
        assert_eq!(milliseconds(1500.7), 1500);
        assert_eq!(milliseconds(MAX_DELAY), 2_147_483_647);
        for beyond in [f64::NAN, f64::INFINITY, -5.0, 0.0, 0.5, MAX_DELAY + 1.0] {
            assert_eq!(milliseconds(beyond), 1, "{beyond}");
        }
    }
}
