//! Credentials of nodes: kept beside the flow set, never in it.

use serde_json::{Map, Value};
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// Credentials by node id.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Credentials {
    /// Node id to its fields.
    pub nodes: BTreeMap<SmolStr, Map<String, Value>>,
}
