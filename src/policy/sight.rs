//! The part of a flow set that a caller sees, computed once for a flow set and permissions: the
//! flows that the caller may read, with all that is on them, and the shared elements that these
//! use.

use super::links;
use super::rights::Rights;
use super::shared::{Place, References, Source, place};
use crate::auth::{FLOWS_READ, Permissions};
use flows::running::{Runs, Unresolved};
use flows::{FlowSet, Node};
use smol_str::SmolStr;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A flow set as one caller sees it.
#[derive(Debug)]
pub struct Sight {
    flows: Arc<FlowSet>,
    /// `None`: the caller sees everything.
    limits: Option<Limits>,
}

/// The limits of what a caller sees.
#[derive(Debug)]
struct Limits {
    /// The elements that the caller does not see.
    hidden: HashSet<SmolStr>,
    /// The nodes that run inside instances of subflows which the caller does not see, by their
    /// running ids.
    hidden_inside: HashMap<SmolStr, Arc<Node>>,
    /// The ids of those in instances which the caller sees.
    seen_inside: HashSet<SmolStr>,
    /// The references of the caller's flows, and of the elements that they use: from what to what.
    references: HashSet<(SmolStr, SmolStr)>,
    /// The elements of the caller's flows that may use any config node of a type.
    unresolved: HashSet<(SmolStr, Unresolved)>,
}

impl Sight {
    /// Linear in the size of the flow set, for a caller who reads some flows only.
    pub fn of(permissions: &Permissions, flows: &Arc<FlowSet>) -> Self {
        let limits = permissions
            .reads_some_flows()
            .then(|| Limits::of(permissions, flows));
        let flows = Arc::clone(flows);
        Self { flows, limits }
    }

    /// Returns whether the caller sees everything.
    pub fn is_whole(&self) -> bool {
        self.limits.is_none()
    }

    /// Returns whether an element has this id, or a node that runs inside an instance of a subflow,
    /// and the caller sees it. An id that also belongs to something hidden is not seen.
    pub fn sees(&self, id: &str) -> bool {
        let is_there = self.flows.get(id).is_some();
        match &self.limits {
            None => is_there,
            Some(limits) => (is_there || limits.seen_inside.contains(id)) && !self.hides(id),
        }
    }

    /// Returns whether something has this id that the caller does not see: an element, or a node
    /// that runs inside an instance of a subflow.
    pub fn hides(&self, id: &str) -> bool {
        let limits = self.limits.as_ref();
        limits.is_some_and(|limits| {
            limits.hidden.contains(id) || limits.hidden_inside.contains_key(id)
        })
    }

    /// Returns whether there is an element of this id, and the caller does not see it.
    pub(super) fn hides_element(&self, id: &str) -> bool {
        let limits = self.limits.as_ref();
        limits.is_some_and(|limits| limits.hidden.contains(id))
    }

    /// Returns whether the caller sees a node that may run inside an instance of a subflow of a
    /// package: such a node has an id of its own, and a path that begins with the tab.
    pub fn sees_running(&self, id: &str, path: &str) -> bool {
        if self.flows.get(id).is_some() || self.sees(id) || self.hides(id) {
            return self.sees(id);
        }
        // An id can have a slash in it.
        let ends = path.match_indices('/').map(|(at, _)| at);
        let beginnings = ends.chain([path.len()]).filter_map(|end| path.get(..end));
        let mut elements = beginnings
            .filter(|id| self.flows.get(id).is_some())
            .peekable();
        elements.peek().is_some() && elements.all(|id| self.sees(id))
    }

    /// What the caller's flows would use of what is hidden, and do not use before: its users would
    /// make it the caller's own. `before`: the flow set that the caller saw.
    pub(super) fn borrows(&self, before: &Self) -> Option<Borrowed> {
        let (limits, old) = (self.limits.as_ref()?, before.limits.as_ref()?);
        let shows = |node: &&Arc<Node>| before.hides_element(&node.id) && self.sees(&node.id);
        let is_new =
            |one: &(SmolStr, SmolStr)| before.hides(&one.1) && !old.references.contains(one);
        if before.flows.nodes().iter().any(|node| shows(&node))
            || limits.references.iter().any(is_new)
        {
            return Some(Borrowed::Named);
        }
        let is_hidden = |node: &&Arc<Node>| before.hides_element(&node.id);
        let may_be = |unresolved: &Unresolved| {
            let hidden = before.flows.nodes().iter().filter(is_hidden);
            let mut hidden = hidden.chain(old.hidden_inside.values());
            hidden.any(|node| unresolved.may_be(node))
        };
        let new = limits.unresolved.difference(&old.unresolved);
        let mut found: Vec<&SmolStr> = new
            .filter(|(_, unresolved)| may_be(unresolved))
            .map(|(id, _)| id)
            .collect();
        found.sort_unstable();
        found.first().map(|id| Borrowed::Unresolved((*id).clone()))
    }

    /// The flow set without what the caller does not see; links and wires to that are left out.
    pub fn shown(&self) -> Arc<FlowSet> {
        if self.limits.is_none() {
            return Arc::clone(&self.flows);
        }
        let nodes = self.flows.nodes().iter();
        let seen = nodes.filter(|node| !self.hides_element(&node.id));
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

/// What a submission uses of what is hidden.
pub(super) enum Borrowed {
    /// It names it.
    Named,
    /// The element of this id may turn out to, when it runs.
    Unresolved(SmolStr),
}

impl Limits {
    fn of(permissions: &Permissions, flows: &FlowSet) -> Self {
        let rights = Rights::new(permissions, FLOWS_READ, flows);
        let runs = Runs::of(flows);
        let references = References::of(flows, flows, &runs);
        let held = |flow: &SmolStr| rights.holds(flow);
        // A config node on a flow of others makes nothing the caller's that it uses itself.
        let is_on_other = |id: &SmolStr| {
            let node = flows.get(id);
            node.is_some_and(|node| matches!(place(node, flows), Place::Flow(flow) if !held(flow)))
        };
        let used = references.used_by(held, |id| !is_on_other(id));
        let sees = |node: &Node| match place(node, flows) {
            Place::Flow(id) => rights.holds(id),
            Place::Shared(id) => rights.holds_shared || used.contains(id),
        };
        let nodes = flows.nodes().iter().filter(|node| !sees(node));
        let is_their_own = |id: &SmolStr| used.contains(id) && !is_on_other(id);
        let made = references.made_by(held, is_their_own);
        let mut limits = Self {
            hidden: nodes.map(|node| node.id.clone()).collect(),
            hidden_inside: HashMap::new(),
            seen_inside: HashSet::new(),
            references: made.map(|(from, to)| (from.clone(), to.clone())).collect(),
            unresolved: HashSet::new(),
        };
        for (id, node) in runs.nodes() {
            let is_held = node.tab.as_ref().is_some_and(held);
            if node.is_inside && is_held {
                limits.seen_inside.insert(id.clone());
            } else if node.is_inside {
                let node = Arc::clone(&node.node);
                limits.hidden_inside.insert(id.clone(), node);
            }
            let source = flows
                .get(&node.outermost)
                .map(|node| Source::of(node, flows));
            let is_used = || {
                source
                    .and_then(|s| s.other)
                    .is_some_and(|id| used.contains(id))
            };
            if is_held || is_used() {
                let of_node = node.unresolved().iter();
                let of_node = of_node.map(|one| (node.node.id.clone(), one.clone()));
                limits.unresolved.extend(of_node);
            }
        }
        limits
    }
}
