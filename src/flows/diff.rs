//! What differs between two flow sets (facts engine §1.3).

use super::FlowSet;
use smol_str::SmolStr;
use std::collections::HashSet;

/// The difference, as sets of ids.
#[derive(Debug, Default)]
pub struct Diff {
    /// In the new set only.
    pub added: HashSet<SmolStr>,
    /// In the old set only.
    pub removed: HashSet<SmolStr>,
    /// In both, and different in more than position or wires; or depending on such a node.
    pub changed: HashSet<SmolStr>,
    /// In both, with different wires.
    pub rewired: HashSet<SmolStr>,
}

/// Compares two flow sets; `credentials` are the ids whose credentials were sent.
pub fn diff(_old: &FlowSet, _new: &FlowSet, _credentials: &HashSet<SmolStr>) -> Diff {
    todo!()
}
