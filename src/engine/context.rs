//! Context stores: what flows remember. Memory only; values are shared until written.

use super::expression::{Key, Path};
use super::node::Info;
use super::value::{Object, Value};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use std::sync::Arc;

/// Which context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Of one node.
    Node,
    /// Of one flow: a tab or subflow instance.
    Flow,
    /// Of the whole runtime.
    Global,
}

/// All contexts of the engine. A value that was never written takes no room.
#[derive(Debug, Default)]
pub struct Contexts {
    global: Value,
    flows: FxHashMap<SmolStr, Value>,
    nodes: FxHashMap<SmolStr, Value>,
    /// Flow context to the one around it: of a subflow instance to that of its flow.
    parents: FxHashMap<SmolStr, SmolStr>,
}

impl Contexts {
    /// Reads a value as the node `info` sees it; `undefined` if there is none. In flow contexts
    /// `$parent.x` reads `x` of the flow around the subflow instance.
    pub fn read(&self, scope: Scope, info: &Info, key: &Path) -> Value {
        match scope {
            Scope::Node => self
                .nodes
                .get(&info.id)
                .map_or(Value::Undefined, |root| key.read(root)),
            Scope::Global => key.read(&self.global),
            Scope::Flow => match self.outwards(info, key) {
                Some((flow, rest)) => self
                    .flows
                    .get(flow)
                    .map_or(Value::Undefined, |root| rest.read(root)),
                None => self
                    .flows
                    .get(&info.flow_context)
                    .map_or(Value::Undefined, |root| key.read(root)),
            },
        }
    }

    /// Writes a value; `undefined` deletes it. False if a parent on the way is a primitive.
    pub fn write(&mut self, scope: Scope, info: &Info, key: &Path, value: Value) -> bool {
        match scope {
            Scope::Node => write(self.nodes.entry(info.id.clone()).or_default(), key, value),
            Scope::Global => write(&mut self.global, key, value),
            Scope::Flow => {
                let outer = self
                    .outwards(info, key)
                    .map(|(flow, rest)| (flow.clone(), rest));
                match outer {
                    Some((flow, rest)) => write(self.flows.entry(flow).or_default(), &rest, value),
                    None => write(
                        self.flows.entry(info.flow_context.clone()).or_default(),
                        key,
                        value,
                    ),
                }
            }
        }
    }

    /// The top-level keys of a context.
    pub fn keys(&self, scope: Scope, info: &Info) -> Vec<SmolStr> {
        let root = match scope {
            Scope::Node => self.nodes.get(&info.id),
            Scope::Flow => self.flows.get(&info.flow_context),
            Scope::Global => Some(&self.global),
        };
        root.and_then(Value::as_object)
            .map(|o| o.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// A whole context for the admin API: an object, or `undefined`. `id` is a node's or flow's id.
    pub fn whole(&self, scope: Scope, id: &str) -> Value {
        match scope {
            Scope::Node => self.nodes.get(id).cloned().unwrap_or_default(),
            Scope::Flow => self.flows.get(id).cloned().unwrap_or_default(),
            Scope::Global => self.global.clone(),
        }
    }

    /// Deletes a key for the admin API.
    pub fn delete(&mut self, scope: Scope, id: &str, key: &Path) {
        let root = match scope {
            Scope::Node => self.nodes.get_mut(id),
            Scope::Flow => self.flows.get_mut(id),
            Scope::Global => Some(&mut self.global),
        };
        if let Some(root) = root {
            key.write(root, Value::Undefined);
        }
    }

    /// Forgets a node's context: its node closed (facts engine §1.6).
    pub(super) fn forget_node(&mut self, id: &str) {
        if !self.nodes.is_empty() {
            self.nodes.remove(id);
        }
    }

    /// Keeps only the contexts of these flows, and learns which flow surrounds which.
    pub(super) fn set_flows(&mut self, parents: FxHashMap<SmolStr, Option<SmolStr>>) {
        self.flows.retain(|id, _| parents.contains_key(id));
        self.parents = parents
            .into_iter()
            .filter_map(|(id, parent)| Some((id, parent?)))
            .collect();
    }

    /// The flow context that `$parent.` leads to, and what is left of the key.
    fn outwards<'a>(&'a self, info: &'a Info, key: &Path) -> Option<(&'a SmolStr, Path)> {
        let mut flow = &info.flow_context;
        let mut steps = 0;
        while key.keys.len() > steps + 1
            && matches!(&key.keys[steps], Key::Name(n) if n == "$parent")
        {
            flow = self.parents.get(flow).unwrap_or(flow);
            steps += 1;
        }
        let rest = || Path {
            keys: key.keys[steps..].to_vec(),
            store: key.store.clone(),
        };
        (steps > 0).then(|| (flow, rest()))
    }
}

fn write(root: &mut Value, key: &Path, value: Value) -> bool {
    if root.is_undefined() {
        *root = Value::Object(Arc::new(Object::default()));
    }
    key.write(root, value)
}
