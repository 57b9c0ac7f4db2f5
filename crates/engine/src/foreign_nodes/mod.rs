//! The nodes that the engine lacks, seen from the engine's thread: they run in the `node_host`, and
//! each has a node here that stands for it (`nodes/common/foreign.rs`).
//!
//! - `flow_set` selects the part of the flow set that the host runs, with the config nodes of both
//!   sides (`shared_config`);
//!   `element` writes each, `deployment` brings it there.
//! - `functions` finds the function nodes that run there.
//! - `reports` hands what the host reports to the engine's nodes.

mod deployment;
mod element;
mod flow_set;
mod functions;
mod reports;
mod shared_config;

use crate::node_info::NodeInfo;
use crate::nodes::is_foreign;
use crate::state::EngineState;
#[cfg(test)]
pub(crate) use flow_set::tests::selected;

impl EngineState {
    /// Returns whether a node runs in the node host, if there is one.
    pub(crate) fn is_foreign(&self, node: &NodeInfo) -> bool {
        is_foreign(node.kind()) || self.hosted_functions.ids.contains(node.alias())
    }
}
