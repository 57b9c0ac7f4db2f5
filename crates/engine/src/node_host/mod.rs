//! The node host: a process of Node.js with Node-RED's own runtime, which runs the nodes of npm
//! packages. Both sides exchange frames over two sockets; `foreign_nodes` is what the engine's
//! thread does with them.
//!
//! - `process` starts, watches and restarts the process, of the `program`, or `listener` waits for
//!   one that is a service; `reload` restarts it when packages have changed, `culprits` finds
//!   packages that end it; `connection` serves its sockets.
//! - `frame`, `received`, `values` and `handles` are the format of the frames.
//! - `authority` is what frames of the process may name, `violations` counts and logs the others.
//! - `deployment` sends it the flow set, `reports` reads what its nodes report, `questions` answers
//!   what it asks; `outgoing` is what is on its way to it.
//! - `host/*.js` is the program that runs in the process.

mod authority;
mod connection;
mod culprits;
mod deployment;
mod frame;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod handles;
mod listener;
mod outgoing;
mod process;
mod program;
mod questions;
mod received;
mod reload;
mod reports;
mod values;
mod violations;

pub(crate) use authority::{Authority, Role};
pub(crate) use deployment::HostFlows;
pub(crate) use outgoing::Addressed;
pub(crate) use process::supervise;
pub use program::command;
pub(crate) use reports::{Event, Report, What};
pub(crate) use violations::Violation;

use crate::Shared;
use crate::context::Contexts;
use crate::metrics::{Metrics, NodeHostMetrics, RefusedFrame};
use crate::package_state::{PackageState, PackagedSubflow};
use crate::pressure::Pressure;
use crate::settings::{self, Settings};
use bytes::Bytes;
use culprits::Culprits;
use events::Events;
use frame::MAX_FRAME;
use futures_util::FutureExt;
use handles::Handles;
use outgoing::Outgoing;
use received::NodeSet;
use reload::{End, Reload};
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use value::{Failure, Message, Value};
use values::Encoded;
use violations::Violations;

/// The part of `queue_bytes` that may be on its way to the host before the sources of its flows
/// pause. Our choice.
const PAUSE: usize = 4;

/// Bytes that may be on their way to the host, at most; then messages to it are errors. Our choice:
/// what the engine's queues let through after sources have paused, and one message of the largest
/// size.
const MAX_IN_FLIGHT: usize = 2 * MAX_FRAME;

/// The node host, as the engine's thread has it.
pub(crate) struct NodeHost {
    settings: settings::NodeHost,
    /// The first frame: what the runtime is to be like.
    start: serde_json::Value,
    pause: usize,
    contexts: Rc<RefCell<Contexts>>,
    pressure: Rc<Pressure>,
    /// Hands an event to the engine's thread.
    publish: Box<dyn Fn(Event)>,
    /// Editors hear what packages publish for them.
    events: Events,
    metrics: NodeHostMetrics,
    /// What its packages serve.
    served: Arc<PackageState>,
    handles: Handles,
    state: Cell<State>,
    /// The types that the packages of the process have; `None`: it has not loaded them yet.
    types: RefCell<Option<FxHashSet<SmolStr>>>,
    outgoing: RefCell<Outgoing>,
    /// The deployments that the process has not finished.
    pending: RefCell<FxHashMap<u32, oneshot::Sender<Option<String>>>>,
    deployments: Cell<u32>,
    /// What the process runs.
    running: RefCell<Option<HostFlows>>,
    /// The authority of the flow set before, until the change is done.
    before: RefCell<Option<Authority>>,
    /// The targets of foreign nodes, by their running ids, before the change that is under way.
    targets_before: RefCell<FxHashMap<SmolStr, FxHashSet<SmolStr>>>,
    /// The package of each type.
    packages: RefCell<FxHashMap<SmolStr, SmolStr>>,
    violations: Violations,
    /// How often the engine's plans have restarted each element.
    epochs: RefCell<FxHashMap<SmolStr, u32>>,
    /// The nodes whose completed messages the process reports.
    watched: RefCell<FxHashSet<SmolStr>>,
    /// Whether the engine's own nodes are being stopped and started: what the process sends is held
    /// meanwhile.
    is_holding: Cell<bool>,
    held: RefCell<Vec<Event>>,
    held_bytes: Cell<usize>,
    /// Native flows have started: the first process may, too.
    may_start: Notify,
    /// Ends the process, for this reason.
    end: Notify,
    reason: RefCell<Option<String>>,
    culprits: RefCell<Culprits>,
    reload: Reload,
}

/// The state of the process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It starts, or starts its first flow set: messages wait.
    Starting,
    /// It runs.
    Running,
    /// It ended, and starts again after a while.
    Down,
}

impl NodeHost {
    /// A host that does not run yet; `None` if none is configured.
    pub(crate) fn new(
        settings: &Settings,
        shared: &Shared,
        metrics: &Arc<dyn Metrics>,
        contexts: &Rc<RefCell<Contexts>>,
        pressure: &Rc<Pressure>,
        publish: impl Fn(Event) + 'static,
    ) -> Option<Rc<Self>> {
        let mut host = settings.node_host.clone()?;
        let stores: Vec<&str> = match settings.context.as_slice() {
            [] => vec![settings::MEMORY],
            stores => stores.iter().map(|store| store.name.as_str()).collect(),
        };
        let start = serde_json::json!({
            "t": "start", "stores": stores, "root": settings.http_node_root,
            "closeTimeout": u64::try_from(settings.close_timeout.as_millis()).unwrap_or(u64::MAX),
            "socketMode": host.socket_mode(),
            // The process has another working directory.
            "sockets": std::path::absolute(&host.sockets).unwrap_or_else(|_| host.sockets.clone()),
        });
        Some(Rc::new(Self {
            reload: Reload::new(std::mem::take(&mut host.disabled)),
            settings: host,
            start,
            pause: settings.queue_bytes / PAUSE,
            contexts: Rc::clone(contexts),
            pressure: Rc::clone(pressure),
            publish: Box::new(publish),
            events: shared.events.clone(),
            metrics: metrics.node_host(),
            served: Arc::clone(&shared.packages),
            handles: Handles::default(),
            state: Cell::new(State::Starting),
            types: RefCell::default(),
            outgoing: RefCell::default(),
            pending: RefCell::default(),
            deployments: Cell::new(0),
            running: RefCell::default(),
            before: RefCell::default(),
            targets_before: RefCell::default(),
            packages: RefCell::default(),
            violations: Violations::default(),
            epochs: RefCell::default(),
            watched: RefCell::default(),
            is_holding: Cell::new(false),
            held: RefCell::default(),
            held_bytes: Cell::new(0),
            may_start: Notify::new(),
            end: Notify::new(),
            reason: RefCell::default(),
            culprits: RefCell::default(),
        }))
    }

    /// Hands a message to the node of this running id. Fails if the host does not run, or too much
    /// waits for it.
    pub(crate) fn deliver(&self, id: &str, message: &Message) -> Result<(), Failure> {
        if self.state.get() == State::Down {
            return Err(Failure::error("the node host does not run"));
        }
        let mut encoded = Encoded::new(&self.handles);
        encoded.push("{\"t\":\"message\",\"node\":");
        encoded.text(id);
        encoded.push(",\"message\":");
        encoded.value(&message.to_value())?;
        let escaped = encoded.escaped;
        encoded.push(if escaped { ",\"escaped\":true}" } else { "}" });
        let frame = frame::encode(&encoded.json, &encoded.attachments)?;
        let mut outgoing = self.outgoing.borrow_mut();
        if outgoing.bytes() + frame.len() > MAX_IN_FLIGHT {
            return Err(Failure::error("too many messages wait for the node host"));
        }
        self.metrics.received.increment(1);
        let (node, message) = (id.into(), message.clone());
        let message = Addressed { node, message };
        if self.state.get() == State::Starting {
            outgoing.wait(message, frame);
        } else {
            outgoing.send_message(message, frame);
        }
        self.press(&outgoing);
        Ok(())
    }

    /// Sends a frame, if the process runs.
    fn send(&self, frame: Bytes) {
        let mut outgoing = self.outgoing.borrow_mut();
        outgoing.send(frame);
        self.press(&outgoing);
    }

    /// Sends a frame of JSON without attachments.
    fn send_json(&self, frame: &serde_json::Value) {
        match frame::encode(&frame.to_string(), &[]) {
            Ok(frame) => self.send(frame),
            Err(failure) => tracing::error!(target: "node_host", %failure, "a frame was not sent"),
        }
    }

    /// Pauses sources if much is on its way.
    fn press(&self, outgoing: &Outgoing) {
        let bytes = outgoing.bytes();
        self.metrics.queue.set(bytes as f64);
        if bytes > self.pause {
            self.pressure.set_host_full(true);
        }
    }

    /// The process has handed so many bytes to its nodes.
    fn taken(&self, bytes: usize) {
        let mut outgoing = self.outgoing.borrow_mut();
        if !outgoing.taken(bytes) {
            self.refuse_control("it took more than it was sent");
        }
        let left = outgoing.bytes();
        self.metrics.queue.set(left as f64);
        if left <= self.pause / 2 {
            self.pressure.set_host_full(false);
        }
    }

    /// So many bytes were written to the process.
    fn written(&self, bytes: usize) {
        self.outgoing.borrow_mut().written(bytes);
    }

    /// Refuses a frame that is of no node.
    fn refuse_control(&self, reason: &'static str) {
        self.refuse(&Violation {
            frame: RefusedFrame::Control,
            node: "",
            kind: None,
            reason,
        });
    }

    /// Returns whether the process was given a context store of this name.
    fn has_store(&self, name: &str) -> bool {
        let stores = self.start.get("stores").and_then(|s| s.as_array());
        stores.is_some_and(|stores| stores.iter().any(|store| store == name))
    }

    /// Returns whether a package has this type; no package has any before the process was ready.
    pub(crate) fn has(&self, kind: &str) -> bool {
        let types = self.types.borrow();
        types.as_ref().is_some_and(|types| types.contains(kind))
    }

    /// Returns whether a package has this type, or may have it, because the process has not loaded
    /// its packages yet, or without some of them.
    pub(crate) fn may_have(&self, kind: &str) -> bool {
        let types = self.types.borrow();
        let is_complete = self.culprits.borrow().left_out().is_empty();
        types
            .as_ref()
            .is_none_or(|types| !is_complete || types.contains(kind))
    }

    /// The process has ended. Returns the package that is left out from now on; most often none.
    fn leave_out(&self, settled: bool) -> Option<SmolStr> {
        let mut culprits = self.culprits.borrow_mut();
        let package = culprits.ended(settled)?;
        self.served.set_left_out(culprits.left_out());
        Some(package)
    }

    /// Loads the packages that were left out again, with another process. False: there are none.
    pub(crate) fn take_back(&self) -> bool {
        let mut culprits = self.culprits.borrow_mut();
        if !culprits.take_back() {
            return false;
        }
        self.served.set_left_out(culprits.left_out());
        self.types.take();
        self.kill("a deployment takes back the packages that were left out");
        true
    }

    /// The first frame for a process.
    fn start(&self) -> String {
        let mut start = self.start.clone();
        let culprits = self.culprits.borrow();
        let left_out = culprits.left_out().iter();
        start["leftOut"] = left_out.map(SmolStr::as_str).collect();
        start["disabled"] = self.reload.disabled();
        start.to_string()
    }

    /// The status of foreign nodes while they do not run; `None`: they do.
    pub(crate) fn trouble(&self) -> Option<Value> {
        let text = match self.state.get() {
            State::Starting => "the node host starts",
            State::Running => return None,
            State::Down => "the node host does not run",
        };
        Some(trouble(text))
    }

    /// Finds something in what the process was given: for the flow set that it runs, or until a
    /// change is done for the one before.
    fn given<T>(&self, find: impl Fn(&Authority) -> Option<T>) -> Option<T> {
        let (running, before) = (self.running.borrow(), self.before.borrow());
        let found = running
            .as_ref()
            .and_then(|running| find(&running.authority));
        found.or_else(|| before.as_ref().and_then(find))
    }

    /// The acts that the process may do in the name of a running node; `None`: it was not given it.
    pub(crate) fn role(&self, id: &str) -> Option<Role> {
        self.given(|authority| authority.role(id))
    }

    /// Native flows have started. The first process waits for that, so that it does not delay them.
    pub(crate) fn may_start(&self) {
        self.may_start.notify_one();
    }

    /// Ends the process; it starts again.
    fn kill(&self, reason: &str) {
        self.reason.borrow_mut().get_or_insert(reason.to_owned());
        self.end.notify_one();
    }

    /// A process begins; these are the frames for it.
    fn begin(&self, frames: mpsc::UnboundedSender<Bytes>) {
        self.state.set(State::Starting);
        self.outgoing.borrow_mut().begin(frames);
        // The process before may have ended by itself before it was killed.
        let _ = self.end.notified().now_or_never();
        self.reason.take();
    }

    /// The process and its packages are loaded.
    fn ready(&self, sets: &[NodeSet]) {
        let types = sets.iter().flat_map(|set| set.types.iter().cloned());
        let types: FxHashSet<SmolStr> = types.collect();
        self.served.set_types(types.clone());
        self.types.replace(Some(types));
        let by_kind = sets.iter().flat_map(|set| {
            let package = set
                .id
                .rsplit_once('/')
                .map_or(&*set.id, |(package, _)| package);
            let package = SmolStr::new(package);
            set.types
                .iter()
                .map(move |kind| (kind.clone(), package.clone()))
        });
        self.packages.replace(by_kind.collect());
        let errors = sets.iter().filter_map(|set| {
            Some((
                set.id.clone(),
                connection::short(set.error.as_deref()?).into(),
            ))
        });
        self.served.set_errors(errors.collect());
        let packaged = sets.iter().filter_map(|set| {
            let (types, html) = (set.types.clone(), set.html.clone()?);
            Some((set.id.clone(), PackagedSubflow { types, html }))
        });
        self.served.set_packaged_subflows(packaged.collect());
        self.reload.ready();
        self.publish(Event::Ready);
    }

    /// The first flow set of a process runs: the messages that waited go to its nodes, and
    /// deployments wait for it.
    pub(crate) fn run(&self) {
        if self.state.get() != State::Starting {
            return;
        }
        self.state.set(State::Running);
        self.before.take();
        tracing::info!(target: "node_host", "the node host is ready");
        self.served.set_up(true);
        self.outgoing.borrow_mut().send_early();
    }

    /// The process has ended: nothing is on its way any more. What was is an error of the nodes
    /// that it was sent to.
    fn ended(&self) -> End {
        let end = self.reload.ended();
        self.state.set(State::Down);
        self.served.set_up(false);
        self.types.take();
        self.pending.take();
        self.running.take();
        self.before.take();
        self.watched.take();
        let lost = self.outgoing.borrow_mut().end();
        self.metrics.queue.set(0.0);
        self.pressure.set_host_full(false);
        self.handles.clear();
        self.publish(Event::Down);
        if !lost.is_empty() {
            self.publish(Event::Lost(lost));
        }
        end
    }

    /// Hands an event to the engine's thread.
    pub(crate) fn publish(&self, event: Event) {
        (self.publish)(event);
    }

    /// From now on reports wait: the engine's own nodes are being stopped and started. `targets`:
    /// those of the foreign nodes until then.
    pub(crate) fn hold_events(&self, targets: FxHashMap<SmolStr, FxHashSet<SmolStr>>) {
        self.is_holding.set(true);
        self.targets_before.replace(targets);
    }

    /// Returns whether a message that waited was sent to a node that its sender was wired to then.
    pub(crate) fn was_target(&self, node: &str, target: &str) -> bool {
        let before = self.targets_before.borrow();
        before.get(node).is_some_and(|all| all.contains(target))
    }

    /// The change is done: its reports were handled.
    pub(crate) fn changed(&self) {
        self.targets_before.take();
        self.before.take();
    }

    /// Returns whether reports wait.
    pub(crate) fn is_holding(&self) -> bool {
        self.is_holding.get()
    }

    /// What has waited; from now on nothing does.
    pub(crate) fn take_held(&self) -> Vec<Event> {
        self.is_holding.set(false);
        self.held_bytes.set(0);
        self.held.take()
    }

    /// Returns whether the process runs its flow set.
    pub(crate) fn is_running(&self) -> bool {
        self.state.get() == State::Running
    }

    /// Returns whether the process has loaded its packages.
    fn is_loaded(&self) -> bool {
        self.types.borrow().is_some()
    }

    /// Returns whether the process has loaded its packages, and not run its first flow set yet.
    pub(crate) fn is_starting(&self) -> bool {
        self.state.get() == State::Starting && self.types.borrow().is_some()
    }

    /// Tells the process which nodes' completed messages are wanted.
    pub(crate) fn watch(&self, nodes: FxHashSet<SmolStr>) {
        if self.is_running() && *self.watched.borrow() != nodes {
            let ids: Vec<&str> = nodes.iter().map(SmolStr::as_str).collect();
            self.send_json(&serde_json::json!({ "t": "watch", "nodes": ids }));
            self.watched.replace(nodes);
        }
    }

    fn start_timeout(&self) -> Duration {
        self.settings.start_timeout
    }
}

/// The status of a foreign node that does not run.
pub(crate) fn trouble(text: &str) -> Value {
    Value::record([
        ("fill", "red".into()),
        ("shape", "ring".into()),
        ("text", text.into()),
    ])
}
