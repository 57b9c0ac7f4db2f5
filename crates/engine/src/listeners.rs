//! Who hears of errors, status and completed messages: catch, status and complete nodes, by flow
//! (docs/reference/node-red-engine.md §3.2).

use crate::node_info::NodeInfo;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::rc::Rc;

/// All listeners of the running graph; made anew after each change of it.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    flows: FxHashMap<SmolStr, Flow>,
    /// Complete nodes, by their flow and the running id of the node that they watch.
    complete: FxHashMap<(SmolStr, SmolStr), Vec<u32>>,
}

/// The listeners of one flow.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// The flow around it, and the instance's id there, if this is a subflow.
    pub parent: Option<(SmolStr, SmolStr)>,
    /// Whether status stays inside.
    pub status_port: bool,
    catch: Vec<Listener>,
    status: Vec<Listener>,
}

#[derive(Debug)]
struct Listener {
    slot: u32,
    scope: Scope,
    uncaught: bool,
    group: Option<SmolStr>,
}

/// The nodes that a listener hears.
#[derive(Debug, PartialEq)]
enum Scope {
    All,
    Nodes(Vec<SmolStr>),
    Group,
}

#[derive(Deserialize)]
struct Properties {
    #[serde(default)]
    scope: Json,
    #[serde(default)]
    uncaught: Json,
}

impl Listeners {
    /// Adds a flow without listeners.
    pub(super) fn add_flow(
        &mut self,
        id: SmolStr,
        parent: Option<(SmolStr, SmolStr)>,
        status_port: bool,
    ) {
        self.flows.insert(
            id,
            Flow {
                parent,
                status_port,
                ..Flow::default()
            },
        );
    }

    /// Adds a running node, if it is a listener. `text` is its element with running ids; `own` are the
    /// targets of its own output, which it must not hear (docs/reference/node-red-engine.md §3.2).
    pub(super) fn add(&mut self, info: &NodeInfo, slot: u32, text: &str, own: &[SmolStr]) {
        let Ok(properties) = serde_json::from_str::<Properties>(text) else {
            return;
        };
        let mut scope = scope(&properties.scope);
        if let Scope::Nodes(ids) = &mut scope
            && info.kind != "catch"
        {
            ids.retain(|id| !own.contains(id));
        }
        let listener = Listener {
            slot,
            scope,
            uncaught: properties.uncaught == true,
            group: info.groups.first().cloned(),
        };
        if info.kind == "complete" {
            if let Scope::Nodes(ids) = listener.scope {
                for id in ids {
                    let watched = (info.z.clone(), id);
                    self.complete.entry(watched).or_default().push(slot);
                }
            }
            return;
        }
        let flow = self.flows.entry(info.z.clone()).or_default();
        match info.kind.as_str() {
            "catch" => flow.catch.push(listener),
            _ => flow.status.push(listener),
        }
    }

    /// The flow of that id.
    pub(super) fn flow(&self, id: &str) -> Option<&Flow> {
        self.flows.get(id)
    }

    /// Complete nodes that watch a node of their flow.
    pub(super) fn complete(&self, info: &NodeInfo) -> &[u32] {
        let watched = (info.z.clone(), info.id.clone());
        self.complete.get(&watched).map_or(&[], Vec::as_slice)
    }
}

impl Flow {
    /// Catch nodes that take an error reported by a node, nearest group first; `uncaught` ones only if no other does.
    pub(super) fn catching(&self, reporter: &NodeInfo) -> Vec<u32> {
        let mut hearing = hearing(&self.catch, reporter);
        hearing.sort_by_key(|(distance, l)| (*distance, l.scope == Scope::All, l.uncaught));
        let mut taken = false;
        let mut slots = Vec::new();
        for (_, listener) in hearing {
            if listener.uncaught && taken {
                continue;
            }
            taken |= !listener.uncaught;
            slots.push(listener.slot);
        }
        slots
    }

    /// Status nodes that hear a node's status, nearest group first.
    pub(super) fn hearing_status(&self, reporter: &NodeInfo) -> Vec<u32> {
        let mut hearing = hearing(&self.status, reporter);
        hearing.sort_by_key(|(distance, _)| *distance);
        hearing.into_iter().map(|(_, l)| l.slot).collect()
    }
}

fn hearing<'a>(listeners: &'a [Listener], reporter: &NodeInfo) -> Vec<(usize, &'a Listener)> {
    listeners
        .iter()
        .filter_map(|l| Some((distance(l, reporter)?, l)))
        .collect()
}

/// How many groups lie between a node and a listener; `None`: it does not hear the node.
fn distance(listener: &Listener, reporter: &NodeInfo) -> Option<usize> {
    let around: &Rc<[SmolStr]> = &reporter.groups;
    let shared = listener
        .group
        .as_ref()
        .and_then(|g| around.iter().position(|a| a == g));
    match &listener.scope {
        Scope::Nodes(ids) if !ids.contains(&reporter.id) => None,
        Scope::Group if listener.group.is_some() && shared.is_none() => None,
        _ => Some(shared.unwrap_or(around.len())),
    }
}

fn scope(scope: &Json) -> Scope {
    match scope {
        Json::Array(ids) => Scope::Nodes(
            ids.iter()
                .filter_map(Json::as_str)
                .map(SmolStr::from)
                .collect(),
        ),
        Json::String(word) if word == "group" => Scope::Group,
        _ => Scope::All,
    }
}
