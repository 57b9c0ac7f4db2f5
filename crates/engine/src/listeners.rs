//! The catch, status and complete nodes, by flow: they receive errors, status and completed messages
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

/// The nodes that a listener listens to.
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
    /// targets of its own output, which it must not listen to (docs/reference/node-red-engine.md §3.2).
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
        let mut found = in_scope(&self.catch, reporter);
        found.sort_by_key(|(distance, l)| (*distance, l.scope == Scope::All, l.uncaught));
        let mut taken = false;
        let mut slots = Vec::new();
        for (_, listener) in found {
            if listener.uncaught && taken {
                continue;
            }
            taken |= !listener.uncaught;
            slots.push(listener.slot);
        }
        slots
    }

    /// Status nodes that receive a node's status, nearest group first.
    pub(super) fn status_listeners(&self, reporter: &NodeInfo) -> Vec<u32> {
        let mut found = in_scope(&self.status, reporter);
        found.sort_by_key(|(distance, _)| *distance);
        found.into_iter().map(|(_, l)| l.slot).collect()
    }
}

/// The listeners whose scope has this node, with their distance from it.
fn in_scope<'a>(listeners: &'a [Listener], reporter: &NodeInfo) -> Vec<(usize, &'a Listener)> {
    listeners
        .iter()
        .filter_map(|l| Some((distance(l, reporter)?, l)))
        .collect()
}

/// The number of groups between a node and a listener; `None`: the node is not in its scope.
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
