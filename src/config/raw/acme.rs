//! `[tls.acme]` as it is written.

use super::{Entry, List};
use serde::Deserialize;

/// `[tls.acme]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [tls.acme]")]
pub(in crate::config) struct Acme {
    pub(in crate::config) domains: List,
    pub(in crate::config) contact: List,
    pub(in crate::config) directory: Entry,
    pub(in crate::config) ca_file: Entry,
    pub(in crate::config) accept_terms: Entry,
    pub(in crate::config) eab_key_id: Entry,
    pub(in crate::config) eab_hmac_key_file: Entry,
}
