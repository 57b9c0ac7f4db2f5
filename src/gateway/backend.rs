//! A backend: a runtime, the paths that lead to it, its deployments and routes, and the permissions
//! of its users.
//!
//! Knows how a runtime is opened and which site a request is for; nothing else of requests.

#[cfg(feature = "engine")]
use super::own_engine::start;
#[cfg(feature = "engine")]
use super::shards::Shards;
use super::{Error, Runtime};
use crate::auth::{Auth, Caller, Permissions};
use crate::config::{self, AdminPaths, Config, PathRules, Route};
use crate::deployment::{Deployments, StartContext};
use crate::metrics::Metrics;
use crate::upstream::Upstream;
use arc_swap::ArcSwap;
use futures_util::future::join;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::task::JoinSet;

/// A runtime with what belongs to it.
pub struct Backend {
    /// Its hosts and path for clients.
    pub mount: config::Mount,
    /// The runtime of flows.
    pub runtime: Runtime,
    /// The engines beside it that run a part of its flows; `None`: it runs all.
    #[cfg(feature = "engine")]
    pub shards: Option<Shards>,
    /// The active flow set, and the way to replace it.
    pub deployments: Deployments,
    /// The rules for callers there; a reload replaces them.
    pub rules: ArcSwap<Rules>,
    /// Users and sessions; `None`: the API is open.
    pub auth: Option<Auth>,
}

/// The rules for callers of a backend.
pub struct Rules {
    /// The name of the backend.
    name: String,
    /// The rules for endpoints made by flows and unlisted admin paths.
    pub paths: PathRules,
    /// The permissions of these users here, instead of those elsewhere.
    permissions: HashMap<SmolStr, Arc<[SmolStr]>>,
}

/// The sites of a gateway: at least one.
pub struct Backends {
    first: Arc<Backend>,
    /// All, in the order in which they are asked: those of a host before those of all, long paths
    /// before short ones.
    all: Vec<Arc<Backend>>,
}

/// Why no site answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutingError {
    /// No site has this host.
    Host,
    /// Sites have the host, none has the path.
    Path,
}

impl Backend {
    /// All permissions of a user here and now, in seconds since 1970; `None`: there is no such
    /// user.
    pub fn permissions_of(&self, user: &str, now: u64) -> Option<Permissions> {
        let auth = self.auth.as_ref()?;
        let mut permissions = auth.permissions_of(user, now)?;
        let creator = auth.creator_of(user);
        let user = creator.as_deref().unwrap_or(user);
        if let Some(here) = self.rules.load().permissions(user) {
            permissions.user = Arc::clone(here);
        } else if let Some(federated) = auth.federated_permissions_of(user)
            && let Some(here) = federated.at(&self.mount.name)
        {
            permissions.user = Arc::clone(here);
        }
        Some(permissions)
    }
}

impl Backend {
    /// Returns whether there are engines that run a part of the flows.
    pub fn has_shards(&self) -> bool {
        #[cfg(feature = "engine")]
        return self.shards.is_some();
        #[cfg(not(feature = "engine"))]
        false
    }

    /// Which member of a cluster runs each shard but the main one, by the names of the shards;
    /// `None`: there are no others.
    pub fn shard_leaders(&self) -> Option<BTreeMap<String, String>> {
        #[cfg(feature = "engine")]
        return self.shards.as_ref().map(Shards::leaders);
        #[cfg(not(feature = "engine"))]
        None
    }

    /// The revision that was set aside because it did not start, and whether the flows are loaded
    /// and not started; of an engine that runs apart as the last health check found it.
    pub fn fallen_back(&self) -> (Option<String>, bool) {
        let upstream = self.runtime.upstream();
        match upstream.and_then(Upstream::known_flows_state) {
            Some(apart) => (apart.set_aside.clone(), apart.state == "safe"),
            None => (
                self.deployments.set_aside(),
                self.deployments.state() == "safe",
            ),
        }
    }

    /// The state of the flows in the admin API, and the flows that engines have stopped by
    /// themselves. An engine that runs apart is asked.
    pub async fn flows_state(&self) -> (String, Vec<Json>) {
        let state = (
            self.deployments.state().to_owned(),
            self.deployments.stopped_flows(),
        );
        let Some(upstream) = self.runtime.upstream().filter(|to| to.is_on_socket()) else {
            return state;
        };
        let (main, shards) = join(upstream.flows_state(), self.stopped_in_shards()).await;
        // That it does not answer is shown elsewhere.
        let (state, mut stopped) = main.map_or(state, |main| (main.state, main.stopped));
        stopped.extend(shards);
        (state, stopped)
    }

    /// The flows that the engines of shards have stopped; those that do not answer have none.
    #[cfg_attr(
        not(feature = "engine"),
        allow(clippy::unused_async, reason = "there are no shards then")
    )]
    pub async fn stopped_in_shards(&self) -> Vec<Json> {
        #[cfg(feature = "engine")]
        return match &self.shards {
            Some(shards) => shards.stopped_flows().await,
            None => Vec::new(),
        };
        #[cfg(not(feature = "engine"))]
        Vec::new()
    }
}

impl Backends {
    pub(super) async fn open(
        config: &mut Config,
        runtimes: Vec<(config::Mount, Runtime)>,
        auth: Option<&Auth>,
        context: &StartContext,
    ) -> Result<Self, Error> {
        #[cfg(feature = "engine")]
        let mut shards = match config.upstreams.first() {
            Some(engine) => Shards::open(config, engine, &context.metrics)?,
            None => None,
        };
        let routes = std::mem::take(&mut config.routes);
        let admin_routes = std::mem::take(&mut config.admin_routes);
        let mut all = Vec::new();
        for (mount, runtime) in runtimes {
            let opened = Deployments::open(runtime.clone(), &config.engine, context.clone());
            let opened = opened.await?;
            opened.set_policy(mount.policy.clone());
            all.push(Arc::new(Backend {
                rules: ArcSwap::from_pointee(Rules::of(
                    &mount,
                    admin_paths(&mount, &runtime),
                    &routes,
                    &admin_routes,
                )),
                mount,
                runtime,
                // A cluster has one backend, its engine.
                #[cfg(feature = "engine")]
                shards: shards.take(),
                deployments: opened,
                auth: auth.cloned(),
            }));
        }
        Self::of(all).ok_or(Error::NoRuntime)
    }

    fn of(mut all: Vec<Arc<Backend>>) -> Option<Self> {
        let first = Arc::clone(all.first()?);
        all.sort_by_key(|backend| order(&backend.mount));
        Some(Self { first, all })
    }

    /// The first of the config; often there is no other.
    pub fn first(&self) -> &Arc<Backend> {
        &self.first
    }

    /// All.
    pub fn all(&self) -> &[Arc<Backend>] {
        &self.all
    }

    /// The site that answers for a host, which is looked for only if any site has one, and a path
    /// in lower case.
    pub fn find<'h>(
        &self,
        host: impl FnOnce() -> Option<&'h str>,
        path: &str,
    ) -> Result<&Arc<Backend>, RoutingError> {
        // Those of hosts come first.
        let named = self
            .all
            .first()
            .is_some_and(|backend| !backend.mount.hosts.is_empty());
        let host = if named { host() } else { None };
        let mut of_host = self
            .all
            .iter()
            .filter(|backend| backend.mount.is_of(host))
            .peekable();
        if of_host.peek().is_none() {
            return Err(RoutingError::Host);
        }
        of_host
            .find(|backend| backend.mount.leads(path))
            .ok_or(RoutingError::Path)
    }

    /// Takes over routes and permissions of a config read again. Accounts are
    /// [`Backends::change_accounts`]'; everything else of a site needs a restart.
    pub(super) fn reload(&self, config: &Config) {
        let upstreams = || {
            self.all
                .iter()
                .filter(|backend| backend.runtime.upstream().is_some())
        };
        let mut as_before = config.upstreams.len() == upstreams().count();
        for backend in &self.all {
            let named = |read: &&config::Upstream| read.mount.name == backend.mount.name;
            let (mount, policy) = match &backend.runtime {
                #[cfg(feature = "engine")]
                Runtime::Own(_) => (&backend.mount, &config.policy),
                Runtime::Upstream(_) => {
                    let read = config.upstreams.iter().find(named);
                    // Without it, it stays until the restart, and what was opened for all is closed
                    // already.
                    as_before &= read.is_some();
                    let mount = read.map_or(&backend.mount, |read| &read.mount);
                    (mount, &mount.policy)
                }
            };
            as_before &= mount.is_where(&backend.mount);
            let rules = Rules::of(
                mount,
                admin_paths(&backend.mount, &backend.runtime),
                &config.routes,
                &config.admin_routes,
            );
            backend.rules.store(Arc::new(rules));
            backend.deployments.set_policy(config::Policy {
                places: backend.mount.policy.places.clone(),
                ..policy.clone()
            });
        }
        if !as_before {
            tracing::warn!("which upstreams there are, and where, changes with a restart only");
        }
    }

    /// Takes over the accounts at the upstreams of a config read again. An upstream that does not
    /// answer holds this up for as long as a sign-in may take, and no other upstream.
    pub(super) fn change_accounts(&self, config: &Config) -> impl Future<Output = ()> + use<> {
        let changes: Vec<_> = self
            .all
            .iter()
            .filter_map(|backend| {
                let upstream = backend.runtime.upstream()?.clone();
                let mut upstreams = config.upstreams.iter();
                let read = upstreams.find(|read| read.mount.name == backend.mount.name)?;
                let account = read.account.clone();
                Some(async move { upstream.change_account(account).await })
            })
            .collect();
        async move {
            let changes: JoinSet<()> = changes.into_iter().collect();
            changes.join_all().await;
        }
    }
}

impl Rules {
    /// `admin_paths`: those with which the runtime was opened; a reload does not change them.
    fn of(
        mount: &config::Mount,
        admin_paths: AdminPaths,
        routes: &[Route],
        admin_routes: &[Route],
    ) -> Self {
        let names = |list: &[String]| list.iter().map(SmolStr::new).collect();
        let permissions = mount.permissions.iter();
        Self {
            name: mount.name.clone(),
            paths: PathRules::of(mount, admin_paths, routes, admin_routes),
            permissions: permissions
                .map(|(user, list)| (SmolStr::new(user), names(list)))
                .collect(),
        }
    }

    /// The user's permissions here, if they differ from those elsewhere.
    pub fn permissions(&self, user: &str) -> Option<&Arc<[SmolStr]>> {
        self.permissions.get(user)
    }

    /// The caller with the permissions of this backend.
    pub fn here(&self, mut caller: Caller) -> Caller {
        // An anonymous caller has an empty name, and no user has one.
        if let Some(permissions) = self.permissions(caller.account()) {
            caller.permissions.user = Arc::clone(permissions);
        }
        let federated = caller
            .session()
            .and_then(|session| session.federated.as_ref());
        let federated = federated.map(|federated| federated.permissions());
        if let Some(permissions) = federated.as_ref().and_then(|had| had.at(&self.name)) {
            caller.permissions.user = Arc::clone(permissions);
        }
        caller
    }
}

/// The unlisted paths that belong to a runtime's admin API.
fn admin_paths(mount: &config::Mount, runtime: &Runtime) -> AdminPaths {
    match runtime {
        #[cfg(feature = "engine")]
        Runtime::Own(_) => AdminPaths::Listed,
        Runtime::Upstream(_) => mount.admin_paths(),
    }
}

/// Those of a host first, then by the length of their paths, the longest first.
fn order(mount: &config::Mount) -> (bool, std::cmp::Reverse<usize>) {
    (mount.hosts.is_empty(), std::cmp::Reverse(mount.path.len()))
}

/// Opens the runtimes, each with its mount; nothing runs yet.
pub(super) fn runtimes(
    config: &Config,
    metrics: &Arc<Metrics>,
) -> Result<Vec<(config::Mount, Runtime)>, Error> {
    let mut runtimes = Vec::new();
    for behind in &config.upstreams {
        let upstream = match &config.cluster {
            Some(cluster) => Upstream::open_in_cluster(behind.clone(), cluster, None, metrics)?,
            None => Upstream::open(behind.clone(), metrics)?,
        };
        runtimes.push((behind.mount.clone(), Runtime::Upstream(upstream)));
    }
    if runtimes.is_empty() {
        let mount = config::Mount {
            name: "engine".to_owned(),
            policy: config.policy.clone(),
            ..config::Mount::default()
        };
        runtimes.push((mount, start(config, metrics)?));
    }
    Ok(runtimes)
}

#[cfg(not(feature = "engine"))]
fn start(_: &Config, _: &Arc<Metrics>) -> Result<Runtime, Error> {
    Err(Error::NoRuntime)
}
