//! The sessions of providers: begun here, or taken over from the store, where another gateway has
//! begun them, or this one before a restart.
//!
//! The store has the provider's part of a session sealed, with its tokens, so any gateway can ask
//! the provider about it, and any can end it. Without a secret to seal it with it is in memory
//! only.

use super::error::OidcError;
use super::provider::{Provider, Tokens};
use super::state::State;
use super::{OidcClient, OidcUser};
use crate::auth::federated::{Federated, FederatedPermissions};
use crate::auth::jwt::verify::Claims;
use crate::auth::session::{Key, Session, new_token};
use crate::auth::{Auth, Issued};
use crate::config;
use crate::store::{self, SessionRow};
use crypto::{Secret, sha256};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// What a session at a provider is, and what is needed to ask about it.
pub(super) struct OidcSession {
    pub(super) key: Key,
    pub(super) provider: Arc<Provider>,
    pub(super) subject: String,
    /// The session at the provider.
    pub(super) session: Option<String>,
    /// The thumbprint of the key that signed the ID token.
    signed_by: [u8; 32],
    state: Mutex<State>,
}

/// The same as the store has it.
#[derive(Serialize, Deserialize)]
struct StoredPart<'a> {
    provider: Cow<'a, str>,
    /// [`identity`] of the provider.
    identity: [u8; 32],
    subject: Cow<'a, str>,
    session: Option<Cow<'a, str>>,
    signed_by: [u8; 32],
    claims: Cow<'a, Claims>,
    access_token: Cow<'a, str>,
    refresh_token: Option<Cow<'a, str>>,
    id_token: Option<Cow<'a, str>>,
    confirmed: u64,
    next: u64,
    asked: u64,
}

impl OidcSession {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl StoredPart<'_> {
    fn state(self) -> State {
        let secret = |text: Cow<'_, str>| Secret::new(text.into_owned());
        State {
            claims: self.claims.into_owned(),
            tokens: Tokens {
                access: secret(self.access_token),
                refresh: self.refresh_token.map(secret),
                id: self.id_token.map(secret),
            },
            confirmed: self.confirmed,
            next: self.next,
            asked: self.asked,
        }
    }
}

impl Auth {
    /// Begins the session of a user, durable first if it can be sealed.
    pub async fn admit_oidc(
        &self,
        user: OidcUser,
        client: OidcClient,
        now: u64,
    ) -> Result<Issued, OidcError> {
        let OidcUser { provider, .. } = &user;
        let config = provider.config.clone();
        let networks = config.networks.as_ref();
        if networks.is_some_and(|networks| !networks.contains(client.address)) {
            return Err(OidcError::Network);
        }
        let lifetime = self.0.registry.users().lifetime;
        let token = new_token();
        let key = sha256(token.reveal().as_bytes());
        let permissions = user.permissions.clone();
        let factor = user.factor.unwrap_or(0);
        let mut row = SessionRow {
            token: key,
            user: user.user.to_string(),
            client: client.client,
            agent: client.agent,
            created: now,
            expires: now.saturating_add(lifetime.as_secs()),
            confirmed: factor,
            factor,
            ..SessionRow::default()
        };
        let known = Arc::new(OidcSession {
            key,
            subject: user.subject,
            session: user.session,
            signed_by: user.key,
            state: Mutex::new(State::new(user.tokens, user.claims, &config, now)),
            provider: user.provider,
        });
        row.provider = self.sealed_oidc(&known);
        if row.provider.is_some() {
            self.0.store.save_session(row.clone()).await?;
        }
        let admit = |session| self.0.registry.admit(session);
        let ended = self.begin_oidc_session(&known, &row, permissions, now, admit);
        // A reload since the sign-in began has not seen the session.
        let Some(ended) = ended.filter(|_| self.0.oidc.has(&known.provider)) else {
            self.0.registry.sessions().end_one(&key);
            self.forget([key]).await?;
            return Err(OidcError::NoProvider);
        };
        let count = self.end_surplus(&row.user, ended).await;
        Ok(Issued {
            token,
            expires_in: lifetime,
            ended: count,
            key,
        })
    }

    /// Makes a session known: `begin` adds it to the others.
    fn begin_oidc_session<T>(
        &self,
        known: &Arc<OidcSession>,
        row: &SessionRow,
        permissions: FederatedPermissions,
        now: u64,
        begin: impl FnOnce(Session) -> T,
    ) -> T {
        let config = &known.provider.config;
        let federated = Federated::new(&config.name, known.signed_by, permissions);
        let networks = config.networks.as_deref();
        let session = Session::new(row, now).federated(federated, networks, config.rate_limit);
        // Held meanwhile: what has no session is forgotten. Another request may have been faster.
        let mut all = self.0.oidc.sessions();
        all.entry(row.token).or_insert_with(|| Arc::clone(known));
        begin(session)
    }

    /// Begins a session that another gateway has begun, or takes over what the provider has said
    /// there since. False: nothing here vouches for it.
    pub(in crate::auth) fn take_over_oidc(&self, row: &SessionRow, sealed: &str, now: u64) -> bool {
        let known = self.0.oidc.sessions().get(&row.token).cloned();
        if let Some(known) = known {
            return self.renew_oidc(&known, sealed);
        }
        let Some((provider, stored)) = self.opened_oidc(&row.token, sealed) else {
            return false;
        };
        let permissions = FederatedPermissions::of(&provider.config.grants, &stored.claims);
        let Some(permissions) = permissions else {
            return false;
        };
        let known = Arc::new(OidcSession {
            key: row.token,
            provider,
            subject: stored.subject.to_string(),
            session: stored.session.as_deref().map(str::to_owned),
            signed_by: stored.signed_by,
            state: Mutex::new(stored.state()),
        });
        let restore = |session| self.0.registry.restore(session);
        self.begin_oidc_session(&known, row, permissions, now, restore);
        // A reload may not have seen it.
        self.0.oidc.has(&known.provider)
    }

    /// Takes over what the provider has said to another gateway. False: the session counts no more.
    pub(super) fn renew_oidc(&self, session: &OidcSession, sealed: &str) -> bool {
        let Some((_, stored)) = self.opened_oidc(&session.key, sealed) else {
            return false;
        };
        let grants = &session.provider.config.grants;
        let Some(permissions) = FederatedPermissions::of(grants, &stored.claims) else {
            return false;
        };
        let mut state = session.lock();
        // What is under way here is newer than what is kept.
        if stored.asked > state.asked {
            *state = stored.state();
            drop(state);
            self.permit(session, permissions);
        }
        true
    }

    fn opened_oidc(&self, key: &Key, sealed: &str) -> Option<(Arc<Provider>, StoredPart<'static>)> {
        let stored: StoredPart<'_> = self.0.oidc.seal.open(&purpose(key), sealed)?;
        let provider = self.0.oidc.find(&stored.provider)?;
        let is_same = identity(&provider.config) == stored.identity;
        is_same.then_some((provider, stored))
    }

    /// The provider's part of a session, as the store keeps it; `None`: there is no secret, or the
    /// library refuses.
    pub(super) fn sealed_oidc(&self, session: &OidcSession) -> Option<String> {
        // The seal's own key is gone with the process.
        self.0.store.secret()?;
        let config = &session.provider.config;
        let state = session.lock();
        let stored = StoredPart {
            provider: Cow::Borrowed(&config.name),
            identity: identity(config),
            subject: Cow::Borrowed(&session.subject),
            session: session.session.as_deref().map(Cow::Borrowed),
            signed_by: session.signed_by,
            claims: Cow::Borrowed(&state.claims),
            access_token: borrowed(&state.tokens.access),
            refresh_token: state.tokens.refresh.as_ref().map(borrowed),
            id_token: state.tokens.id.as_ref().map(borrowed),
            confirmed: state.confirmed,
            next: state.next,
            asked: state.asked,
        };
        self.0.oidc.seal.seal(&purpose(&session.key), &stored)
    }

    /// Knows all sessions that other gateways have begun.
    pub(super) async fn know_all_oidc(&self, now: u64) -> Result<(), store::Error> {
        if self.0.store.grace().is_some() {
            for row in self.0.store.sessions().await? {
                if row.provider.is_some() {
                    self.begin_elsewhere(&row, now);
                }
            }
        }
        Ok(())
    }

    /// Takes over the providers of a configuration read again; the sessions of those that are gone
    /// or changed end. Gives their keys.
    pub(in crate::auth) fn reload_oidc(&self, read: &[config::Oidc]) -> Vec<Key> {
        let before = self.0.oidc.all.load_full();
        let all = read.iter().map(|config| {
            let same = before.iter().find(|provider| provider.config == *config);
            same.map_or_else(|| Arc::new(Provider::new(config)), Arc::clone)
        });
        self.0.oidc.all.store(Arc::new(all.collect()));
        let known = self.0.oidc.sessions();
        let gone = known
            .values()
            .filter(|known| !self.0.oidc.has(&known.provider));
        let gone: Vec<Key> = gone.map(|known| known.key).collect();
        drop(known);
        let sessions = self.0.registry.sessions();
        gone.into_iter()
            .filter(|key| sessions.end_one(key))
            .collect()
    }
}

fn borrowed(secret: &Secret) -> Cow<'_, str> {
    Cow::Borrowed(secret.reveal())
}

/// What a session is sealed for.
fn purpose(key: &Key) -> Vec<u8> {
    [b"session ", &key[..]].concat()
}

/// What must not change of a provider while its sessions last: who it is, and what it calls its
/// users.
fn identity(config: &config::Oidc) -> [u8; 32] {
    let parts = (&config.issuer, &config.client_id, &config.user_claim);
    sha256(format!("{parts:?}").as_bytes())
}
