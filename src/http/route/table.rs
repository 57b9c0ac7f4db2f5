//! The admin API as data: every path that the runtime or the gateway itself answers, its methods, and what each needs.
//!
//! A new path is an entry here and a row in `tests/data/authorization-matrix.json`, which lists the parts of a request
//! that leave the gateway.

use super::Needs::{self, Anyone, Nothing, Permission, SomeFlow};
use super::Verb::{Delete, Get, Post, Put};
use super::offers::{
    FORGET_CONTEXT, LIBRARY, MODULE, NODE_MESSAGES, NODE_SET, NODES, OPEN_ABSENT, OPEN_DEBUG_VIEW,
    OPEN_FILE, OPEN_ICON, OPEN_LOCALE, OPEN_PAGE, OPEN_RESOURCE, OPEN_THEME, READ_CONTEXT,
    RESERVED, UNASSIGNED, USER_SETTINGS, absent, listing, posts, reads,
};
use super::pattern::fits;
use super::{
    Admin, AuditAction, History, Offer, PageAction, PasskeyAction, ProposalAction, ProviderAction,
    SessionAction, StepUpAction, Target,
};
use crate::metrics::RouteClass;

/// A path with its methods.
pub(super) struct Entry {
    /// Segments in lower case. `*` is any one, `@*` any scope of a module's name, `+` one or more to the end, `**` any
    /// number to the end.
    pub(super) path: &'static [&'static str],
    pub(super) class: RouteClass,
    pub(super) offers: &'static [Offer],
}

/// The methods of a path with these lower-case segments; `None`: the table does not list it.
pub(super) fn listed(segments: &[&str]) -> Option<(RouteClass, &'static [Offer])> {
    let name = segments.first().copied().unwrap_or_default();
    let from = TABLE.partition_point(|entry| entry.name() < name);
    TABLE
        .iter()
        .skip(from)
        .take_while(|entry| entry.name() == name)
        .find(|entry| fits(entry.path, segments))
        .map(|entry| (entry.class, entry.offers))
}

impl Entry {
    /// The first segment; empty for the root.
    pub(super) fn name(&self) -> &'static str {
        self.path.first().copied().unwrap_or_default()
    }
}

const fn entry(
    path: &'static [&'static str],
    class: RouteClass,
    offers: &'static [Offer],
) -> Entry {
    Entry {
        path,
        class,
        offers,
    }
}

/// Signing in and out.
const fn auth(path: &'static [&'static str], offers: &'static [Offer]) -> Entry {
    entry(path, RouteClass::Auth, offers)
}

/// The flow set, single flows, and whether they run.
const fn flows(path: &'static [&'static str], offers: &'static [Offer]) -> Entry {
    entry(path, RouteClass::Flows, offers)
}

/// The resources that the editor loads before it has a token (docs/reference/node-red-admin-api.md §8.11), and its
/// channel.
const fn editor(path: &'static [&'static str], offers: &'static [Offer]) -> Entry {
    entry(path, RouteClass::Editor, offers)
}

/// Everything else: settings, node types, libraries, running nodes.
const fn admin(path: &'static [&'static str], offers: &'static [Offer]) -> Entry {
    entry(path, RouteClass::Admin, offers)
}

/// Under a name of the admin API, but no endpoint of it.
const fn reserved(path: &'static [&'static str]) -> Entry {
    admin(path, &RESERVED)
}

/// Sorted by first segment; of the entries with one name the first that fits counts, and the last fits all the rest.
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
    // Files of the program, the same for everyone; what the page shows it asks for with its user's token.
    editor(&["gateway"], &[(Get, Target::ConsolePage, Nothing)]),
    // Of the whole gateway, as sessions are: permissions at one of its runtimes do not count.
    auth(
        &["gateway", "audit"],
        &[(Get, Target::AuditLog(AuditAction::Page), READ_AUDIT)],
    ),
    auth(
        &["gateway", "audit", "verify"],
        &[(Get, Target::AuditLog(AuditAction::Verify), READ_AUDIT)],
    ),
    auth(
        &["gateway", "audit", "export"],
        &[(Get, Target::AuditLog(AuditAction::Export), READ_AUDIT)],
    ),
    editor(
        &["gateway", "console", "*", "*"],
        &[(Get, Target::ConsoleFile, Nothing)],
    ),
    flows(&["gateway", "check"], &[(Post, Target::Check, READ_FLOWS)]),
    flows(
        &["gateway", "deployments"],
        &[(Get, Target::History(History::List), READ_FLOWS)],
    ),
    flows(
        &["gateway", "deployments", "*"],
        &[(Get, Target::History(History::Entry), READ_FLOWS)],
    ),
    flows(
        &["gateway", "deployments", "*", "rollback"],
        &[(Post, Target::History(History::Rollback), WRITE_FLOWS)],
    ),
    flows(
        &["gateway", "diff"],
        &[(Get, Target::History(History::Diff), READ_FLOWS)],
    ),
    flows(
        &["gateway", "export", "*"],
        &[(Get, Target::History(History::Export), READ_FLOWS)],
    ),
    flows(
        &["gateway", "import"],
        &[(Post, Target::History(History::Import), WRITE_FLOWS)],
    ),
    admin(&["gateway", "jwks.json"], &[(Get, Target::Jwks, Nothing)]),
    flows(
        &["gateway", "nodes", "*", "history"],
        &[(Get, Target::History(History::Node), READ_FLOWS)],
    ),
    admin(
        &["gateway", "now"],
        &[(Get, Target::Now, Permission("diagnostics.read"))],
    ),
    admin(
        &["gateway", "openapi.json"],
        &[(Get, Target::Openapi, Anyone)],
    ),
    auth(
        &["gateway", "passkeys"],
        &[
            (Get, Target::Passkeys(PasskeyAction::List), Anyone),
            (Post, Target::Passkeys(PasskeyAction::Register), Anyone),
        ],
    ),
    auth(
        &["gateway", "passkeys", "options"],
        &[(
            Get,
            Target::Passkeys(PasskeyAction::RegistrationOptions),
            Anyone,
        )],
    ),
    auth(
        &["gateway", "passkeys", "sign-in"],
        &[
            (Get, Target::Passkeys(PasskeyAction::SignInOptions), Nothing),
            (Post, Target::Passkeys(PasskeyAction::SignIn), Nothing),
        ],
    ),
    auth(
        &["gateway", "passkeys", "sign-in.js"],
        &[(Get, Target::Passkeys(PasskeyAction::Script), Nothing)],
    ),
    auth(
        &["gateway", "passkeys", "*"],
        &[(Delete, Target::Passkeys(PasskeyAction::Remove), Anyone)],
    ),
    admin(
        &["gateway", "profile"],
        &[reads(Admin::Profile, "diagnostics.read")],
    ),
    flows(
        &["gateway", "proposals"],
        &[(Get, Target::Proposals(ProposalAction::List), READ_FLOWS)],
    ),
    flows(
        &["gateway", "proposals", "*"],
        &[
            (Get, Target::Proposals(ProposalAction::Read), READ_FLOWS),
            (
                Delete,
                Target::Proposals(ProposalAction::Withdraw),
                WRITE_FLOWS,
            ),
        ],
    ),
    flows(
        &["gateway", "proposals", "*", "approve"],
        &[(Post, Target::Proposals(ProposalAction::Approve), APPROVE)],
    ),
    flows(
        &["gateway", "proposals", "*", "reject"],
        &[(Post, Target::Proposals(ProposalAction::Reject), APPROVE)],
    ),
    flows(
        &["gateway", "proposals", "*", "rebase"],
        &[(Post, Target::Proposals(ProposalAction::Rebase), WRITE_FLOWS)],
    ),
    // Sessions are the gateway's, good at all its runtimes: permissions at one of them do not count.
    auth(
        &["gateway", "sessions"],
        &[
            (Get, Target::Sessions(SessionAction::List), Anyone),
            (Delete, Target::Sessions(SessionAction::EndSeveral), Anyone),
        ],
    ),
    auth(
        &["gateway", "sessions", "*"],
        &[(Delete, Target::Sessions(SessionAction::End), Anyone)],
    ),
    auth(
        &["gateway", "settings"],
        &[(Get, Target::GatewaySettings, READ_SETTINGS)],
    ),
    auth(
        &["gateway", "sign-in"],
        &[
            (Get, Target::SignInPage(PageAction::Show), Nothing),
            (Post, Target::SignInPage(PageAction::SignIn), Nothing),
        ],
    ),
    auth(
        &["gateway", "sign-in", "*"],
        &[(Get, Target::Provider(ProviderAction::Begin), Nothing)],
    ),
    auth(
        &["gateway", "sign-in", "*", "callback"],
        &[(Get, Target::Provider(ProviderAction::Callback), Nothing)],
    ),
    auth(
        &["gateway", "sign-in", "*", "back-channel-logout"],
        &[(
            Post,
            Target::Provider(ProviderAction::BackChannelLogout),
            Nothing,
        )],
    ),
    auth(
        &["gateway", "sign-in", "*", "front-channel-logout"],
        &[(
            Get,
            Target::Provider(ProviderAction::FrontChannelLogout),
            Nothing,
        )],
    ),
    auth(
        &["gateway", "sign-out"],
        &[(Post, Target::SignInPage(PageAction::SignOut), Nothing)],
    ),
    auth(
        &["gateway", "step-up"],
        &[(Post, Target::StepUp(StepUpAction::Password), Anyone)],
    ),
    auth(
        &["gateway", "step-up", "passkey"],
        &[
            (Get, Target::StepUp(StepUpAction::PasskeyOptions), Anyone),
            (Post, Target::StepUp(StepUpAction::Passkey), Anyone),
        ],
    ),
    flows(
        &["gateway", "tags"],
        &[(Get, Target::History(History::Tags), READ_FLOWS)],
    ),
    flows(
        &["gateway", "tags", "*"],
        &[
            (Post, Target::History(History::Tag), ALL_FLOWS),
            (Delete, Target::History(History::RemoveTag), ALL_FLOWS),
        ],
    ),
    admin(&["gateway", "verify"], &[(Get, Target::Verify, Anyone)]),
    admin(&["gateway", "**"], &UNASSIGNED),
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

const READ_FLOWS: Needs<'static> = SomeFlow("flows.read");
const WRITE_FLOWS: Needs<'static> = SomeFlow("flows.write");
/// Not covered by `read`, which may be given to everyone: the log has all users' names and addresses.
const READ_AUDIT: Needs<'static> = Permission("gateway.audit");
/// The same: settings name all users, networks and files.
const READ_SETTINGS: Needs<'static> = Permission("gateway.settings");
const APPROVE: Needs<'static> = Permission("flows.approve");
/// All flows start and stop together, and a tag is for all.
const ALL_FLOWS: Needs<'static> = Permission("flows.write");
