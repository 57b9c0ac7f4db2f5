//! Context stores: the values that flows keep, in memory or also on disk. Values are shared until written.
//!
//! A store holds the context of each flow (a tab or subflow instance; the global one has no id) and of the nodes in it,
//! as the directories of Node-RED's `localfilesystem` do: the flow's id, then the node's id in the flow set.

mod answer;
mod disk;
mod layout;
mod live;
mod root;
#[cfg(test)]
mod tests;
mod writer;

pub use answer::Request;
pub(crate) use live::Live;

use crate::log_level::Level;
use crate::node_info::NodeInfo;
use crate::settings::{self, ContextStore};
use disk::Disk;
use events::{Event, Events};
use flows::FlowSet;
use root::Root;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;
use smol_str::SmolStr;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;
use value::{Failure, Key, Path, Value};

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
    own: Root,
    /// By the node's id in the flow set.
    nodes: FxHashMap<SmolStr, Root>,
}

/// The place of a value: a flow, empty for the global one, and a node in it, empty for the flow's own context.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    flow: SmolStr,
    node: SmolStr,
}

/// A top-level value of a context, and the path to something in it.
pub(crate) struct Slot {
    store: usize,
    place: Place,
    name: SmolStr,
    pub(crate) rest: Box<[Key]>,
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
    pub fn read(&mut self, scope: Scope, info: &NodeInfo, key: &Path) -> Value {
        let store = self.store(key.store.as_deref());
        let (place, key) = self.place(scope, info, key);
        let Some(root) = self.stores[store].at_mut(&place) else {
            return Value::Undefined;
        };
        root.read(&key).unwrap_or_else(|failure| {
            self.warn(&format!("a value of a context cannot be read: {failure}"));
            Value::Undefined
        })
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
        let (place, key) = self.place(scope, info, key);
        self.stores[store].write(&place, &key, value)
    }

    /// The slot that a path leads through; `None` if its first key is no name.
    pub(crate) fn slot(&self, scope: Scope, info: &NodeInfo, key: &Path) -> Option<Slot> {
        let store = self.store(key.store.as_deref());
        let (place, key) = self.place(scope, info, key);
        let (Key::Name(name), rest) = key.keys.split_first()? else {
            return None;
        };
        Some(Slot {
            store,
            place,
            name: name.clone(),
            rest: rest.into(),
        })
    }

    /// The value of a slot that does not live in JavaScript.
    pub(crate) fn value(&self, slot: &Slot) -> Value {
        let root = self.stores[slot.store].at(&slot.place);
        root.map_or(Value::Undefined, |root| root.known(&slot.name).clone())
    }

    /// The object of a slot that lives in JavaScript, for code that may change it at any time, or changes it now.
    pub(crate) fn object(&mut self, slot: &Slot, is_write: bool) -> Option<Rc<dyn Live>> {
        let store = &mut self.stores[slot.store];
        let object = Rc::clone(store.at(&slot.place)?.object(&slot.name)?);
        store.touch(&slot.place, is_write);
        Some(object)
    }

    /// Lets the object of a slot live in JavaScript. It is a new value, or the one that was there before.
    pub(crate) fn keep(&mut self, slot: &Slot, object: Rc<dyn Live>, is_new: bool) {
        let store = &mut self.stores[slot.store];
        store.root(&slot.place).keep(&slot.name, object);
        store.touch(&slot.place, is_new);
    }

    /// Converts all objects that live in JavaScript, for an expression that code evaluates.
    pub(crate) fn snapshot(&mut self, convert: &dyn Fn(&dyn Live) -> Option<Value>) {
        let stores = self.stores.iter_mut();
        let roots = stores.flat_map(Store::roots);
        roots.for_each(|root| root.snapshot(convert));
    }

    /// The top-level keys of a context.
    pub fn keys(&self, scope: Scope, info: &NodeInfo, store: Option<&str>) -> Vec<SmolStr> {
        let store = self.store(store);
        let (place, _) = self.place(scope, info, &Path::name(""));
        let values = self.stores[store].at(&place).map(Root::values);
        values
            .and_then(Value::as_object)
            .map(|o| o.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Forgets a node's context, if contexts end with their nodes.
    pub(super) fn forget_node(&mut self, info: &NodeInfo) {
        if self.passing
            && let Some(context) = self.stores[0].context_mut(&info.container.z)
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

    /// Reads the objects of a context that live in JavaScript.
    fn refresh(&mut self, place: &Place) {
        for store in &mut self.stores {
            if let Some(root) = store.at_mut(place) {
                root.refresh();
            }
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

    /// The context that is meant, and what is left of the key after `$parent.`.
    fn place<'k>(&self, scope: Scope, info: &NodeInfo, key: &'k Path) -> (Place, Cow<'k, Path>) {
        let ((flow, key), node) = match scope {
            Scope::Global => ((SmolStr::default(), Cow::Borrowed(key)), SmolStr::default()),
            Scope::Node => (
                (info.container.z.clone(), Cow::Borrowed(key)),
                info.alias.clone(),
            ),
            Scope::Flow => (self.outwards(info, key), SmolStr::default()),
        };
        (Place { flow, node }, key)
    }

    fn outwards<'k>(&self, info: &NodeInfo, key: &'k Path) -> (SmolStr, Cow<'k, Path>) {
        let mut flow = &info.container.z;
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
            *store.root(&place) = Root::from(value);
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

    fn roots(&mut self) -> impl Iterator<Item = &mut Root> {
        let contexts = self.flows.values_mut().chain([&mut self.global]);
        contexts.flat_map(|context| context.nodes.values_mut().chain([&mut context.own]))
    }

    /// The values kept at a place, which is created if it does not exist.
    fn root(&mut self, place: &Place) -> &mut Root {
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

    fn at(&self, place: &Place) -> Option<&Root> {
        let context = self.context(&place.flow)?;
        if place.node.is_empty() {
            Some(&context.own)
        } else {
            context.nodes.get(&place.node)
        }
    }

    fn at_mut(&mut self, place: &Place) -> Option<&mut Root> {
        let context = self.context_mut(&place.flow)?;
        if place.node.is_empty() {
            Some(&mut context.own)
        } else {
            context.nodes.get_mut(&place.node)
        }
    }

    fn write(&mut self, place: &Place, key: &Path, value: Value) -> Result<bool, Failure> {
        let written = self.root(place).write(key, value)?;
        self.touch(place, true);
        Ok(written)
    }

    /// A context was written, or code holds an object of it that it may change.
    fn touch(&mut self, place: &Place, is_written: bool) {
        if let Some(disk) = &mut self.disk {
            disk.touch(place.clone(), is_written);
        }
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
        self.roots().for_each(Root::take_over);
        if let Some(disk) = self.disk.as_mut().filter(|_| !keep_files) {
            disk.remove(&gone);
        }
    }

    /// Gives the disk what it is to write by now; without a time, everything.
    fn save(&mut self, now: Option<Instant>) {
        let Some(mut disk) = self.disk.take() else {
            return;
        };
        for (place, is_written) in disk.take_due(now) {
            let mut root = self.at_mut(&place);
            let is_changed = root.as_mut().is_some_and(|root| root.refresh());
            if is_written || is_changed {
                disk.write(&place, root.map_or(&Value::Undefined, |root| root.values()));
            }
        }
        self.disk = Some(disk);
    }
}
