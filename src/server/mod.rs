//! The edge of the program: sockets, TLS, workers, signals. [`run()`] is the program, [`start`] one
//! gateway of it.
//!
//! The way of a connection: [`listen`] binds, a [`worker`] accepts within the limits of
//! [`limits::conn_limit`], [`connection`] reads the proxy's header ([`proxy_protocol`]), performs
//! the TLS handshake ([`tls`]) and gives each request to `http`. [`activity`] decides its
//! time-outs, [`http1_framing`] refuses requests that have two readings, [`h2_flood`] ends floods
//! of frames. [`operations`] serves monitoring.

mod acme;
mod activity;
mod certificate;
mod client;
mod client_certificate;
mod clock;
mod config_watcher;
mod conn_context;
mod conn_io;
mod connection;
mod control;
mod control_key;
mod control_socket;
mod drain;
#[cfg(feature = "engine")]
mod engine_process;
mod engine_socket;
#[cfg(feature = "engine")]
mod fail_over;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod h2_flood;
mod h2_unsent;
mod http1_framing;
mod inaccessible_paths;
mod listen;
mod operations;
mod proxy_protocol;
mod read_ahead;
mod reload;
mod renewal;
mod run;
mod sd_notify;
mod socket_activation;
mod tls;
mod tracked_body;
mod worker;

pub use control_key::read as control_key;
pub use control_socket::{Answer, Ask, path as control_socket};
#[cfg(feature = "engine")]
pub use engine_process::Handed;
pub use run::run;
#[cfg(feature = "engine")]
pub use run::run_handed;
pub use socket_activation::Inherited;

use crate::config::Config;
use crate::gateway::{self, Gateway};
use crate::http::unix_time;
use crate::metrics::Metrics;
use crate::sinks;
use crate::store::{EngineState, Replica};
use crate::traces;
use control::Control;
use crypto::Secret;
use limits::conn_limit::ConnLimit;
use listen::Sockets;
use operations::{Operations, Stage};
use reload::Reload;
use serde_json::json;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tls::{Found, Tls};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::watch;
#[cfg(feature = "engine")]
use tokio::task::JoinSet;
use tokio::time::timeout;
use worker::Worker;

/// The gateway cannot start. Every message includes a remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} ({key} in gateway.toml): {source}; {advice}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The configuration key.
        key: &'static str,
        /// Why.
        source: io::Error,
        /// Advice for the operator.
        advice: String,
    },
    /// The socket of an engine that runs apart.
    #[error("cannot listen on {} ([engine.listen] in gateway.toml): {source}; {advice}", .path.display())]
    EngineSocket {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
        /// Advice for the operator.
        advice: &'static str,
    },
    /// The certificates of a cluster's members.
    #[error("[cluster]: {0}")]
    Cluster(String),
    /// The engine's process cannot be isolated, or has refused to start.
    #[error("[engine] isolation: {0}")]
    Isolation(String),
    /// Sockets that others have opened for us.
    #[error(transparent)]
    Inherited(#[from] socket_activation::Error),
    /// Certificates.
    #[error("{0}; see [tls] in gateway.toml")]
    Tls(#[from] tls::Error),
    /// Store, users, engine.
    #[error(transparent)]
    Gateway(#[from] gateway::Error),
    /// No thread or runtime.
    #[error(
        "the system gives no threads: {0}; raise the limits of this process (`ulimit -u`, `ulimit -v`)"
    )]
    Threads(#[source] io::Error),
    /// The control runtime has lost the task that opens the gateway.
    #[error("the gateway could not be opened; the log says why")]
    Lost,
}

/// A gateway that serves. Dropping it ends everything at once; [`Running::drain`] ends it well.
pub struct Running {
    addresses: Addresses,
    admin_password: Option<Secret>,
    reload: Arc<Reload>,
    _control_socket: Option<control_socket::Open>,
    gateway: Arc<Gateway>,
    workers: Vec<Arc<Worker>>,
    operations: Arc<Operations>,
    drain_timeout: Duration,
    #[cfg(feature = "engine")]
    engine_processes: Vec<engine_process::Supervised>,
    /// Ends when all workers have.
    workers_alive: Receiver<Infallible>,
    control: Control,
}

/// The listening addresses of a gateway, with the ports that the system chose.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    /// TLS.
    pub tls: Vec<SocketAddr>,
    /// Plain HTTP.
    pub plain: Option<SocketAddr>,
    /// `/metrics`, `/healthz`, `/readyz`.
    pub operations: Option<SocketAddr>,
    /// The Unix socket of an engine that runs apart.
    pub unix: Option<PathBuf>,
}

/// Says whether a gateway could start with the files that the config names; starts and makes
/// nothing.
pub fn check(config: &Config) -> Result<(), Error> {
    #[cfg(feature = "engine")]
    gateway::open_editor(config).map_err(gateway::Error::from)?;
    gateway::IdentitySigner::open(&config.identity).map_err(gateway::Error::from)?;
    gateway::check_signing_key(config).map_err(gateway::Error::from)?;
    sinks::check(&config.audit.sinks).map_err(gateway::Error::from)?;
    traces::check(config.traces.as_deref()).map_err(gateway::Error::Traces)?;
    #[cfg(feature = "engine")]
    engine_process::check(config)?;
    #[cfg(feature = "engine")]
    fail_over::check(config)?;
    Ok(tls::check(&config.tls)?)
}

/// Starts a gateway; returns when its flows are live and it serves. May be called from a task of
/// any runtime, whose thread it then blocks for that time.
pub fn start(config: Config) -> Result<Running, Error> {
    start_with(config, &Inherited::default(), OfEngine::default())
}

/// What the engine has that may run at another member of a cluster next.
#[derive(Default)]
struct OfEngine {
    /// What keeps its state elsewhere; `None`: nothing does.
    replica: Option<Replica>,
    /// The flows that it follows because another engine has them; `None`: it follows none.
    #[cfg_attr(not(feature = "engine"), allow(dead_code, reason = "there is none"))]
    follows: Option<watch::Receiver<EngineState>>,
}

/// The same with sockets that were opened before.
fn start_with(config: Config, inherited: &Inherited, engine: OfEngine) -> Result<Running, Error> {
    #[cfg(feature = "engine")]
    let (config, listener) = engine_process::prepare(config)?;
    let metrics = Metrics::new();
    let tls = open_tls(&config, &metrics)?;
    let (sockets, addresses) = Sockets::bind(&config, inherited)?;
    let control = Control::start(config.limits.hashing).map_err(Error::Threads)?;

    let operations = Operations::new(Arc::clone(&metrics), gateway::of_operations(&config));
    if let Some(listener) = sockets.operations {
        let started = operations.start(listener, &control.runtime);
        started.map_err(Error::Threads)?;
    }

    let (gateway, notices) = open_gateway(config, engine.replica, &metrics, &control)?;
    #[cfg(feature = "engine")]
    let (engine_processes, members) = start_engine_processes(&gateway, listener, engine.follows)?;
    // The first and only time.
    let _ = gateway
        .config_check
        .set(|config| check(config).map_err(|error| error.to_string()));
    if let Some((_, found)) = &tls {
        gateway.hosts.certify(&found.names);
    }
    let tls = tls.map(|(tls, _)| tls);
    let (alive, workers_alive) = channel(1);
    let workers = workers(&gateway, &metrics, tls.as_ref());
    operations.look_at(&gateway, &workers);
    for (worker, listeners) in workers.iter().zip(sockets.workers) {
        let started = worker.start(listeners, alive.clone());
        started.map_err(Error::Threads)?;
    }
    if let Some(tls) = &tls {
        let renewal = renewal::keep_certificate(Arc::clone(tls), Arc::downgrade(&gateway));
        control.runtime.spawn(renewal);
    }
    let reload = Reload::new(Arc::clone(&gateway), tls);
    #[cfg(feature = "engine")]
    let reload = reload.with_members(members);
    let reload = Arc::new(reload);
    let socket = open_control_socket(&reload);
    operations.enter(Stage::Ready);
    Ok(Running {
        addresses,
        admin_password: notices.admin_password,
        reload,
        _control_socket: socket,
        drain_timeout: gateway.config.server.drain,
        gateway,
        workers,
        operations,
        #[cfg(feature = "engine")]
        engine_processes,
        workers_alive,
        control,
    })
}

/// Takes over the flows of another engine whenever they change: the newest, if they have changed
/// several times.
#[cfg(feature = "engine")]
async fn follow(gateway: Arc<Gateway>, mut flows: watch::Receiver<EngineState>) {
    while flows.changed().await.is_ok() {
        let state = flows.borrow_and_update().clone();
        let deployments = &gateway.backends.first().deployments;
        if let Err(error) = deployments.follow(state, unix_time().as_secs()).await {
            tracing::error!(%error, "the flows of the main engine could not be taken over");
        }
    }
}

/// Follows other flows, if this is the engine of a shard; starts the engine's process, if it has
/// one, or those of all shards in a cluster, with the certificates of its members.
#[cfg(feature = "engine")]
fn start_engine_processes(
    gateway: &Arc<Gateway>,
    listener: Option<std::os::unix::net::UnixListener>,
    follows: Option<watch::Receiver<EngineState>>,
) -> Result<
    (
        Vec<engine_process::Supervised>,
        Option<fail_over::MemberTls>,
    ),
    Error,
> {
    if let Some(flows) = follows {
        gateway.control.spawn(follow(Arc::clone(gateway), flows));
    }
    if let Some((processes, members)) = fail_over::start(gateway)? {
        return Ok((processes, Some(members)));
    }
    let process = engine_process::start(gateway, listener)?;
    Ok((process.into_iter().collect(), None))
}

impl Running {
    /// The listening addresses.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The state that its requests use.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// The password of the admin made by this first start.
    pub fn admin_password(&self) -> Option<&Secret> {
        self.admin_password.as_ref()
    }

    /// Accepts nothing new, finishes work in flight for at most `[server] drain`, closes the flows.
    pub async fn drain(self) {
        let drain_timeout = self.drain_timeout;
        self.end(drain_timeout).await;
    }

    /// Cuts off work in flight and closes the flows.
    pub async fn stop(self) {
        self.end(Duration::ZERO).await;
    }

    /// Applies users, routes and certificates of another config. Parts that cannot be used stay as
    /// they were and are logged; false if there were any.
    pub async fn reload(&self, config: Config) -> bool {
        // Boxed: it holds two configs, and callers would keep room for them.
        let reload = Box::pin(self.reload.take_over(config, json!({})));
        reload.await.is_ok()
    }

    /// Waits until the control runtime and every worker do something: one that hangs never does.
    pub async fn answer(&self) {
        let control = self.control.runtime.clone();
        let workers = self.workers.iter().filter_map(|worker| worker.runtime());
        for runtime in workers.chain([control]) {
            // An error: it has ended, and that is seen elsewhere.
            let _ = runtime.spawn(async {}).await;
        }
    }

    async fn end(mut self, drain_timeout: Duration) {
        self.operations.enter(Stage::Draining);
        self.gateway.leave();
        for worker in &self.workers {
            worker.context.drain.begin(drain_timeout);
        }
        // Nothing is sent: it ends with the last worker.
        let _ = self.workers_alive.recv().await;
        let gateway = Arc::clone(&self.gateway);
        let limit = drain_timeout.max(gateway.config.engine.close_timeout) + Duration::from_secs(1);
        let closed = self
            .control
            .runtime
            .spawn(async move { timeout(limit, gateway.close()).await });
        if !matches!(closed.await, Ok(Ok(()))) {
            tracing::warn!("the flows did not close in time");
        }
        #[cfg(feature = "engine")]
        self.end_engine_processes(limit + Duration::from_secs(1))
            .await;
        let gateway = Arc::clone(&self.gateway);
        let recorded = async move { gateway.end(unix_time().as_secs()).await };
        let _ = self.control.runtime.spawn(recorded).await;
    }
}

#[cfg(feature = "engine")]
impl Running {
    async fn end_engine_processes(&mut self, limit: Duration) {
        let processes = std::mem::take(&mut self.engine_processes);
        let ended = processes.into_iter().map(|process| process.end(limit));
        ended.collect::<JoinSet<()>>().join_all().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for worker in &self.workers {
            worker.context.drain.begin(Duration::ZERO);
        }
    }
}

fn open_tls(config: &Config, metrics: &Metrics) -> Result<Option<(Arc<Tls>, Found)>, Error> {
    if config.server.listen.is_empty() {
        return Ok(None);
    }
    let (tls, found) = Tls::open(&config.tls, unix_time())?;
    tell(&found, metrics);
    Ok(Some((Arc::new(tls), found)))
}

fn tell(found: &Found, metrics: &Metrics) {
    metrics.certificate_not_after(found.not_after);
    let file = found.file.display();
    let kind = if found.self_signed {
        "self-signed certificate"
    } else {
        "certificate"
    };
    tracing::info!(%file, sha256 = found.fingerprint, "{kind}");
    if found.not_after < i64::try_from(unix_time().as_secs()).unwrap_or(i64::MAX) {
        tracing::warn!("a certificate has expired: clients will refuse it");
    }
}

/// Waits on a channel, not on the runtime: the caller may itself be a task of another one.
fn open_gateway(
    config: Config,
    replica: Option<Replica>,
    metrics: &Arc<Metrics>,
    control: &Control,
) -> Result<(Arc<Gateway>, gateway::Notices), Error> {
    let (done, opened) = std::sync::mpsc::sync_channel(1);
    let metrics = Arc::clone(metrics);
    let (handle, work) = (control.runtime.clone(), control.work.clone());
    control.runtime.spawn(async move {
        let result = Gateway::open(config, metrics, handle, work, unix_time).await;
        let result = match (result, replica) {
            (Ok(opened), Some(replica)) => {
                let replicated = opened.0.store.replicate(replica).await;
                replicated.map(|()| opened).map_err(gateway::Error::Store)
            }
            (result, _) => result,
        };
        let _ = done.send(result);
    });
    Ok(opened.recv().map_err(|_| Error::Lost)??)
}

/// Creates one worker for each thread; they share the count of connections, which is limited.
fn workers(
    gateway: &Arc<Gateway>,
    metrics: &Arc<Metrics>,
    tls: Option<&Arc<Tls>>,
) -> Vec<Arc<Worker>> {
    let limits = &gateway.config.limits;
    let conn_limit = ConnLimit::new(limits.connections, limits.connections_per_address);
    let workers = 0..gateway.config.server.workers;
    workers
        .map(|_| Worker::new(gateway, metrics, &conn_limit, tls))
        .collect()
}

/// The gateway also serves without it; the operator's commands then report that they cannot reach
/// it.
fn open_control_socket(reload: &Arc<Reload>) -> Option<control_socket::Open> {
    let _inside = reload.gateway.control.enter();
    let opened = control_socket::open(reload);
    opened
        .inspect_err(|error| {
            let path = control_socket::path(&reload.gateway.config.storage.directory);
            let path = path.display();
            tracing::warn!(%error, %path, "no control socket: `flowgate token`, `session` and `reload` do not work");
        })
        .ok()
}
