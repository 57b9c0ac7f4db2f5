//! Everything that a request may need, put together from a [`Config`]. Only `http` and `server` see
//! the whole.

mod audit_log;
mod backend;
#[cfg(feature = "engine")]
mod editor_files;
mod freeze;
mod health_watch;
mod hosts;
mod identity;
mod identity_cache;
#[cfg(feature = "engine")]
mod own_engine;
#[cfg(feature = "engine")]
mod package_servers;
mod page_sandbox;
mod provider_client;
mod quotas;
mod rate_limits;
mod sampler;
mod settings;
#[cfg(feature = "engine")]
mod shards;
mod shared_store;
mod work;

pub use crate::deployment::Runtime;
pub use audit_log::check_signing_key;
pub use backend::{Backend, Backends, RoutingError, Rules};
#[cfg(feature = "engine")]
pub use editor_files::open_editor;
pub use hosts::{ServedHosts, machine_name, of_operations};
pub use identity::{IdentityClaims, IdentityKeyError, IdentitySigner};
#[cfg(feature = "engine")]
pub use package_servers::PackageServers;
pub use page_sandbox::PageSandbox;
pub use quotas::Shares;
pub use rate_limits::{Client, Counted, LimitState, RateLimits};
pub use settings::{ConfigCheck, is_reloaded};
#[cfg(feature = "engine")]
pub use shards::Shards;
pub use work::Work;

use crate::audit::{Actor, Audit, Event, KeyError};
use crate::auth::{self, Auth, AuthMethod, Caller, Permissions};
use crate::comms::{Comms, Topics};
use crate::config::{self, Config, WrittenSetting};
use crate::deployment::{self, StartContext};
#[cfg(feature = "engine")]
use crate::editor::{self, Editor};
use crate::metrics::Metrics;
#[cfg(feature = "engine")]
use crate::palette::Palette;
use crate::sinks;
use crate::store::{self, Store};
use crate::traces::Tracer;
use crate::upstream;
use arc_swap::ArcSwap;
use audit_log::{keep_anchor, open_audit};
use crypto::Secret;
use flows::ids;
use limits::conn_limit::ConnLimit;
use serde_json::json;
use smol_str::SmolStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, timeout};

/// The interval between checks for expired sessions: the longest delay until their streams and
/// channels end. Our choice: the unit of lifetimes.
const TICK: Duration = Duration::from_secs(1);
/// The interval at which expired sessions are deleted from the store. Our choice.
const SWEEP: Duration = Duration::from_secs(5);
/// The time-out of a reload for changing the accounts at the upstreams. Our choice: without a
/// sign-in under way they change at once.
const ACCOUNTS: Duration = Duration::from_secs(1);

/// One gateway.
pub struct Gateway {
    /// The configuration, except for the parts that a reload replaces: [`Auth`] holds the users,
    /// each backend its routes and permissions.
    pub config: Config,
    /// Users and sessions; `None`: the API is open.
    pub auth: Option<Auth>,
    /// The caller where the API is open, with all permissions.
    pub everybody: Caller,
    /// The runtimes.
    pub backends: Backends,
    /// The hosts under which they are answered.
    pub hosts: ServedHosts,
    /// True if browsers get pages of endpoints in a sandbox.
    pub page_sandbox: PageSandbox,
    /// The stock editor's files, if they are served.
    #[cfg(feature = "engine")]
    pub editor: Option<Arc<Editor>>,
    /// The palette of the node host; `None`: there is no node host.
    #[cfg(feature = "engine")]
    pub palette: Option<Arc<Palette>>,
    /// The servers of npm packages; `None`: there is no node host.
    #[cfg(feature = "engine")]
    pub packages: Option<PackageServers>,
    /// The channel that reports events to editors.
    pub comms: Arc<Comms>,
    /// The persistent data.
    pub store: Store,
    /// The audit log.
    pub audit: Audit,
    /// Numbers.
    pub metrics: Arc<Metrics>,
    /// Traces requests; `None`: nothing is traced.
    pub tracer: Option<Tracer>,
    /// The last hour in numbers, while the console is enabled.
    pub last_hour: crate::metrics::LastHour,
    /// The control runtime, for tasks that decide and wait, and take no time.
    pub control: Handle,
    /// For work that takes long.
    pub work: Work,
    /// Becomes true when the gateway drains: long-lived connections close.
    leaving: watch::Sender<bool>,
    /// Signs who callers are; a reload replaces it.
    pub identity: ArcSwap<IdentitySigner>,
    /// The settings of the last reload; `None`: there was none.
    reloaded: ArcSwap<Option<Arc<[WrittenSetting]>>>,
    /// Checks a configuration as `flowgate check` does; the server sets it.
    pub config_check: OnceLock<ConfigCheck>,
    /// Resources with a share for each client address.
    pub shares: Shares,
    /// The limits of requests.
    pub rate_limits: RateLimits,
    seed: u64,
    requests: AtomicU64,
}

/// Notices to show to the operator once.
#[derive(Debug)]
pub struct Notices {
    /// The password of the `admin` that was made, because there was no user.
    pub admin_password: Option<Secret>,
}

/// Why a gateway does not come up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory cannot be used.
    #[error("storage.directory: {0}")]
    Store(#[from] store::Error),
    /// The audit log cannot be written.
    #[error("the audit log cannot be written: {0}; see [audit] in gateway.toml")]
    Audit(#[source] std::io::Error),
    /// The key of the audit log cannot be read.
    #[error("audit.signing_key: {0}")]
    SigningKey(#[from] KeyError),
    /// A sink of the audit log cannot be opened.
    #[error(transparent)]
    Sink(#[from] sinks::Error),
    /// The collector of traces cannot be used.
    #[error("traces: {0}")]
    Traces(#[source] upstream::OpenError),
    /// A key that signs who callers are cannot be read.
    #[error("identity.keys: {0}")]
    Identity(#[from] IdentityKeyError),
    /// Users or sessions cannot be read.
    #[error("users and sessions: {0}")]
    Auth(#[from] auth::OpenError),
    /// The engine's thread does not start.
    #[error("the engine does not start: {0}")]
    Engine(#[source] std::io::Error),
    /// The upstream's TLS cannot be set up.
    #[error("upstream: {0}")]
    Upstream(#[from] upstream::OpenError),
    /// The editor is not where it should be.
    #[cfg(feature = "engine")]
    #[error("editor.modules: {0}")]
    Editor(#[from] editor::Error),
    /// The packages of the node host cannot be read, or an interrupted installation not undone.
    #[cfg(feature = "engine")]
    #[error("engine.node_host: {0}")]
    Palette(#[source] std::io::Error),
    /// The stored flows cannot be read or started.
    #[error("the stored flows: {0}")]
    Deployment(#[from] deployment::Error),
    /// The program was built without the engine.
    #[error("this flowgate was built without its engine, and there is no [upstream]")]
    NoRuntime,
}

impl Gateway {
    /// Opens store, audit, users and engine, and makes the stored flow set live. `clock` returns
    /// the time since 1970.
    pub async fn open(
        mut config: Config,
        metrics: Arc<Metrics>,
        control: Handle,
        work: Handle,
        clock: fn() -> Duration,
    ) -> Result<(Arc<Self>, Notices), Error> {
        #[cfg(feature = "engine")]
        let (opened, store) = editor_files::open_beside(&mut config, Store::open);
        #[cfg(feature = "engine")]
        let (palette, editor) = opened?;
        #[cfg(not(feature = "engine"))]
        let store = Store::open(&config.storage);
        let store = store?;
        let now = clock().as_secs();
        let identity = IdentitySigner::open(&config.identity)?;
        let audit = open_audit(&config, &store, &metrics, now).await?;
        sinks::start(&config.audit.sinks, &audit, &metrics, clock)?;
        let tracer = Tracer::start(config.traces.as_deref(), &metrics).map_err(Error::Traces)?;
        let (auth, admin_password) = users(&config, &store, &metrics, now).await?;
        let page_sandbox = PageSandbox::new(&config);
        let runtimes = backend::runtimes(&config, &metrics)?;
        let topics = open_topics(&runtimes, config.comms.backlog, &control);
        let (shared, log) = (store.clone(), audit.clone());
        let context = StartContext::new(shared, log, Arc::clone(&metrics), now);
        let backends = Backends::open(&mut config, runtimes, auth.as_ref(), &context).await?;
        freeze::go_on(&backends, &store).await?;
        let (comms, leaving) = comms(&config, auth.as_ref(), topics, &context);
        let gateway = Arc::new(Self {
            #[cfg(feature = "engine")]
            packages: PackageServers::open(&config)?,
            hosts: ServedHosts::new(&config),
            page_sandbox,
            shares: Shares::new(&config.limits),
            rate_limits: RateLimits::default(),
            identity: ArcSwap::from_pointee(identity),
            reloaded: ArcSwap::from_pointee(None),
            config_check: OnceLock::new(),
            config,
            auth,
            everybody: everybody(),
            backends,
            #[cfg(feature = "engine")]
            editor,
            #[cfg(feature = "engine")]
            palette,
            comms,
            store,
            audit,
            metrics,
            tracer,
            last_hour: crate::metrics::LastHour::default(),
            control,
            work: Work::new(work),
            leaving,
            seed: u64::from_le_bytes(crypto::random()),
            requests: AtomicU64::new(0),
        });
        gateway.look_after(clock);
        Ok((gateway, Notices { admin_password }))
    }

    /// Starts what goes on beside requests: looking at upstreams, ending sessions, counting starts.
    fn look_after(self: &Arc<Self>, clock: fn() -> Duration) {
        for backend in self.backends.all() {
            let watched = Arc::downgrade(backend);
            self.control.spawn(health_watch::watch(watched, clock));
            if let Some(upstream) = backend.runtime.upstream() {
                self.control.spawn(upstream.clone().watch());
            }
        }
        if self.config.console.enabled {
            let sampled = sampler::sample(Arc::downgrade(self), clock);
            self.control.spawn(sampled);
        }
        if self.store.grace().is_some() {
            let followed = shared_store::follow(Arc::downgrade(self), clock);
            self.control.spawn(followed);
        }
        self.control.spawn(tick(Arc::downgrade(self), clock));
        self.control.spawn(sweep(Arc::downgrade(self), clock));
        self.control
            .spawn(provider_client::refresh(Arc::downgrade(self), clock));
        self.control.spawn(settle(Arc::downgrade(self)));
    }

    /// Takes over users, lifetimes, throttle, routes, permissions, hosts and the accounts at the
    /// upstreams of a config read again; everything else needs a restart.
    pub async fn reload(&self, config: Config) -> Result<(), store::Error> {
        let kept = match (&self.auth, &config.auth) {
            (Some(auth), Some(users)) => auth.reload(users).await,
            (None, None) => Ok(()),
            (Some(_), None) | (None, Some(_)) => {
                tracing::warn!(
                    "auth cannot be switched on or off without a restart: it stays as it was"
                );
                Ok(())
            }
        };
        // Also when the store failed to delete a session: narrower rules must not wait for it.
        self.hosts.reload(&config);
        self.page_sandbox.reload(&config);
        match IdentitySigner::open(&config.identity) {
            Ok(identity) => self.identity.store(Arc::new(identity)),
            Err(error) => tracing::error!(%error, "identity.keys stay as they were"),
        }
        self.backends.reload(&config);
        self.reloaded
            .store(Arc::new(Some(Arc::clone(&config.written))));
        if let Some(auth) = &self.auth {
            auth.changed();
        }
        // Last, and in a task of its own: the change of an account waits for a sign-in under way,
        // this and the next reload do not.
        let changed = self.control.spawn(self.backends.change_accounts(&config));
        if timeout(ACCOUNTS, changed).await.is_err() {
            tracing::warn!("an upstream's account changes when the sign-in under way has ended");
        }
        kept
    }

    /// Tells what is open for long, tunnels and editors, to close.
    pub fn leave(&self) {
        self.leaving.send_replace(true);
    }

    /// Waits until the gateway drains.
    pub fn left(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut leaving = self.leaving.subscribe();
        async move {
            // an error: the gateway is gone
            let _ = leaving.wait_for(|leaving| *leaving).await;
        }
    }

    /// Closes the flows, after the deployments under way. The gateway must not be used afterwards.
    pub async fn close(&self) {
        for backend in self.backends.all() {
            backend.deployments.close().await;
        }
    }

    /// Writes down that the gateway has ended, and with that all that was done before.
    pub async fn end(&self, now: u64) {
        let program = Actor::program();
        // A failure has been logged, and there is nothing left to refuse.
        let _ = self
            .audit
            .durable(Event::End, &program, now, json!({}))
            .await;
        let traced = async {
            if let Some(tracer) = &self.tracer {
                tracer.finish().await;
            }
        };
        let answered = provider_client::finish(self.auth.as_ref());
        tokio::join!(sinks::finish(&self.audit), traced, answered);
        keep_anchor(&self.audit, &self.store, &mut None).await;
    }

    /// A fresh id for a request: 16 hexadecimal digits, no two of one gateway equal.
    pub fn request_id(&self) -> SmolStr {
        let count = self.requests.fetch_add(1, Ordering::Relaxed);
        ids::id(self.seed.wrapping_add(count.wrapping_mul(ids::STEP)))
    }
}

/// The channels of editors, and what closes them when the gateway leaves.
fn comms(
    config: &Config,
    auth: Option<&Auth>,
    topics: Arc<Topics>,
    context: &StartContext,
) -> (Arc<Comms>, watch::Sender<bool>) {
    let leaving = watch::Sender::new(false);
    let comms = Arc::new(Comms {
        config: config.comms.clone(),
        auth: auth.cloned(),
        audit: context.audit.clone(),
        metrics: Arc::clone(&context.metrics),
        leaving: leaving.subscribe(),
        started: context.now * 1000,
        topics,
        waiting: ConnLimit::new(config.comms.waiting, config.comms.waiting_per_address),
        stalled: config.timeouts.body_idle,
    });
    (comms, leaving)
}

/// The caller of an open API.
fn everybody() -> Caller {
    Caller {
        user: SmolStr::default(),
        permissions: Permissions::all(),
        known: AuthMethod::Anonymous,
    }
}

/// Lets the start count as a good one once the flows have run for long enough.
async fn settle(gateway: Weak<Gateway>) {
    let Some(after) = gateway
        .upgrade()
        .map(|gateway| gateway.config.engine.settle)
    else {
        return;
    };
    tokio::time::sleep(after).await;
    let Some(gateway) = gateway.upgrade() else {
        return;
    };
    for backend in gateway.backends.all() {
        // Starts of runtimes behind us are not counted.
        if backend.runtime.upstream().is_none()
            && backend.deployments.running()
            && let Err(error) = backend.deployments.settle().await
        {
            tracing::warn!(%error, "this start will count as one that came to no good end");
        }
    }
}

/// Subscribes editors to our own engine, before the flows start, so that no event is missed.
fn open_topics(
    runtimes: &[(config::Mount, Runtime)],
    backlog: usize,
    control: &Handle,
) -> Arc<Topics> {
    let mut runtimes = runtimes.iter();
    let limits = Topics::limits(backlog);
    let topics = Topics::new(runtimes.find_map(|(_, runtime)| runtime.listen(limits)));
    control.spawn(Arc::clone(&topics).tell());
    topics
}

/// Users and sessions, and the password of the admin that was made; none if the API is open.
async fn users(
    config: &Config,
    store: &Store,
    metrics: &Metrics,
    now: u64,
) -> Result<(Option<Auth>, Option<Secret>), Error> {
    let Some(auth) = &config.auth else {
        return Ok((None, None));
    };
    let hashing = config.limits.hashing;
    let (auth, password) = Auth::open(auth, hashing, store.clone(), now).await?;
    auth.reach_providers(provider_client::send);
    metrics.sessions(auth.active());
    Ok((Some(auth), password))
}

/// Ends expired sessions, until the gateway is dropped.
async fn tick(gateway: Weak<Gateway>, clock: fn() -> Duration) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match gateway.upgrade().map(|gateway| gateway.auth.clone()) {
            Some(Some(auth)) => auth.tick(clock().as_secs()),
            Some(None) | None => return,
        }
    }
}

/// Deletes expired sessions from the store, closes expired proposals, ends windows of the audit
/// log's suppression, and keeps the end of that log, until the gateway is dropped.
async fn sweep(gateway: Weak<Gateway>, clock: fn() -> Duration) {
    let mut ticks = tokio::time::interval(SWEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut anchor = None;
    loop {
        ticks.tick().await;
        let Some(gateway) = gateway.upgrade() else {
            return;
        };
        let now = clock().as_secs();
        gateway.audit.tick(now);
        keep_anchor(&gateway.audit, &gateway.store, &mut anchor).await;
        let expired = deployment::expire_proposals(&gateway.store, &gateway.audit, now).await;
        if let Err(error) = expired {
            tracing::error!(%error, "proposals that are over could not be closed");
        }
        let Some(auth) = &gateway.auth else { continue };
        match auth.sweep(now).await {
            Ok(0) => {}
            Ok(ended) => tracing::debug!(ended, "sessions are over"),
            Err(error) => tracing::error!(%error, "sessions that are over could not be forgotten"),
        }
        gateway.metrics.sessions(auth.active());
    }
}
