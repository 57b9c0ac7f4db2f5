//! Asks providers again and again whether their sessions still count, and for what: a user who is removed from a group loses
//! its permissions within the time between two questions.
//!
//! With a refresh token, else with the access token (user info). Few questions are under way at a time, and not all sessions
//! are asked about at once.

use super::error::OidcError;
use super::provider::Tokens;
use super::{OidcSession, subject};
use crate::auth::Auth;
use crate::auth::federated::FederatedPermissions;
use crate::auth::jwt::verify::Claims;
use crate::config;
use crypto::{Secret, random};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// Questions at a time. Our choice: a provider answers some hundred in a second so.
const AT_A_TIME: usize = 8;

/// What is needed to ask about a session.
pub(super) struct State {
    access_token: Secret,
    refresh_token: Option<Secret>,
    /// For the sign-out at the provider.
    pub(super) id_token: Option<Secret>,
    /// When the provider stood by the session last, seconds since 1970.
    confirmed: u64,
    /// When to ask next.
    next: u64,
}

impl State {
    pub(super) fn new(tokens: Tokens, config: &config::Oidc, now: u64) -> Self {
        Self {
            access_token: tokens.access,
            refresh_token: tokens.refresh,
            id_token: tokens.id,
            confirmed: now,
            next: after(now, config.refresh),
        }
    }
}

/// Somewhere in the last quarter of a period: sessions that began together are not asked about together.
fn after(now: u64, period: Duration) -> u64 {
    let period = period.as_secs().max(1);
    let early = u64::from(random::<1>()[0]) * (period / 4) / 256;
    now.saturating_add(period - early)
}

impl Auth {
    /// Asks about the sessions whose time has come, and ends those that no longer count. To be called every second.
    pub async fn refresh_oidc(&self, now: u64) {
        let due = self.due_oidc(now);
        let mut questions = JoinSet::new();
        for session in due {
            if questions.len() >= AT_A_TIME {
                questions.join_next().await;
            }
            let auth = self.clone();
            questions.spawn(async move { auth.refresh_one(&session, now).await });
        }
        questions.join_all().await;
    }

    /// The sessions to ask about. Those that have ended are forgotten.
    fn due_oidc(&self, now: u64) -> Vec<Arc<OidcSession>> {
        let registry = self.0.registry.sessions();
        let mut sessions = self.0.oidc.sessions();
        sessions.retain(|key, _| registry.find(key).is_some());
        let due = |session: &&Arc<OidcSession>| session.lock().next <= now;
        sessions.values().filter(due).cloned().collect()
    }

    async fn refresh_one(&self, session: &OidcSession, now: u64) {
        let config = &session.provider.config;
        let why = match self.ask_again(session, now).await {
            Ok(permissions) => {
                let mut state = session.lock();
                state.confirmed = now;
                state.next = after(now, config.refresh);
                drop(state);
                return self.permit(session, permissions);
            }
            Err(OidcError::Unreachable(why)) => {
                let mut state = session.lock();
                state.next = after(now, config.refresh);
                let ends = state.confirmed.saturating_add(config.max_stale.as_secs());
                if now < ends {
                    return;
                }
                OidcError::Unreachable(why)
            }
            Err(other) => other,
        };
        tracing::info!(provider = config.name, %why, "a session of a provider ends");
        self.0.registry.sessions().end_one(&session.key);
    }

    /// What the provider says now.
    async fn ask_again(
        &self,
        session: &OidcSession,
        now: u64,
    ) -> Result<FederatedPermissions, OidcError> {
        let provider = &session.provider;
        let send = self.send_to_provider()?;
        let metadata = provider.metadata(send, now).await?;
        let (refresh, mut access) = {
            let state = session.lock();
            (state.refresh_token.clone(), state.access_token.clone())
        };
        let mut claims = Claims::new();
        if let Some(refresh) = refresh {
            let form = [
                ("grant_type", "refresh_token"),
                ("refresh_token", refresh.reveal()),
            ];
            let tokens = provider.tokens((send, &metadata), &form, now).await?;
            access = tokens.access.clone();
            if let Some(token) = &tokens.id {
                let token = (token.reveal(), &["jwt"][..]);
                claims = provider.verify((send, &metadata), token, now).await?.claims;
                if subject(&claims)? != session.subject {
                    return Err(OidcError::Invalid("its ID token is of another user"));
                }
            }
            session.keep(tokens);
        }
        if let Some(url) = &metadata.user_info {
            let info = provider.user_info((send, url), &access, now).await?;
            if subject(&info)? != session.subject {
                return Err(OidcError::Invalid("its user info is of another user"));
            }
            claims.extend(info);
        }
        if claims.is_empty() {
            return Err(OidcError::Invalid(
                "it has neither refresh tokens with ID tokens nor user info",
            ));
        }
        FederatedPermissions::of(&provider.config.grants, &claims).ok_or(OidcError::NoGrant)
    }

    /// Gives a session these permissions from now on; what is open for it is checked again.
    fn permit(&self, session: &OidcSession, permissions: FederatedPermissions) {
        let Some(found) = self.0.registry.sessions().find(&session.key) else {
            return;
        };
        let Some(federated) = &found.federated else {
            return;
        };
        if federated.set_permissions(permissions) {
            self.changed();
        }
    }
}

impl OidcSession {
    fn keep(&self, tokens: Tokens) {
        let mut state = self.lock();
        state.access_token = tokens.access;
        // Some providers give another one each time, others none.
        if tokens.refresh.is_some() {
            state.refresh_token = tokens.refresh;
        }
        if tokens.id.is_some() {
            state.id_token = tokens.id;
        }
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
