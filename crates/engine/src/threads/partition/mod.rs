//! Finds the parts of a flow set whose nodes have nothing to do with each other: each can be on a
//! thread of its own.
//!
//! An element is joined to all that it names: any text in it that is the id of another element
//! counts, be it of a wire, a link, a config node or a scope. So no type of node needs to be known
//! here but those that find each other in other ways ([`Resources`]). Subflows join nothing by
//! themselves; what is in them counts for each flow that has an instance.

use super::resources::{Resource, Resources};
use crate::joined_flows::JoinedFlows;
use flows::{ElementKind, FlowSet, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;
use std::borrow::Cow;
use std::sync::Arc;

/// Flows and global config nodes that have to be on one thread.
pub(crate) struct Group {
    /// The tabs and global config nodes, each with the weight of its nodes.
    pub members: Vec<(SmolStr, usize)>,
    /// The weight of all.
    pub weight: usize,
    /// True if it has to be on the first thread.
    pub is_on_first: bool,
}

/// A tab or a global config node; the first one stands for the first thread.
type Unit = usize;

const FIRST: Unit = 0;

/// The weight of a function node; other nodes have 1. Our choice: only functions keep a thread for
/// longer than some milliseconds, so they are to be spread first.
const FUNCTION: usize = 100;

/// The container of an element.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Owner<'f> {
    Unit(Unit),
    /// The definition of a subflow.
    Definition(&'f str),
}

struct Scan<'f> {
    flows: &'f FlowSet,
    shared: Resources,
    units: FxHashMap<&'f str, Unit>,
    /// The number of units, with those of resources.
    count: usize,
    /// The units that each owner has to be with.
    joined: FxHashMap<Owner<'f>, FxHashSet<Unit>>,
    /// The subflows of which each owner has instances.
    uses: FxHashMap<Owner<'f>, FxHashSet<&'f str>>,
    resources: FxHashMap<Resource, Unit>,
}

/// The groups, in the order of the flow set. `hosts_functions`: whether function nodes may run in
/// the node host, `apart`: the tabs that need not be on the first thread for what they share with
/// it.
pub(crate) fn partition(
    flows: &FlowSet,
    hosts_functions: bool,
    apart: &FxHashSet<&str>,
) -> Vec<Group> {
    let ids = flows.nodes().iter().filter(|node| is_unit(node));
    let units: FxHashMap<&str, Unit> = ids.map(|node| node.id.as_str()).zip(1..).collect();
    let mut scan = Scan {
        flows,
        shared: Resources::of(flows, hosts_functions),
        count: units.len() + 1,
        units,
        joined: FxHashMap::default(),
        uses: FxHashMap::default(),
        resources: FxHashMap::default(),
    };
    for node in flows.nodes() {
        scan.element(node);
    }
    let apart = apart.iter().filter_map(|id| scan.units.get(id));
    let joined = scan.join(&apart.copied().collect());
    scan.groups(joined)
}

fn is_unit(node: &Node) -> bool {
    match node.part() {
        ElementKind::Tab => true,
        ElementKind::Config | ElementKind::Node => node.z.is_empty(),
        ElementKind::Group | ElementKind::Subflow => false,
    }
}

impl<'f> Scan<'f> {
    fn element(&mut self, node: &'f Arc<Node>) {
        let owner = self.owner(node);
        if let Some(definition) = node.instance_of().and_then(|id| self.flows.subflow(id)) {
            self.join_owner(owner, Owner::Definition(&definition.id));
        }
        let flows = self.flows;
        let named = values(&node.text).filter_map(|text| named(flows, &text));
        for other in named.filter(|other| other.id != node.id) {
            self.join_owner(owner, self.owner(other));
        }
        for resource in self.shared.of_node(node) {
            let next = self.count;
            let unit = match resource {
                Resource::First => FIRST,
                other => *self.resources.entry(other).or_insert(next),
            };
            self.count = self.count.max(unit + 1);
            self.join_owner(owner, Owner::Unit(unit));
        }
    }

    fn owner(&self, node: &'f Arc<Node>) -> Owner<'f> {
        let unit = |id: &str| Owner::Unit(self.units.get(id).copied().unwrap_or(FIRST));
        if node.part() == ElementKind::Subflow {
            return Owner::Definition(&node.id);
        }
        if is_unit(node) {
            return unit(&node.id);
        }
        match self.flows.subflow(&node.z) {
            Some(definition) => Owner::Definition(&definition.id),
            // A `z` that is no element is an unnamed tab, on the first thread.
            None => unit(&node.z),
        }
    }

    fn join_owner(&mut self, owner: Owner<'f>, other: Owner<'f>) {
        match other {
            _ if owner == other => {}
            Owner::Unit(unit) => drop(self.joined.entry(owner).or_default().insert(unit)),
            Owner::Definition(id) => drop(self.uses.entry(owner).or_default().insert(id)),
        }
    }

    /// Joins the units: with what they name themselves, and with what the subflows name of which
    /// they have instances.
    fn join(&self, apart: &FxHashSet<Unit>) -> JoinedFlows {
        let mut joined = JoinedFlows::new(self.count);
        for unit in 0..self.count {
            let mut seen = FxHashSet::default();
            let mut left = vec![Owner::Unit(unit)];
            while let Some(owner) = left.pop() {
                let named = self.joined.get(&owner).into_iter().flatten();
                for other in named.filter(|other| **other != FIRST || !apart.contains(&unit)) {
                    joined.join(unit, *other);
                }
                let used = self.uses.get(&owner).into_iter().flatten();
                let new = used.filter(|id| seen.insert(**id));
                left.extend(new.map(|id| Owner::Definition(id)));
            }
        }
        joined
    }

    fn groups(&self, mut joined: JoinedFlows) -> Vec<Group> {
        let weights = self.weights();
        let mut places: FxHashMap<u32, usize> = FxHashMap::default();
        let mut groups: Vec<Group> = Vec::new();
        let first = joined.group(FIRST);
        for node in self.flows.nodes().iter().filter(|node| is_unit(node)) {
            let Some(&unit) = self.units.get(node.id.as_str()) else {
                continue;
            };
            let number = joined.group(unit);
            let next = groups.len();
            let place = *places.entry(number).or_insert(next);
            if place == next {
                groups.push(Group {
                    members: Vec::new(),
                    weight: 0,
                    is_on_first: number == first,
                });
            }
            groups[place].members.push((node.id.clone(), weights[unit]));
            groups[place].weight += weights[unit];
        }
        groups
    }

    /// The weight of each unit; an instance of a subflow has that of all that is inside.
    fn weights(&self) -> Vec<usize> {
        let mut inside: FxHashMap<&str, Vec<&Node>> = FxHashMap::default();
        let mut weights = vec![0; self.count];
        for node in self.flows.nodes() {
            if let Owner::Definition(id) = self.owner(node) {
                inside.entry(id).or_default().push(node);
            }
        }
        let mut known = FxHashMap::default();
        for node in self.flows.nodes() {
            if let Owner::Unit(unit) = self.owner(node) {
                weights[unit] += weight(node, &inside, &mut known);
            }
        }
        weights
    }
}

/// The weight of a node. `inside`: the elements of each subflow, `known`: the weights of subflows
/// found so far.
fn weight<'f>(
    node: &'f Node,
    inside: &FxHashMap<&str, Vec<&'f Node>>,
    known: &mut FxHashMap<&'f str, usize>,
) -> usize {
    if !matches!(node.part(), ElementKind::Node | ElementKind::Config) {
        return 0;
    }
    let Some(definition) = node.instance_of() else {
        return if node.kind == "function" { FUNCTION } else { 1 };
    };
    if let Some(weight) = known.get(definition) {
        return *weight;
    }
    let nodes = inside.get(definition).into_iter().flatten();
    let sum = nodes
        .map(|node| weight(node, inside, known))
        .fold(1, usize::saturating_add);
    known.insert(definition, sum);
    sum
}

/// The element that a text names: by its id, or by the id of a node inside a subflow instance,
/// which begins with that of the instance.
fn named<'f>(flows: &'f FlowSet, text: &str) -> Option<&'f Arc<Node>> {
    let instance = |(at, _): (usize, &str)| {
        let found = flows.get(text.get(..at)?)?;
        found.instance_of().is_some().then_some(found)
    };
    flows
        .get(text)
        .or_else(|| text.match_indices('-').find_map(instance))
}

/// The strings of a compact JSON text that are not the key of a property.
fn values(json: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let mut rest = json;
    let literals = std::iter::from_fn(move || {
        let text = rest.get(rest.find('"')? + 1..)?;
        let mut is_escaped = false;
        let length = text.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        })?;
        let (found, after) = text.split_at(length);
        rest = &after[1..];
        Some((found, after.starts_with("\":")))
    });
    literals
        .filter(|(_, is_key)| !is_key)
        .filter_map(|(text, _)| {
            if !text.contains('\\') {
                return Some(Cow::Borrowed(text));
            }
            serde_json::from_str(&format!("\"{text}\""))
                .ok()
                .map(Cow::Owned)
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
