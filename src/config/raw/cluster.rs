//! `[cluster]`, as written.

use super::{Entry, List};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Spanned, Value};

/// `[cluster]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [cluster]")]
pub(in crate::config) struct Cluster {
    pub(in crate::config) advertise: Entry,
    pub(in crate::config) listen: Entry,
    pub(in crate::config) cert: Entry,
    pub(in crate::config) key: Entry,
    pub(in crate::config) ca_file: Entry,
    pub(in crate::config) name: Entry,
    #[serde(default)]
    pub(in crate::config) place: BTreeMap<Spanned<String>, Spanned<Value>>,
    pub(in crate::config) own_global_context: List,
    #[serde(default)]
    pub(in crate::config) operations: BTreeMap<Spanned<String>, Spanned<Value>>,
}
