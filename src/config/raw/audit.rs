//! `[audit]` and the tables in it, as written.

use super::Entry;
use serde::Deserialize;
use toml::Spanned;

/// `[audit]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [audit]")]
pub(in crate::config) struct Audit {
    pub(in crate::config) to: Entry,
    pub(in crate::config) rotate_size: Entry,
    pub(in crate::config) rotate_age: Entry,
    pub(in crate::config) keep: Entry,
    pub(in crate::config) keep_for: Entry,
    pub(in crate::config) max_size: Entry,
    pub(in crate::config) on_failure: Entry,
    pub(in crate::config) signing_key: Entry,
    pub(in crate::config) checkpoint: Entry,
    #[serde(default)]
    pub(in crate::config) sink: Vec<Spanned<AuditSink>>,
}

/// `[[audit.sink]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[audit.sink]]")]
pub(in crate::config) struct AuditSink {
    #[serde(rename = "type")]
    pub(in crate::config) kind: Entry,
    pub(in crate::config) name: Entry,
    pub(in crate::config) url: Entry,
    pub(in crate::config) plain: Entry,
    pub(in crate::config) ca_file: Entry,
    pub(in crate::config) cert: Entry,
    pub(in crate::config) key: Entry,
    pub(in crate::config) secret: Entry,
    pub(in crate::config) secret_file: Entry,
    pub(in crate::config) token_file: Entry,
    pub(in crate::config) max_lag: Entry,
    pub(in crate::config) timeout: Entry,
}
