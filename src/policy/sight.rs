//! The part of a flow set that a caller sees, computed once for a flow set and permissions: the flows that the caller may
//! read, with all that is on them, and the shared elements that these use.

use super::links;
use super::rights::Rights;
use super::shared::{Place, References, place};
use crate::auth::{FLOWS_READ, Permissions};
use flows::{FlowSet, Node};
use smol_str::SmolStr;
use std::collections::HashSet;
use std::sync::Arc;

/// A flow set as one caller sees it.
#[derive(Debug)]
pub struct Sight {
    flows: Arc<FlowSet>,
    /// The ids of what the caller does not see; `None`: the caller sees everything.
    hidden: Option<HashSet<SmolStr>>,
}

impl Sight {
    /// Linear in the size of the flow set, for a caller who reads some flows only.
    pub fn of(permissions: &Permissions, flows: &Arc<FlowSet>) -> Self {
        let hidden = permissions
            .reads_some_flows()
            .then(|| hidden(permissions, flows));
        let flows = Arc::clone(flows);
        Self { flows, hidden }
    }

    /// Whether the caller sees everything.
    pub fn is_whole(&self) -> bool {
        self.hidden.is_none()
    }

    /// Whether there is an element of this id, and the caller sees it.
    pub fn sees(&self, id: &str) -> bool {
        self.flows.get(id).is_some() && !self.hides(id)
    }

    /// Whether there is an element of this id, and the caller does not see it.
    pub fn hides(&self, id: &str) -> bool {
        let hidden = self.hidden.as_ref();
        hidden.is_some_and(|hidden| hidden.contains(id))
    }

    /// Whether the caller sees a node that may run inside an instance of a subflow: such a node has an id of its own, and
    /// a path that begins with the tab.
    pub fn sees_running(&self, id: &str, path: &str) -> bool {
        if self.flows.get(id).is_some() {
            return self.sees(id);
        }
        path.split('/').next().is_some_and(|tab| self.sees(tab))
    }

    /// The flow set without what the caller does not see; links and wires to that are left out.
    pub fn shown(&self) -> Arc<FlowSet> {
        let Some(hidden) = &self.hidden else {
            return Arc::clone(&self.flows);
        };
        let nodes = self.flows.nodes().iter();
        let seen = nodes.filter(|node| !hidden.contains(&node.id));
        let shown = seen.map(|node| self.shown_node(node)).collect();
        // A part of a flow set is one, too: no id comes twice, and no subflow unfolds to more.
        Arc::new(FlowSet::new(shown).unwrap_or_default())
    }

    /// An element that the caller sees, as it is shown.
    pub(super) fn shown_node(&self, node: &Arc<Node>) -> Arc<Node> {
        links::without(node, |id| self.hides(id)).unwrap_or_else(|| Arc::clone(node))
    }

    pub(super) fn flows(&self) -> &FlowSet {
        &self.flows
    }
}

fn hidden(permissions: &Permissions, flows: &FlowSet) -> HashSet<SmolStr> {
    let rights = Rights::new(permissions, FLOWS_READ, flows);
    let references = References::of(flows, flows);
    let used = references.used_by(|flow| rights.holds(flow));
    let sees = |node: &Node| match place(node, flows) {
        Place::Flow(id) => rights.holds(id),
        Place::Shared(id) => rights.holds_shared || used.contains(id),
    };
    let nodes = flows.nodes().iter().filter(|node| !sees(node));
    nodes.map(|node| node.id.clone()).collect()
}
