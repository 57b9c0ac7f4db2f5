//! The levels at which nodes log.

/// The level of a node's log line; the numbers are Node-RED's (docs/reference/node-red-admin-api.md
/// §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// `node.error` without a message, unhandled errors.
    Error = 20,
    /// `node.warn`.
    Warn = 30,
    /// `node.log`.
    Info = 40,
    /// `node.debug`.
    Debug = 50,
    /// `node.trace`.
    Trace = 60,
}
