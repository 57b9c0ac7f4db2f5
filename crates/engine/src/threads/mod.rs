//! The threads of the engine. Each is a whole event loop with a JavaScript runtime of its own, and
//! runs a part of the flow set that has nothing to do with the others: no message, timer or context
//! value crosses threads.
//!
//! - `partition` finds the parts (`resources`: what nodes share that do not name each other),
//!   `placement` chooses a thread for
//!   each, `plan` splits the plan of a deployment.
//! - The threads make a change together: they meet (`rendezvous`) when all have closed what it
//!   stops, and hand over the
//!   contexts of flows that move.
//! - `totals` adds up what each thread counts for itself.
//!
//! With one thread, nothing is split, and no thread waits for another.

pub(crate) mod partition;
pub(crate) mod placement;
mod plan;
pub(crate) mod rendezvous;
mod resources;
pub(crate) mod totals;

use crate::context::{self, Writers};
use crate::event_loop::{self, Change, ChangeRequest, Command};
use crate::metrics::Metrics;
use crate::pressure::InFlight;
use crate::published::Published;
use crate::settings::Settings;
use crate::stopped_flows::StoppedFlow;
use crate::{EngineThread, Error, Part, RunState, Shared};
use arc_swap::ArcSwap;
use events::Events;
use flows::Plan;
use limits::quota::Quota;
use parking_lot::{Mutex, MutexGuard};
use placement::Placement;
use rendezvous::Rendezvous;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};
use totals::{LargestQueues, Running};

/// The stack of a thread, reserved but not held. Functions that call themselves for every level of
/// a value go down [`value::MAX_DEPTH`] levels, of up to 4 KiB each in a build without
/// optimisation; JavaScript has 512 KiB of its own.
pub(crate) const STACK: usize = 16 << 20;

/// Requests to http-in nodes that wait for the threads, at most; half as many of one address. Our
/// choice: some seconds of work, a hundred connections of a hundred streams, and for each a KiB
/// beside what is charged to unauthenticated clients.
const WAITING_CALLS: usize = 10_000;

impl Part {
    /// Returns whether a tab, or a global config node, is in this part.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.change.placement.thread_of_flow(id) == self.thread
    }
}

impl Shared {
    /// The state for threads that do not run yet, and what each of them receives.
    pub(crate) fn new(settings: &Settings) -> (Self, Vec<mpsc::UnboundedReceiver<Command>>) {
        let count = settings.threads.max(1);
        let (threads, inboxes): (Vec<_>, _) =
            (0..count).map(|_| EngineThread::new(settings)).unzip();
        let host = settings.node_host.as_ref();
        let shared = Self {
            packages: Arc::default(),
            connections: AtomicU64::new(0),
            calls: Quota::new(WAITING_CALLS, WAITING_CALLS / 2),
            events: Events::default(),
            running: Running::new(count),
            largest_queues: LargestQueues::new(count),
            stopped: Mutex::default(),
            state: AtomicU8::new(RunState::Start as u8),
            placement: ArcSwap::default(),
            changes: Mutex::default(),
            hosts_functions: host.is_some_and(|host| host.functions),
            threads: threads.into(),
        };
        (shared, inboxes)
    }

    /// Starts the threads, with nothing running.
    pub(crate) fn start(
        self: &Arc<Self>,
        inboxes: Vec<mpsc::UnboundedReceiver<Command>>,
        settings: &Settings,
        metrics: &Arc<dyn Metrics>,
    ) -> std::io::Result<()> {
        let writers = Writers::start(&settings.context);
        for (number, inbox) in inboxes.into_iter().enumerate() {
            let (shared, metrics) = (Arc::clone(self), Arc::clone(metrics));
            let (settings, writers) = (self.settings(settings, number), writers.clone());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .thread_stack_size(STACK)
                .build()?;
            let join = std::thread::Builder::new()
                .name(self.name(number))
                .stack_size(STACK)
                .spawn(move || {
                    let local = tokio::task::LocalSet::new();
                    let contexts =
                        context::Contexts::open_part(&settings.context, writers, number == 0);
                    let thread = event_loop::Start {
                        shared,
                        number,
                        settings,
                        contexts,
                        metrics,
                    };
                    local.block_on(&runtime, thread.run(inbox));
                })?;
            let mut slot = self.threads[number].lock_join();
            *slot = Some(join);
        }
        Ok(())
    }

    /// The settings of a thread: limits of the whole engine are shared out.
    fn settings(&self, settings: &Settings, number: usize) -> Settings {
        let count = self.threads.len();
        Settings {
            script_memory: settings.script_memory / count,
            tcp_buffers: settings.tcp_buffers / count,
            node_host: settings.node_host.clone().filter(|_| number == 0),
            ..settings.clone()
        }
    }

    fn name(&self, number: usize) -> String {
        if self.threads.len() == 1 {
            "engine".to_owned()
        } else {
            format!("engine-{number}")
        }
    }

    /// Asks all threads for a change. Each receiver gets a message when a thread has made its part.
    pub(crate) fn change(&self, change: Change) -> Result<Vec<oneshot::Receiver<()>>, Error> {
        if self.threads.len() == 1 {
            let (request, done) = ChangeRequest::alone(change);
            self.threads[0].send(Command::Change(request))?;
            return Ok(vec![done]);
        }
        // All threads get changes in the same order: they wait for each other.
        let mut changes = self.changes.lock();
        *changes += 1;
        let before = self.placement.load_full();
        if let Change::Apply { plan, flows, .. } = &change {
            let threads = self.threads.len();
            let next = before.next(flows, threads, self.hosts_functions, plan.everything);
            self.placement.store(Arc::new(next));
        }
        let after = self.placement.load_full();
        let parts = self.parts(change, &before, &after);
        let rendezvous = Rendezvous::new(self.threads.len(), *changes, &after);
        let mut receivers = Vec::new();
        for ((thread, part), rendezvous) in self.threads.iter().zip(parts).zip(rendezvous) {
            let (request, done) = ChangeRequest::with(part, Some(rendezvous));
            // An error: it has ended, and the receiver reports that.
            let _ = thread.send(Command::Change(request));
            receivers.push(done);
        }
        Ok(receivers)
    }

    fn parts(&self, change: Change, before: &Placement, after: &Placement) -> Vec<Change> {
        let count = self.threads.len();
        let same = |make: &dyn Fn() -> Change| (0..count).map(|_| make()).collect();
        match change {
            Change::Apply {
                plan,
                flows,
                credentials,
            } => {
                let apply = |plan: Plan| Change::Apply {
                    plan,
                    flows: Arc::clone(&flows),
                    credentials: Arc::clone(&credentials),
                };
                plan::split(&plan, before, after, count)
                    .into_iter()
                    .map(apply)
                    .collect()
            }
            Change::Run(state) => same(&|| Change::Run(state)),
            Change::Close => same(&|| Change::Close),
            // A thread stops flows by itself.
            Change::Halt(halt) => vec![Change::Halt(halt)],
        }
    }

    /// The thread of a flow or node, by its id or running id.
    pub(crate) fn thread_of(&self, id: &str) -> &EngineThread {
        &self.threads[self.number_of(id)]
    }

    /// The number of that thread.
    pub(crate) fn number_of(&self, id: &str) -> usize {
        if self.threads.len() == 1 {
            return 0;
        }
        self.placement.load().thread_of(id)
    }

    pub(crate) fn state(&self) -> RunState {
        match self.state.load(Ordering::Relaxed) {
            0 => RunState::Start,
            1 => RunState::Stop,
            _ => RunState::Safe,
        }
    }

    pub(crate) fn stopped(&self) -> MutexGuard<'_, Vec<StoppedFlow>> {
        self.stopped.lock()
    }

    pub(crate) fn set_state(&self, state: RunState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }
}

impl EngineThread {
    fn new(settings: &Settings) -> (Self, mpsc::UnboundedReceiver<Command>) {
        let (commands, inbox) = mpsc::unbounded_channel();
        let thread = Self {
            commands,
            endpoints: Published::default(),
            sockets: Published::default(),
            in_flight: InFlight::new(settings),
            join: Mutex::new(None),
        };
        (thread, inbox)
    }

    /// Sends a command. An error: the thread has ended.
    pub(crate) fn send(&self, command: Command) -> Result<(), Error> {
        self.commands.send(command).map_err(|_| Error::Gone)
    }

    /// Waits until the thread has ended.
    pub(crate) async fn join(&self) {
        let join = self.lock_join().take();
        if let Some(join) = join {
            let _ = tokio::task::spawn_blocking(move || join.join()).await;
        }
    }

    fn lock_join(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.join.lock()
    }
}
