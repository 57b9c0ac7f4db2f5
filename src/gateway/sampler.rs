//! Samples the numbers of the console's last hour, while the console is enabled.

use super::Gateway;
use crate::metrics::INTERVAL;
use std::sync::Weak;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Samples until the gateway is dropped. `clock` returns the time since 1970.
pub(super) async fn sample(gateway: Weak<Gateway>, clock: fn() -> Duration) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(gateway) = gateway.upgrade() else {
            return;
        };
        let hour = &gateway.last_hour;
        hour.sample(&gateway.metrics, clock().as_secs(), resident_bytes());
    }
}

/// The resident memory of this process (proc(5): `VmRSS` of `/proc/self/status`, in KiB); 0 where
/// it cannot be read.
fn resident_bytes() -> u64 {
    let facts = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = facts.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let size = line.and_then(|line| line.split_whitespace().next());
    size.and_then(|size| size.parse::<u64>().ok())
        .map_or(0, |size| size * 1024)
}
