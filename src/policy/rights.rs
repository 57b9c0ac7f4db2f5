//! Rights to single flows: a user with `flows.write:FLOW` changes only what is on these flows, and
//! only those shared elements (config nodes and subflows) that no other flow uses.
//!
//! What counts is where an element was and where it is to be, and what runs: on flows that the user
//! does not hold, that is the same before and after. Messages are no matter of rights: a flow may
//! send some to any other.

use super::changes::{Change, is_reordered};
use super::globals::{Globals, global_configs};
use super::shared::{GLOBAL_CONFIG, Place, References, place};
use super::{Deployment, Rule, Violation, Who, types, violation};
use crate::auth::{FLOWS_WRITE as WRITE, Permissions, glob};
use flows::running::Runs;
use flows::{DeploymentType, ElementKind, FlowSet, Node};
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::cell::{LazyCell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
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
    let runs = LazyCell::new(|| [deployment.before, deployment.after].map(Runs::of));
    let uses = LazyCell::new(|| Uses::of(deployment, &runs, &held));
    let shared = |id: &SmolStr| {
        let by_others = uses.by_others(id);
        // While flows are withheld, so is what they share with others.
        let withholds = || who.permissions.withholds_part(WRITE, |_| true);
        (before.holds_shared && (!by_others || !withholds())) || (uses.held(id) && !by_others)
    };
    let holds = |[rights, other]: [&Rights<'_>; 2], node: &Node| match place(node, rights.flows) {
        Place::Flow(id) => rights.holds(id) && other.holds_if_there(id),
        Place::Shared(id) => shared(id),
    };
    let refused = changes.iter().filter(|change| {
        change
            .before
            .is_some_and(|node| !holds([&before, &after], node))
            || change
                .after
                .is_some_and(|node| !holds([&after, &before], node))
            || (change.before.is_none()
                && change
                    .after
                    .is_some_and(|node| uses.is_awaited(node, after.flows)))
    });
    let mut nodes: Vec<_> = refused.filter_map(Change::node).collect();
    if nodes.is_empty() && !before.holds_shared && !Globals::differing(deployment).is_empty() {
        nodes.extend(global_configs(deployment));
    }
    // A user of shared elements may change what other flows make of them.
    let differs = !changes.is_empty() || is_reordered(deployment);
    if nodes.is_empty() && differs && !before.holds_shared {
        let outside = |flow: &SmolStr| !held(flow);
        nodes = differing(&runs, outside, outside);
    }
    let found = [
        violation(
            Rule::Flows,
            &nodes,
            "these are on flows, or used by flows, for which you lack the permission flows.write:FLOW",
        ),
        types::stop_everything(deployment, changes),
        moved(&before, &after),
    ];
    found.into_iter().flatten().collect()
}

/// The elements that a user's flows and others use, in the flow set before and in the one after a
/// deployment.
struct Uses<'a> {
    held: [HashSet<&'a SmolStr>; 2],
    /// Those that other flows use, or may turn out to use.
    others: [HashSet<&'a SmolStr>; 2],
    /// The `global-config` nodes.
    globals: HashSet<&'a SmolStr>,
    /// True if other flows may read a variable of them that differs.
    globals_are_read: bool,
}

impl<'a> Uses<'a> {
    fn of(
        deployment: &Deployment<'a>,
        runs: &'a [Runs; 2],
        held: &impl Fn(&SmolStr) -> bool,
    ) -> Self {
        let (before, after) = (deployment.before, deployment.after);
        let references = [
            References::of(before, after, &runs[0]),
            References::of(after, before, &runs[1]),
        ];
        let others = references.each_ref();
        let others = others.map(|of| of.maybe_used_by(|flow| !held(flow)));
        let globals = Globals::differing(deployment);
        let mut sets = [before, after].into_iter().zip(&others);
        let is_global = |node: &&'a Arc<Node>| node.kind == GLOBAL_CONFIG;
        let nodes = before.nodes().iter().chain(after.nodes());
        Self {
            held: references.each_ref().map(|of| of.used_by(held, |_| true)),
            globals: nodes.filter(is_global).map(|node| &node.id).collect(),
            globals_are_read: sets
                .any(|(flows, used)| globals.are_read(flows, |flow| !held(flow), used)),
            others,
        }
    }

    /// Returns whether flows of the user use a shared element. A `global-config` is for all flows,
    /// also if only one names it.
    fn held(&self, id: &SmolStr) -> bool {
        !self.globals.contains(id) && self.held.iter().any(|used| used.contains(id))
    }

    /// Returns whether other flows use a shared element, or may.
    fn by_others(&self, id: &SmolStr) -> bool {
        let used = self.others.iter().any(|used| used.contains(id));
        used || (self.globals_are_read && self.globals.contains(id))
    }

    /// Returns whether other flows name a config node on a flow, or may, which was missing: it
    /// would be theirs, too.
    fn is_awaited(&self, node: &Node, flows: &FlowSet) -> bool {
        let is_on_flow = || matches!(place(node, flows), Place::Flow(_));
        let mut others = self.others.iter();
        node.part() == ElementKind::Config
            && others.any(|used| used.contains(&node.id))
            && is_on_flow()
    }
}

/// The elements of which something runs on such flows that is not the same before and after, with
/// the config nodes that it uses; those on other flows count if these `follow`.
pub(super) fn differing(
    [before, after]: &[Runs; 2],
    is: impl Fn(&SmolStr) -> bool,
    follows: impl Fn(&SmolStr) -> bool,
) -> Vec<&Arc<Node>> {
    let gone = before.differing(after, &is, &follows);
    let found = gone.chain(after.differing(before, &is, &follows));
    let by_id: BTreeMap<_, _> = found.map(|node| (&node.id, node)).collect();
    by_id.into_values().collect()
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

/// The type that a deployment of a user has: a full one would restart every flow, so by a user of
/// some flows it is one of type `flows`.
pub fn deployment_type(permissions: &Permissions, asked: DeploymentType) -> DeploymentType {
    match asked {
        DeploymentType::Full if !permissions.cover(WRITE) => DeploymentType::Flows,
        kind => kind,
    }
}

/// The tabs that restart whole, whatever differs: of a full deployment by a user of some flows,
/// those that the user holds in one of these flow sets.
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
    /// Those of them that there are.
    there: RefCell<HashMap<SmolStr, bool>>,
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
            there: RefCell::default(),
        }
    }

    /// Returns whether the user holds the flow of this id. One without a tab is known by its id
    /// only.
    pub(super) fn holds(&self, id: &SmolStr) -> bool {
        if let Some(holds) = self.known.borrow().get(id) {
            return *holds;
        }
        let holds = self.permissions.cover_part(self.name, fits(self.flows, id));
        self.known.borrow_mut().insert(id.clone(), holds);
        holds
    }

    /// The same of a flow that may be in the other flow set only. Nodes on a tab that is missing
    /// make one.
    fn holds_if_there(&self, id: &SmolStr) -> bool {
        let is_there = || {
            let made = || self.flows.nodes().iter().any(|node| node.z == *id);
            let mut known = self.there.borrow_mut();
            *known
                .entry(id.clone())
                .or_insert_with(|| self.flows.get(id).is_some() || made())
        };
        self.holds(id) || !is_there()
    }
}

/// Returns whether a pattern fits the flow of this id: its id, its label, or one of its variables.
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

/// Returns whether a tab has an environment variable of this name whose value fits.
fn variable(tab: &serde_json::Map<String, Json>, name: &str, pattern: &str) -> bool {
    let variables = tab.get("env").and_then(Json::as_array);
    let mut variables = variables.into_iter().flatten();
    variables.any(|variable| {
        let text = |key: &str| variable.get(key).and_then(Json::as_str);
        text("name") == Some(name) && text("value").is_some_and(|value| glob(pattern, value))
    })
}
