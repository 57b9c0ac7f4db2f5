//! Which function nodes of the flow set run in the node host; `foreign_nodes/functions.rs` finds
//! them.

use flows::Node;
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;

/// The function nodes of the flow set that run in the node host.
#[derive(Debug, Default)]
pub(crate) struct HostedFunctions {
    /// Their ids in the flow set.
    pub ids: FxHashSet<SmolStr>,
    /// Whether the engine can load a module. Known until all nodes are restarted: a node stays
    /// where it is while it runs.
    pub loadable: FxHashMap<SmolStr, bool>,
}

/// Returns whether a node is a function that names modules. The text of a node is compact.
pub(crate) fn has_modules(node: &Node) -> bool {
    node.kind == "function" && node.text.contains("\"libs\":[{")
}
