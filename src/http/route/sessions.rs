//! The requests about sessions, accounts, passkeys, the sign-in page and the audit log, named for
//! the table of endpoints.

/// A request about sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum SessionAction {
    /// `GET /gateway/sessions`
    List,
    /// `DELETE /gateway/sessions/:id`
    End,
    /// `DELETE /gateway/sessions?user=…`, `?all=true`
    EndSeveral,
}

/// A request about users and service tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum AccountAction {
    /// `GET /gateway/users`
    Users,
    /// `GET /gateway/tokens`
    Tokens,
    /// `POST /gateway/tokens`
    CreateToken,
    /// `DELETE /gateway/tokens/:name`
    RevokeToken,
}

/// A request of the sign-in page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum PageAction {
    /// `GET /gateway/sign-in`
    Show,
    /// `POST /gateway/sign-in`
    SignIn,
    /// `POST /gateway/sign-out`
    SignOut,
}

/// A request about passkeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum PasskeyAction {
    /// `GET /gateway/passkeys`
    List,
    /// `POST /gateway/passkeys`
    Register,
    /// `GET /gateway/passkeys/options`
    RegistrationOptions,
    /// `GET /gateway/passkeys/sign-in`
    SignInOptions,
    /// `POST /gateway/passkeys/sign-in`
    SignIn,
    /// `GET /gateway/passkeys/sign-in.js`
    Script,
    /// `DELETE /gateway/passkeys/:id`
    Remove,
}

/// A password or a second factor that the user of a session gives again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum StepUpAction {
    /// `POST /gateway/step-up`
    Password,
    /// `GET /gateway/step-up/passkey`
    PasskeyOptions,
    /// `POST /gateway/step-up/passkey`
    Passkey,
}

/// A request of a sign-in with a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum ProviderAction {
    /// `GET /gateway/sign-in/:provider`
    Begin,
    /// `GET /gateway/sign-in/:provider/callback`
    Callback,
    /// `POST /gateway/sign-in/:provider/back-channel-logout`
    BackChannelLogout,
    /// `GET /gateway/sign-in/:provider/front-channel-logout`
    FrontChannelLogout,
}

/// A request about the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum AuditAction {
    /// `GET /gateway/audit`
    Page,
    /// `GET /gateway/audit/verify`
    Verify,
    /// `GET /gateway/audit/export`
    Export,
}
