//! Our own runtime: flows, nodes, messages, on threads of their own.
//!
//! A message's way: [`node::Host::send`] → the queue of [`state`] → [`event_loop`] →
//! [`node::Node::receive`]. A deployment's way: [`Engine::apply`] → [`apply`]: stop and wait →
//! [`start`]: [`flows::running`], wires, nodes.

mod apply;
mod attached;
pub mod beneath;
pub mod child_environment;
pub mod context;
mod debug_encode;
mod delivery;
mod directory;
pub mod env;
mod event_loop;
mod expression;
mod fair_queue;
mod foreign_nodes;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
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
pub mod lease;
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
pub mod restart_delay;
pub mod script;
pub mod settings;
pub mod shards;
mod shared;
mod source_reports;
mod sources;
mod start;
mod state;
pub mod stopped_flows;
mod subflow;
mod targets;
mod task;
mod threads;
pub mod ws_endpoints;

use crate::metrics::Metrics;
use crate::profile::Profile;
use crate::settings::Settings;
use arc_swap::ArcSwap;
use event_loop::{Change, Command};
use events::{Event, Events};
use flows::{Credentials, FlowSet, Plan};
use limits::quota::Quota;
pub use node_host::command as node_host_command;
use package_state::{PackageAccess, PackageState, PackagedSubflow};
use parking_lot::Mutex;
use pressure::InFlight;
use published::Published;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use stopped_flows::StoppedFlow;
use threads::placement::Placement;
use threads::rendezvous::SharedChange;
use threads::totals::{LargestQueues, Running};
use tokio::sync::{mpsc, oneshot};
use value::Message;

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
    /// A thread of the engine has ended.
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

/// The state that the handles and the engine's threads share.
#[derive(Debug)]
struct Shared {
    /// At least one.
    threads: Box<[EngineThread]>,
    /// What the packages of the node host serve.
    packages: Arc<PackageState>,
    connections: AtomicU64,
    /// Requests to http-in nodes that the threads have not delivered yet.
    calls: Arc<Quota>,
    events: Events,
    running: Running,
    largest_queues: LargestQueues,
    /// The flows that the engine has stopped.
    stopped: Mutex<Vec<StoppedFlow>>,
    state: AtomicU8,
    /// The latest placement, which threads may not have taken over yet.
    placement: ArcSwap<Placement>,
    /// The number of changes that all threads were asked for.
    changes: Mutex<u64>,
    /// True if function nodes may run in the node host.
    hosts_functions: bool,
}

/// A thread, as the rest of the program sees it.
#[derive(Debug)]
struct EngineThread {
    commands: mpsc::UnboundedSender<Command>,
    endpoints: Published<http::Endpoints>,
    sockets: Published<ws_endpoints::Paths>,
    in_flight: InFlight,
    join: Mutex<Option<JoinHandle<()>>>,
}

/// The part of the flow set that a thread runs; with one thread there are no parts.
struct Part {
    /// The change that made it this thread's.
    change: Arc<SharedChange>,
    thread: usize,
}

impl Engine {
    /// Starts the engine's threads, with nothing running.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "the engine keeps them, in a copy for each thread"
    )]
    pub fn start(config: Settings, metrics: Arc<dyn Metrics>) -> std::io::Result<Self> {
        let (shared, inboxes) = Shared::new(&config);
        let shared = Arc::new(shared);
        shared.start(inboxes, &config, &metrics)?;
        Ok(Self(shared))
    }

    /// Applies a plan: stops, waits for the closes, rewires, starts. Returns when everything is
    /// live.
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

    /// Hands an inject node, or any other, an empty message, as `POST /inject/:id` does; `body` is
    /// the request's JSON, with `__user_inject_props__` or without
    /// (docs/reference/node-red-engine.md §4.3).
    pub async fn inject(&self, id: &str, body: Option<Json>) -> Result<(), Error> {
        let message = body
            .filter(|b| b.get("__user_inject_props__").is_some())
            .and_then(|b| Message::from_value(value::json::from_tree(&b)))
            .unwrap_or_default();
        let (answer, receive) = oneshot::channel();
        self.0.thread_of(id).send(Command::Inject {
            id: id.to_owned(),
            message,
            answer,
        })?;
        receive.await.map_err(|_| Error::Gone)?
    }

    /// Switches debug nodes on or off. All that exist are switched, even if one does not. Every
    /// thread answers.
    pub async fn set_debug(&self, ids: Vec<String>, active: bool) -> Result<(), Error> {
        let mut by_thread = vec![Vec::new(); self.0.threads.len()];
        for id in ids {
            by_thread[self.0.number_of(&id)].push(id);
        }
        let mut answers = Vec::new();
        for (thread, ids) in self.0.threads.iter().zip(by_thread) {
            let (answer, receive) = oneshot::channel();
            thread.send(Command::Debug {
                ids,
                active,
                answer,
            })?;
            answers.push(receive);
        }
        let mut switched = Ok(());
        for answer in answers {
            switched = answer.await.map_err(|_| Error::Gone)?.and(switched);
        }
        switched
    }

    /// Reads or deletes context values.
    pub async fn context(&self, ask: context::Request) -> Result<Json, Error> {
        let (answer, receive) = oneshot::channel();
        let thread = match ask.scope {
            context::Scope::Global => self.first(),
            context::Scope::Flow | context::Scope::Node => self.0.thread_of(&ask.id),
        };
        thread.send(Command::Context { ask, answer })?;
        receive.await.map_err(|_| Error::Gone)?
    }

    /// Takes a profile of this duration. It ends without one when the caller does not wait for it
    /// any more.
    pub async fn profile(&self, duration: Duration) -> Result<Profile, Error> {
        let mut answers = Vec::new();
        for thread in &self.0.threads {
            let (answer, receive) = oneshot::channel();
            thread.send(Command::Profile { duration, answer })?;
            answers.push(receive);
        }
        let mut profiles = Vec::new();
        for answer in answers {
            profiles.push(answer.await.map_err(|_| Error::Gone)??);
        }
        Ok(Profile::of_threads(profiles))
    }

    /// The endpoint of an http-in node for this method and canonical path, if there is one.
    pub fn endpoint(&self, method: &hyper::Method, path: &str) -> Option<http::Endpoint> {
        if let [only] = &*self.0.threads {
            return only.endpoints.load().find(method, path);
        }
        let threads = self.0.threads.iter().enumerate();
        let found = threads.filter_map(|(thread, its)| {
            let endpoint = its.endpoints.load().find(method, path)?;
            Some(http::Endpoint { thread, ..endpoint })
        });
        found.min_by_key(|endpoint| endpoint.rank)
    }

    /// Returns whether an http-in node, of any method, or a websocket-listener node has this
    /// canonical path.
    pub fn has_path(&self, path: &str) -> bool {
        let mut methods = http::METHODS.iter();
        methods.any(|method| self.endpoint(method, path).is_some())
            || self.listening(path).is_some()
    }

    /// Sends a request to an endpoint and waits for the flow's response, for as long as the caller
    /// does. `memory`: the grants to which the request and the response are charged; the response
    /// until its grant is dropped.
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
        self.0.threads[endpoint.thread].send(Command::Call {
            instance: endpoint.instance,
            exchange,
            permit,
        })?;
        answer.await.map_err(|_| Error::Stopped)?
    }

    /// The websocket-listener node on this canonical path, if there is one.
    pub fn listening(&self, path: &str) -> Option<ws_endpoints::Listening> {
        let mut threads = self.0.threads.iter().enumerate();
        threads.find_map(|(number, thread)| {
            let listener = thread.sockets.load().find(path)?;
            let in_flight = thread.in_flight.clone();
            Some(ws_endpoints::Listening::new(listener, in_flight, number))
        })
    }

    /// The sender for the events of a connection to a websocket-listener node. An error: the engine
    /// has ended.
    pub fn join(
        &self,
        listening: &ws_endpoints::Listening,
    ) -> impl Fn(ws_endpoints::Event) -> Result<(), Error> + Send + use<> {
        let (engine, instance) = (self.clone(), listening.instance());
        let thread = listening.thread();
        let connection = self.0.connections.fetch_add(1, Ordering::Relaxed);
        move |event| {
            engine.0.threads[thread].send(Command::Socket {
                instance,
                connection,
                event,
            })
        }
    }

    /// Who decides about a request to this canonical path of the admin API, in lower case; `None`:
    /// no npm package has added a route for it.
    pub fn package_access(&self, method: &hyper::Method, path: &str) -> Option<PackageAccess> {
        self.0.packages.access(method, path)
    }

    /// Returns whether the engine has this type of nodes, or an npm package of its node host has
    /// it.
    pub fn knows(&self, kind: &str) -> bool {
        nodes::knows(kind) || self.0.packages.has(kind)
    }

    /// The npm packages that are left out, because each has ended the node host several times in a
    /// row.
    pub fn packages_left_out(&self) -> Arc<BTreeSet<SmolStr>> {
        self.0.packages.left_out()
    }

    /// Why node sets of packages were not loaded, by `package/set`.
    pub fn package_errors(&self) -> Arc<BTreeMap<String, String>> {
        self.0.packages.errors()
    }

    /// The node sets that packages make of subflows, by `package/set`, as the node host has loaded
    /// them last.
    pub fn packaged_subflows(&self) -> Arc<BTreeMap<String, PackagedSubflow>> {
        self.0.packages.packaged_subflows()
    }

    /// Restarts the node host, which loads the packages that are there now, without these node sets
    /// (`package/set`). Returns when it has loaded them; native flows run on meanwhile. An error:
    /// there is none.
    pub async fn reload_packages(&self, disabled: Vec<String>) -> Result<(), Error> {
        let (ready, receive) = oneshot::channel();
        self.first()
            .send(Command::ReloadPackages { disabled, ready })?;
        receive.await.map_err(|_| Error::NodeHostDown)
    }

    /// Returns whether the node host takes requests: its first flow set has started.
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

    /// Closes all nodes and ends the threads.
    pub async fn close(&self) {
        // An error means that one has ended already.
        let _ = self.change(Change::Close).await;
        for thread in &self.0.threads {
            thread.join().await;
        }
    }

    async fn change(&self, change: Change) -> Result<(), Error> {
        for done in self.0.change(change)? {
            done.await.map_err(|_| Error::Gone)?;
        }
        Ok(())
    }

    /// The first thread, which has what there is once.
    fn first(&self) -> &EngineThread {
        &self.0.threads[0]
    }
}
