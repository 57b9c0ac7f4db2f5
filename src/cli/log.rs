//! Sets up the log: standard error, text or JSON lines, and its level.

use crate::config::Log;
use std::io::IsTerminal;

/// Starts logging; a logger that was started before stays.
pub(super) fn start(config: &Log) {
    let log = tracing_subscriber::fmt()
        .with_max_level(config.level)
        // It would report on standard error, with a panic, that standard error cannot be written.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    // An error means that this process has a logger already: then that one is used.
    let _ = if config.json {
        log.json().flatten_event(true).try_init()
    } else {
        log.try_init()
    };
}
