//! The catch, status and complete nodes, by flow: they receive errors, status and completed
//! messages (docs/reference/node-red-engine.md §3.2).

use crate::node_info::NodeInfo;
use rustc_hash::{FxHashMap, FxHashSet};
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
    /// True if status stays inside.
    pub status_port: bool,
    catch: Scopes,
    status: Scopes,
}

/// Listeners of one kind, by the nodes that they listen to.
#[derive(Debug, Default)]
struct Scopes {
    /// To all nodes of the flow, or of their group.
    wide: Vec<Listener>,
    /// To the node of this running id.
    nodes: FxHashMap<SmolStr, Vec<Listener>>,
    added: usize,
}

#[derive(Debug, Clone)]
struct Listener {
    /// Its number in the order in which listeners were added.
    number: usize,
    slot: u32,
    /// True if it listens to its group only.
    grouped: bool,
    /// True if it listens to all nodes of the flow.
    to_all: bool,
    uncaught: bool,
    group: Option<SmolStr>,
}

/// The nodes that a listener listens to.
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

    /// Adds a running node, if it is a listener. `text` is its element with running ids; `own` are
    /// the targets of its own output, which it must not listen to
    /// (docs/reference/node-red-engine.md §3.2).
    pub(super) fn add(&mut self, info: &NodeInfo, slot: u32, text: &str, own: &FxHashSet<SmolStr>) {
        let Ok(properties) = serde_json::from_str::<Properties>(text) else {
            return;
        };
        let mut scope = scope(&properties.scope);
        if let Scope::Nodes(ids) = &mut scope
            && info.kind() != "catch"
        {
            ids.retain(|id| !own.contains(id));
        }
        if info.kind() == "complete" {
            if let Scope::Nodes(ids) = scope {
                for id in ids {
                    let watched = (info.container.z.clone(), id);
                    self.complete.entry(watched).or_default().push(slot);
                }
            }
            return;
        }
        let listener = Listener {
            number: 0,
            slot,
            grouped: matches!(scope, Scope::Group),
            to_all: matches!(scope, Scope::All),
            uncaught: properties.uncaught == true,
            group: info.container.groups.first().cloned(),
        };
        let flow = self.flows.entry(info.container.z.clone()).or_default();
        match info.kind().as_str() {
            "catch" => flow.catch.add(listener, scope),
            _ => flow.status.add(listener, scope),
        }
    }

    /// The flow of that id.
    pub(super) fn flow(&self, id: &str) -> Option<&Flow> {
        self.flows.get(id)
    }

    /// Complete nodes that watch a node of their flow.
    pub(super) fn complete(&self, info: &NodeInfo) -> &[u32] {
        let watched = (info.container.z.clone(), info.id.clone());
        self.complete.get(&watched).map_or(&[], Vec::as_slice)
    }
}

impl Flow {
    /// Catch nodes that take an error reported by a node, nearest group first; `uncaught` ones only
    /// if no other does.
    pub(super) fn catching(&self, reporter: &NodeInfo) -> Vec<u32> {
        let mut found = self.catch.of(reporter);
        found.sort_by_key(|(distance, l)| (*distance, l.to_all, l.uncaught));
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
        let mut found = self.status.of(reporter);
        found.sort_by_key(|(distance, _)| *distance);
        found.into_iter().map(|(_, l)| l.slot).collect()
    }
}

impl Scopes {
    fn add(&mut self, mut listener: Listener, scope: Scope) {
        self.added += 1;
        listener.number = self.added;
        let Scope::Nodes(ids) = scope else {
            return self.wide.push(listener);
        };
        for id in ids {
            let listeners = self.nodes.entry(id).or_default();
            // An id may be there twice.
            if listeners.last().is_none_or(|l| l.number != listener.number) {
                listeners.push(listener.clone());
            }
        }
    }

    /// The listeners whose scope has this node, as they were added, with their distance from it.
    fn of(&self, reporter: &NodeInfo) -> Vec<(usize, &Listener)> {
        let own = self.nodes.get(&reporter.id).into_iter().flatten();
        let mut found: Vec<_> = self
            .wide
            .iter()
            .chain(own)
            .filter_map(|l| Some((distance(l, reporter)?, l)))
            .collect();
        found.sort_unstable_by_key(|(_, l)| l.number);
        found
    }
}

/// The number of groups between a node and a listener; `None`: the node is not in its group.
fn distance(listener: &Listener, reporter: &NodeInfo) -> Option<usize> {
    let around: &Rc<[SmolStr]> = &reporter.container.groups;
    let shared = listener
        .group
        .as_ref()
        .and_then(|g| around.iter().position(|a| a == g));
    if listener.grouped && listener.group.is_some() && shared.is_none() {
        return None;
    }
    Some(shared.unwrap_or(around.len()))
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
