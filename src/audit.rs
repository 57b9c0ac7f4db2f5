//! Who did what, when, from where: append-only lines, in `audit.log` of the data directory.

use serde::Serialize;
use std::net::IpAddr;

/// Who acts, for audit and history.
#[derive(Debug, Clone, Serialize)]
pub struct Actor {
    /// The user; empty: nobody signed in, or the program itself.
    pub user: String,
    /// Where from.
    pub address: Option<IpAddr>,
    /// The request's id.
    pub request: String,
}

/// The audit log; clones share it.
#[derive(Clone)]
pub struct Audit {}

impl Audit {
    /// Opens or makes the file, mode 0600.
    pub fn open(_directory: &std::path::Path) -> std::io::Result<Self> {
        todo!()
    }

    /// Appends one event; `facts` are its own fields. A failure goes to the log.
    pub fn record(&self, _event: &'static str, _actor: &Actor, _now: u64, _facts: serde_json::Value) {
        todo!()
    }
}
