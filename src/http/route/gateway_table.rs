//! The part of the table that is the gateway's own: every path below `/gateway`.

use super::Needs::{self, Anyone, Nothing, Permission};
use super::Own::{
    Accounts, AuditLog, ConsoleFile, ConsolePage, GatewaySettings, Jwks, Now, Passkeys, Proposals,
    Provider, Sessions, SignInPage, StepUp, Verify,
};
use super::Verb::{Delete, Get, Post};
use super::entry::{ALL_FLOWS, Entry, READ_FLOWS, WRITE_FLOWS, admin, auth, editor, flows};
use super::offers::{UNASSIGNED, reads};
use super::{
    AccountAction, Admin, AuditAction, History, PageAction, PasskeyAction, ProposalAction,
    ProviderAction, SessionAction, StepUpAction, Target,
};

/// Of the entries the first that fits counts, and the last fits all the rest.
pub(super) const GATEWAY: &[Entry] = &[
    // Files of the program, the same for everyone; what the page shows it asks for with its user's
    // token.
    editor(&["gateway"], &[(Get, Target::Own(ConsolePage), Nothing)]),
    // Of the whole gateway, as sessions are: permissions at one of its runtimes do not count.
    auth(
        &["gateway", "audit"],
        &[(Get, Target::Own(AuditLog(AuditAction::Page)), READ_AUDIT)],
    ),
    auth(
        &["gateway", "audit", "verify"],
        &[(Get, Target::Own(AuditLog(AuditAction::Verify)), READ_AUDIT)],
    ),
    auth(
        &["gateway", "audit", "export"],
        &[(Get, Target::Own(AuditLog(AuditAction::Export)), READ_AUDIT)],
    ),
    editor(
        &["gateway", "console", "*", "*"],
        &[(Get, Target::Own(ConsoleFile), Nothing)],
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
    admin(
        &["gateway", "jwks.json"],
        &[(Get, Target::Own(Jwks), Nothing)],
    ),
    flows(
        &["gateway", "nodes", "*", "history"],
        &[(Get, Target::History(History::Node), READ_FLOWS)],
    ),
    admin(
        &["gateway", "now"],
        &[(Get, Target::Own(Now), Permission("diagnostics.read"))],
    ),
    admin(
        &["gateway", "openapi.json"],
        &[(Get, Target::Openapi, Anyone)],
    ),
    auth(
        &["gateway", "passkeys"],
        &[
            (Get, Target::Own(Passkeys(PasskeyAction::List)), Anyone),
            (Post, Target::Own(Passkeys(PasskeyAction::Register)), Anyone),
        ],
    ),
    auth(
        &["gateway", "passkeys", "options"],
        &[(
            Get,
            Target::Own(Passkeys(PasskeyAction::RegistrationOptions)),
            Anyone,
        )],
    ),
    auth(
        &["gateway", "passkeys", "sign-in"],
        &[
            (
                Get,
                Target::Own(Passkeys(PasskeyAction::SignInOptions)),
                Nothing,
            ),
            (Post, Target::Own(Passkeys(PasskeyAction::SignIn)), Nothing),
        ],
    ),
    auth(
        &["gateway", "passkeys", "sign-in.js"],
        &[(Get, Target::Own(Passkeys(PasskeyAction::Script)), Nothing)],
    ),
    auth(
        &["gateway", "passkeys", "*"],
        &[(Delete, Target::Own(Passkeys(PasskeyAction::Remove)), Anyone)],
    ),
    admin(
        &["gateway", "profile"],
        &[reads(Admin::Profile, "diagnostics.read")],
    ),
    flows(
        &["gateway", "proposals"],
        &[(
            Get,
            Target::Own(Proposals(ProposalAction::List)),
            READ_FLOWS,
        )],
    ),
    flows(
        &["gateway", "proposals", "*"],
        &[
            (
                Get,
                Target::Own(Proposals(ProposalAction::Read)),
                READ_FLOWS,
            ),
            (
                Delete,
                Target::Own(Proposals(ProposalAction::Withdraw)),
                WRITE_FLOWS,
            ),
        ],
    ),
    flows(
        &["gateway", "proposals", "*", "approve"],
        &[(
            Post,
            Target::Own(Proposals(ProposalAction::Approve)),
            APPROVE,
        )],
    ),
    flows(
        &["gateway", "proposals", "*", "reject"],
        &[(
            Post,
            Target::Own(Proposals(ProposalAction::Reject)),
            APPROVE,
        )],
    ),
    flows(
        &["gateway", "proposals", "*", "rebase"],
        &[(
            Post,
            Target::Own(Proposals(ProposalAction::Rebase)),
            WRITE_FLOWS,
        )],
    ),
    // Sessions are the gateway's, good at all its runtimes: permissions at one of them do not
    // count.
    auth(
        &["gateway", "sessions"],
        &[
            (Get, Target::Own(Sessions(SessionAction::List)), Anyone),
            (
                Delete,
                Target::Own(Sessions(SessionAction::EndSeveral)),
                Anyone,
            ),
        ],
    ),
    auth(
        &["gateway", "sessions", "*"],
        &[(Delete, Target::Own(Sessions(SessionAction::End)), Anyone)],
    ),
    auth(
        &["gateway", "settings"],
        &[(Get, Target::Own(GatewaySettings), READ_SETTINGS)],
    ),
    auth(
        &["gateway", "sign-in"],
        &[
            (Get, Target::Own(SignInPage(PageAction::Show)), Nothing),
            (Post, Target::Own(SignInPage(PageAction::SignIn)), Nothing),
        ],
    ),
    auth(
        &["gateway", "sign-in", "*"],
        &[(Get, Target::Own(Provider(ProviderAction::Begin)), Nothing)],
    ),
    auth(
        &["gateway", "sign-in", "*", "callback"],
        &[(
            Get,
            Target::Own(Provider(ProviderAction::Callback)),
            Nothing,
        )],
    ),
    auth(
        &["gateway", "sign-in", "*", "back-channel-logout"],
        &[(
            Post,
            Target::Own(Provider(ProviderAction::BackChannelLogout)),
            Nothing,
        )],
    ),
    auth(
        &["gateway", "sign-in", "*", "front-channel-logout"],
        &[(
            Get,
            Target::Own(Provider(ProviderAction::FrontChannelLogout)),
            Nothing,
        )],
    ),
    auth(
        &["gateway", "sign-out"],
        &[(Post, Target::Own(SignInPage(PageAction::SignOut)), Nothing)],
    ),
    auth(
        &["gateway", "step-up"],
        &[(Post, Target::Own(StepUp(StepUpAction::Password)), Anyone)],
    ),
    auth(
        &["gateway", "step-up", "passkey"],
        &[
            (
                Get,
                Target::Own(StepUp(StepUpAction::PasskeyOptions)),
                Anyone,
            ),
            (Post, Target::Own(StepUp(StepUpAction::Passkey)), Anyone),
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
    admin(
        &["gateway", "verify"],
        &[(Get, Target::Own(Verify), Anyone)],
    ),
    // As sessions, tokens and users are the gateway's.
    auth(
        &["gateway", "tokens"],
        &[
            (Get, Target::Own(Accounts(AccountAction::Tokens)), TOKENS),
            (
                Post,
                Target::Own(Accounts(AccountAction::CreateToken)),
                TOKENS,
            ),
        ],
    ),
    auth(
        &["gateway", "tokens", "*"],
        &[(
            Delete,
            Target::Own(Accounts(AccountAction::RevokeToken)),
            TOKENS,
        )],
    ),
    auth(
        &["gateway", "users"],
        &[(
            Get,
            Target::Own(Accounts(AccountAction::Users)),
            Permission("gateway.users"),
        )],
    ),
    admin(&["gateway", "**"], &UNASSIGNED),
];

/// Not covered by `read`, which may be given to everyone: the log has all users' names and
/// addresses.
const READ_AUDIT: Needs<'static> = Permission("gateway.audit");
/// The same: settings name all users, networks and files.
const READ_SETTINGS: Needs<'static> = Permission("gateway.settings");
/// The same: a token is a credential.
const TOKENS: Needs<'static> = Permission("gateway.tokens");
const APPROVE: Needs<'static> = Permission("flows.approve");
