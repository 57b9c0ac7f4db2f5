//! What is known of a session at its provider, and when to ask again.

use super::provider::Tokens;
use crate::auth::jwt::verify::Claims;
use crate::config;
use crypto::random;
use std::time::Duration;

/// What is needed to ask about a session.
pub(super) struct State {
    /// What the provider said last.
    pub(super) claims: Claims,
    /// The tokens. That of the user is for the sign-out at the provider.
    pub(super) tokens: Tokens,
    /// When the provider stood by the session last, seconds since 1970.
    pub(super) confirmed: u64,
    /// When to ask next.
    pub(super) next: u64,
    /// How often it was asked about at any gateway: a higher number is newer.
    pub(super) asked: u64,
}

impl State {
    pub(super) fn new(tokens: Tokens, claims: Claims, config: &config::Oidc, now: u64) -> Self {
        Self {
            claims,
            tokens,
            confirmed: now,
            next: after(now, config.refresh),
            asked: 0,
        }
    }

    /// The provider stands by the session, with these claims.
    pub(super) fn confirm(&mut self, claims: Claims, now: u64, next: u64) {
        self.claims = claims;
        self.confirmed = now;
        self.next = next;
    }

    /// The provider cannot be reached; gives when the session ends if that stays so.
    pub(super) fn put_off(&mut self, next: u64, max_stale: Duration) -> u64 {
        self.next = next;
        self.confirmed.saturating_add(max_stale.as_secs())
    }

    pub(super) fn keep(&mut self, tokens: Tokens) {
        self.tokens.access = tokens.access;
        // Some providers give another one each time, others none.
        if tokens.refresh.is_some() {
            self.tokens.refresh = tokens.refresh;
        }
        if tokens.id.is_some() {
            self.tokens.id = tokens.id;
        }
    }
}

/// Somewhere in the last quarter of a period: sessions that began together are not asked about
/// together.
pub(super) fn after(now: u64, period: Duration) -> u64 {
    let period = period.as_secs().max(1);
    let early = u64::from(random::<1>()[0]) * (period / 4) / 256;
    now.saturating_add(period - early)
}
