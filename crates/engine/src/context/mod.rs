//! Context stores: the values that flows keep, in memory or also on disk. Values are shared until
//! written.
//!
//! A store holds the context of each flow (a tab or subflow instance; the global one has no id) and
//! of the nodes in it, as the directories of Node-RED's `localfilesystem` do: the flow's id, then
//! the node's id in the flow set.

mod answer;
mod disk;
mod kept;
mod layout;
mod live;
mod moved;
mod root;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use answer::Request;
pub use kept::{Keep, keep_below, unkept_age};
pub(crate) use live::Live;
pub(crate) use moved::MovedFlow;
pub(crate) use writer::Writers;

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
    /// True if the global context is here: the first thread of the engine has it.
    has_global: bool,
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

/// The place of a value: a flow, empty for the global one, and a node in it, empty for the flow's
/// own context.
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
        Self::open_part(stores, Writers::start(stores), true)
    }

    /// The contexts of one thread of the engine. The first one has what is on disk; the others are
    /// given what is theirs ([`Self::put`]).
    pub(super) fn open_part(stores: &[ContextStore], writers: Writers, is_first: bool) -> Self {
        let memory = Store {
            name: SmolStr::new_static(settings::MEMORY),
            ..Store::default()
        };
        let stores_and_writers = stores.iter().zip(writers.0);
        let mut open: Vec<Store> = stores_and_writers
            .map(|(store, writer)| Store::open(store, writer, is_first))
            .collect();
        if open.is_empty() {
            open.push(memory);
        }
        Self {
            stores: open,
            parents: FxHashMap::default(),
            passing: stores.is_empty(),
            has_global: is_first,
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

    /// Fails for the global context on a thread that does not have it: no node that is known to use
    /// it runs there.
    pub(crate) fn reach(&self, scope: Scope) -> Result<(), Failure> {
        if scope != Scope::Global || self.has_global {
            return Ok(());
        }
        Err(Failure::error(
            "the global context is on another engine thread: write the word global into a property of this node, such as a comment in its code, and deploy it",
        ))
    }

    /// Reads a value as the node `info` sees it; `undefined` if there is none. In flow contexts
    /// `$parent.x` reads `x` of the flow around the subflow instance.
    pub fn read(&mut self, scope: Scope, info: &NodeInfo, key: &Path) -> Value {
        if let Err(failure) = self.reach(scope) {
            self.warn(&failure.to_string());
            return Value::Undefined;
        }
        let store = self.store(key.store());
        let (place, key) = self.place(scope, info, key);
        let Some(root) = self.stores[store].at_mut(&place) else {
            return Value::Undefined;
        };
        root.read(&key).unwrap_or_else(|failure| {
            self.warn(&format!("a value of a context cannot be read: {failure}"));
            Value::Undefined
        })
    }

    /// Writes a value; `undefined` deletes it. False if a parent on the way is a primitive. A value
    /// that is too large is a failure, and nothing is written.
    pub fn write(
        &mut self,
        scope: Scope,
        info: &NodeInfo,
        key: &Path,
        value: Value,
    ) -> Result<bool, Failure> {
        self.reach(scope)?;
        let store = self.store(key.store());
        let (place, key) = self.place(scope, info, key);
        self.stores[store].write(&place, &key, value)
    }

    /// The slot that a path leads through; `None` if its first key is no name.
    pub(crate) fn slot(&self, scope: Scope, info: &NodeInfo, key: &Path) -> Option<Slot> {
        let store = self.store(key.store());
        let (place, key) = self.place(scope, info, key);
        let (Key::Name(name), rest) = key.keys().split_first()? else {
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

    /// The object of a slot that lives in JavaScript, for code that may change it at any time, or
    /// changes it now.
    pub(crate) fn object(&mut self, slot: &Slot, is_write: bool) -> Option<Rc<dyn Live>> {
        let store = &mut self.stores[slot.store];
        let object = Rc::clone(store.at(&slot.place)?.object(&slot.name)?);
        store.touch(&slot.place, is_write);
        Some(object)
    }

    /// Lets the object of a slot live in JavaScript. It is a new value, or the one that was there
    /// before.
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
            context.nodes.remove(info.alias());
        }
    }

    /// Learns which flow surrounds which.
    pub(super) fn set_flows(&mut self, parents: FxHashMap<SmolStr, Option<SmolStr>>) {
        self.parents = parents
            .into_iter()
            .filter_map(|(id, parent)| Some((id, parent?)))
            .collect();
    }

    /// Forgets the contexts of what is no longer in the flow set (docs/reference/node-red-engine.md
    /// §1.6). An empty flow set removes no files: it may be one that could not be loaded.
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

    /// Returns whether anything waits to be written to disk.
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
                info.alias().clone(),
            ),
            Scope::Flow => (self.outwards(info, key), SmolStr::default()),
        };
        (Place { flow, node }, key)
    }

    fn outwards<'k>(&self, info: &NodeInfo, key: &'k Path) -> (SmolStr, Cow<'k, Path>) {
        let mut flow = &info.container.z;
        let mut steps = 0;
        while key.keys().len() > steps + 1
            && matches!(&key.keys()[steps], Key::Name(n) if n == "$parent")
        {
            flow = self.parents.get(flow).unwrap_or(flow);
            steps += 1;
        }
        if steps == 0 {
            return (flow.clone(), Cow::Borrowed(key));
        }
        let rest = Path::new(&key.keys()[steps..], key.store().map(Into::into));
        (flow.clone(), Cow::Owned(rest))
    }
}
