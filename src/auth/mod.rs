//! Authentication and authorization: users, passwords, sessions (the concurrent map), permissions,
//! the throttle.
//!
//! `identify` is on the way of every request: one SHA-256, one map shard. All that writes runs on
//! the control runtime. Knows no HTTP, counts no metric and writes no audit line.

mod auth_watch;
mod bad_tokens;
mod basic;
mod caller;
mod confirmation;
mod elsewhere;
mod error;
mod federated;
mod first_admin;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod glob;
mod hashing;
mod jwt;
mod known_addresses;
mod label;
mod oidc;
mod pair;
mod passkey;
mod password;
mod permission;
mod provider_client;
mod registry;
mod seal;
mod service_token;
mod session;
mod session_admin;
mod shared;
mod sign_in;
mod surplus;
mod sync_shim;
mod throttle;
mod totp;
mod user_list;
mod user_permissions;
mod user_throttle;
mod users;
mod wakers;
mod withheld;

pub use auth_watch::{AuthWatch, Grant, Lapsed};
pub use caller::{AuthMethod, Caller, Certificate};
pub use confirmation::{StepUpNeeded, Unconfirmed};
pub use error::{CreateTokenError, OpenError, RevokeError, SignInError};
pub use federated::{Federated, FederatedPermissions};
pub use first_admin::admin_notice;
pub use glob::glob;
pub use jwt::{InvalidJwt, VerifiedJwt};
pub use oidc::{
    LogoutOf, OidcClient, OidcError, OidcUser, PendingSignIn, ProviderLabel, ProviderReturn,
    SignInApp,
};
pub use passkey::{
    AddPasskeyError, Assertion, NewPasskey, PasskeyAnswer, PasskeyBegun, PasskeyClient,
    PasskeyError, PasskeyInfo, PasskeySelector, PasskeySite, Registration,
};
pub use password::{HashError, hash_password};
pub use permission::{FLOWS_READ, FLOWS_WRITE, Permissions, Shown, covers};
pub use provider_client::{ProviderOutcome, ProviderRequest, ProviderResponse, SendToProvider};
pub use registry::Registry;
pub use service_token::{InvalidToken, NewToken};
pub use session::{BASIC, EDITOR, JWT, PAGE, Session, TOKEN_LENGTH};
pub use session_admin::{NEVER, SessionInfo, SessionSelector, session_id};
pub use totp::{NewTotp, new_totp};
pub use user_list::{UserInfo, UserSource};
pub use withheld::{Withheld, WithheldReason};

use crate::config;
use crate::store::{self, SessionRow, Store};
use bad_tokens::BadTokens;
use crypto::{Secret, random, sha256};
use hashing::Hashing;
use jwt::Issuers;
use known_addresses::KnownPrefixes;
use oidc::Providers;
use parking_lot::{Mutex, MutexGuard};
use passkey::Challenges;
use session::Key;
use smol_str::SmolStr;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use throttle::Throttle;
use tokio::sync::Notify;
use users::Users;

/// How much later an idle session ends if other gateways share the store: four times the interval
/// at which they tell each other what is used.
const IDLE_SLACK: Duration = Duration::from_mins(1);

/// A sign-in, parsed.
#[derive(Debug)]
pub struct SignIn {
    /// `username`.
    pub user: String,
    /// `password`.
    pub password: Secret,
    /// The code of the second factor; `None`: of a user who has one, it stands at the end of the
    /// password.
    pub code: Option<String>,
    /// `scope`, split at spaces; empty: all that the user has.
    pub scope: Vec<SmolStr>,
    /// The user's permissions at the backend of the sign-in, if they differ from those elsewhere.
    pub here: Option<Arc<[SmolStr]>>,
    /// `client_id`.
    pub client: String,
    /// `User-Agent`, as it may be shown.
    pub agent: String,
    /// The client's address.
    pub address: IpAddr,
}

/// A token handed out.
#[derive(Debug)]
pub struct Issued {
    /// The token.
    pub token: Secret,
    /// Its lifetime.
    pub expires_in: Duration,
    /// The number of other sessions of the user that have ended because there were too many.
    pub ended: usize,
    /// The key of its session.
    key: Key,
}

/// Users, sessions and throttle of one gateway; clones share them.
#[derive(Clone)]
pub struct Auth(Arc<Parts>);

struct Parts {
    registry: Registry,
    throttle: Mutex<Throttle>,
    known_prefixes: KnownPrefixes,
    bad_tokens: Mutex<BadTokens>,
    /// Unknown tokens that were looked up in the shared store.
    looked_up: Mutex<BadTokens>,
    /// Failures that made the throttle refuse what came next.
    lockouts: AtomicU64,
    /// Times that a user began to count as being guessed from many addresses.
    guessing: AtomicU64,
    /// Notified when a sign-in is decided, and when the limits change.
    decided: Notify,
    hashing: Hashing,
    /// The issuers of JWTs.
    jwt: Issuers,
    /// The providers of OpenID Connect.
    oidc: Providers,
    /// The challenges of passkeys.
    challenges: Challenges,
    /// Sends requests to identity providers.
    send_to_provider: OnceLock<SendToProvider>,
    store: Store,
    /// Held while a service token is made.
    creating: tokio::sync::Mutex<()>,
    /// Keys of sessions that have ended but that the store may still hold.
    owed: Mutex<HashSet<Key>>,
    /// Keys of sessions that have ended lately, and when, if other gateways share the store.
    ended_lately: Mutex<HashMap<Key, u64>>,
    /// Users of whom it has been logged that a sign-in ended a session of theirs.
    surplus_logged: Mutex<HashSet<SmolStr>>,
    /// For names that are no user's, see [`Auth::label`].
    label_key: [u8; 32],
}

impl Auth {
    /// Puts it together: reads sessions and failures from the store, makes the first `admin` if
    /// there is no user. The second value is that admin's password, to be shown once.
    ///
    /// `hashing` passwords are checked at a time. Sessions that have expired, or whose user is
    /// gone, are revoked permanently.
    pub async fn open(
        config: &config::Auth,
        hashing: usize,
        store: Store,
        now: u64,
    ) -> Result<(Self, Option<Secret>), OpenError> {
        let (generated, password) = match first_admin::generated_admin(config, &store).await? {
            None if config.users.is_empty() => {
                let (password, hash) = password::generate()?;
                let kept = store.claim_generated_admin(hash.clone()).await?;
                let is_own = kept == hash;
                (Some(kept), is_own.then_some(password))
            }
            generated => (generated, None),
        };
        let mut throttle = Throttle::new(config.throttle.clone());
        let failures = store
            .failures(now.saturating_sub(config.throttle.window.as_secs()))
            .await?;
        let known = store
            .known_addresses(now.saturating_sub(known_addresses::KNOWN_FOR))
            .await?;
        throttle.remember(&failures, &known, now);

        let users = with_slack(Users::new(config, generated.as_ref()), &store);
        let registry = Registry::new(users, now);
        if let Some(grace) = store.grace() {
            registry.trust_until(now.saturating_add(grace.as_secs()));
        }
        let restored = restore(&registry, &store, now).await?;
        let secret = store.secret().cloned();
        let auth = Self(Arc::new(Parts {
            registry,
            known_prefixes: throttle.known_prefixes(),
            throttle: Mutex::new(throttle),
            bad_tokens: Mutex::new(BadTokens::new(&config.throttle)),
            looked_up: Mutex::new(BadTokens::looked_up(&config.throttle)),
            lockouts: AtomicU64::new(0),
            guessing: AtomicU64::new(0),
            decided: Notify::new(),
            hashing: Hashing::new(hashing),
            jwt: Issuers::new(&config.jwt, restored.revoked),
            oidc: Providers::new(&config.oidc, secret.as_ref()),
            challenges: Challenges::new(secret.as_ref()),
            send_to_provider: OnceLock::new(),
            store,
            creating: tokio::sync::Mutex::default(),
            owed: Mutex::default(),
            ended_lately: Mutex::default(),
            surplus_logged: Mutex::default(),
            label_key: random(),
        }));
        let of_providers = restored.of_providers.iter();
        let gone = of_providers.filter(|(row, sealed)| !auth.take_over_oidc(row, sealed, now));
        let gone: Vec<_> = gone.map(|(row, _)| row.token).collect();
        auth.forget(gone).await?;
        auth.forget(auth.0.registry.end_orphans()).await?;
        auth.sweep(now).await?;
        Ok((auth, password))
    }

    /// Sets the client that sends requests to identity providers; without it their keys are never
    /// fetched.
    pub fn reach_providers(&self, send: SendToProvider) {
        // Another one cannot come later: there is one gateway.
        let _ = self.0.send_to_provider.set(send);
    }

    /// Replaces users, lifetimes, issuers of JWTs and throttle; sessions of users who are gone or
    /// have another password are revoked for good.
    ///
    /// Tokens handed out before keep the absolute lifetime they were given; the idle one counts as
    /// it is now. No admin is made here, because its password would not be shown to the operator:
    /// that takes a restart. The one of the first start has ended with the first user of the
    /// configuration.
    pub async fn reload(&self, config: &config::Auth) -> Result<(), store::Error> {
        let generated = first_admin::generated_admin(config, &self.0.store).await?;
        let users = with_slack(Users::new(config, generated.as_ref()), &self.0.store);
        if users.is_empty() {
            tracing::warn!("{}", first_admin::NO_USERS);
        }
        self.reload_jwt(&config.jwt);
        let mut ended = self.reload_oidc(&config.oidc);
        ended.extend(self.0.registry.reload(users));
        self.throttle().limit(config.throttle.clone());
        self.bad_tokens().limit(&config.throttle);
        self.looked_up().limit(&config.throttle);
        self.0.decided.notify_waiters();
        self.forget(ended).await
    }

    /// The current users and sessions, for watches.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// The number of the last change of what callers may do.
    pub fn generation(&self) -> u64 {
        self.0.registry.generation()
    }

    /// Permissions or routes have changed in another way than by [`reload`](Self::reload): all
    /// watches are checked again.
    pub fn changed(&self) {
        self.0.registry.changed();
    }

    /// The caller behind a bearer token; `None`: unknown, expired or revoked, or a browser's
    /// cookie. Takes one map shard.
    pub fn identify(&self, token: &str, now: u64) -> Option<Caller> {
        self.find(token, now).filter(|caller| !caller.has_page())
    }

    /// The caller behind the cookie of a browser that has signed in with the page.
    pub fn identify_page(&self, cookie: &str, now: u64) -> Option<Caller> {
        self.find(cookie, now).filter(Caller::has_page)
    }

    /// Returns whether browsers may sign in with a page.
    pub fn has_sign_in_page(&self) -> bool {
        self.0.registry.users().sign_in_page
    }

    fn find(&self, token: &str, now: u64) -> Option<Caller> {
        if token.len() != TOKEN_LENGTH && !jwt::is_possible(token) {
            return None;
        }
        self.0.registry.identify(&sha256(token.as_bytes()), now)
    }

    /// Returns whether a text is a token of a session, or of one that has ended. A token that was
    /// made without a checksum, by an older version, is recognised during its session only. Says
    /// nothing about who calls.
    pub fn is_own_token(&self, text: &[u8]) -> bool {
        text.len() == TOKEN_LENGTH
            && (session::has_form(text) || self.0.registry.sessions().find(&sha256(text)).is_some())
    }

    /// The caller of a certificate that a handshake has verified, with all permissions of the user;
    /// `None`: it belongs to no user, or has expired.
    pub fn certified(&self, certificate: &Arc<Certificate>, now: u64) -> Option<Caller> {
        if certificate.expires <= now {
            return None;
        }
        self.0.registry.users().of(certificate)
    }

    /// Counts a token that [`identify`](Self::identify) does not accept. Returns the time that the
    /// address has to wait if it has sent too many.
    pub fn bad_token(&self, address: IpAddr, now: u64) -> Option<Duration> {
        self.bad_tokens().count(address, now)
    }

    /// Returns whether a user has signed in from the address before. Takes one map shard.
    pub fn has_signed_in_from(&self, address: IpAddr) -> bool {
        self.0.known_prefixes.contains(address)
    }

    /// The caller without a token, if the operator allows one.
    pub fn anonymous(&self) -> Option<Caller> {
        self.0.registry.users().anonymous.clone()
    }

    /// Revokes a token; its session notifies all that is open for it. An unknown token is no error.
    ///
    /// One's own tokens by anyone signed in, another user's with `*`. Once this has returned `Ok`
    /// the token does not come back, not after a crash either; after an error it is dead, but must
    /// be revoked again to stay so. Gives the name of the user whose it was, if it was known.
    pub async fn revoke(
        &self,
        caller: &Caller,
        token: &str,
    ) -> Result<Option<SmolStr>, RevokeError> {
        let session = self.0.registry.sessions().find(&sha256(token.as_bytes()));
        if let Some(session) = &session {
            let own = caller.is_known() && caller.user == session.user;
            if !own && !caller.permissions.cover("*") {
                return Err(RevokeError::NotYours);
            }
        }
        self.end(token).await?;
        Ok(session.map(|session| session.user.clone()))
    }

    /// Ends the session of a token without checking permissions.
    pub async fn end(&self, token: &str) -> Result<(), store::Error> {
        self.end_key(sha256(token.as_bytes())).await
    }

    /// Ends the session of a token that is not handed out.
    pub async fn withdraw(&self, issued: &Issued) -> Result<(), store::Error> {
        self.end_key(issued.key).await
    }

    async fn end_key(&self, key: Key) -> Result<(), store::Error> {
        self.remember_ended(&[key]);
        if let Some(session) = self.0.registry.sessions().find(&key) {
            if session.is_jwt() {
                return self.revoke_jwt(&session).await;
            }
            // Owed before it is removed: a concurrent call that does not find the session waits for
            // the store as well.
            self.owed().insert(key);
        } else if self.0.store.grace().is_some() {
            // Another gateway may have handed it out just now.
            self.owed().insert(key);
        }
        self.0.registry.sessions().end_one(&key);
        self.forget(None).await
    }

    /// Ends expired sessions and returns their number. Forgets failures that no longer count.
    pub async fn sweep(&self, now: u64) -> Result<usize, store::Error> {
        self.tick(now);
        let count = self.owed().len();
        self.owed().extend(self.sweep_jwt(now));
        self.throttle().sweep(now);
        self.bad_tokens().sweep(now);
        self.looked_up().sweep(now);
        self.forget(None).await?;
        Ok(count)
    }

    /// Ends expired sessions and all that is open for them; the store deletes them with the next
    /// [`sweep`](Self::sweep). Meant to be called every second.
    pub fn tick(&self, now: u64) {
        let ended = self.0.registry.tick(now);
        if !ended.is_empty() {
            self.owed().extend(ended);
        }
    }

    /// Sessions alive.
    pub fn active(&self) -> usize {
        self.0.registry.sessions().len()
    }

    /// The number of times, since the start, that failures made the throttle refuse further
    /// sign-ins.
    pub fn lockouts(&self) -> u64 {
        self.0.lockouts.load(Ordering::Relaxed)
    }

    /// The number of times, since the start, that a user began to count as being guessed from many
    /// addresses.
    pub fn guessing(&self) -> u64 {
        self.0.guessing.load(Ordering::Relaxed)
    }

    /// Makes the store forget sessions that have ended, and those it failed to forget before.
    async fn forget(&self, ended: impl IntoIterator<Item = Key>) -> Result<(), store::Error> {
        let ended: Vec<_> = ended.into_iter().collect();
        self.remember_ended(&ended);
        let owed: Vec<_> = {
            let mut owed = self.owed();
            owed.extend(ended);
            owed.iter().copied().collect()
        };
        if owed.is_empty() {
            return Ok(());
        }
        self.0.store.remove_sessions(owed.clone()).await?;
        // only now: a concurrent call for the same session must not return before the store has
        // removed it
        self.owed().retain(|key| !owed.contains(key));
        Ok(())
    }

    fn owed(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.0.owed.lock()
    }

    fn bad_tokens(&self) -> MutexGuard<'_, BadTokens> {
        self.0.bad_tokens.lock()
    }

    fn looked_up(&self) -> MutexGuard<'_, BadTokens> {
        self.0.looked_up.lock()
    }

    fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.0.throttle.lock()
    }
}

/// The users, with more idle time if other gateways share the store: each tells the others now and
/// then which sessions are used.
fn with_slack(mut users: Users, store: &Store) -> Users {
    if store.grace().is_some() {
        users.idle = users.idle.map(|idle| idle + IDLE_SLACK);
    }
    users
}

/// What the store has beside the sessions that are restored.
#[derive(Default)]
struct Restored {
    /// The revoked JWTs, and when they expire.
    revoked: HashMap<Key, u64>,
    /// The sessions of providers, with what these vouch for.
    of_providers: Vec<(SessionRow, String)>,
}

/// Reads the sessions of the store, oldest first. Those from before sessions were bound to
/// passwords are bound now to the ones that their users have.
async fn restore(registry: &Registry, store: &Store, now: u64) -> Result<Restored, store::Error> {
    let users = registry.users();
    let mut bound = Vec::new();
    let mut restored = Restored::default();
    for mut row in store.sessions().await? {
        if row.client == session::REVOKED_JWT {
            restored.revoked.insert(row.token, row.expires);
            continue;
        }
        if let Some(sealed) = row.provider.take() {
            restored.of_providers.push((row, sealed));
            continue;
        }
        if row.password.is_none() && row.client != session::SERVICE_TOKEN {
            row.password = users.find(&row.user).and_then(|user| user.record);
            bound.extend(row.password.map(|record| (row.token, record)));
        }
        registry.restore(Session::new(&row, now));
    }
    if !bound.is_empty() {
        store.bind_sessions(bound).await?;
    }
    Ok(restored)
}

#[cfg(test)]
mod tests;
