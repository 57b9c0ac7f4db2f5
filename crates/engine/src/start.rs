//! Starting what is to run: every node of the graph gets its slot, its wires, its listeners, and is
//! built (docs/reference/node-red-engine.md §1.5, §2.4).

use super::listeners::Listeners;
use super::node::{Build, boxed};
use super::report::{self, label};
use super::{RunState, nodes, subflow};
use crate::env;
use crate::event_loop::{Slot, Thread};
use crate::http::Rank;
use crate::joined_flows::JoinedFlows;
use crate::log_level::Level;
use crate::node_info::{Container, NodeInfo};
use crate::targets::Targets;
use events::Event;
use flows::running::{self, Flow, Graph, Role, Running, remapped, resolved};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde_json::json;
use smol_str::SmolStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use value::{Failure, Value};

/// The label of the flow of global config nodes, as Node-RED names it.
const GLOBAL: SmolStr = SmolStr::new_static("global");

impl Thread {
    /// Starts every enabled node that does not run, unless flows are stopped or types are missing
    /// (docs/reference/node-red-engine.md §2.4).
    pub(super) fn start(&mut self, deploy: bool) {
        self.forget_stopped();
        self.is_whole = false;
        let missing = match &self.part {
            Some(part) => part.change.missing().to_vec(),
            None => self.missing_types(&self.flows),
        };
        match self.shared.state() {
            RunState::Start => {}
            RunState::Stop => {
                self.announce(report::runtime_state("stop", deploy));
                return self.count_tabs(&Graph::default());
            }
            RunState::Safe => {
                self.announce(Event::RuntimeState(json!({
                    "state": "safe", "error": "safe-mode", "type": "warning",
                    "text": "notification.warnings.safe-mode",
                })));
                return self.count_tabs(&Graph::default());
            }
        }
        if !missing.is_empty() {
            for slot in self.all() {
                self.stop(&[(slot, false)]);
            }
            self.clear();
            self.warn_of_missing(&missing);
            self.announce(Event::RuntimeState(json!({
                "state": "stop", "error": "missing-types", "type": "warning",
                "text": "notification.warnings.missing-types", "types": missing,
            })));
            return self.count_tabs(&Graph::default());
        }
        let is_in = |id: &str| self.part.as_ref().is_none_or(|part| part.has(id));
        let evaluator = env::evaluator(&self.state.config.hide_env);
        let graph = running::build(&self.flows, Some(&is_in), &self.credentials, &evaluator);
        let new = self.place(&graph);
        let listeners = self.connect(&graph);
        // Events of starting nodes reach no catch, status or complete node: Node-RED connects those
        // afterwards.
        self.state.listeners = Listeners::default();
        for (at, slot) in new {
            self.construct(&graph.nodes[at], slot);
        }
        self.state.listeners = listeners;
        self.state.publish_endpoints();
        self.announce(report::runtime_state("start", deploy));
        self.count_tabs(&graph);
        self.is_whole = true;
    }

    fn warn_of_missing(&self, types: &[String]) {
        if self.number == 0 {
            tracing::warn!(
                types = types.join(", "),
                "no flow runs: the flow set has node types that this engine lacks; with [engine.node_host] those of npm packages run"
            );
        }
    }

    /// Gives every node of the graph that does not run a slot.
    fn place(&mut self, graph: &Graph) -> Vec<(usize, u32)> {
        let mut new = Vec::new();
        let mut containers = FxHashMap::default();
        let more = graph.nodes.len().saturating_sub(self.state.directory.len());
        self.slots
            .reserve_exact(more.saturating_sub(self.free.len()));
        for (at, running) in graph.nodes.iter().enumerate() {
            if self.state.directory.get(&running.id).is_some() {
                continue;
            }
            let flow = &graph.flows[running.flow];
            let container = containers
                .entry((running.flow, &running.node.group))
                .or_insert_with(|| container(flow, &running.node.group));
            let info = info(running, Rc::clone(container));
            let next = self.kinds.len();
            let kind = *self
                .kind_index
                .entry(label(info.kind()).into())
                .or_insert(next);
            if kind == next {
                self.kinds
                    .push((self.metrics.node_type(label(info.kind())), 0));
            }
            self.epochs += 1;
            let slot = Slot {
                node: None,
                info: Rc::clone(&info),
                wires: Targets::default(),
                epoch: self.epochs,
                watched: false,
                config: !running.node.placed,
                kind,
            };
            let number = self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            });
            self.slots[number as usize] = Some(slot);
            self.state.directory.insert(number, info);
            new.push((at, number));
        }
        new
    }

    /// Wires every node to the slots of its targets, and finds out who listens to whom. A target
    /// that does not exist is left out (docs/reference/node-red-engine.md §2.2).
    fn connect(&mut self, graph: &Graph) -> Listeners {
        let mut listeners = Listeners::default();
        let mut parents = FxHashMap::default();
        for flow in &graph.flows {
            let parent = flow.parent.map(|p| graph.flows[p].id.clone());
            listeners.add_flow(
                flow.id.clone(),
                parent.clone().map(|p| (p, flow.id.clone())),
                flow.status_port,
            );
            parents.insert(flow.id.clone(), parent);
        }
        let links = links(graph);
        self.state.links = self.links_by_name();
        for running in &graph.nodes {
            let Some(slot) = self.state.directory.get(&running.id) else {
                continue;
            };
            let to_slots = |ids: &[SmolStr]| -> Box<[u32]> {
                ids.iter()
                    .filter_map(|id| self.state.directory.get(id))
                    .collect()
            };
            let wires: Targets = match links.get(&running.id) {
                Some(targets) => [to_slots(targets)].into_iter().collect(),
                None => running.wires().map(to_slots).collect(),
            };
            let Some(Some(place)) = self.slots.get_mut(slot as usize) else {
                continue;
            };
            place.wires = wires;
            if matches!(place.info.kind().as_str(), "catch" | "status" | "complete") {
                let own: FxHashSet<SmolStr> = running.wires().flatten().cloned().collect();
                let info = &place.info;
                let text = resolved(running, &|variable| info.env(variable));
                listeners.add(info, slot, &text, &own);
            }
        }
        for slot in self.slots.iter_mut().flatten() {
            slot.watched = !listeners.complete(&slot.info).is_empty();
        }
        self.state.contexts.borrow_mut().set_flows(parents);
        self.group(graph);
        listeners
    }

    /// The link in nodes by name; one without a name is called by its id.
    fn links_by_name(&self) -> FxHashMap<SmolStr, Vec<Rc<NodeInfo>>> {
        let mut named: FxHashMap<SmolStr, Vec<Rc<NodeInfo>>> = FxHashMap::default();
        let infos = self.state.directory.infos();
        for info in infos.filter(|info| info.kind() == "link in") {
            let name = info.name.as_ref().filter(|name| !name.is_empty());
            let name = name.unwrap_or(&info.id).clone();
            named.entry(name).or_default().push(Rc::clone(info));
        }
        named
    }

    /// Puts the flows that wires, links and link calls join into one group of the queue, subflow
    /// instances into that of the flow around them.
    fn group(&mut self, graph: &Graph) {
        let mut joined = JoinedFlows::new(graph.flows.len());
        for (at, flow) in graph.flows.iter().enumerate() {
            if let Some(parent) = flow.parent {
                joined.join(at, parent);
            }
        }
        let mut flow_of: Vec<usize> = vec![0; self.slots.len()];
        let slots = graph.nodes.iter().map(|running| {
            let slot = self.state.directory.get(&running.id);
            slot.map(|slot| (slot as usize, running.flow))
        });
        for (slot, flow) in slots.flatten() {
            flow_of[slot] = flow;
        }
        for (slot, taken) in self.slots.iter().enumerate() {
            for target in taken.iter().flat_map(|t| t.wires.by_output()).flatten() {
                joined.join(flow_of[slot], flow_of[*target as usize]);
            }
        }
        for (call, targets) in link_calls(graph) {
            for target in targets {
                if let (Some(call), Some(target)) = (
                    self.state.directory.get(&call),
                    self.state.directory.get(&target),
                ) {
                    joined.join(flow_of[call as usize], flow_of[target as usize]);
                }
            }
        }
        let groups = flow_of.into_iter().map(|flow| joined.group(flow)).collect();
        self.state.queue.regroup(groups);
        self.group_foreign();
        let queue = &self.state.queue;
        self.calls.regroup(|slot| queue.group(slot));
        let firsts = (0..)
            .zip(&graph.flows)
            .filter(|(at, _)| joined.group(*at as usize) == *at);
        let id = |flow: &Flow| {
            if flow.id.is_empty() {
                GLOBAL
            } else {
                flow.id.clone()
            }
        };
        self.load
            .regroup(&firsts.map(|(at, flow)| (at, id(flow))).collect::<Vec<_>>());
    }

    /// Marks the groups that have foreign nodes: the node host and they wait for each other.
    pub(super) fn group_foreign(&self) {
        if self.state.node_host.is_none() {
            return;
        }
        let slots = (0..).zip(&self.slots);
        let foreign = slots.filter_map(|(number, slot)| {
            let is_foreign = slot
                .as_ref()
                .is_some_and(|s| self.state.is_foreign(&s.info));
            is_foreign.then(|| self.state.queue.group(number))
        });
        self.state.pressure.set_foreign(foreign.collect());
    }

    /// Builds and starts one node. A failure is the node's own: it is logged and the others start.
    pub(super) fn construct(&mut self, running: &Running, slot: u32) {
        let credentials = Arc::clone(&self.credentials);
        self.rank_endpoints(slot);
        let Some(Some(taken)) = self.slots.get_mut(slot as usize) else {
            return;
        };
        let (place, mut host) = taken.place_and_host(slot, &mut self.state);
        let info = Rc::clone(host.info());
        let build = Build {
            info: &info,
            text: resolved(running, &|variable| info.env(variable)),
            credentials: credentials
                .nodes
                .get(&running.node.id)
                .map(|given| running::credentials(given, &|variable| info.env(variable))),
        };
        let made = catch_unwind(AssertUnwindSafe(|| {
            let mut node = match &running.role {
                Role::Plain | Role::Inner(_) => nodes::build(&build, &mut host)?,
                Role::Instance => boxed(subflow::Entrance),
                Role::StatusPort(instance) => boxed(subflow::StatusPort::new(instance.clone())),
            };
            node.start(&mut host);
            Ok::<_, Failure>(node)
        }));
        match made {
            Ok(Ok(node)) => {
                let info = node.takes_scripts().then_some(&info);
                host.state.attached.set_taker(slot, info);
                *place = Some(node);
            }
            Ok(Err(failure)) => host.error(failure, None),
            Err(_) => host.log(Level::Error, "the node failed inside while it started"),
        }
    }

    /// Sets the rank of the endpoints that a node may register: among those of other threads they
    /// stand as they would on one.
    fn rank_endpoints(&mut self, slot: u32) {
        let (Some(part), Some(Some(slot))) = (&self.part, self.slots.get(slot as usize)) else {
            return;
        };
        let tab = slot.info.container.path.split('/').next();
        self.state.rank = Rank {
            change: part.change.number,
            tab: part.change.placement.position(tab.unwrap_or_default()),
        };
    }

    /// Publishes a state of the runtime, once for all threads.
    pub(super) fn announce(&self, event: Event) {
        if self.number == 0 {
            self.state.events.publish(event);
        }
    }

    fn count_tabs(&mut self, graph: &Graph) {
        if graph.flows.is_empty() {
            self.load.regroup(&[]);
        }
        let tabs: FxHashSet<&SmolStr> = graph
            .flows
            .iter()
            .filter(|f| f.parent.is_none() && !f.id.is_empty())
            .map(|f| &f.id)
            .collect();
        self.tabs = tabs.len();
        self.count_running();
    }

    /// Counts running nodes and flows.
    pub(super) fn count_running(&self) {
        let running = self.slots.iter().flatten().filter(|s| s.node.is_some());
        let stopped = self.shared.stopped().len();
        let metrics = &*self.metrics;
        self.shared
            .running
            .set(self.number, running.count(), self.tabs, metrics, stopped);
    }
}

/// An empty name counts as none, but for these types (observed on 4.1).
fn keeps_empty_name(kind: &str) -> bool {
    matches!(kind, "debug" | "function" | "template" | "delay")
}

#[derive(Deserialize)]
struct Named {
    name: Option<SmolStr>,
}

/// What the nodes of a flow in a group are in.
fn container(flow: &Flow, group: &str) -> Rc<Container> {
    Rc::new(Container {
        z: flow.id.clone(),
        path: flow.path.clone(),
        groups: flow.groups(group),
        env: Rc::clone(flow.env(group)),
    })
}

/// The data about a node in its container.
pub(super) fn info(running: &Running, container: Rc<Container>) -> Rc<NodeInfo> {
    let node = &running.node;
    let mut info = NodeInfo {
        id: running.id.clone(),
        node: Arc::clone(node),
        name: None,
        container,
    };
    let written = serde_json::from_str::<Named>(&node.text).ok();
    info.name = written
        .and_then(|written| written.name)
        .map(|name| match env::reference(&name).map(|v| info.env(v)) {
            Some(Value::String(named)) => named,
            _ => name,
        })
        .filter(|name| !name.is_empty() || keeps_empty_name(&node.kind));
    Rc::new(info)
}

#[derive(Deserialize)]
struct Links {
    #[serde(default)]
    links: Vec<SmolStr>,
    #[serde(default)]
    mode: SmolStr,
}

/// The link in nodes that link call nodes name.
fn link_calls(graph: &Graph) -> Vec<(SmolStr, Vec<SmolStr>)> {
    let calls = graph.nodes.iter().filter(|n| n.node.kind == "link call");
    calls
        .filter_map(|running| {
            let found: Links = serde_json::from_str(&remapped(running)).ok()?;
            Some((running.id.clone(), found.links))
        })
        .collect()
}

/// The wires that links make: of each link out node in mode link, the link in nodes that either
/// side names (docs/reference/node-red-engine.md §3.3).
fn links(graph: &Graph) -> FxHashMap<SmolStr, Vec<SmolStr>> {
    let mut wires: FxHashMap<SmolStr, Vec<SmolStr>> = FxHashMap::default();
    let mut backwards: Vec<(SmolStr, SmolStr)> = Vec::new();
    let mut pairs: FxHashSet<(SmolStr, SmolStr)> = FxHashSet::default();
    for running in &graph.nodes {
        let kind = running.node.kind.as_str();
        if !matches!(kind, "link out" | "link in") {
            continue;
        }
        let Ok(found) = serde_json::from_str::<Links>(&remapped(running)) else {
            continue;
        };
        if kind == "link in" {
            backwards.extend(found.links.into_iter().map(|out| (out, running.id.clone())));
        } else if found.mode != "return" {
            let own = found.links.iter().cloned();
            pairs.extend(own.map(|into| (running.id.clone(), into)));
            wires.insert(running.id.clone(), found.links);
        }
    }
    for (out, into) in backwards {
        if let Some(targets) = wires.get_mut(&out)
            && pairs.insert((out, into.clone()))
        {
            targets.push(into);
        }
    }
    wires
}
