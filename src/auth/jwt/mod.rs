//! JWTs of machines as bearer tokens: verified once, and then a session in memory under the token's
//! hash, like the session of any other token, until the token expires, its key is withdrawn, or it
//! is revoked.
//!
//! So a request with a JWT costs what one with a token costs. [`verify`] has the rules, [`keys`]
//! and [`key_cache`] the keys.

pub(super) mod key_cache;
pub(super) mod keys;
pub(super) mod verify;

pub use verify::InvalidJwt;

use super::federated::{Federated, FederatedPermissions};
use super::provider_client::{ProviderRequest, SendToProvider};
use super::session::{JWT, Key, REVOKED_JWT, Session};
use super::{Auth, TOKEN_LENGTH};
use crate::config::{self, Claim, KeySource};
use crate::store::{self, SessionRow};
use arc_swap::ArcSwap;
use crypto::sha256;
use key_cache::KeyCache;
use keys::KeySet;
use parking_lot::{Mutex, MutexGuard};
use smol_str::SmolStr;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use verify::{Claims, Rules, Verified};

/// Returns whether a bearer token can be a JWT that is known.
pub(super) fn is_possible(token: &str) -> bool {
    token.len() <= verify::MAX_LENGTH && verify::has_form(token)
}

/// The prefix of the names of callers with a JWT; no user's name has it.
pub(super) const PREFIX: &str = "jwt:";

/// Verified tokens remembered. Our choice: about 10 MiB; beyond it the one that expires first is
/// verified again.
const MAX_SESSIONS: usize = 10_000;

/// Characters of a caller's name that come from the token. Our choice: room for the longest
/// subjects of CI systems.
const MAX_USER: usize = 300;

/// The issuers, and the tokens that are known.
#[derive(Default)]
pub(super) struct Issuers {
    all: ArcSwap<Vec<Arc<Issuer>>>,
    /// Sessions by expiry, those too that have ended before.
    admitted: Mutex<BTreeSet<(u64, Key)>>,
    /// Tokens that were revoked, and when they expire.
    revoked: Mutex<HashMap<Key, u64>>,
}

/// One issuer.
pub(super) struct Issuer {
    config: config::Jwt,
    keys: KeyCache,
}

/// A verified token that has no session yet.
pub struct VerifiedJwt {
    key: Key,
    issuer: Arc<Issuer>,
    verified: Verified,
    permissions: FederatedPermissions,
    user: SmolStr,
}

impl VerifiedJwt {
    /// The caller's name: `jwt:`, the issuer's name in the configuration, and the claim that names
    /// the caller.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The issuer's name in the configuration.
    pub fn provider(&self) -> &str {
        &self.issuer.config.name
    }
}

impl Auth {
    /// Returns whether a bearer token may be a JWT that is not known yet. Takes one map shard, and
    /// nothing for other tokens.
    pub fn is_new_jwt(&self, token: &str) -> bool {
        token.len() != TOKEN_LENGTH
            && !self.0.jwt.all.load().is_empty()
            && verify::has_form(token)
            && self
                .0
                .registry
                .sessions()
                .find(&sha256(token.as_bytes()))
                .is_none()
    }

    /// Returns whether a text is a JWT for this gateway, by its issuer and audience. Says nothing
    /// about who calls.
    pub fn is_own_jwt(&self, text: &[u8]) -> bool {
        let issuers = self.0.jwt.all.load();
        if issuers.is_empty() {
            return false;
        }
        let text = std::str::from_utf8(text).ok();
        let read = text.filter(|text| verify::has_form(text)).map(verify::read);
        read.is_some_and(|read| read.is_ok_and(|read| of(&issuers, &read.claims).is_some()))
    }

    /// Verifies a token by the keys that are known, at a time in seconds since 1970.
    pub fn verify_jwt(&self, token: &str, now: u64) -> Result<VerifiedJwt, InvalidJwt> {
        let read = verify::read(token)?;
        let issuers = self.0.jwt.all.load();
        let issuer = of(&issuers, &read.claims).ok_or(InvalidJwt::Issuer)?;
        let keys = issuer.keys_at(now).ok_or(InvalidJwt::NoKeys)?;
        let verified = read.verify(token, &Rules::of(&issuer.config), &keys, now)?;
        let key = sha256(token.as_bytes());
        if self.0.jwt.revoked().contains_key(&key) {
            return Err(InvalidJwt::Revoked);
        }
        let config = &issuer.config;
        let permissions = FederatedPermissions::of(&config.grants, &verified.claims);
        Ok(VerifiedJwt {
            key,
            user: user(config, &verified.claims)?,
            permissions: permissions.ok_or(InvalidJwt::NoGrant)?,
            issuer: Arc::clone(issuer),
            verified,
        })
    }

    /// Fetches the keys of a token's issuer again, if that has not been done too often. In a task
    /// of its own: a client that leaves does not stop it.
    pub async fn fetch_jwt_keys(&self, token: &str, now: u64) {
        let Ok(read) = verify::read(token) else {
            return;
        };
        let issuer = of(&self.0.jwt.all.load(), &read.claims).cloned();
        if let Some(issuer) = issuer {
            let auth = self.clone();
            let fetch = tokio::spawn(async move { auth.fetch_keys(&issuer, now).await });
            let _ = fetch.await;
        }
    }

    /// Begins the session of a verified token.
    pub fn admit_jwt(&self, jwt: VerifiedJwt, agent: String, now: u64) {
        let VerifiedJwt { key, issuer, .. } = &jwt;
        let (key, issuer) = (*key, Arc::clone(issuer));
        let sessions = self.0.registry.sessions();
        // Held until the session is there: another request with the token must not replace it.
        let mut admitted = self.0.jwt.admitted();
        if sessions.find(&key).is_some() {
            return;
        }
        while let Some((expires, oldest)) = admitted.first().copied()
            && (expires <= now || admitted.len() >= MAX_SESSIONS)
        {
            admitted.remove(&(expires, oldest));
            sessions.end_one(&oldest);
        }
        let signed_by = jwt.verified.key;
        let session = session(jwt, agent, now);
        admitted.insert((session.expires, key));
        self.0.registry.admit(session);
        // A reload, a fetch of keys or a revocation since the token was verified has not seen the
        // session.
        let is_configured = self
            .0
            .jwt
            .all
            .load()
            .iter()
            .any(|known| Arc::ptr_eq(known, &issuer));
        let is_signed = issuer.keys_at(now).is_some_and(|keys| keys.has(&signed_by));
        if !is_configured || !is_signed || self.0.jwt.revoked().contains_key(&key) {
            sessions.end_one(&key);
        }
    }

    /// Fetches keys whose time has come, and ends the sessions of issuers that were not reached for
    /// too long. To be called every few seconds.
    pub async fn refresh_jwt_keys(&self, now: u64) {
        let issuers = self.0.jwt.all.load_full();
        for issuer in issuers.iter().filter(|issuer| issuer.keys.is_due(now)) {
            self.fetch_keys(issuer, now).await;
            if issuer.keys_at(now).is_none() {
                self.end_jwt_sessions(issuer, |_| true);
            }
        }
    }

    async fn fetch_keys(&self, issuer: &Issuer, now: u64) {
        let KeySource::Url { url, ca_file, .. } = &issuer.config.keys else {
            return;
        };
        let Some(send) = self.0.send_to_provider.get() else {
            return;
        };
        let request = ProviderRequest::get(url, ca_file.as_ref());
        let send: SendToProvider = *send;
        if issuer.keys.fetch(send, request, now).await
            && let Some(keys) = issuer.keys_at(now)
        {
            self.end_jwt_sessions(issuer, |federated| !keys.has(&federated.key));
        }
    }

    /// Ends sessions of an issuer.
    fn end_jwt_sessions(&self, issuer: &Issuer, gone: impl Fn(&Federated) -> bool) {
        let name = &issuer.config.name;
        self.0.registry.sessions().end(|session| {
            let federated = session.federated.as_ref().filter(|_| session.is_jwt());
            federated.is_some_and(|federated| federated.provider == *name && gone(federated))
        });
    }

    /// Takes over the issuers of a configuration read again; the sessions of those that are gone or
    /// changed end.
    pub(super) fn reload_jwt(&self, read: &[config::Jwt]) {
        let before = self.0.jwt.all.load_full();
        let all = read.iter().map(|config| {
            let same = before.iter().find(|issuer| issuer.config == *config);
            same.map_or_else(|| Arc::new(Issuer::new(config)), Arc::clone)
        });
        let all: Vec<_> = all.collect();
        self.0.jwt.all.store(Arc::new(all.clone()));
        for issuer in before.iter() {
            if !all.iter().any(|kept| Arc::ptr_eq(kept, issuer)) {
                self.end_jwt_sessions(issuer, |_| true);
            }
        }
    }

    /// Ends the session of a JWT, and keeps the token from beginning another one, after a restart
    /// too.
    pub(super) async fn revoke_jwt(&self, session: &Session) -> Result<(), store::Error> {
        self.0.jwt.revoked().insert(session.key, session.expires);
        self.0.registry.sessions().end_one(&session.key);
        self.0.store.save_session(tombstone(session)).await
    }

    /// Forgets revocations of tokens that have expired, and gives their keys.
    pub(super) fn sweep_jwt(&self, now: u64) -> Vec<Key> {
        let mut revoked = self.0.jwt.revoked();
        let expired = revoked.extract_if(|_, expires| *expires <= now);
        expired.map(|(key, _)| key).collect()
    }
}

impl Issuers {
    /// Those of a configuration, and the revoked tokens of the store.
    pub(super) fn new(config: &[config::Jwt], revoked: HashMap<Key, u64>) -> Self {
        let all = config.iter().map(|issuer| Arc::new(Issuer::new(issuer)));
        Self {
            all: ArcSwap::from_pointee(all.collect()),
            admitted: Mutex::default(),
            revoked: Mutex::new(revoked),
        }
    }

    fn admitted(&self) -> MutexGuard<'_, BTreeSet<(u64, Key)>> {
        self.admitted.lock()
    }

    pub(super) fn revoked(&self) -> MutexGuard<'_, HashMap<Key, u64>> {
        self.revoked.lock()
    }
}

impl Issuer {
    fn new(config: &config::Jwt) -> Self {
        let keys = match &config.keys {
            KeySource::Url { .. } => KeyCache::new(),
            KeySource::File(set) => KeyCache::fixed(KeySet::of(set)),
        };
        Self {
            config: config.clone(),
            keys,
        }
    }

    fn keys_at(&self, now: u64) -> Option<Arc<KeySet>> {
        let max_stale = match &self.config.keys {
            KeySource::Url { max_stale, .. } => *max_stale,
            KeySource::File(_) => Duration::ZERO,
        };
        self.keys.keys(max_stale, now)
    }
}

/// The issuer of a token: several tables may have one issuer, each with an audience of its own.
fn of<'i>(issuers: &'i [Arc<Issuer>], claims: &Claims) -> Option<&'i Arc<Issuer>> {
    issuers.iter().find(|issuer| {
        let config = &issuer.config;
        claims.get("iss").is_some_and(|iss| iss == &config.issuer)
            && verify::has_audience(claims, &config.audience)
    })
}

fn user(config: &config::Jwt, claims: &Claims) -> Result<SmolStr, InvalidJwt> {
    let name = caller_name(&config.user_claim, claims)?;
    Ok(format!("{PREFIX}{}:{name}", config.name).into())
}

/// The claim that names a caller.
pub(super) fn caller_name<'c>(claim: &Claim, claims: &'c Claims) -> Result<&'c str, InvalidJwt> {
    let named = claim.of(claims).and_then(|name| name.as_str());
    let is_plain = |name: &&str| {
        !name.is_empty() && name.chars().count() <= MAX_USER && !name.contains(char::is_control)
    };
    named.filter(is_plain).ok_or(InvalidJwt::Subject)
}

fn session(jwt: VerifiedJwt, agent: String, now: u64) -> Session {
    let config = &jwt.issuer.config;
    let row = SessionRow {
        token: jwt.key,
        user: jwt.user.to_string(),
        client: JWT.to_owned(),
        agent,
        created: now,
        expires: jwt.verified.expires,
        ..SessionRow::default()
    };
    let federated = Federated::new(&config.name, jwt.verified.key, jwt.permissions);
    Session::new(&row, now).federated(federated, config.networks.as_deref(), config.rate_limit)
}

/// The row that keeps a token revoked.
fn tombstone(session: &Session) -> SessionRow {
    SessionRow {
        token: session.key,
        user: session.user.to_string(),
        client: REVOKED_JWT.to_owned(),
        created: session.created,
        expires: session.expires,
        ..SessionRow::default()
    }
}
