//! The state that all nodes of the engine's thread share: the queue, timers, contexts, listeners to
//! errors and status.

use super::Shared;
use super::context::Contexts;
use super::http::{Endpoints, Rank};
use super::listeners::Listeners;
use super::script::{ScriptMessage, Scripts};
use crate::attached::Attached;
use crate::delivery::{Delivery, Item, Wake};
use crate::directory::Directory;
use crate::fair_queue::FairQueue;
use crate::hosted_functions::HostedFunctions;
use crate::instance::{Instance, TimerId};
use crate::mailbox::{Mailbox, NodeEvent};
use crate::memory_budget::MemoryBudget;
use crate::metrics::Metrics;
use crate::node_host::NodeHost;
use crate::node_info::NodeInfo;
use crate::pressure::Pressure;
use crate::profiler::Profiler;
use crate::published::Publisher;
use crate::settings::Settings;
use crate::shared::SharedState;
use crate::sources::Sources;
use crate::ws_endpoints::Paths;
use events::Events;
use flows::ids;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use value::{Message, budget};

/// Messages that nodes of one engine thread work on at other threads, at most; each may make that
/// part of `script_memory`. Our choice.
pub(super) const WORKERS: usize = 4;

/// When a timer is due whose time the clock cannot count: in a hundred years.
const FAR: Duration = Duration::from_hours(100 * 365 * 24);

/// The state that all nodes of the engine's thread share.
pub(super) struct EngineState {
    /// Milliseconds since 1970, read once per round.
    pub(super) now: Rc<Cell<f64>>,
    pub(super) queue: FairQueue,
    pub(super) pressure: Rc<Pressure>,
    pub(super) sources: Sources,
    pub(super) memory: MemoryBudget,
    pub(super) timers: BTreeMap<TimerId, Instance>,
    pub(super) directory: Directory,
    /// The running link in nodes, by the name that link calls use.
    pub(super) links: FxHashMap<SmolStr, Vec<Rc<NodeInfo>>>,
    pub(super) listeners: Listeners,
    pub(super) endpoints: Publisher<Endpoints>,
    /// The rank of the endpoints that are registered now.
    pub(super) rank: Rank,
    pub(super) sockets: Publisher<Paths>,
    pub(super) contexts: Rc<RefCell<Contexts>>,
    pub(super) config: Settings,
    pub(super) events: Events,
    pub(super) metrics: Arc<dyn Metrics>,
    pub(super) shared: SharedState,
    pub(super) profiler: Profiler,
    /// `None`: none is configured, or it was not made yet.
    pub(super) node_host: Option<Rc<NodeHost>>,
    pub(super) hosted_functions: HostedFunctions,
    pub(super) attached: Attached,
    /// Permits for work on other threads.
    pub(super) workers: Arc<Semaphore>,
    /// By slot.
    tasks: FxHashMap<u32, JoinSet<()>>,
    node_events: mpsc::UnboundedSender<NodeEvent>,
    scripts: Option<Rc<Scripts>>,
    sequence: u64,
    random: u64,
}

impl EngineState {
    pub(super) fn new(
        config: Settings,
        shared: &Shared,
        thread: usize,
        contexts: Contexts,
        node_events: mpsc::UnboundedSender<NodeEvent>,
        metrics: Arc<dyn Metrics>,
    ) -> Self {
        let now = Rc::<Cell<f64>>::default();
        let contexts = contexts.warning(shared.events.clone(), Rc::clone(&now));
        let contexts = Rc::new(RefCell::new(contexts));
        let thread = &shared.threads[thread];
        let pressure = Pressure::new(thread.in_flight.clone());
        Self {
            now,
            queue: FairQueue::new(&config, Rc::clone(&pressure)),
            pressure,
            sources: Sources::default(),
            memory: MemoryBudget::new(config.memory),
            timers: BTreeMap::new(),
            directory: Directory::default(),
            links: FxHashMap::default(),
            listeners: Listeners::default(),
            endpoints: thread.endpoints.publisher(),
            rank: Rank::default(),
            sockets: thread.sockets.publisher(),
            contexts,
            config,
            events: shared.events.clone(),
            metrics,
            shared: SharedState::default(),
            profiler: Profiler::default(),
            node_host: None,
            hosted_functions: HostedFunctions::default(),
            attached: Attached::default(),
            workers: Arc::new(Semaphore::new(WORKERS)),
            tasks: FxHashMap::default(),
            node_events,
            scripts: None,
            sequence: 0,
            random: u64::from_le_bytes(crypto::random()),
        }
    }

    /// Reads the clock for the round that begins.
    pub(super) fn read_clock(&mut self) {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.now
            .set((since.as_secs() * 1000) as f64 + f64::from(since.subsec_millis()));
    }

    /// A fresh message id (docs/reference/node-red-engine.md §3.1).
    pub(super) fn fresh_id(&mut self) -> SmolStr {
        self.random = self.random.wrapping_add(ids::STEP);
        ids::id(self.random)
    }

    /// Queues a message for a slot.
    pub(super) fn push(&mut self, slot: u32, message: Message) {
        self.queue.push(Delivery::new(slot, Item::Message(message)));
    }

    /// Queues a message of which JavaScript has a part.
    pub(super) fn push_script(&mut self, slot: u32, message: ScriptMessage) {
        let item = Item::Script(Box::new(message));
        self.queue.push(Delivery::new(slot, item));
    }

    /// Calls the node in a slot with a message.
    pub(super) fn call(&mut self, slot: u32, message: Message) {
        self.queue.push(Delivery::new(slot, Item::Call(message)));
    }

    /// Returns whether the queue is empty.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes the next delivery.
    pub(super) fn next(&mut self) -> Option<Delivery> {
        self.queue.next()
    }

    /// Queues a wake-up for a slot.
    pub(super) fn push_wake(&mut self, slot: u32, wake: Wake) {
        let item = Item::Wake(Box::new(wake));
        self.queue.push(Delivery::new(slot, item));
    }

    pub(super) fn set_timer(&mut self, instance: Instance, delay: Duration) -> TimerId {
        self.sequence += 1;
        let now = Instant::now();
        let due = now.checked_add(delay).unwrap_or(now + FAR);
        let timer = TimerId(due, self.sequence);
        self.timers.insert(timer, instance);
        timer
    }

    /// When the next timer, write of contexts, end of a profile, report of sources or, while it is
    /// short, look at the memory is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let timer = self.timers.first_key_value().map(|(timer, _)| timer.0);
        let memory = self.memory.next().filter(|_| self.pressure.is_exhausted());
        let due = [
            timer,
            self.contexts.borrow().due(),
            self.profiler.due(),
            self.sources.next,
            memory,
        ];
        due.into_iter().flatten().min()
    }

    /// Writes contexts to disk whose flush interval has passed.
    pub(super) fn save_contexts(&self) {
        if self.contexts.borrow().unsaved() {
            self.contexts.borrow_mut().save(Instant::now());
        }
    }

    /// Takes the timers that are due.
    pub(super) fn due(&mut self) -> Vec<(TimerId, Instance)> {
        if self.timers.is_empty() {
            return Vec::new();
        }
        let now = Instant::now();
        let mut due = Vec::new();
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now {
                break;
            }
            due.push(entry.remove_entry());
        }
        due
    }

    /// Makes the endpoints of started nodes, and the absence of those of stopped ones, visible to
    /// requests.
    pub(super) fn publish_endpoints(&self) {
        self.endpoints.publish();
        self.sockets.publish();
    }

    /// Runs a task of a node on this thread, until the node closes.
    pub(super) fn spawn(&mut self, instance: Instance, task: impl Future<Output = ()> + 'static) {
        let tasks = self.tasks.entry(instance.slot).or_default();
        // Frees what finished tasks still hold.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_local(task);
    }

    /// The mailbox through which tasks of a node send it events.
    pub(super) fn mailbox<E: 'static>(&self, instance: Instance) -> Mailbox<E> {
        Mailbox::new(instance, self.node_events.clone())
    }

    /// Aborts the tasks of a node.
    pub(super) fn abort_tasks(&mut self, instance: Instance) {
        self.tasks.remove(&instance.slot);
        while self.queue.release(instance.slot) {}
    }

    /// The limits of a node's work on one message. As many workers as there are make no more than
    /// `script_memory` together.
    pub(super) fn work_limits(&self) -> budget::Limits {
        budget::Limits {
            time: Some(self.config.script_timeout),
            bytes: Some(self.config.script_memory / WORKERS),
            stopped: None,
        }
    }

    /// The JavaScript engine of this thread, made when first needed.
    pub(super) fn scripts(&mut self) -> Result<Rc<Scripts>, value::Failure> {
        if let Some(scripts) = &self.scripts {
            return Ok(Rc::clone(scripts));
        }
        let scripts = Scripts::new(&self.config)?;
        self.scripts = Some(Rc::clone(&scripts));
        Ok(scripts)
    }
}
