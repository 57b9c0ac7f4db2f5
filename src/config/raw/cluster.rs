//! `[cluster]`, as written.

use super::Entry;
use serde::Deserialize;

/// `[cluster]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [cluster]")]
pub(in crate::config) struct Cluster {
    pub(in crate::config) advertise: Entry,
    pub(in crate::config) listen: Entry,
    pub(in crate::config) cert: Entry,
    pub(in crate::config) key: Entry,
    pub(in crate::config) ca_file: Entry,
}
