//! The events of the audit log, with the name of each.

macro_rules! events {
    ($($(#[$doc:meta])* $event:ident = $name:literal,)*) => {
        /// An audited event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Event { $($(#[$doc])* $event,)* }

        impl Event {
            /// All there are.
            pub const ALL: &'static [Self] = &[$(Self::$event),*];

            /// Returns whether it is one of the process itself, which is written and done in any
            /// case.
            pub(super) fn is_of_process(self) -> bool {
                matches!(
                    self,
                    Self::Start | Self::End | Self::Reload | Self::ReloadFail | Self::ConfigChange
                )
            }

            /// The name of the event in the log.
            pub fn name(self) -> &'static str {
                match self { $(Self::$event => $name,)* }
            }
        }
    };
}

events! {
    /// The gateway starts: its version, its config and that file's hash.
    Start = "process.start",
    /// The gateway has ended well.
    End = "process.end",
    /// Users, routes and certificates have been read again.
    Reload = "reload",
    /// They could not be, or not all of them; the old ones stay.
    ReloadFail = "reload.fail",
    /// The file of the config is another one than before.
    ConfigChange = "config.change",
    /// A token was handed out for a password.
    Login = "auth.login",
    /// Unknown user or wrong password.
    LoginCredentials = "auth.login.fail.credentials",
    /// The user lacks what was asked for.
    LoginScope = "auth.login.fail.scope",
    /// Refused by the throttle, or because too many signed in at a time.
    LoginThrottled = "auth.login.fail.throttled",
    /// The form was none that is understood.
    LoginInvalid = "auth.login.fail.invalid",
    /// A sign-in or sign-out with a provider was not accepted.
    LoginProvider = "auth.login.fail.provider",
    /// The session could not be kept.
    LoginStore = "auth.login.fail.store",
    /// A failure made the throttle refuse what comes next.
    Lockout = "auth.lockout",
    /// So many failures of one user, from all addresses together, that addresses which the user has
    /// not signed in from have to wait.
    Guessing = "auth.guessing",
    /// The user of a session has given the password or a second factor again.
    StepUp = "auth.step_up",
    /// A user has registered a passkey.
    PasskeyRegister = "passkey.register",
    /// A user or an operator has removed passkeys.
    PasskeyRemove = "passkey.remove",
    /// The signature counter of a passkey has not grown: there may be a copy of the authenticator.
    PasskeyCounter = "passkey.counter",
    /// A token has been revoked by who showed it, or by another.
    Revoke = "auth.revoke",
    /// A token has not been revoked: another user's, an unknown one, or the disk failed.
    RevokeFail = "auth.revoke.fail",
    /// A service token has been made.
    TokenCreate = "token.create",
    /// A service token has been ended by an operator.
    TokenRevoke = "token.revoke",
    /// Sessions have been ended by an operator.
    SessionRevoke = "session.revoke",
    /// An operator has begun a freeze: no deployments until a time.
    Freeze = "freeze",
    /// An operator has ended it.
    Unfreeze = "unfreeze",
    /// A caller is refused: it lacks a permission, its authorization has lapsed, or its origin or
    /// host is not accepted.
    Denied = "permission.denied",
    /// An authorized write of the admin API that has no event of its own.
    Write = "admin.write",
    /// Such a write was refused by the runtime.
    WriteFail = "admin.write.fail",
    /// Such a write is about to be done, while it is not certain that the log can be written.
    WriteBegin = "admin.write.begin",
    /// An npm package was installed, or another version of it.
    PackageInstall = "package.install",
    /// An npm package was removed.
    PackageRemove = "package.remove",
    /// Node sets of npm packages were enabled or disabled.
    PackageSwitch = "package.switch",
    /// Such a change of the palette has failed, with the reason; everything is as it was before.
    PackageFail = "package.fail",
    /// Credentials have been read.
    SecretRead = "secret.read",
    /// Flows are about to be sent to the upstream.
    DeployBegin = "flows.deploy.begin",
    /// Flows are deployed.
    Deploy = "flows.deploy",
    /// Flows have not been deployed; if that was written down before, it has not happened.
    DeployFail = "flows.deploy.fail",
    /// A start has finished a deployment that a crash or a power failure interrupted.
    Finished = "flows.deploy.finished",
    /// A change that needs approval has become a proposal.
    Propose = "proposal.create",
    /// A user has approved another user's proposal, and it is deployed.
    ProposalApprove = "proposal.approve",
    /// A user has rejected a proposal.
    ProposalReject = "proposal.reject",
    /// A proposal is about to change another revision than before.
    ProposalRebase = "proposal.rebase",
    /// The user who made a proposal has taken it back.
    ProposalWithdraw = "proposal.withdraw",
    /// A proposal was open for too long.
    ProposalExpire = "proposal.expire",
    /// A proposal was not approved, rejected, rebased or taken back, with the reason.
    ProposalFail = "proposal.fail",
    /// The flows were changed outside the gateway.
    OutsideEdit = "flows.outside_edit",
    /// Flows that did not start were set aside, and those before them run.
    Fallback = "flows.fallback",
    /// Flows that did not start are loaded and not started.
    Safe = "flows.safe",
    /// The gateway is about to ask the upstream to start or stop all flows.
    StateBegin = "flows.state.begin",
    /// All flows are started or stopped.
    State = "flows.state",
    /// They could not be, after that was written down.
    StateFail = "flows.state.fail",
    /// An editor has signed in on its channel.
    CommsOpen = "comms.open",
    /// An editor's channel is closed.
    CommsClose = "comms.close",
    /// An editor was refused.
    CommsRefused = "comms.auth.fail",
    /// The log was continued in a new file; `removed` and what follows sum up all files that
    /// rotation has removed.
    Rotated = "audit.rotated",
    /// The gateway signs all lines that it has written since the checkpoint before.
    Checkpoint = "audit.checkpoint",
    /// A user has got the whole log, or its end.
    Export = "audit.export",
    /// The log has reached its size, and none of its files is old enough to be removed.
    Full = "audit.full",
    /// The log was not as it should be, and is continued here.
    Repaired = "audit.repaired",
}

/// Returns whether an event of this name is a refusal, a failure, or something that went wrong.
pub(super) fn is_failure(name: &str) -> bool {
    let others = [
        Event::Denied,
        Event::Lockout,
        Event::Guessing,
        Event::Fallback,
        Event::Safe,
        Event::Full,
        Event::Repaired,
    ];
    name.split('.').any(|part| part == "fail") || others.iter().any(|event| event.name() == name)
}
