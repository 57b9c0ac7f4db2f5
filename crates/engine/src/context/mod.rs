//! Context stores: the values that flows keep, in memory or also on disk. Values are shared until written.
//!
//! A store holds the context of each flow (a tab or subflow instance; the global one has no id) and of the nodes in it,
//! as the directories of Node-RED's `localfilesystem` do: the flow's id, then the node's id in the flow set.

mod answer;
mod disk;
mod layout;
#[cfg(test)]
mod tests;
mod writer;

pub use answer::Request;

use crate::log_level::Level;
use crate::node_info::NodeInfo;
use crate::settings::{self, ContextStore};
use disk::Disk;
use events::{Event, Events};
use flows::FlowSet;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;
use smol_str::SmolStr;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use value::{Failure, Key, Object, Path, Value};

/// The scope of the context.
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
#[derive(Debug)]
pub struct Contexts {
    /// The first one is meant where none is named.
    stores: Vec<Store>,
    /// Flow context to the one around it: of a subflow instance to that of its flow.
    parents: FxHashMap<SmolStr, SmolStr>,
    /// The operator named no store: then a node's context ends with the node, as in Node-RED
    /// (docs/reference/node-red-engine.md §1.6).
    passing: bool,
    /// Stores that flows name and that do not exist; each is logged once.
    unknown: RefCell<FxHashSet<SmolStr>>,
    events: Events,
    /// The clock of the engine's thread.
    now: Rc<Cell<f64>>,
}

/// One store.
#[derive(Debug, Default)]
struct Store {
    name: SmolStr,
    global: Remembered,
    flows: FxHashMap<SmolStr, Remembered>,
    disk: Option<Disk>,
}

/// The context of one flow and those of its nodes.
#[derive(Debug, Default)]
struct Remembered {
    own: Value,
    /// By the node's id in the flow set.
    nodes: FxHashMap<SmolStr, Value>,
}

/// The place of a value: a flow, empty for the global one, and a node in it, empty for the flow's own context.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    flow: SmolStr,
    node: SmolStr,
}

impl Default for Contexts {
    fn default() -> Self {
        Self::open(&[])
    }
}

impl Contexts {
    /// The stores that the operator named, with what is on disk; without any, one in memory.
    pub(super) fn open(stores: &[ContextStore]) -> Self {
        let memory = Store {
            name: SmolStr::new_static(settings::MEMORY),
            ..Store::default()
        };
        let mut open: Vec<Store> = stores.iter().map(Store::open).collect();
        if open.is_empty() {
            open.push(memory);
        }
        Self {
            stores: open,
            parents: FxHashMap::default(),
            passing: stores.is_empty(),
            unknown: RefCell::default(),
            events: Events::default(),
            now: Rc::default(),
        }
    }

    /// Sets the recipient of the stores' warnings, and the clock of their times.
    pub(super) fn warning(self, events: Events, now: Rc<Cell<f64>>) -> Self {
        Self {
            events,
            now,
            ..self
        }
    }

    /// Reads a value as the node `info` sees it; `undefined` if there is none. In flow contexts
    /// `$parent.x` reads `x` of the flow around the subflow instance.
    pub fn read(&self, scope: Scope, info: &NodeInfo, key: &Path) -> Value {
        let store = self.store(key.store.as_deref());
        let (flow, key) = self.flow_of(scope, info, key);
        let Some(context) = self.stores[store].context(&flow) else {
            return Value::Undefined;
        };
        match scope {
            Scope::Node => context.nodes.get(&info.alias).map(|root| key.read(root)),
            _ => Some(key.read(&context.own)),
        }
        .unwrap_or_default()
    }

    /// Writes a value; `undefined` deletes it. False if a parent on the way is a primitive. A value that is too large
    /// is a failure, and nothing is written.
    pub fn write(
        &mut self,
        scope: Scope,
        info: &NodeInfo,
        key: &Path,
        value: Value,
    ) -> Result<bool, Failure> {
        let store = self.store(key.store.as_deref());
        let (flow, key) = self.flow_of(scope, info, key);
        let place = Place {
            flow,
            node: match scope {
                Scope::Node => info.alias.clone(),
                _ => SmolStr::default(),
            },
        };
        self.stores[store].write(place, &key, value)
    }

    /// The top-level keys of a context.
    pub fn keys(&self, scope: Scope, info: &NodeInfo, store: Option<&str>) -> Vec<SmolStr> {
        let store = self.store(store);
        let (flow, _) = self.flow_of(scope, info, &Path::name(""));
        let root = self.stores[store]
            .context(&flow)
            .and_then(|context| match scope {
                Scope::Node => context.nodes.get(&info.alias),
                _ => Some(&context.own),
            });
        root.and_then(Value::as_object)
            .map(|o| o.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Forgets a node's context, if contexts end with their nodes.
    pub(super) fn forget_node(&mut self, info: &NodeInfo) {
        if self.passing
            && let Some(context) = self.stores[0].context_mut(&info.z)
        {
            context.nodes.remove(&info.alias);
        }
    }

    /// Learns which flow surrounds which.
    pub(super) fn set_flows(&mut self, parents: FxHashMap<SmolStr, Option<SmolStr>>) {
        self.parents = parents
            .into_iter()
            .filter_map(|(id, parent)| Some((id, parent?)))
            .collect();
    }

    /// Forgets the contexts of what is no longer in the flow set (docs/reference/node-red-engine.md §1.6). An empty
    /// flow set removes no files: it may be one that could not be loaded.
    pub(super) fn clean(&mut self, flows: &FlowSet) {
        let known = |id: &str| flows.get(id).is_some();
        // The id of a subflow instance inside another begins with the outer one's.
        let known_flow = |id: &str| {
            id.is_empty()
                || known(id)
                || id
                    .match_indices('-')
                    .any(|(at, _)| id.get(..at).is_some_and(known))
        };
        for store in &mut self.stores {
            store.clean(&known_flow, &known, flows.nodes().is_empty());
        }
    }

    /// Whether anything waits to be written to disk.
    pub(super) fn unsaved(&self) -> bool {
        self.stores
            .iter()
            .filter_map(|s| s.disk.as_ref())
            .any(Disk::is_dirty)
    }

    /// When something is to be written to disk; `None`: nothing waits.
    pub(super) fn due(&self) -> Option<Instant> {
        let disks = self.stores.iter().filter_map(|s| s.disk.as_ref());
        disks.filter_map(Disk::due).min()
    }

    /// Writes what has waited long enough.
    pub(super) fn save(&mut self, now: Instant) {
        for store in &mut self.stores {
            store.save(Some(now));
        }
    }

    /// Writes everything, and waits until it is on disk.
    pub(super) fn close(&mut self) {
        for store in &mut self.stores {
            store.save(None);
            store.disk = None;
        }
    }

    /// The number of a store; of the first one if there is none of that name.
    fn store(&self, name: Option<&str>) -> usize {
        let Some(name) = name else { return 0 };
        if let Some(found) = self.named(name) {
            return found;
        }
        if self.unknown.borrow_mut().insert(name.into()) {
            self.warn(&format!(
                "Unknown context store '{name}' specified. Using default store."
            ));
        }
        0
    }

    /// Logs a warning that belongs to no node; editors get it too.
    fn warn(&self, text: &str) {
        tracing::warn!(target: "flow", "{text}");
        if self.events.wants_debug() {
            self.events.publish(Event::Debug(json!({
                "level": Level::Warn as u8,
                "msg": text,
                "timestamp": self.now.get(),
                "format": format!("string[{}]", text.chars().count()),
            })));
        }
    }

    fn named(&self, name: &str) -> Option<usize> {
        self.stores.iter().position(|s| s.name == name)
    }

    /// The flow whose context is meant, and what is left of the key after `$parent.`.
    fn flow_of<'k>(
        &self,
        scope: Scope,
        info: &NodeInfo,
        key: &'k Path,
    ) -> (SmolStr, Cow<'k, Path>) {
        match scope {
            Scope::Global => (SmolStr::default(), Cow::Borrowed(key)),
            Scope::Node => (info.z.clone(), Cow::Borrowed(key)),
            Scope::Flow => self.outwards(info, key),
        }
    }

    fn outwards<'k>(&self, info: &NodeInfo, key: &'k Path) -> (SmolStr, Cow<'k, Path>) {
        let mut flow = &info.z;
        let mut steps = 0;
        while key.keys.len() > steps + 1
            && matches!(&key.keys[steps], Key::Name(n) if n == "$parent")
        {
            flow = self.parents.get(flow).unwrap_or(flow);
            steps += 1;
        }
        if steps == 0 {
            return (flow.clone(), Cow::Borrowed(key));
        }
        let rest = Path {
            keys: key.keys[steps..].into(),
            store: key.store.clone(),
        };
        (flow.clone(), Cow::Owned(rest))
    }
}

impl Store {
    fn open(config: &ContextStore) -> Self {
        let mut store = Self {
            name: config.name.clone(),
            ..Self::default()
        };
        let Some(files) = &config.files else {
            return store;
        };
        for (place, value) in layout::load(&files.directory, files.file_limit) {
            *store.root(&place) = value;
        }
        store.disk = Some(Disk::new(files));
        store
    }

    fn context(&self, flow: &str) -> Option<&Remembered> {
        if flow.is_empty() {
            Some(&self.global)
        } else {
            self.flows.get(flow)
        }
    }

    fn context_mut(&mut self, flow: &str) -> Option<&mut Remembered> {
        if flow.is_empty() {
            Some(&mut self.global)
        } else {
            self.flows.get_mut(flow)
        }
    }

    /// The values kept at a place, which is created if it does not exist.
    fn root(&mut self, place: &Place) -> &mut Value {
        let context = if place.flow.is_empty() {
            &mut self.global
        } else {
            self.flows.entry(place.flow.clone()).or_default()
        };
        if place.node.is_empty() {
            &mut context.own
        } else {
            context.nodes.entry(place.node.clone()).or_default()
        }
    }

    fn at(&self, place: &Place) -> Option<&Value> {
        let context = self.context(&place.flow)?;
        if place.node.is_empty() {
            Some(&context.own)
        } else {
            context.nodes.get(&place.node)
        }
    }

    fn write(&mut self, place: Place, key: &Path, value: Value) -> Result<bool, Failure> {
        key.check(&value)?;
        let root = self.root(&place);
        if root.is_undefined() {
            *root = Value::Object(Arc::new(Object::default()));
        }
        let written = key.write(root, value);
        if let Some(disk) = &mut self.disk {
            disk.touch(place);
        }
        written
    }

    fn clean(
        &mut self,
        known_flow: &impl Fn(&str) -> bool,
        known: &impl Fn(&str) -> bool,
        keep_files: bool,
    ) {
        let mut gone: Vec<Place> = Vec::new();
        for (flow, context) in self
            .flows
            .iter_mut()
            .chain([(&SmolStr::default(), &mut self.global)])
        {
            if !known_flow(flow) {
                gone.push(Place {
                    flow: flow.clone(),
                    node: SmolStr::default(),
                });
                continue;
            }
            context.nodes.retain(|node, _| {
                let stays = known(node);
                if !stays {
                    gone.push(Place {
                        flow: flow.clone(),
                        node: node.clone(),
                    });
                }
                stays
            });
        }
        self.flows.retain(|flow, _| known_flow(flow));
        if let Some(disk) = self.disk.as_mut().filter(|_| !keep_files) {
            disk.remove(&gone);
        }
    }

    /// Gives the disk what it is to write by now; without a time, everything.
    fn save(&mut self, now: Option<Instant>) {
        let Some(mut disk) = self.disk.take() else {
            return;
        };
        for place in disk.take_due(now) {
            disk.write(&place, self.at(&place).unwrap_or(&Value::Undefined));
        }
        self.disk = Some(disk);
    }
}
