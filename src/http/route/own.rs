//! The requests that the gateway answers itself, for every runtime alike.

use super::ProposalAction;
use super::sessions::{
    AccountAction, AuditAction, PageAction, PasskeyAction, ProviderAction, SessionAction,
    StepUpAction,
};

/// A request about the gateway and its users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Own {
    /// `/gateway/proposals…`
    Proposals(ProposalAction),
    /// `/gateway/users`, `/gateway/tokens…`
    Accounts(AccountAction),
    /// `/gateway/sessions…`
    Sessions(SessionAction),
    /// `/gateway/passkeys…`
    Passkeys(PasskeyAction),
    /// `/gateway/step-up…`
    StepUp(StepUpAction),
    /// `/gateway/sign-in`, `/gateway/sign-out`
    SignInPage(PageAction),
    /// `/gateway/sign-in/:provider` and below
    Provider(ProviderAction),
    /// `GET /gateway/`
    ConsolePage,
    /// `GET /gateway/console/:version/:name`
    ConsoleFile,
    /// `GET /gateway/now`
    Now,
    /// `/gateway/audit…`
    AuditLog(AuditAction),
    /// `GET /gateway/settings`
    GatewaySettings,
    /// `GET /gateway/verify`
    Verify,
    /// `GET /gateway/jwks.json`
    Jwks,
}
