//! Which endpoint a request means, and what it needs: the complete table of the runtime's admin API (facts §2).
//!
//! A path under one of the admin API's names never falls through to a flow. Everything else may be an endpoint made
//! by a flow, and is closed unless a `[[route]]` opens it.

mod admin;

pub(super) use admin::{Admin, Editor};

use super::path::Path;
use crate::config;
use crate::metrics::RouteClass;
use crate::upstream::Authorization;
use Needs::{Anyone, Nothing, Permission};
use Verb::{Delete, Get, Post, Put};
use hyper::Method;

/// What a request needs before it is acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs<'a> {
    /// Nothing: `Authorization` is not looked at.
    Nothing,
    /// Anybody whom we know, or the anonymous user.
    Anyone,
    /// A permission.
    Permission(&'a str),
}

/// What is to be done.
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
    /// Something of the admin API that the runtime knows best.
    Admin(Admin),
    /// `GET /comms`
    Comms,
    /// An endpoint of the admin API that this runtime does not have.
    Absent,
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

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route<'a> {
    /// What is to be done.
    pub(super) target: Target,
    /// What that needs.
    pub(super) needs: Needs<'a>,
    /// How metrics count it.
    pub(super) class: RouteClass,
    /// Whose `Authorization` an upstream sees.
    pub(super) authorization: Authorization,
}

/// Finds the route of a request.
pub(super) fn route<'a>(method: &Method, path: &Path<'_>, rules: &'a [config::Route]) -> Route<'a> {
    let admin = path.segments();
    let Some((class, offers)) = admin.and_then(|segments| listed(segments.as_slice())) else {
        let (needs, pass) = rule(method, path, rules);
        let authorization = if pass {
            Authorization::Client
        } else {
            needs.authorization()
        };
        return Route {
            target: Target::Endpoint,
            needs,
            class: RouteClass::Endpoint,
            authorization,
        };
    };
    if let Some(&(_, target, needs)) = offers.iter().find(|(verb, ..)| verb.is(method)) {
        return Route {
            target,
            needs,
            class,
            authorization: needs.authorization(),
        };
    }
    let open = offers.iter().any(|(.., needs)| *needs == Needs::Nothing);
    Route {
        target: Target::OtherMethod(offers),
        needs: if open { Needs::Nothing } else { Needs::Anyone },
        class,
        authorization: Authorization::Nobody,
    }
}

impl Route<'_> {
    /// The same route to an upstream, whose answers may hold credentials in clear (Node-RED shows those of type `text`).
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

impl Needs<'_> {
    /// We answer for callers whom we have asked who they are.
    fn authorization(self) -> Authorization {
        match self {
            Nothing => Authorization::Nobody,
            Anyone | Permission(_) => Authorization::Ours,
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

type Listed = (RouteClass, &'static [Offer]);

fn listed(segments: &[&str]) -> Option<Listed> {
    match segments {
        ["auth", ..] => Some((RouteClass::Auth, auth(segments))),
        ["flows" | "flow", ..] => Some((RouteClass::Flows, flows(segments))),
        _ => editor(segments)
            .map(|offers| (RouteClass::Editor, offers))
            .or_else(|| palette(segments).map(|offers| (RouteClass::Admin, offers)))
            .or_else(|| running(segments).map(|offers| (RouteClass::Admin, offers))),
    }
}

/// Signing in and out.
fn auth(segments: &[&str]) -> &'static [Offer] {
    match segments {
        ["auth", "login"] => &[(Get, Target::Login, Nothing)],
        ["auth", "token"] => &[(Post, Target::Token, Nothing)],
        ["auth", "revoke"] => &[(Post, Target::Revoke, Anyone)],
        _ => &RESERVED,
    }
}

/// The flow set, single flows, and whether they run.
fn flows(segments: &[&str]) -> &'static [Offer] {
    match segments {
        ["flows"] => &[
            (Get, Target::Flows, Permission("flows.read")),
            (Post, Target::Deploy, Permission("flows.write")),
        ],
        ["flows", "state"] => &[
            (Get, Target::State, Permission("flows.read")),
            (Post, Target::SetState, Permission("flows.write")),
        ],
        ["flow"] => &[(Post, Target::AddFlow, Permission("flows.write"))],
        ["flow", _] => &[
            (Get, Target::Flow, Permission("flows.read")),
            (Put, Target::ReplaceFlow, Permission("flows.write")),
            (Delete, Target::RemoveFlow, Permission("flows.write")),
        ],
        _ => &RESERVED,
    }
}

/// What the editor loads before it has a token (facts §8.11), and its channel.
fn editor(segments: &[&str]) -> Option<&'static [Offer]> {
    match segments {
        [] => Some(&const { open(Editor::Page) }),
        ["favicon.ico"] | ["red" | "vendor" | "types", _, ..] => {
            Some(&const { open(Editor::File) })
        }
        ["theme"] => Some(&const { open(Editor::Theme) }),
        ["locales", _, ..] => Some(&const { open(Editor::Locale) }),
        ["icons", _, ..] => Some(&const { open(Editor::Icon) }),
        ["debug", "view", _, ..] => Some(&const { open(Editor::DebugView) }),
        ["theme" | "resources", _, ..] => Some(&[(Get, Target::Absent, Nothing)]),
        ["comms"] => Some(&[(Get, Target::Comms, Nothing)]),
        _ => None,
    }
}

/// What there is to build flows of: settings, node types, libraries, projects.
fn palette(segments: &[&str]) -> Option<&'static [Offer]> {
    Some(match segments {
        ["settings"] => &[(
            Get,
            Target::Admin(Admin::Settings),
            Permission("settings.read"),
        )],
        ["settings", "user"] => &[
            (
                Get,
                Target::Admin(Admin::UserSettings),
                Permission("settings.read"),
            ),
            (
                Post,
                Target::Admin(Admin::SaveUserSettings),
                Permission("settings.write"),
            ),
            (Put, Target::Absent, Permission("settings.write")),
            (Delete, Target::Absent, Permission("settings.write")),
        ],
        ["settings", ..] => &const { absent("settings.write", "settings.write") },
        ["nodes"] => &[
            (Get, Target::Admin(Admin::Nodes), Permission("nodes.read")),
            (
                Post,
                Target::Admin(Admin::ChangeModules),
                Permission("nodes.write"),
            ),
            (Put, Target::Absent, Permission("nodes.write")),
        ],
        ["nodes", "messages"] | ["nodes", _, _, "messages"] => {
            &const { listing(Admin::Messages, "nodes.read", "nodes.write") }
        }
        ["nodes", scope, _] if is_scope(scope) => &MODULE,
        ["nodes", scope, _, _] if is_scope(scope) => &NODE_SET,
        ["nodes", _] => &MODULE,
        ["nodes", _, _] => &NODE_SET,
        ["icons"] => &const { listing(Admin::Icons, "nodes.read", "nodes.write") },
        ["nodes", ..] => &const { absent("nodes.read", "nodes.write") },
        ["plugins"] => &const { listing(Admin::Plugins, "plugins.read", "plugins.write") },
        ["plugins", "messages"] => {
            &const { listing(Admin::Messages, "plugins.read", "plugins.write") }
        }
        ["plugins", ..] => &const { absent("plugins.read", "plugins.write") },
        ["library", _, _, ..] => &LIBRARY,
        ["library", ..] => &const { absent("library.read", "library.write") },
        ["projects", ..] => &const { absent("projects.read", "projects.write") },
        ["udp-ports", _] => {
            &const { listing(Admin::UdpPorts, "udp-ports.read", "udp-ports.write") }
        }
        ["udp-ports", ..] => &const { absent("udp-ports.read", "udp-ports.write") },
        _ => return None,
    })
}

/// What flows remember.
fn context(segments: &[&str]) -> &'static [Offer] {
    match segments {
        ["context", "global"] | ["context", "flow" | "node", _] => &[(
            Get,
            Target::Admin(Admin::Context),
            Permission("context.read"),
        )],
        ["context", "global", _, ..] | ["context", "flow" | "node", _, _, ..] => &[
            (
                Get,
                Target::Admin(Admin::Context),
                Permission("context.read"),
            ),
            (
                Delete,
                Target::Admin(Admin::ForgetContext),
                Permission("context.write"),
            ),
        ],
        _ => &const { absent("context.read", "context.write") },
    }
}

/// What concerns running nodes.
fn running(segments: &[&str]) -> Option<&'static [Offer]> {
    Some(match segments {
        ["context", ..] => context(segments),
        ["diagnostics"] => &[(
            Get,
            Target::Admin(Admin::Diagnostics),
            Permission("diagnostics.read"),
        )],
        ["credentials", _, _] => &[(
            Get,
            Target::Admin(Admin::Credentials),
            Permission("credentials.read"),
        )],
        ["inject", _] => &[(
            Post,
            Target::Admin(Admin::Inject),
            Permission("inject.write"),
        )],
        ["debug", "enable"] => &[(
            Post,
            Target::Admin(Admin::DebugNodes(true)),
            Permission("debug.write"),
        )],
        ["debug", "disable"] => &[(
            Post,
            Target::Admin(Admin::DebugNodes(false)),
            Permission("debug.write"),
        )],
        ["debug", _, "enable"] => &[(
            Post,
            Target::Admin(Admin::DebugNode(true)),
            Permission("debug.write"),
        )],
        ["debug", _, "disable"] => &[(
            Post,
            Target::Admin(Admin::DebugNode(false)),
            Permission("debug.write"),
        )],
        [first, ..] if config::RESERVED.contains(first) => &RESERVED,
        _ => return None,
    })
}

const MODULE: [Offer; 3] = [
    (Get, Target::Admin(Admin::Module), Permission("nodes.read")),
    (
        Put,
        Target::Admin(Admin::SwitchModule),
        Permission("nodes.write"),
    ),
    (
        Delete,
        Target::Admin(Admin::ChangeModules),
        Permission("nodes.write"),
    ),
];

const NODE_SET: [Offer; 3] = [
    (Get, Target::Admin(Admin::NodeSet), Permission("nodes.read")),
    (
        Put,
        Target::Admin(Admin::SwitchNodeSet),
        Permission("nodes.write"),
    ),
    (Delete, Target::Absent, Permission("nodes.write")),
];

const LIBRARY: [Offer; 4] = [
    (
        Get,
        Target::Admin(Admin::Library),
        Permission("library.read"),
    ),
    (
        Post,
        Target::Admin(Admin::SaveInLibrary),
        Permission("library.write"),
    ),
    (Put, Target::Absent, Permission("library.write")),
    (Delete, Target::Absent, Permission("library.write")),
];

/// Something of the editor's, for everybody.
const fn open(part: Editor) -> [Offer; 1] {
    [(Get, Target::Admin(Admin::Editor(part)), Nothing)]
}

/// Something that is only read.
const fn listing(admin: Admin, read: &'static str, write: &'static str) -> [Offer; 4] {
    let [_, post, put, delete] = absent(read, write);
    [
        (Get, Target::Admin(admin), Permission(read)),
        post,
        put,
        delete,
    ]
}

/// Under a name of the admin API, but no endpoint of it.
const RESERVED: [Offer; 4] = absent("http.read", "http.write");

const fn absent(read: &'static str, write: &'static str) -> [Offer; 4] {
    [
        (Get, Target::Absent, Permission(read)),
        (Post, Target::Absent, Permission(write)),
        (Put, Target::Absent, Permission(write)),
        (Delete, Target::Absent, Permission(write)),
    ]
}

/// Whether the segment is the `@scope` of a module's name.
fn is_scope(segment: &str) -> bool {
    segment.starts_with('@') || segment.starts_with("%40")
}

/// What a path needs that is not listed: what the operator says, else a permission of its own. The longest rule
/// wins, the exact one before the prefix, that of one runtime before that of all. Also whether the client's
/// `Authorization` is passed on.
fn rule<'a>(method: &Method, path: &Path<'_>, rules: &'a [config::Route]) -> (Needs<'a>, bool) {
    let rule = rules
        .iter()
        .filter(|rule| matches(rule, method, path.below()))
        .max_by_key(|rule| (rule.path.len(), !rule.prefix, rule.upstream.is_some()));
    match rule {
        Some(rule) => {
            let needs = rule.permission.as_deref().map_or(Nothing, Permission);
            (needs, rule.pass_authorization)
        }
        None if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) => {
            (Permission("http.read"), false)
        }
        None => (Permission("http.write"), false),
    }
}

fn matches(rule: &config::Route, method: &Method, path: &str) -> bool {
    let named = |name: &str| rule.methods.iter().any(|m| m == name);
    let method = rule.methods.is_empty()
        || named(method.as_str())
        || (*method == Method::HEAD && named("GET"));
    let below = |rest: &str| rest.is_empty() || (rule.prefix && rest.starts_with('/'));
    let above = if rule.path == "/" && rule.prefix {
        ""
    } else {
        &rule.path
    };
    method && path.strip_prefix(above).is_some_and(below)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
