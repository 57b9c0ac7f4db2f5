//! Finds the endpoint of a request, and the authorization that it needs: [`table`] has the
//! runtime's admin API (docs/reference/node-red-admin-api.md §2).
//!
//! A path under one of the admin API's names never falls through to a flow, nor does one that a
//! node package adds to it. Everything else may be an endpoint made by a flow, and is closed unless
//! a `[[route]]` opens it.

mod admin;
mod entry;
mod gateway_table;
mod history;
mod offers;
mod own;
#[cfg(feature = "engine")]
mod packages;
mod pattern;
mod recorded;
mod sessions;
mod some_flows;
mod table;

pub(super) use admin::{Admin, Editor, ProposalAction};
pub(super) use history::History;
pub(super) use own::Own;
pub(super) use recorded::Recorded;
pub(super) use sessions::{
    AccountAction, AuditAction, PageAction, PasskeyAction, ProviderAction, SessionAction,
    StepUpAction,
};
pub(super) use some_flows::{Access, access};

use super::path::Path;
use crate::config::{self, AmbientCredentials, Networks, PathRules};
use crate::metrics::RouteClass;
use crate::upstream::Authorization;
use Needs::{Anyone, Nothing, Permission, SomeFlow};
use hyper::Method;

/// The authorization that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs<'a> {
    /// Nothing: `Authorization` is not looked at.
    Nothing,
    /// An authenticated caller, or the anonymous user.
    Anyone,
    /// A permission.
    Permission(&'a str),
    /// A permission for some flow at least: what the flow set is decides for which.
    SomeFlow(&'a str),
}

/// The action to perform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// `GET /auth/login`
    Login,
    /// `POST /auth/token`
    Token,
    /// `POST /auth/revoke`
    Revoke,
    /// `GET /flows`
    Flows,
    /// `POST /flows`
    Deploy,
    /// `POST /gateway/check`
    Check,
    /// `GET /gateway/openapi.json`
    Openapi,
    /// What the gateway answers itself, for every runtime alike.
    Own(Own),
    /// `GET /flows/state`
    State,
    /// `POST /flows/state`
    SetState,
    /// `GET /flow/:id`
    Flow,
    /// `POST /flow`
    AddFlow,
    /// `PUT /flow/:id`
    ReplaceFlow,
    /// `DELETE /flow/:id`
    RemoveFlow,
    /// A request of the admin API that the runtime itself answers.
    Admin(Admin),
    /// A request about the history of deployments.
    History(History),
    /// `GET /comms`
    Comms,
    /// An endpoint of the admin API that this runtime does not have.
    Absent,
    /// A path of the gateway itself that has no endpoint; no runtime gets it.
    Unassigned,
    /// A route that an npm package has added to the admin API of our own engine.
    #[cfg_attr(
        not(feature = "engine"),
        allow(dead_code, reason = "there are no packages then")
    )]
    PackageAdmin,
    /// Perhaps an endpoint made by a flow.
    Endpoint,
    /// A listed path with a method that it does not have.
    OtherMethod(&'static [Offer]),
}

/// The methods of the admin API; `HEAD` comes with [`Verb::Get`], `OPTIONS` with all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// `GET` and `HEAD`
    Get,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
}

/// One method of a listed path.
pub(super) type Offer = (Verb, Target, Needs<'static>);

/// The route of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route<'a> {
    /// The action to perform.
    pub(super) target: Target,
    /// The authorization that the target needs.
    pub(super) needs: Needs<'a>,
    /// The class for metrics.
    pub(super) class: RouteClass,
    /// The source of the `Authorization` that an upstream receives.
    pub(super) authorization: Authorization,
    /// The credentials that it accepts beside bearer tokens and certificates.
    pub(super) ambient: AmbientCredentials,
    /// The networks that requests must come from; `None`: all.
    pub(super) networks: Option<&'a Networks>,
    /// The `[[route]]` that limits the requests of each caller.
    pub(super) limited: Option<&'a config::Route>,
    /// True if its pages are not sandboxed.
    pub(super) same_origin: bool,
    /// True if a path that looks like an endpoint's may be one of the upstream's admin API, which a
    /// package adds.
    pub(super) may_be_admin: bool,
}

/// Finds the route of a request.
pub(super) fn route<'a>(method: &Method, path: &Path<'_>, rules: &'a PathRules) -> Route<'a> {
    let admin = path.segments();
    let Some((class, offers)) = admin.and_then(|segments| table::listed(segments.as_slice()))
    else {
        return unlisted(method, path, rules);
    };
    if let Some(&(_, target, needs)) = offers.iter().find(|(verb, ..)| verb.is(method)) {
        return Route {
            target,
            needs,
            class,
            authorization: needs.authorization(),
            ambient: AmbientCredentials::default(),
            networks: None,
            limited: None,
            same_origin: false,
            may_be_admin: false,
        };
    }
    let open = offers.iter().any(|(.., needs)| *needs == Needs::Nothing);
    Route {
        target: Target::OtherMethod(offers),
        needs: if open { Needs::Nothing } else { Needs::Anyone },
        class,
        authorization: Authorization::None,
        ambient: AmbientCredentials::default(),
        networks: None,
        limited: None,
        same_origin: false,
        may_be_admin: false,
    }
}

impl Route<'_> {
    /// The same route to an upstream, whose answers may hold credentials in clear (Node-RED shows
    /// those of type `text`).
    pub(super) fn forwarded(self) -> Self {
        match self.target {
            Target::Admin(Admin::Credentials) => Self {
                needs: Permission("flows.write"),
                ..self
            },
            _ => self,
        }
    }
}

/// The route of a path that the table does not list: one of the upstream's admin API, or perhaps an
/// endpoint of a flow.
///
/// The account at the upstream may do everything there. Its credentials are sent where the admin
/// permissions apply, and to an endpoint only if a `[[route]]` configures it: an apparent endpoint
/// may be an admin path that a package adds.
fn unlisted<'a>(method: &Method, path: &Path<'_>, rules: &'a PathRules) -> Route<'a> {
    let admin = path.admin_key();
    let may_be_admin = admin.is_some() && rules.admin_paths == config::AdminPaths::Known;
    let admin = admin.filter(|admin| rules.is_admin(admin));
    let (rules, path, class) = match admin {
        Some(admin) => (&rules.admin, admin, RouteClass::Admin),
        None => (&rules.endpoints, path.key(), RouteClass::Endpoint),
    };
    let (target, default, authorization) = match class {
        RouteClass::Admin => (Target::Absent, ADMIN, Authorization::Ours),
        _ => (Target::Endpoint, HTTP, Authorization::None),
    };
    if let Some(rule) = rule(method, &path, rules) {
        return Route {
            target,
            needs: rule.permission.as_deref().map_or(Nothing, Permission),
            class,
            authorization: rule.authorization,
            ambient: rule.ambient,
            networks: rule.networks.as_deref(),
            limited: Some(rule).filter(|rule| rule.rate_limit.is_some()),
            same_origin: rule.same_origin,
            may_be_admin: false,
        };
    }
    let (read, write) = default;
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    Route {
        target,
        needs: Permission(if reads { read } else { write }),
        class,
        authorization,
        ambient: AmbientCredentials::default(),
        networks: None,
        limited: None,
        same_origin: false,
        may_be_admin,
    }
}

/// The permissions for endpoints that no `[[route]]` names: to read, and to write.
const HTTP: (&str, &str) = ("http.read", "http.write");
/// The same of admin paths that neither the table nor an `[[admin_route]]` names.
const ADMIN: (&str, &str) = ("admin.read", "admin.write");

impl Needs<'_> {
    /// We answer for callers whom we have asked who they are.
    fn authorization(self) -> Authorization {
        match self {
            Nothing => Authorization::None,
            Anyone | Permission(_) | SomeFlow(_) => Authorization::Ours,
        }
    }
}

/// The value of `Allow` for a listed path.
pub(super) fn allow(offers: &[Offer]) -> String {
    let mut allow = String::new();
    for (verb, ..) in offers {
        allow.push_str(verb.names());
        allow.push_str(", ");
    }
    allow + "OPTIONS"
}

impl Verb {
    fn is(self, method: &Method) -> bool {
        match self {
            Self::Get => matches!(*method, Method::GET | Method::HEAD),
            Self::Post => *method == Method::POST,
            Self::Put => *method == Method::PUT,
            Self::Delete => *method == Method::DELETE,
        }
    }

    fn names(self) -> &'static str {
        match self {
            Self::Get => "GET, HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// The rule for a [path as rules compare it](Path::key). The longest wins, the exact one before the
/// prefix, that of one runtime before that of all.
fn rule<'a>(method: &Method, path: &str, rules: &'a [config::Route]) -> Option<&'a config::Route> {
    rules
        .iter()
        .filter(|rule| rule.has(method.as_str()) && rule.covers(path))
        .max_by_key(|rule| (rule.path.len(), !rule.prefix, rule.upstream.is_some()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
