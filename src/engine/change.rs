//! Changes of what runs: a plan's stops, the wait for closing nodes, rewiring, and starts (facts engine §1).

use super::graph::{self, Flow, Graph, Role, Running};
use super::listeners::Listeners;
use super::node::{Build, Closing, Host, Info, Level, Node};
use super::report::label;
use super::text;
use super::thread::{Change, Slot, Thread};
use super::value::{Failure, Value};
use super::world::Instance;
use super::{Engine, RunState, nodes, report, subflow};
use crate::events::Event;
use crate::flows::{FlowSet, Plan};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde_json::json;
use smol_str::SmolStr;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use tokio::sync::oneshot;

impl Thread {
    /// Stops what the change stops. It goes on in [`Self::finish_change`], at once or when the nodes have closed.
    pub fn begin_change(&mut self, change: Change, done: oneshot::Sender<()>) {
        if self.closing.is_some() {
            self.waiting.push_back((change, done));
            return;
        }
        let stops = self.stops(&change);
        let closings = self.stop(&stops);
        self.closing = Some((change, done));
        let closed = self.closed.clone();
        if closings.is_empty() {
            let _ = closed.send(());
            return;
        }
        let limit = self.world.config.close_timeout;
        tokio::task::spawn_local(async move {
            for (info, closing) in closings {
                if tokio::time::timeout(limit, closing).await.is_err() {
                    tracing::error!(target: "flow", node = %info.id, kind = %info.kind, "Error stopping node: Close timed out");
                }
            }
            // The thread outlives its tasks.
            let _ = closed.send(());
        });
    }

    /// The rest of a change, once everything that it stops has closed.
    pub fn finish_change(&mut self) -> ControlFlow<()> {
        let Some((change, done)) = self.closing.take() else { return ControlFlow::Continue(()) };
        self.clear();
        match change {
            Change::Apply { flows, credentials, .. } => {
                self.flows = flows;
                self.credentials = credentials;
                self.start(true);
            }
            Change::Run(state) => {
                self.shared.set_state(state);
                self.start(false);
            }
            Change::Close => {
                let _ = done.send(());
                return ControlFlow::Break(());
            }
        }
        // Whoever asked may be gone; the change stands.
        let _ = done.send(());
        if let Some((change, done)) = self.waiting.pop_front() {
            self.begin_change(change, done);
        }
        ControlFlow::Continue(())
    }

    /// Slots to stop, and whether their nodes are gone for good, in the order of facts engine §1.5.
    fn stops(&self, change: &Change) -> Vec<(u32, bool)> {
        match change {
            Change::Apply { plan, .. } if !plan.everything => self.planned(plan),
            Change::Apply { flows, .. } => {
                self.all().into_iter().map(|slot| (slot, self.gone(slot, flows))).collect()
            }
            Change::Run(RunState::Start) => Vec::new(),
            Change::Run(RunState::Stop | RunState::Safe) | Change::Close => {
                self.all().into_iter().map(|slot| (slot, false)).collect()
            }
        }
    }

    fn planned(&self, plan: &Plan) -> Vec<(u32, bool)> {
        let mut stops = Vec::new();
        for stop in &plan.stop {
            let Some(&slot) = self.world.directory.get(&stop.id) else { continue };
            stops.push((slot, stop.removed));
            let Some(info) = &self.world.infos[slot as usize] else { continue };
            if info.kind.starts_with("subflow:") {
                stops.extend(self.inside(&stop.id).into_iter().map(|inner| (inner, false)));
            }
        }
        stops
    }

    /// All slots: flows in order, the global one last; in each flow nodes first, config nodes last.
    fn all(&self) -> Vec<u32> {
        let mut ranks: FxHashMap<&str, usize> = FxHashMap::default();
        let mut slots: Vec<(usize, bool, u32)> = Vec::new();
        for (slot, number) in self.slots.iter().zip(0..) {
            let Some(slot) = slot else { continue };
            let next = ranks.len();
            let rank = if slot.info.z.is_empty() { usize::MAX } else { *ranks.entry(&slot.info.z).or_insert(next) };
            slots.push((rank, slot.config, number));
        }
        slots.sort_unstable();
        slots.into_iter().map(|(_, _, slot)| slot).collect()
    }

    /// Slots of all nodes inside a subflow instance, at any depth.
    fn inside(&self, instance: &str) -> Vec<u32> {
        let within = |z: &SmolStr| {
            let mut flow = z.clone();
            loop {
                if flow == instance {
                    return true;
                }
                match self.world.listeners.flow(&flow).and_then(|f| f.parent.clone()) {
                    Some((outer, _)) => flow = outer,
                    None => return false,
                }
            }
        };
        let slots = self.slots.iter().zip(0..);
        slots.filter(|(s, _)| s.as_ref().is_some_and(|s| within(&s.info.z))).map(|(_, n)| n).collect()
    }

    fn gone(&self, slot: u32, flows: &FlowSet) -> bool {
        let Some(Some(slot)) = self.slots.get(slot as usize) else { return false };
        let disabled_tab = || flows.get(&slot.info.z).is_some_and(|t| t.disabled);
        slot.info.id == slot.info.alias && flows.get(&slot.info.id).is_none_or(|n| n.disabled || disabled_tab())
    }

    /// Closes nodes: out of the directory first, so that nothing reaches a closing node (facts engine §1.6).
    fn stop(&mut self, stops: &[(u32, bool)]) -> Vec<(Rc<Info>, Closing)> {
        for (slot, _) in stops {
            if let Some(info) = &self.world.infos[*slot as usize] {
                self.world.directory.remove(&info.id);
            }
        }
        let mut closings = Vec::new();
        for &(slot, removed) in stops {
            let mut closing = None;
            self.visit(slot, |node, host| closing = node.close(removed, host));
            let Some(Some(stopped)) = self.slots.get_mut(slot as usize) else { continue };
            stopped.node = None;
            let info = Rc::clone(&stopped.info);
            if removed {
                // Clears the editor's badge; nobody listening is fine.
                let _ = self.world.events.send(Event::Status { id: info.id.clone(), status: None });
            }
            if let Some(closing) = closing {
                closings.push((info, closing));
            }
        }
        closings
    }

    /// Forgets slots without a node: what was stopped, and what failed.
    fn clear(&mut self) {
        let mut any = false;
        for (slot, number) in self.slots.iter_mut().zip(0u32..) {
            let Some(stopped) = slot.take_if(|s| s.node.is_none()) else { continue };
            any = true;
            self.world.forget(Instance { slot: number, epoch: stopped.epoch });
            self.world.contexts.borrow_mut().forget_node(&stopped.info.id);
            if self.world.directory.get(&stopped.info.id) == Some(&number) {
                self.world.directory.remove(&stopped.info.id);
            }
            self.world.infos[number as usize] = None;
            self.free.push(number);
        }
        if any {
            let mut timers = std::mem::take(&mut self.world.timers);
            timers.retain(|_, instance| self.runs(*instance));
            self.world.timers = timers;
            let slots = &self.slots;
            self.world.queue.retain(|d| slots.get(d.slot as usize).is_some_and(Option::is_some));
            let endpoints = self.world.endpoints.clone();
            endpoints.retain(|instance| self.runs(instance));
        }
    }

    /// Starts every enabled node that does not run, unless flows are stopped or types are missing (facts engine §2.4).
    fn start(&mut self, deploy: bool) {
        let missing = Engine::missing_types(&self.flows);
        if self.shared.state() != RunState::Start {
            self.announce(report::runtime_state("stop", deploy));
            return self.count_running(&Graph::default());
        }
        if !missing.is_empty() {
            for slot in self.all() {
                self.stop(&[(slot, false)]);
            }
            self.clear();
            tracing::warn!(types = missing.join(", "), "Waiting for missing types to be registered: no flow runs");
            self.announce(Event::RuntimeState(json!({
                "state": "stop", "error": "missing-types", "type": "warning",
                "text": "notification.warnings.missing-types", "types": missing,
            })));
            return self.count_running(&Graph::default());
        }
        let graph = graph::build(&self.flows, &self.credentials);
        let new = self.place(&graph);
        self.connect(&graph);
        for (at, slot) in new {
            self.construct(&graph.nodes[at], slot);
        }
        self.announce(report::runtime_state("start", deploy));
        self.count_running(&graph);
    }

    /// Gives every node of the graph that does not run a slot.
    fn place(&mut self, graph: &Graph) -> Vec<(usize, u32)> {
        let mut new = Vec::new();
        for (at, running) in graph.nodes.iter().enumerate() {
            if self.world.directory.contains_key(&running.id) {
                continue;
            }
            let info = info(running, &graph.flows[running.flow]);
            let next = self.kinds.len();
            let kind = *self.kind_index.entry(label(&info.kind).into()).or_insert(next);
            if kind == next {
                self.kinds.push((self.metrics.node_type(label(&info.kind)), 0));
            }
            self.epochs += 1;
            let slot = Slot {
                node: None,
                info: Rc::clone(&info),
                wires: Box::default(),
                epoch: self.epochs,
                watched: false,
                config: !running.node.placed,
                kind,
            };
            let number = self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                self.world.infos.push(None);
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            });
            self.slots[number as usize] = Some(slot);
            self.world.infos[number as usize] = Some(Rc::clone(&info));
            self.world.directory.insert(info.id.clone(), number);
            new.push((at, number));
        }
        new
    }

    /// Wires every node to the slots of its targets, and finds out who listens to whom. A target that
    /// does not exist is left out (facts engine §2.2).
    fn connect(&mut self, graph: &Graph) {
        let mut listeners = Listeners::default();
        let mut parents = FxHashMap::default();
        for flow in &graph.flows {
            let parent = flow.parent.map(|p| graph.flows[p].id.clone());
            listeners.add_flow(flow.id.clone(), parent.clone().map(|p| (p, flow.id.clone())), flow.status_port);
            parents.insert(flow.id.clone(), parent);
        }
        let links = links(graph);
        for running in &graph.nodes {
            let Some(&slot) = self.world.directory.get(&running.id) else { continue };
            let to_slots = |ids: &[SmolStr]| -> Box<[u32]> {
                ids.iter().filter_map(|id| self.world.directory.get(id).copied()).collect()
            };
            let wires: Box<[Box<[u32]>]> = match links.get(&running.id) {
                Some(targets) => Box::new([to_slots(targets)]),
                None => running.wires().map(to_slots).collect(),
            };
            let Some(Some(place)) = self.slots.get_mut(slot as usize) else { continue };
            place.wires = wires;
            if matches!(place.info.kind.as_str(), "catch" | "status" | "complete") {
                let own: Vec<SmolStr> = running.wires().flatten().cloned().collect();
                listeners.add(&place.info, slot, &text::of(running, &place.info), &own);
            }
        }
        for slot in self.slots.iter_mut().flatten() {
            slot.watched = !listeners.complete(&slot.info.id).is_empty();
        }
        self.world.listeners = listeners;
        self.world.contexts.borrow_mut().set_flows(parents);
    }

    /// Builds and starts one node. A failure is the node's own: it is logged and the others start.
    fn construct(&mut self, running: &Running, slot: u32) {
        let Some(Some(Slot { node: place, info, wires, epoch, watched, .. })) = self.slots.get_mut(slot as usize)
        else {
            return;
        };
        let instance = Instance { slot, epoch: *epoch };
        let mut host = Host { world: &mut self.world, instance, info, wires, watched: *watched };
        let build = Build {
            info,
            text: text::of(running, info),
            credentials: self.credentials.nodes.get(&running.node.id),
        };
        let built = catch_unwind(AssertUnwindSafe(|| {
            let mut node = match &running.role {
                Role::Plain | Role::Inner(_) => nodes::build(&build, &mut host)?,
                Role::Instance => Box::new(subflow::Entrance),
                Role::StatusPort(instance) => Box::new(subflow::StatusPort::new(instance.clone())) as Box<dyn Node>,
            };
            node.start(&mut host);
            Ok::<_, Failure>(node)
        }));
        match built {
            Ok(Ok(node)) => *place = Some(node),
            Ok(Err(failure)) => self.world.log(info, Level::Error, &Value::text(failure.to_string())),
            Err(_) => self.world.log(info, Level::Error, &Value::text("the node failed inside while it started")),
        }
    }

    fn announce(&self, event: Event) {
        // Nobody listening is fine.
        let _ = self.world.events.send(event);
    }

    fn count_running(&self, graph: &Graph) {
        let tabs: FxHashSet<&SmolStr> =
            graph.flows.iter().filter(|f| f.parent.is_none() && !f.id.is_empty()).map(|f| &f.id).collect();
        let nodes = self.slots.iter().flatten().filter(|s| s.node.is_some()).count();
        self.metrics.running(nodes, tabs.len());
    }
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: SmolStr,
}

fn info(running: &Running, flow: &Flow) -> Rc<Info> {
    let node = &running.node;
    let name = serde_json::from_str::<Named>(&node.text).map(|n| n.name).unwrap_or_default();
    Rc::new(Info {
        id: running.id.clone(),
        alias: node.id.clone(),
        kind: if matches!(running.role, Role::StatusPort(_)) { "subflow-status".into() } else { node.kind.clone() },
        name,
        z: flow.id.clone(),
        path: flow.path.clone(),
        groups: flow.groups(&node.group),
        outputs: node.wires.len(),
        env: Rc::clone(flow.env(&node.group)),
        flow_context: flow.id.clone(),
    })
}

#[derive(Deserialize)]
struct Links {
    #[serde(default)]
    links: Vec<SmolStr>,
    #[serde(default)]
    mode: SmolStr,
}

/// The wires that links make: of each link out node in mode link, the link in nodes that either side names
/// (facts engine §3.3).
fn links(graph: &Graph) -> FxHashMap<SmolStr, Vec<SmolStr>> {
    let mut wires: FxHashMap<SmolStr, Vec<SmolStr>> = FxHashMap::default();
    let mut backwards: Vec<(SmolStr, SmolStr)> = Vec::new();
    let mut ends: FxHashSet<&SmolStr> = FxHashSet::default();
    for running in &graph.nodes {
        let kind = running.node.kind.as_str();
        if !matches!(kind, "link out" | "link in") {
            continue;
        }
        let Ok(found) = serde_json::from_str::<Links>(&text::remapped(running)) else { continue };
        if kind == "link in" {
            backwards.extend(found.links.into_iter().map(|out| (out, running.id.clone())));
        } else if found.mode != "return" {
            ends.insert(&running.id);
            wires.insert(running.id.clone(), found.links);
        }
    }
    for (out, into) in backwards {
        if ends.contains(&out) {
            let targets = wires.entry(out).or_default();
            if !targets.contains(&into) {
                targets.push(into);
            }
        }
    }
    wires
}
