//! Asks providers again and again whether their sessions still count, and for what: a user who is
//! removed from a group loses its permissions within the time between two questions.
//!
//! With a refresh token, else with the access token (user info). Few questions are under way at a
//! time, and not all sessions are asked about at once.

use super::error::OidcError;
use super::sessions::OidcSession;
use super::state::after;
use super::subject;
use crate::auth::Auth;
use crate::auth::federated::FederatedPermissions;
use crate::auth::jwt::verify::Claims;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Questions at a time. Our choice: a provider answers some hundred in a second so.
pub(super) const AT_A_TIME: usize = 8;

/// Seconds for which a gateway claims to ask about a session. Our choice: longer than the time
/// limits of all its questions.
const CLAIM: u64 = 60;

/// Seconds until a gateway looks again whether the one that asks has an answer. Our choice.
const LOOK_AGAIN: u64 = 5;

impl Auth {
    /// Asks about the sessions whose time has come, and ends those that no longer count. To be
    /// called every second.
    pub async fn refresh_oidc(&self, now: u64) {
        let mut questions = JoinSet::new();
        for session in self.due_oidc(now) {
            let place = Arc::clone(&self.0.oidc.asking).acquire_owned().await;
            let auth = self.clone();
            questions.spawn(async move {
                let _place = place;
                auth.refresh_one(&session, now).await;
            });
        }
        questions.join_all().await;
    }

    /// Waits for the answers that are under way, and asks no more: a token in them may be the only
    /// one that still counts.
    pub async fn finish_asking(&self) {
        let places = u32::try_from(AT_A_TIME).unwrap_or(u32::MAX);
        if let Ok(all) = self.0.oidc.asking.acquire_many(places).await {
            all.forget();
        }
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
        let next = after(now, config.refresh);
        let asked = match self.has_turn(session, now).await {
            Ok(true) => self.ask_again(session, now).await,
            Ok(false) => return,
            Err(error) => Err(error),
        };
        let why = match asked {
            Ok((claims, permissions)) => {
                session.lock().confirm(claims, now, next);
                self.permit(session, permissions);
                return self.keep(session).await;
            }
            Err(OidcError::Unreachable(why)) => {
                if now < session.lock().put_off(next, config.max_stale) {
                    return self.keep(session).await;
                }
                OidcError::Unreachable(why)
            }
            Err(other) => other,
        };
        tracing::info!(provider = config.name, %why, "a session of a provider ends");
        self.end_for_all(session).await;
    }

    /// Whether this gateway is to ask; of several that know the session, one does. It has the
    /// newest tokens then. An error: the session has not been confirmed for too long, or counts no
    /// more.
    async fn has_turn(&self, session: &OidcSession, now: u64) -> Result<bool, OidcError> {
        if self.0.store.grace().is_none() {
            return Ok(true);
        }
        let until = now.saturating_add(CLAIM);
        let claimed = self.0.store.claim_provider(session.key, until, now).await;
        if let Ok(Some(sealed)) = claimed {
            if !self.renew_oidc(session, &sealed) {
                return Err(OidcError::NoGrant);
            }
            session.lock().asked += 1;
            return Ok(true);
        }
        // Another gateway asks, or the store takes no claim: for as long as a provider may be away,
        // and a claim more.
        let longest = session.provider.config.max_stale + Duration::from_secs(CLAIM);
        let ends = session
            .lock()
            .put_off(now.saturating_add(LOOK_AGAIN), longest);
        if now < ends {
            return Ok(false);
        }
        Err(OidcError::Unreachable("no gateway could ask it".to_owned()))
    }

    /// Keeps what the provider has said, for a restart and for other gateways.
    async fn keep(&self, session: &OidcSession) {
        let Some(sealed) = self.sealed_oidc(session) else {
            return;
        };
        let next = session.lock().next;
        let kept = self.0.store.save_provider(session.key, sealed, next);
        if let Err(error) = kept.await {
            tracing::warn!(%error, "what a provider says of a session could not be kept");
        }
    }

    async fn end_for_all(&self, session: &OidcSession) {
        self.0.registry.sessions().end_one(&session.key);
        if let Err(error) = self.forget([session.key]).await {
            tracing::warn!(%error, "a session of a provider could not be forgotten yet");
        }
    }

    /// What the provider says now.
    async fn ask_again(
        &self,
        session: &OidcSession,
        now: u64,
    ) -> Result<(Claims, FederatedPermissions), OidcError> {
        let provider = &session.provider;
        let send = self.send_to_provider()?;
        let metadata = provider.metadata(send, now).await?;
        let (refresh, mut access) = {
            let state = session.lock();
            (state.tokens.refresh.clone(), state.tokens.access.clone())
        };
        let mut claims = Claims::new();
        if let Some(refresh) = refresh {
            let form = [
                ("grant_type", "refresh_token"),
                ("refresh_token", refresh.reveal()),
            ];
            let tokens = provider.tokens(send, &metadata, &form, now).await?;
            access = tokens.access.clone();
            if let Some(token) = &tokens.id {
                let verified = provider.verify(send, &metadata, token.reveal(), &["jwt"], now);
                claims = verified.await?.claims;
                if subject(&claims)? != session.subject {
                    return Err(OidcError::Invalid("its ID token is of another user"));
                }
            }
            session.lock().keep(tokens);
        }
        if let Some(url) = &metadata.user_info {
            let info = provider.user_info(send, url, &access, now).await?;
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
        let permissions = FederatedPermissions::of(&provider.config.grants, &claims);
        Ok((claims, permissions.ok_or(OidcError::NoGrant)?))
    }

    /// Gives a session these permissions from now on; what is open for it is checked again.
    pub(super) fn permit(&self, session: &OidcSession, permissions: FederatedPermissions) {
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
