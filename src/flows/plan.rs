//! What a deployment stops, starts and rewires.

use super::{Diff, FlowSet};
use smol_str::SmolStr;

/// How much of the running flow set a deployment touches (specification §4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeploymentType {
    /// Everything stops before the new flow set starts.
    Full,
    /// Only modified nodes stop.
    Nodes,
    /// Only flows (tabs) that contain modified nodes stop.
    Flows,
    /// The flow set is read from storage again and everything restarts.
    Reload,
}

/// A node to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Its id; a subflow instance stops with all that is inside.
    pub id: SmolStr,
    /// Whether the node is gone from the new flow set, and is told so.
    pub removed: bool,
}

/// What to do, in order: stops, then rewires, then starts. Ids are those of the flow set; a subflow
/// instance stands for all its inner nodes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Everything stops and all flow objects are thrown away, whatever `stop` lists.
    pub everything: bool,
    /// Nodes to stop.
    pub stop: Vec<Stop>,
    /// Nodes to start.
    pub start: Vec<SmolStr>,
    /// Nodes whose wires change in place.
    pub rewire: Vec<SmolStr>,
}

/// Makes the plan of a deployment.
pub fn plan(_old: &FlowSet, _new: &FlowSet, _diff: &Diff, _kind: DeploymentType) -> Plan {
    todo!()
}
