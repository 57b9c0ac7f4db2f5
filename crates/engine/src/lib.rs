//! Our own runtime: flows, nodes, messages, on a thread of their own.
//!
//! A message's way: [`node::Host::send`] → the queue of [`state`] → [`event_loop`] → [`node::Node::receive`].
//! A deployment's way: [`Engine::apply`] → [`apply`]: stop and wait → [`start`]: [`graph_build`], wires, nodes.

mod apply;
pub mod child_environment;
pub mod context;
mod debug_encode;
mod delivery;
mod elements;
pub mod env;
mod event_loop;
mod expression;
mod fair_queue;
mod foreign_nodes;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod graph;
mod graph_build;
mod groups;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]
mod growth;
mod halt;
mod hosted_functions;
pub mod http;
mod http_path;
mod in_place;
mod inspect;
mod instance;
mod joined_flows;
mod listeners;
pub mod load;
mod log_level;
pub mod log_lines;
mod mailbox;
mod memory_budget;
pub mod metrics;
mod node;
mod node_context;
mod node_host;
pub mod node_info;
pub mod nodes;
mod ordered_map;
mod overload;
pub mod package_state;
mod pressure;
pub mod profile;
mod profiler;
mod properties;
mod published;
mod report;
mod resolve;
pub mod restart_delay;
pub mod script;
pub mod settings;
mod shared;
mod source_reports;
mod sources;
mod start;
mod state;
pub mod stopped_flows;
mod subflow;
mod subflow_expand;
mod task;
pub mod ws_endpoints;

use crate::metrics::Metrics;
use crate::profile::Profile;
use crate::settings::Settings;
use event_loop::{Change, Command, Inbox, Thread};
use events::{Event, Events};
use flows::{Credentials, FlowSet, Plan};
use limits::quota::Quota;
use node_host::NodeHost;
pub use node_host::command as node_host_command;
use package_state::{PackageAccess, PackageState, PackagedSubflow};
use pressure::InFlight;
use published::Published;
use serde_json::Value as Json;
use smol_str::SmolStr;
use state::EngineState;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use stopped_flows::StoppedFlow;
use tokio::sync::{mpsc, oneshot};
use value::Message;

/// The stack of the engine's thread, reserved but not held. Functions that call themselves for every level of a value
/// go down [`value::MAX_DEPTH`] levels, of up to 4 KiB each in a build without optimisation; JavaScript has 512 KiB of
/// its own.
const STACK: usize = 16 << 20;

/// Requests to http-in nodes that wait for the thread, at most; half as many of one address. Our choice: some seconds
/// of work, a hundred connections of a hundred streams, and for each a KiB beside what is charged to unauthenticated
/// clients.
const WAITING_CALLS: usize = 10_000;

/// The engine cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No running node has this id.
    #[error("no running node has this id")]
    NoSuchNode,
    /// No context store has this name.
    #[error("no context store has this name")]
    NoSuchStore,
    /// The flow ended without an answer: its node stopped.
    #[error("the flow was stopped before it answered")]
    Stopped,
    /// Too many requests wait for the flows, in total or of this address.
    #[error("too many requests wait for the flows, try again later")]
    Busy,
    /// As many profiles as can be taken at a time are being taken.
    #[error("too many profiles are being taken, try again later")]
    TooManyProfiles,
    /// Too many messages wait for the flow, or the program needs too much memory.
    #[error("too many messages wait for the flow, try again later")]
    Full,
    /// The node host does not run, or has not started its nodes yet.
    #[error("the node host does not run, try again later")]
    NodeHostDown,
    /// The engine's thread has ended.
    #[error("the engine has ended")]
    Gone,
}

/// Whether flows run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// They run.
    Start,
    /// An administrator stopped them.
    Stop,
    /// They were loaded but not started.
    Safe,
}

/// A handle to the running engine; clones share it.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Shared>);

/// The state that the handles and the engine's thread share.
#[derive(Debug)]
struct Shared {
    commands: mpsc::UnboundedSender<Command>,
    endpoints: Published<http::Endpoints>,
    sockets: Published<ws_endpoints::Paths>,
    /// What the packages of the node host serve.
    packages: Arc<PackageState>,
    connections: AtomicU64,
    /// Requests to http-in nodes that the thread has not delivered yet.
    calls: Arc<Quota>,
    in_flight: InFlight,
    /// The flows that the engine has stopped.
    stopped: Mutex<Vec<StoppedFlow>>,
    events: Events,
    state: AtomicU8,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    /// Starts the engine's thread, with nothing running.
    pub fn start(config: Settings, metrics: Arc<dyn Metrics>) -> std::io::Result<Self> {
        let (commands, inbox) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            commands,
            endpoints: Published::default(),
            sockets: Published::default(),
            packages: Arc::default(),
            connections: AtomicU64::new(0),
            calls: Quota::new(WAITING_CALLS, WAITING_CALLS / 2),
            in_flight: InFlight::new(&config),
            stopped: Mutex::default(),
            events: Events::default(),
            state: AtomicU8::new(RunState::Start as u8),
            thread: Mutex::new(None),
        });
        let for_thread = Arc::clone(&shared);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let join = std::thread::Builder::new()
            .name("engine".into())
            .stack_size(STACK)
            .spawn(move || {
                let local = tokio::task::LocalSet::new();
                local.block_on(&runtime, thread(for_thread, inbox, config, metrics));
            })?;
        *shared.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(join);
        Ok(Self(shared))
    }

    /// Applies a plan: stops, waits for the closes, rewires, starts. Returns when everything is live.
    pub async fn apply(
        &self,
        plan: Plan,
        flows: Arc<FlowSet>,
        credentials: Arc<Credentials>,
    ) -> Result<(), Error> {
        self.change(Change::Apply {
            plan,
            flows,
            credentials,
        })
        .await
    }

    /// Starts or stops all flows (`POST /flows/state`).
    pub async fn set_state(&self, state: RunState) -> Result<(), Error> {
        self.change(Change::Run(state)).await
    }

    /// Whether flows run.
    pub fn state(&self) -> RunState {
        self.0.state()
    }

    /// The flows that the engine has stopped by itself; the next deployment starts them again.
    pub fn stopped_flows(&self) -> Vec<StoppedFlow> {
        self.0.stopped().clone()
    }

    /// Hands an inject node, or any other, an empty message, as `POST /inject/:id` does; `body` is the request's
    /// JSON, with `__user_inject_props__` or without (docs/reference/node-red-engine.md §4.3).
    pub async fn inject(&self, id: &str, body: Option<Json>) -> Result<(), Error> {
        let message = body
            .filter(|b| b.get("__user_inject_props__").is_some())
            .and_then(|b| Message::from_value(value::json::from_tree(&b)))
            .unwrap_or_default();
        let (answer, receive) = oneshot::channel();
        self.send(Command::Inject {
            id: id.to_owned(),
            message,
            answer,
        })?;
        receive.await.map_err(|_| Error::Gone)?
    }

    /// Switches debug nodes on or off. All that exist are switched, even if one does not.
    pub async fn set_debug(&self, ids: Vec<String>, active: bool) -> Result<(), Error> {
        let (answer, receive) = oneshot::channel();
        self.send(Command::Debug {
            ids,
            active,
            answer,
        })?;
        receive.await.map_err(|_| Error::Gone)?
    }

    /// Reads or deletes context values.
    pub async fn context(&self, ask: context::Request) -> Result<Json, Error> {
        let (answer, receive) = oneshot::channel();
        self.send(Command::Context { ask, answer })?;
        receive.await.map_err(|_| Error::Gone)?
    }

    /// Takes a profile of this duration. It ends without one when the caller does not wait for it any more.
    pub async fn profile(&self, duration: Duration) -> Result<Profile, Error> {
        let (answer, receive) = oneshot::channel();
        self.send(Command::Profile { duration, answer })?;
        receive.await.map_err(|_| Error::Gone)?
    }

    /// The endpoint of an http-in node for this method and canonical path, if there is one.
    pub fn endpoint(&self, method: &hyper::Method, path: &str) -> Option<http::Endpoint> {
        self.0.endpoints.load().find(method, path)
    }

    /// Sends a request to an endpoint and waits for the flow's response, for as long as the caller does. `memory`: the
    /// grants to which the request and the response are charged; the response until its grant is dropped.
    pub async fn call(
        &self,
        endpoint: http::Endpoint,
        request: http::Request,
        memory: Option<http::Memory>,
    ) -> Result<http::Answer, Error> {
        let mut permit = self.0.calls.grant(request.address);
        permit.try_grow(1).map_err(|_| Error::Busy)?;
        let (responder, answer) = http::Responder::new(memory);
        let exchange = Box::new(http::Exchange { request, responder });
        self.send(Command::Call {
            instance: endpoint.instance,
            exchange,
            permit,
        })?;
        answer.await.map_err(|_| Error::Stopped)?
    }

    /// The websocket-listener node on this canonical path, if there is one.
    pub fn listening(&self, path: &str) -> Option<ws_endpoints::Listening> {
        let listener = self.0.sockets.load().find(path)?;
        let in_flight = self.0.in_flight.clone();
        Some(ws_endpoints::Listening::new(listener, in_flight))
    }

    /// The sender for the events of a connection to a websocket-listener node. An error: the engine has ended.
    pub fn join(
        &self,
        listening: &ws_endpoints::Listening,
    ) -> impl Fn(ws_endpoints::Event) -> Result<(), Error> + Send + use<> {
        let (engine, instance) = (self.clone(), listening.instance());
        let connection = self.0.connections.fetch_add(1, Ordering::Relaxed);
        move |event| {
            engine.send(Command::Socket {
                instance,
                connection,
                event,
            })
        }
    }

    /// Who decides about a request to this canonical path of the admin API, in lower case; `None`: no npm package has
    /// added a route for it.
    pub fn package_access(&self, method: &hyper::Method, path: &str) -> Option<PackageAccess> {
        self.0.packages.access(method, path)
    }

    /// Whether the engine has this type of nodes, or an npm package of its node host has it.
    pub fn knows(&self, kind: &str) -> bool {
        nodes::knows(kind) || self.0.packages.has(kind)
    }

    /// The npm packages that are left out, because each has ended the node host several times in a row.
    pub fn packages_left_out(&self) -> Arc<BTreeSet<SmolStr>> {
        self.0.packages.left_out()
    }

    /// Why node sets of packages were not loaded, by `package/set`.
    pub fn package_errors(&self) -> Arc<BTreeMap<String, String>> {
        self.0.packages.errors()
    }

    /// The node sets that packages make of subflows, by `package/set`, as the node host has loaded them last.
    pub fn packaged_subflows(&self) -> Arc<BTreeMap<String, PackagedSubflow>> {
        self.0.packages.packaged_subflows()
    }

    /// Restarts the node host, which loads the packages that are there now, without these node sets (`package/set`).
    /// Returns when it has loaded them; native flows run on meanwhile. An error: there is none.
    pub async fn reload_packages(&self, disabled: Vec<String>) -> Result<(), Error> {
        let (ready, receive) = oneshot::channel();
        self.send(Command::ReloadPackages { disabled, ready })?;
        receive.await.map_err(|_| Error::NodeHostDown)
    }

    /// Whether the node host takes requests: its first flow set has started.
    pub fn serves_packages(&self) -> bool {
        self.0.packages.is_up()
    }

    /// The events that the engine publishes: state, status, debug messages.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// Notifies editors that a deployment is live.
    pub fn announce(&self, revision: &str) {
        self.0.events.publish(Event::RuntimeDeploy {
            revision: revision.to_owned(),
        });
    }

    /// The types that the flow set needs and the engine has not, disabled nodes included
    /// (docs/reference/node-red-engine.md §2.4).
    pub fn missing_types(flows: &FlowSet) -> Vec<String> {
        let known = |kind: &str| match kind.strip_prefix("subflow:") {
            Some(definition) => flows.get(definition).is_some_and(|d| d.kind == "subflow"),
            None => matches!(kind, "tab" | "subflow" | "group") || nodes::knows(kind),
        };
        let kinds: BTreeSet<&str> = flows.nodes().iter().map(|n| n.kind.as_str()).collect();
        let missing = kinds.into_iter().filter(|kind| !known(kind));
        missing.map(String::from).collect()
    }

    /// Closes all nodes and ends the thread.
    pub async fn close(&self) {
        // An error means that it has ended already.
        let _ = self.change(Change::Close).await;
        let join = self
            .0
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(join) = join {
            let _ = tokio::task::spawn_blocking(move || join.join()).await;
        }
    }

    async fn change(&self, change: Change) -> Result<(), Error> {
        let (done, receive) = oneshot::channel();
        self.send(Command::Change(change, done))?;
        receive.await.map_err(|_| Error::Gone)
    }

    fn send(&self, command: Command) -> Result<(), Error> {
        self.0.commands.send(command).map_err(|_| Error::Gone)
    }
}

async fn thread(
    shared: Arc<Shared>,
    commands: mpsc::UnboundedReceiver<Command>,
    config: Settings,
    metrics: Arc<dyn Metrics>,
) {
    let (node_events, events) = mpsc::unbounded_channel();
    let (closed, closings) = mpsc::unbounded_channel();
    let mut state = EngineState::new(config, &shared, node_events, Arc::clone(&metrics));
    let engine = shared.commands.clone();
    let publish = move |event| {
        // The receiver is this thread, which outlives the host.
        let _ = engine.send(Command::NodeHost(event));
    };
    let parts = (&state.contexts, &state.pressure);
    let served = Arc::clone(&shared.packages);
    let publish = (state.events.clone(), publish);
    state.node_host = NodeHost::new(&state.config, (&metrics, served), parts, publish);
    if let Some(host) = &state.node_host {
        tokio::task::spawn_local(node_host::supervise(Rc::clone(host)));
    }
    let inbox = Inbox {
        commands,
        node_events: events,
        closed: closings,
    };
    Thread::new(state, shared, metrics, closed).run(inbox).await;
}

impl Shared {
    fn state(&self) -> RunState {
        match self.state.load(Ordering::Relaxed) {
            0 => RunState::Start,
            1 => RunState::Stop,
            _ => RunState::Safe,
        }
    }

    fn stopped(&self) -> MutexGuard<'_, Vec<StoppedFlow>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_state(&self, state: RunState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }
}
