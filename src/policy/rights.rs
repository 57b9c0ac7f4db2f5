//! Rights to single flows: a user with `flows.write:FLOW` changes only what is on these flows, and only those shared
//! elements (config nodes and subflows) that no other flow uses.
//!
//! What counts is where an element was and where it is to be. Messages are no matter of rights: a flow may send some to
//! any other.

use super::changes::Change;
use super::shared::{Place, References, place};
use super::{Deployment, Rule, Violation, Who, violation};
use crate::auth::{FLOWS_WRITE as WRITE, Permissions, glob};
use flows::{DeploymentType, ElementKind, FlowSet, Node};
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::cell::{LazyCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The pattern for shared elements.
pub(super) const SHARED: &str = "shared";

pub(super) fn check(
    who: Who<'_>,
    deployment: &Deployment<'_>,
    changes: &[Change<'_>],
) -> Vec<Violation> {
    if who.permissions.cover(WRITE) {
        return Vec::new();
    }
    let (before, after) = (
        Rights::new(who.permissions, WRITE, deployment.before),
        Rights::new(who.permissions, WRITE, deployment.after),
    );
    let held = |flow: &SmolStr| {
        let everywhere = before.holds_if_there(flow) && after.holds_if_there(flow);
        everywhere && (before.holds(flow) || after.holds(flow))
    };
    // Of each flow set, the shared elements that held flows use, and those that others use.
    let uses = LazyCell::new(|| {
        let sets = (deployment.before, deployment.after);
        [sets, (sets.1, sets.0)].map(|(flows, other)| {
            let references = References::of(flows, other);
            let others = references.used_by(|flow| !held(flow));
            (references.used_by(held), others)
        })
    });
    let shared = |id: &SmolStr| {
        let held = uses.iter().any(|(held, _)| held.contains(id));
        let by_others = uses.iter().any(|(_, others)| others.contains(id));
        // While flows are withheld, so is what they share with others.
        let withholds = || who.permissions.withholds_part(WRITE, |_| true);
        (before.holds_shared && (!by_others || !withholds())) || (held && !by_others)
    };
    let holds = |rights: &Rights<'_>, node: &Node| match place(node, rights.flows) {
        Place::Flow(id) => rights.holds(id),
        Place::Shared(id) => shared(id),
    };
    let refused = changes.iter().filter(|change| {
        change.before.is_some_and(|node| !holds(&before, node))
            || change.after.is_some_and(|node| !holds(&after, node))
    });
    let nodes: Vec<_> = refused.filter_map(Change::node).collect();
    let found = [
        violation(
            Rule::Flows,
            &nodes,
            "these are on flows, or used by flows, for which you lack the permission flows.write:FLOW",
        ),
        moved(&before, &after),
    ];
    found.into_iter().flatten().collect()
}

/// A reload: only a user with all flows may restart all of them with what the storage has.
pub(super) fn reload(who: Who<'_>) -> Option<Violation> {
    (!who.permissions.cover(WRITE)).then(|| Violation {
        rule: Rule::Flows,
        nodes: Vec::new(),
        message: format!("a reload needs the permission {WRITE} for all flows"),
    })
}

/// The order of the tabs that the user does not hold: it is that in which they start.
fn moved(before: &Rights<'_>, after: &Rights<'_>) -> Option<Violation> {
    let others = |of: &FlowSet, in_other: &FlowSet| -> Vec<Arc<Node>> {
        let tabs = of.tabs().filter(|tab| in_other.get(&tab.id).is_some());
        tabs.filter(|tab| !before.holds(&tab.id)).cloned().collect()
    };
    let (old, new) = (
        others(before.flows, after.flows),
        others(after.flows, before.flows),
    );
    let pairs = old.iter().zip(&new).filter(|(old, new)| old.id != new.id);
    let tabs: Vec<&Arc<Node>> = pairs.map(|(_, tab)| tab).collect();
    let reason = "these tabs would get another order, and you lack the permission flows.write:FLOW";
    violation(Rule::Flows, &tabs, reason)
}

/// The type that a deployment of a user has: a full one would restart every flow, so by a user of some flows it is one of
/// type `flows`.
pub fn deployment_type(permissions: &Permissions, asked: DeploymentType) -> DeploymentType {
    match asked {
        DeploymentType::Full if !permissions.cover(WRITE) => DeploymentType::Flows,
        kind => kind,
    }
}

/// The tabs that restart whole, whatever differs: of a full deployment by a user of some flows, those that the user holds
/// in one of these flow sets.
pub fn restarted(
    permissions: &Permissions,
    asked: DeploymentType,
    sets: [&FlowSet; 2],
) -> HashSet<SmolStr> {
    if deployment_type(permissions, asked) == asked {
        return HashSet::new();
    }
    let held = sets.into_iter().flat_map(|flows| {
        let rights = Rights::new(permissions, WRITE, flows);
        let tabs = flows.tabs().filter(move |tab| rights.holds(&tab.id));
        tabs.map(|tab| tab.id.clone())
    });
    held.collect()
}

/// The flows of one flow set for which a user has a permission.
pub(super) struct Rights<'a> {
    permissions: &'a Permissions,
    name: &'static str,
    flows: &'a FlowSet,
    pub(super) holds_shared: bool,
    /// The flows that were asked for.
    known: RefCell<HashMap<SmolStr, bool>>,
}

impl<'a> Rights<'a> {
    pub(super) fn new(
        permissions: &'a Permissions,
        name: &'static str,
        flows: &'a FlowSet,
    ) -> Self {
        Self {
            permissions,
            name,
            flows,
            holds_shared: permissions.cover_part(name, |part| part == SHARED),
            known: RefCell::default(),
        }
    }

    /// Whether the user holds the flow of this id. One without a tab is known by its id only.
    pub(super) fn holds(&self, id: &SmolStr) -> bool {
        if let Some(holds) = self.known.borrow().get(id) {
            return *holds;
        }
        let holds = self.permissions.cover_part(self.name, fits(self.flows, id));
        self.known.borrow_mut().insert(id.clone(), holds);
        holds
    }

    /// The same of a flow that may be in the other flow set only.
    fn holds_if_there(&self, id: &SmolStr) -> bool {
        self.flows.get(id).is_none() || self.holds(id)
    }
}

/// Whether a pattern fits the flow of this id: its id, its label, or one of its variables.
pub(super) fn fits(flows: &FlowSet, id: &SmolStr) -> impl Fn(&str) -> bool {
    let tab = flows.get(id);
    let tab = tab.filter(|tab| tab.part() == ElementKind::Tab);
    let object = tab.map(|tab| tab.object()).unwrap_or_default();
    move |pattern: &str| {
        let label = object.get("label").and_then(Json::as_str);
        match pattern.split_once('=') {
            _ if pattern == SHARED => false,
            Some((name, value)) if variable(&object, name, value) => true,
            _ => glob(pattern, id) || label.is_some_and(|label| glob(pattern, label)),
        }
    }
}

/// Whether a tab has an environment variable of this name whose value fits.
fn variable(tab: &serde_json::Map<String, Json>, name: &str, pattern: &str) -> bool {
    let variables = tab.get("env").and_then(Json::as_array);
    let mut variables = variables.into_iter().flatten();
    variables.any(|variable| {
        let text = |key: &str| variable.get(key).and_then(Json::as_str);
        text("name") == Some(name) && text("value").is_some_and(|value| glob(pattern, value))
    })
}
