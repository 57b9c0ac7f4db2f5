//! What a sign-in with a provider needs when the browser comes back: sealed in a cookie of that
//! browser, so that sign-ins that no user finishes take no memory, and so that no other browser can
//! finish it.

use serde::{Deserialize, Serialize};

/// What it is sealed for.
pub(super) const PURPOSE: &[u8] = b"sign-in with a provider";

/// Seconds in which a user must sign in at the provider. Our choice: time for a second factor
/// there.
pub(super) const LIFETIME: u64 = 600;

/// The program in the browser that a sign-in is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignInApp {
    /// Pages behind a sign-in: the session is a cookie.
    #[default]
    Pages,
    /// The stock editor: it gets a token.
    Editor,
    /// The console: it gets a token.
    Console,
}

/// A sign-in under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingSignIn {
    /// The provider's name.
    pub provider: String,
    /// `state`.
    pub state: String,
    /// `nonce` of the ID token.
    pub nonce: String,
    /// The verifier of PKCE (RFC 7636).
    pub verifier: String,
    /// The redirect URI sent to the provider.
    pub redirect_uri: String,
    /// Where the sign-in leads; empty: to no page.
    pub back: String,
    /// The program that signs in.
    pub app: SignInApp,
    /// When it began, seconds since 1970.
    pub begun: u64,
}

impl PendingSignIn {
    /// Returns whether it can be finished at this time.
    pub(super) fn lasts(&self, now: u64) -> bool {
        now < self.begun.saturating_add(LIFETIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_is_finished_within_its_time() {
        let pending = PendingSignIn {
            begun: 100,
            ..PendingSignIn::default()
        };
        assert!(pending.lasts(699));
        assert!(!pending.lasts(700));
    }
}
