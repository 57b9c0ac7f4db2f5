//! `[traces]`, as written.

use super::Entry;
use serde::Deserialize;

/// `[traces]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [traces]")]
pub(in crate::config) struct Traces {
    pub(in crate::config) url: Entry,
    pub(in crate::config) plain: Entry,
    pub(in crate::config) token_file: Entry,
    pub(in crate::config) ca_file: Entry,
    pub(in crate::config) cert: Entry,
    pub(in crate::config) key: Entry,
    pub(in crate::config) ratio: Entry,
    pub(in crate::config) max_per_second: Entry,
    pub(in crate::config) users: Entry,
    pub(in crate::config) interval: Entry,
    pub(in crate::config) timeout: Entry,
}
