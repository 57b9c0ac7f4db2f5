//! `[engine]`: the runtime of our own.
//!
//! Knows the bounds of the numbers; nothing of flows.

use super::Engine;
use super::entry::{Source, number};
use super::error::Fault;
use super::raw;
use super::route;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The table, complete.
pub(super) fn engine(raw: raw::Engine, source: &Source<'_>) -> Result<Engine, Fault> {
    Ok(Engine {
        close_timeout: source.duration(raw.close_timeout, 15 * SECOND, MS..=HOUR)?,
        script_memory: source.size(raw.script_memory, 1 << 30, 8 * MIB..=64 * GIB)?,
        script_timeout: source.duration(raw.script_timeout, 5 * SECOND, MS..=HOUR)?,
        debug_length: number(raw.debug_length, 1000, 1..=1_000_000)?,
        message_buffer: number(raw.message_buffer, 0, 0..=1_000_000_000)?,
        http_node_root: match raw.http_node_root {
            Some(entry) => source.parsed(
                &entry,
                "a path such as \"/\" or \"/api\", not one of the admin API",
                |text| route::canonical(text).filter(|path| !route::is_reserved(path)),
            )?,
            None => "/".to_owned(),
        },
        start_attempts: number(raw.start_attempts, 3, 0..=1000)?,
        settle: source.duration(raw.settle, 60 * SECOND, MS..=HOUR)?,
        safe: false,
        request_timeout: source.duration(raw.request_timeout, 120 * SECOND, MS..=HOUR)?,
        socket_reconnect: source.duration(raw.socket_reconnect, 10 * SECOND, MS..=HOUR)?,
        socket_queue: number(raw.socket_queue, 1000, 1..=1_000_000)?,
        mqtt_reconnect: source.duration(raw.mqtt_reconnect, 5 * SECOND, MS..=HOUR)?,
    })
}
