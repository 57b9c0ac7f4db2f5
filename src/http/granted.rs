//! The authorization of a request, re-evaluated: its method and path against the routes and
//! permissions of now.

use super::clock::unix_time;
use super::path::Path;
use super::route::{self, Access, Needs, Own, Route, Target, access};
use crate::auth::{Auth, AuthWatch, Caller, Grant, Lapsed, Registry};
use crate::config::AmbientCredentials;
use crate::gateway::{Backend, Rules, Runtime};
use crate::metrics::RouteClass;
use hyper::Method;
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use std::net::IpAddr;
use std::sync::Arc;

/// Watches the authorization of a request. Boxed: it goes along with the request and its response,
/// which are moved often.
pub(super) type Watch = Box<AuthWatch<Granted>>;

/// The request as it was authorized. Cheap to clone.
#[derive(Clone)]
pub(super) struct Granted {
    backend: Arc<Backend>,
    method: Method,
    target: Option<PathAndQuery>,
    /// True if the caller read some flows only when it was authorized.
    some_flows: bool,
    /// The client's address.
    address: IpAddr,
}

/// The route of a request at a backend, by which it is authorized: at first, and at each re-check.
pub(super) fn route<'r>(
    backend: &Backend,
    method: &Method,
    path: &Path<'_>,
    rules: &'r Rules,
) -> Route<'r> {
    let route = route::route(method, path, &rules.paths);
    match &backend.runtime {
        #[cfg(feature = "engine")]
        Runtime::Own(engine) => route.or_of_package(method, path, &rules.paths, |admin| {
            let access = engine.package_access(method, admin)?;
            // A path that a flow has is the flow's, whatever packages add to the admin API.
            let is_native = engine.has_path(path.as_str());
            (!is_native).then_some(access)
        }),
        Runtime::Upstream(_) => route.forwarded(),
    }
}

impl Granted {
    /// The request of a client at this address.
    pub(super) fn of(backend: &Arc<Backend>, head: &Parts, address: IpAddr) -> Self {
        Self {
            backend: Arc::clone(backend),
            method: head.method.clone(),
            target: head.uri.path_and_query().cloned(),
            some_flows: false,
            address,
        }
    }

    /// Watches the request, which is authorized for this caller in this generation of users and
    /// permissions.
    pub(super) fn watch(self, caller: Option<Caller>, generation: u64) -> Watch {
        let granted = Self {
            some_flows: caller.as_ref().is_some_and(reads_some_flows),
            ..self
        };
        Box::new(AuthWatch::new(caller, granted, generation, unix_time))
    }
}

impl Grant for Granted {
    fn registry(&self) -> Option<&Registry> {
        self.backend.auth.as_ref().map(Auth::registry)
    }

    fn narrowed(&self, caller: Option<Caller>) -> Result<Option<Caller>, Lapsed> {
        let target = self.target.as_ref().map_or("/", PathAndQuery::path);
        let mut path = Path::parse(target).map_err(|_| Lapsed::Permission)?;
        path.enter(&self.backend.mount);
        let rules = self.backend.rules.load();
        let route = route(&self.backend, &self.method, &path, &rules);
        let caller = match route.class {
            RouteClass::Auth => caller,
            _ => caller.map(|caller| rules.here(caller)),
        };
        let caller = match self.registry() {
            Some(registry) => caller.map(|caller| registry.conditioned(caller, Some(self.address))),
            None => caller,
        };
        let granted = match route.needs {
            Needs::Nothing => true,
            Needs::Anyone => caller.is_some(),
            Needs::Permission(needed) => {
                let mut known = caller.iter();
                known.any(|caller| caller.permissions.cover(needed))
            }
            Needs::SomeFlow(needed) => {
                let mut known = caller.iter();
                known.any(|caller| caller.permissions.cover_some(needed))
            }
        };
        // The route may no longer accept the credential; `verify` itself asks for the cookie.
        let AmbientCredentials { page, basic } = route.ambient;
        let page = page || route.target == Target::Own(Own::Verify);
        let refused = caller
            .as_ref()
            .is_some_and(|caller| (caller.has_page() && !page) || (caller.has_basic() && !basic));
        // What is shown of all flows must not be shown to the end if the caller may now read some
        // only.
        let too_much = caller.as_ref().is_some_and(reads_some_flows)
            && match access(route.target, &path) {
                Access::Same => false,
                Access::Nothing => true,
                Access::Flows | Access::Flow(_) | Access::State | Access::Element(_) => {
                    !self.some_flows
                }
            };
        let registry = self.registry();
        let user_admits = caller
            .as_ref()
            .zip(registry)
            .is_none_or(|(caller, registry)| registry.admits(caller, self.address));
        let mut networks = route.networks.iter();
        let admitted = user_admits && networks.all(|networks| networks.contains(self.address));
        if granted && admitted && !too_much && !refused {
            Ok(caller)
        } else {
            Err(Lapsed::Permission)
        }
    }
}

fn reads_some_flows(caller: &Caller) -> bool {
    caller.permissions.reads_some_flows()
}
