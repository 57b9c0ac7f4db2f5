//! `[storage]`, as written.

use super::Entry;
use serde::Deserialize;

/// `[storage]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [storage]")]
pub(in crate::config) struct Storage {
    pub(in crate::config) directory: Entry,
    pub(in crate::config) history: Entry,
    pub(in crate::config) history_age: Entry,
    pub(in crate::config) history_bytes: Entry,
    pub(in crate::config) credential_secret: Entry,
    pub(in crate::config) credential_secret_file: Entry,
    pub(in crate::config) url: Entry,
    pub(in crate::config) url_file: Entry,
    pub(in crate::config) ca_file: Entry,
    pub(in crate::config) grace: Entry,
}
