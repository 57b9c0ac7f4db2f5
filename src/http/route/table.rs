//! The admin API as data: every path that the runtime or the gateway itself answers, its methods,
//! and what each needs.
//!
//! A new path is an entry here and a row in `tests/data/authorization-matrix.json`, which lists the
//! parts of a request that leave the gateway.

use super::Needs::{Anyone, Nothing};

use super::Verb::{Delete, Get, Post, Put};
use super::entry::{
    ALL_FLOWS, Entry, READ_FLOWS, WRITE_FLOWS, admin, auth, editor, flows, reserved,
};
use super::gateway_table::GATEWAY;
use super::offers::{
    FORGET_CONTEXT, LIBRARY, MODULE, NODE_MESSAGES, NODE_SET, NODES, OPEN_ABSENT, OPEN_DEBUG_VIEW,
    OPEN_FILE, OPEN_ICON, OPEN_LOCALE, OPEN_PAGE, OPEN_RESOURCE, OPEN_THEME, READ_CONTEXT,
    RESERVED, USER_SETTINGS, absent, listing, posts, reads,
};
use super::pattern::fits;
use super::{Admin, Offer, Target};
use crate::metrics::RouteClass;

/// The methods of a path with these lower-case segments; `None`: the table does not list it.
pub(super) fn listed(segments: &[&str]) -> Option<(RouteClass, &'static [Offer])> {
    let name = segments.first().copied().unwrap_or_default();
    if name == "gateway" {
        let found = GATEWAY.iter().find(|entry| fits(entry.path, segments));
        return found.map(|entry| (entry.class, entry.offers));
    }
    let from = TABLE.partition_point(|entry| entry.name() < name);
    TABLE
        .iter()
        .skip(from)
        .take_while(|entry| entry.name() == name)
        .find(|entry| fits(entry.path, segments))
        .map(|entry| (entry.class, entry.offers))
}

/// Both tables.
#[cfg(test)]
pub(super) fn entries() -> impl Iterator<Item = &'static Entry> {
    TABLE.iter().chain(GATEWAY)
}

/// Sorted by first segment; of the entries with one name the first that fits counts, and the last
/// fits all the rest.
pub(super) const TABLE: &[Entry] = &[
    editor(&[], &OPEN_PAGE),
    auth(&["auth", "login"], &[(Get, Target::Login, Nothing)]),
    auth(&["auth", "token"], &[(Post, Target::Token, Nothing)]),
    auth(&["auth", "revoke"], &[(Post, Target::Revoke, Anyone)]),
    auth(&["auth", "**"], &RESERVED),
    editor(&["comms"], &[(Get, Target::Comms, Nothing)]),
    reserved(&["comms", "**"]),
    admin(&["context", "global"], &[READ_CONTEXT]),
    admin(&["context", "flow", "*"], &[READ_CONTEXT]),
    admin(&["context", "node", "*"], &[READ_CONTEXT]),
    admin(&["context", "global", "+"], &[READ_CONTEXT, FORGET_CONTEXT]),
    admin(
        &["context", "flow", "*", "+"],
        &[READ_CONTEXT, FORGET_CONTEXT],
    ),
    admin(
        &["context", "node", "*", "+"],
        &[READ_CONTEXT, FORGET_CONTEXT],
    ),
    admin(
        &["context", "**"],
        &const { absent("context.read", "context.write") },
    ),
    admin(
        &["credentials", "*", "*"],
        &[reads(Admin::Credentials, "credentials.read")],
    ),
    reserved(&["credentials", "**"]),
    editor(&["debug", "view", "+"], &OPEN_DEBUG_VIEW),
    admin(
        &["debug", "enable"],
        &[posts(Admin::DebugNodes(true), "debug.write")],
    ),
    admin(
        &["debug", "disable"],
        &[posts(Admin::DebugNodes(false), "debug.write")],
    ),
    admin(
        &["debug", "*", "enable"],
        &[posts(Admin::DebugNode(true), "debug.write")],
    ),
    admin(
        &["debug", "*", "disable"],
        &[posts(Admin::DebugNode(false), "debug.write")],
    ),
    reserved(&["debug", "**"]),
    admin(
        &["diagnostics"],
        &[reads(Admin::Diagnostics, "diagnostics.read")],
    ),
    reserved(&["diagnostics", "**"]),
    editor(&["favicon.ico"], &OPEN_FILE),
    reserved(&["favicon.ico", "**"]),
    flows(&["flow"], &[(Post, Target::AddFlow, WRITE_FLOWS)]),
    flows(
        &["flow", "*"],
        &[
            (Get, Target::Flow, READ_FLOWS),
            (Put, Target::ReplaceFlow, WRITE_FLOWS),
            (Delete, Target::RemoveFlow, WRITE_FLOWS),
        ],
    ),
    flows(&["flow", "**"], &RESERVED),
    flows(
        &["flows"],
        &[
            (Get, Target::Flows, READ_FLOWS),
            (Post, Target::Deploy, WRITE_FLOWS),
        ],
    ),
    flows(
        &["flows", "state"],
        &[
            (Get, Target::State, READ_FLOWS),
            (Post, Target::SetState, ALL_FLOWS),
        ],
    ),
    flows(&["flows", "**"], &RESERVED),
    admin(
        &["icons"],
        &const { listing(Admin::Icons, "nodes.read", "nodes.write") },
    ),
    editor(&["icons", "+"], &OPEN_ICON),
    admin(&["inject", "*"], &[posts(Admin::Inject, "inject.write")]),
    reserved(&["inject", "**"]),
    admin(&["library", "*", "+"], &LIBRARY),
    admin(
        &["library", "**"],
        &const { absent("library.read", "library.write") },
    ),
    editor(&["locales", "+"], &OPEN_LOCALE),
    reserved(&["locales", "**"]),
    admin(&["nodes"], &NODES),
    admin(&["nodes", "messages"], &NODE_MESSAGES),
    admin(&["nodes", "*", "*", "messages"], &NODE_MESSAGES),
    admin(&["nodes", "@*", "*"], &MODULE),
    admin(&["nodes", "@*", "*", "*"], &NODE_SET),
    admin(&["nodes", "*"], &MODULE),
    admin(&["nodes", "*", "*"], &NODE_SET),
    admin(
        &["nodes", "**"],
        &const { absent("nodes.read", "nodes.write") },
    ),
    admin(
        &["plugins"],
        &const { listing(Admin::Plugins, "plugins.read", "plugins.write") },
    ),
    admin(
        &["plugins", "messages"],
        &const { listing(Admin::Messages, "plugins.read", "plugins.write") },
    ),
    admin(
        &["plugins", "**"],
        &const { absent("plugins.read", "plugins.write") },
    ),
    admin(
        &["projects", "**"],
        &const { absent("projects.read", "projects.write") },
    ),
    editor(&["red", "+"], &OPEN_FILE),
    reserved(&["red", "**"]),
    editor(&["resources", "+"], &OPEN_RESOURCE),
    reserved(&["resources", "**"]),
    admin(&["settings"], &[reads(Admin::Settings, "settings.read")]),
    admin(&["settings", "user"], &USER_SETTINGS),
    admin(
        &["settings", "**"],
        &const { absent("settings.write", "settings.write") },
    ),
    editor(&["theme"], &OPEN_THEME),
    editor(&["theme", "+"], &OPEN_ABSENT),
    editor(&["types", "+"], &OPEN_FILE),
    reserved(&["types", "**"]),
    admin(
        &["udp-ports", "*"],
        &const { listing(Admin::UdpPorts, "udp-ports.read", "udp-ports.write") },
    ),
    admin(
        &["udp-ports", "**"],
        &const { absent("udp-ports.read", "udp-ports.write") },
    ),
    editor(&["vendor", "+"], &OPEN_FILE),
    reserved(&["vendor", "**"]),
];
