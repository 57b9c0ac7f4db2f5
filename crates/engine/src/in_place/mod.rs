//! A deployment that changes ordinary nodes where they stand: nothing but these nodes is built
//! anew.
//!
//! Which flows there are, what is around a node and who listens to whom follows from the other
//! elements, so they must be the very same ones, in the same order. Else `start` builds the whole
//! graph.

use crate::event_loop::{Change, Slot, Thread};
use crate::node_info::NodeInfo;
use crate::targets::Targets;
use crate::{RunState, report, start};
use flows::running::{Role, Running};
use flows::{Credentials, ElementKind, FlowSet, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;
use std::rc::Rc;
use std::sync::Arc;

/// What a deployment changes in place.
pub(super) struct InPlace {
    /// In the order in which they start.
    restarts: Vec<Restart>,
    /// Nodes with other wires.
    rewired: Vec<(u32, Arc<Node>)>,
}

/// A node that has stopped and starts again in its slot, so that all wires to it hold.
struct Restart {
    slot: u32,
    node: Arc<Node>,
    before: Rc<NodeInfo>,
    wires: Targets,
    watched: bool,
    kind: usize,
}

impl Thread {
    /// What a change does in place, once all that it stops has closed; `None`: the graph has to be
    /// built anew.
    pub(super) fn in_place(&self, change: &Change) -> Option<InPlace> {
        let Change::Apply {
            plan,
            flows,
            credentials,
        } = change
        else {
            return None;
        };
        let runs = self.is_whole
            && self.shared.state() == RunState::Start
            && self.stopped_nodes.is_empty()
            && !plan.everything
            && same_scopes(flows, [&self.credentials, credentials]);
        if !runs || !keeps_its_shape(&self.flows, flows) {
            return None;
        }
        // Nodes that have failed start again with each deployment: only those that this one stops
        // may stand still.
        let stopped = self.stopped();
        let restarts_all = plan.stop.len() == stopped.len() && plan.start.len() == stopped.len();
        if !restarts_all || plan.stop.iter().any(|stop| stop.removed) {
            return None;
        }
        let restarts: Option<Vec<_>> = plan
            .start
            .iter()
            .map(|id| self.restart(*stopped.get(id)?, flows.get(id)?))
            .collect();
        let restarts = restarts?;
        let rewired = |id: &SmolStr| {
            let slot = self.state.directory.get(id)?;
            Some((slot, Arc::clone(flows.get(id)?)))
        };
        let mut rewired: Vec<_> = plan.rewire.iter().map(rewired).collect::<Option<_>>()?;
        let is_changed = |restart: &&Restart| {
            let before = self.flows.get(&restart.node.id);
            before.is_none_or(|before| !Arc::ptr_eq(before, &restart.node))
        };
        let changed = restarts.iter().filter(is_changed);
        rewired.extend(changed.map(|restart| (restart.slot, Arc::clone(&restart.node))));
        Some(InPlace { restarts, rewired })
    }

    /// The slots of nodes that have stopped or failed, by id.
    fn stopped(&self) -> FxHashMap<&SmolStr, u32> {
        let slots = self.slots.iter().zip(0..);
        let stopped = slots.filter_map(|(slot, number)| {
            let slot = slot.as_ref().filter(|slot| slot.node.is_none())?;
            Some((&slot.info.id, number))
        });
        stopped.collect()
    }

    fn restart(&self, number: u32, node: &Arc<Node>) -> Option<Restart> {
        let slot = self.slots.get(number as usize)?.as_ref()?;
        // An instance starts with all that is inside it.
        node.instance_of().is_none().then(|| Restart {
            slot: number,
            node: Arc::clone(node),
            before: Rc::clone(&slot.info),
            wires: slot.wires.clone(),
            watched: slot.watched,
            kind: slot.kind,
        })
    }

    /// Starts the nodes again, and wires them.
    pub(super) fn start_in_place(&mut self, InPlace { restarts, rewired }: InPlace) {
        let taken: FxHashSet<u32> = restarts.iter().map(|restart| restart.slot).collect();
        self.free.retain(|slot| !taken.contains(slot));
        let restarted: Vec<_> = restarts
            .into_iter()
            .map(|one| self.place_again(one))
            .collect();
        for (number, node) in &rewired {
            let directory = &self.state.directory;
            let slot_of = |id: &SmolStr| directory.get(id);
            let wires = node.wires.iter();
            let wires = wires.map(|ids| ids.iter().filter_map(slot_of).collect());
            if let Some(Some(slot)) = self.slots.get_mut(*number as usize) {
                slot.wires = wires.collect();
            }
        }
        // Events of starting nodes reach no catch, status or complete node, as in `start`.
        let listeners = std::mem::take(&mut self.state.listeners);
        for (running, slot) in &restarted {
            self.construct(running, *slot);
        }
        self.state.listeners = listeners;
        self.group_foreign();
        self.state.publish_endpoints();
        self.announce(report::runtime_state("start", true));
        self.count_running();
    }

    fn place_again(&mut self, restart: Restart) -> (Running, u32) {
        let (number, node) = (restart.slot, restart.node);
        let running = Running {
            id: node.id.clone(),
            node,
            flow: 0,
            role: Role::Plain,
            wires: None,
        };
        let info = start::info(&running, Rc::clone(&restart.before.container));
        self.epochs += 1;
        self.slots[number as usize] = Some(Slot {
            node: None,
            info: Rc::clone(&info),
            wires: restart.wires,
            epoch: self.epochs,
            watched: restart.watched,
            config: !running.node.placed,
            kind: restart.kind,
        });
        self.state.directory.insert(number, info);
        (running, number)
    }
}

/// Returns whether all elements but ordinary nodes are the very same, and these stand where they
/// stood.
fn keeps_its_shape(before: &FlowSet, after: &FlowSet) -> bool {
    let stays = |(old, new): (&Arc<Node>, &Arc<Node>)| {
        Arc::ptr_eq(old, new)
            || (is_ordinary(after, new)
                && same_place(old, new)
                && stays_in_its_flow(before, old)
                && stays_in_its_flow(after, new))
    };
    before.nodes().len() == after.nodes().len()
        && before.nodes().iter().zip(after.nodes()).all(stays)
}

/// A node on a tab, or a config node, to which no other node's wires or listeners lead but by its
/// id.
fn is_ordinary(flows: &FlowSet, node: &Node) -> bool {
    let kind = node.kind.as_str();
    let alone = matches!(node.part(), ElementKind::Node | ElementKind::Config)
        && node.instance_of().is_none()
        && !matches!(
            kind,
            "catch"
                | "status"
                | "complete"
                | "link in"
                | "link out"
                | "link call"
                | "global-config"
        );
    alone && flows.subflow(&node.z).is_none()
}

fn same_place(old: &Node, new: &Node) -> bool {
    let place = |node: &Node| (node.disabled, node.placed);
    let names = |node: &Node| [&node.id, &node.kind, &node.z, &node.group].map(SmolStr::clone);
    place(old) == place(new) && names(old) == names(new)
}

/// Returns whether its wires join no other flow to its own.
fn stays_in_its_flow(flows: &FlowSet, node: &Node) -> bool {
    let mut targets = node.wires.iter().flatten();
    targets.all(|id| flows.get(id).is_none_or(|target| target.z == node.z))
}

/// Returns whether the secret variables of tabs, groups, subflows and their instances are the same:
/// those of ordinary nodes are read when these start.
fn same_scopes(flows: &FlowSet, [before, after]: [&Arc<Credentials>; 2]) -> bool {
    if Arc::ptr_eq(before, after) {
        return true;
    }
    let mut ids = before.nodes.keys().chain(after.nodes.keys());
    ids.all(|id| {
        flows.get(id).is_none_or(|node| is_ordinary(flows, node))
            || before.nodes.get(id) == after.nodes.get(id)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
