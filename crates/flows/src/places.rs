//! Where tabs are to run, if several engines share a flow set.

use super::Node;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The tabs that have a place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The shard of a tab, by its id or label.
    pub tabs: BTreeMap<String, String>,
    /// The tabs that may use the global context all the same: each shard has its own.
    pub own_globals: BTreeSet<String>,
    /// True if function nodes may run in the node host.
    pub hosts_functions: bool,
}

impl Places {
    /// The names of all shards but the main one, which has what has no place.
    pub fn shards(&self) -> BTreeSet<&str> {
        self.tabs.values().map(String::as_str).collect()
    }

    /// The shard of a tab, if it has a place.
    pub fn of(&self, tab: &Node) -> Option<&str> {
        let place = |name: &str| self.tabs.get(name).map(String::as_str);
        place(&tab.id).or_else(|| place(&tab.label()))
    }

    /// Returns whether a tab may use the global context of its shard.
    pub fn has_own_globals(&self, tab: &Node) -> bool {
        let has = |name: &str| self.own_globals.contains(name);
        !self.own_globals.is_empty() && (has(&tab.id) || has(&tab.label()))
    }
}

impl Node {
    /// `label`: the name of a tab; empty: none.
    pub fn label(&self) -> String {
        match self.object().remove("label") {
            Some(Value::String(label)) => label,
            _ => String::new(),
        }
    }
}
