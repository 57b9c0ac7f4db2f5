//! Which function nodes of the flow set run in the node host; `foreign_nodes/functions.rs` finds them.

use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;

/// The function nodes of the flow set that run in the node host.
#[derive(Debug, Default)]
pub(crate) struct HostedFunctions {
    /// Their ids in the flow set.
    pub ids: FxHashSet<SmolStr>,
    /// Whether the engine can load a module. Known until all nodes are restarted: a node stays where it is while it runs.
    pub loadable: FxHashMap<SmolStr, bool>,
}
