//! The nodes that the engine lacks, seen from the engine's thread: they run in the `node_host`, and each has a node here that
//! stands for it (`nodes/common/foreign.rs`).
//!
//! - `flow_set` selects the part of the flow set that the host runs, `deployment` brings it there.
//! - `reports` hands what the host reports to the engine's nodes.

mod deployment;
mod flow_set;
mod reports;

pub(crate) use flow_set::is_foreign;
