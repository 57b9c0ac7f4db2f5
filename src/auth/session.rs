//! Sessions: the data kept for a token, in the concurrent map keyed by the token's SHA-256.
//!
//! Handles tokens and lifetimes. Never keeps a token, and uses neither users' permissions nor the
//! store.

use super::federated::Federated;
use super::sync_shim::{AtomicBool, AtomicU64, DashMap};
use super::wakers::Wakers;
use crate::config::{Networks, RateLimit};
use crate::store::SessionRow;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crypto::{Secret, random, sha256};
use smol_str::SmolStr;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A SHA-256 of a token.
pub(super) type Key = [u8; 32];

/// The client of a service token; no user can sign in with it.
pub(super) const SERVICE_TOKEN: &str = "service-token";

/// The client of a browser's session, whose token is a cookie; no other client can sign in with it.
pub const PAGE: &str = "page";

/// The client of the session that a password of Basic authentication stands for; no other client
/// can sign in with it.
pub const BASIC: &str = "basic";

/// The client of the stock editor (docs/reference/admin-api.md §4.2).
pub const EDITOR: &str = "node-red-editor";

/// The client of a session whose token is a JWT of an issuer; no other client can sign in with it.
pub const JWT: &str = "jwt";

/// The client of the row of a JWT that was revoked; no session has it.
pub(super) const REVOKED_JWT: &str = "revoked-jwt";

/// Characters of a token: 32 bytes as base64 without padding. A text of another length needs no
/// look-up.
pub const TOKEN_LENGTH: usize = 43;

/// The maximum by which a session may begin in the future, in seconds: clocks are corrected by
/// seconds now and then. Our choice.
pub(super) const AHEAD: u64 = 60;

/// Bytes of a token that are random: 224 bits. RFC 6749 §10.10 asks for 128 at least.
const RANDOM: usize = 28;
/// Bytes of a token in all.
const TOKEN: usize = RANDOM + CHECKSUM;
/// Bytes of its checksum. Some other program's text of the same form has the right one once in
/// 2^32.
const CHECKSUM: usize = 4;

/// A new token: random bytes and their checksum, as base64url without padding.
///
/// The checksum is neither secret nor a proof. It makes a token recognisable as the gateway's own
/// after its session has ended, so that it is not passed on even then.
///
/// It is a `b64token` of RFC 6750 §2.1, and unlike Node-RED's (standard base64) it can stand
/// unescaped in a form or a shell. Clients must treat it as opaque.
pub(super) fn new_token() -> Secret {
    let random = random::<RANDOM>();
    let mut token = [0; TOKEN];
    token[..RANDOM].copy_from_slice(&random);
    token[RANDOM..].copy_from_slice(&checksum(&random));
    Secret::new(URL_SAFE_NO_PAD.encode(token))
}

/// Returns whether a text has the form of a [`new_token`], of any gateway and any age.
pub(super) fn has_form(text: &[u8]) -> bool {
    // The decoder needs room for its estimate, which is one byte more.
    let mut token = [0; TOKEN + 1];
    let decoded = URL_SAFE_NO_PAD.decode_slice(text, &mut token);
    let (random, rest) = token.split_at(RANDOM);
    decoded == Ok(TOKEN) && rest[..CHECKSUM] == checksum(random)
}

fn checksum(random: &[u8]) -> [u8; CHECKSUM] {
    let mut text = b"flowgate token".to_vec();
    text.extend_from_slice(random);
    let digest = sha256(&text);
    std::array::from_fn(|n| digest[n])
}

/// One session.
#[derive(Debug)]
pub struct Session {
    /// SHA-256 of the token.
    pub key: [u8; 32],
    /// Its user, or the name of a service token.
    pub user: SmolStr,
    /// The program that signed in.
    pub client: SmolStr,
    /// The `User-Agent` of the sign-in, as it may be shown; empty: it sent none.
    pub agent: Box<str>,
    /// The scope asked for; empty: all that the user has at the time of use.
    pub scope: Arc<[SmolStr]>,
    /// The networks that its requests must come from, of a service token; `None`: all.
    pub networks: Option<Networks>,
    /// The part of an identity provider; `None`: it has none.
    pub federated: Option<Arc<Federated>>,
    /// The limit of its requests, of a service token; `None`: none.
    pub rate_limit: Option<RateLimit>,
    /// The user within whose rights a service token acts; `None`: it is an operator's, or none.
    pub creator: Option<SmolStr>,
    /// When it was handed out, seconds since 1970.
    pub created: u64,
    /// When it ends, seconds since 1970.
    pub expires: u64,
    /// The record of the password of its sign-in ([`User::record`](super::users::User)); `None`: a
    /// service token's.
    pub(super) password: Option<[u8; 32]>,
    /// True if it is revoked or expired.
    ended: AtomicBool,
    /// Tasks that are woken when it ends, or when its permissions may have changed.
    pub(super) watches: Wakers,
    /// Position in the order of insertion: an older session has a lower one.
    order: AtomicU64,
    /// When its idle lifetime started, seconds since 1970: a restart starts it again.
    idle_since: u64,
    /// Seconds since 1970, 0: not since then; kept in memory only, because a write at each use
    /// would cost more than it is worth.
    last_used: AtomicU64,
    /// When the user last gave a second factor in it, seconds since 1970, 0: never.
    factor: AtomicU64,
    /// When the user last gave the password or a second factor in it, seconds since 1970, 0: at the
    /// sign-in.
    confirmed: AtomicU64,
}

impl Session {
    /// A session as the store has it. Its idle lifetime starts at `now`, after a restart too.
    pub(super) fn new(row: &SessionRow, now: u64) -> Self {
        Self {
            key: row.token,
            user: SmolStr::new(&row.user),
            client: SmolStr::new(&row.client),
            agent: row.agent.as_str().into(),
            scope: row.scope.iter().map(SmolStr::new).collect(),
            networks: row.networks.as_deref().map(Networks::stored),
            federated: None,
            rate_limit: row.rate_limit.as_deref().and_then(RateLimit::parse),
            creator: row.creator.as_ref().map(SmolStr::new),
            created: row.created,
            expires: row.expires,
            password: row.password,
            ended: AtomicBool::new(false),
            watches: Wakers::default(),
            order: AtomicU64::new(0),
            idle_since: now,
            last_used: AtomicU64::new(0),
            factor: AtomicU64::new(row.factor),
            confirmed: AtomicU64::new(row.confirmed),
        }
    }

    /// The same with an identity provider's part, networks and limit of requests.
    pub(super) fn federated(
        self,
        federated: Federated,
        networks: Option<&Networks>,
        rate_limit: Option<RateLimit>,
    ) -> Self {
        Self {
            federated: Some(Arc::new(federated)),
            networks: networks.cloned(),
            rate_limit,
            ..self
        }
    }

    /// Returns whether it has been ended: revoked, or found to be expired.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.watches.wake();
    }

    /// Returns whether it is a machine's, without a user.
    pub fn is_service_token(&self) -> bool {
        self.client == SERVICE_TOKEN
    }

    /// Returns whether its token is the cookie of a browser that has signed in with the page. It
    /// counts where pages are, and nowhere else.
    pub fn is_page(&self) -> bool {
        self.client == PAGE
    }

    /// Returns whether a password of Basic authentication stands for it. It has no token, and is in
    /// memory only.
    pub fn is_basic(&self) -> bool {
        self.client == BASIC
    }

    /// Returns whether a store that gateways share has it.
    pub(super) fn is_stored(&self) -> bool {
        !self.is_basic() && !self.is_jwt()
    }

    /// Returns whether its token is a JWT. It is in memory only.
    pub fn is_jwt(&self) -> bool {
        self.client == JWT
    }

    /// Returns whether its absolute lifetime has passed, or the idle one since its last use.
    pub(super) fn is_over(&self, now: u64, idle: Option<Duration>) -> bool {
        self.first_end(idle) <= now
    }

    /// The earliest time at which it can expire, if it is not used again.
    pub(super) fn first_end(&self, idle: Option<Duration>) -> u64 {
        let rests_since = self.last_used().unwrap_or(self.idle_since);
        // A machine may rest for as long as it likes.
        let idle = idle.filter(|_| !self.is_service_token() && !self.is_jwt());
        let rests = idle.map(|idle| rests_since.saturating_add(idle.as_secs()));
        rests.map_or(self.expires, |rests| rests.min(self.expires))
    }

    /// The time of its last use since the sign-in or the start of the gateway, seconds since 1970;
    /// up to a second late.
    pub(super) fn last_used(&self) -> Option<u64> {
        Some(self.last_used.load(Ordering::Relaxed)).filter(|used| *used > 0)
    }

    /// Returns whether it begins in the future: the clock has been set back, and it would live
    /// longer than it was given. It is good again when the clock is right.
    pub(super) fn is_ahead(&self, now: u64) -> bool {
        self.created > now.saturating_add(AHEAD)
    }

    /// The user has given the password again, or a second factor, at these times; earlier ones
    /// change nothing.
    pub(super) fn confirm(&self, confirmed: u64, factor: u64) {
        self.confirmed.fetch_max(confirmed, Ordering::Relaxed);
        self.factor.fetch_max(factor, Ordering::Relaxed);
    }

    /// When the user last gave a second factor in it, seconds since 1970, as far as the session
    /// itself knows.
    pub(super) fn factor(&self) -> Option<u64> {
        Some(self.factor.load(Ordering::Relaxed)).filter(|given| *given > 0)
    }

    /// When the user last gave the password or a second factor, seconds since 1970.
    pub(super) fn confirmed(&self) -> u64 {
        self.confirmed.load(Ordering::Relaxed).max(self.created)
    }

    /// Returns whether it is a local user's with all permissions of that user: not a page's, a
    /// machine's or a provider's, and without a scope.
    pub fn is_whole_users(&self) -> bool {
        let is_of_other =
            self.is_service_token() || self.is_page() || self.is_basic() || self.is_jwt();
        !is_of_other && self.federated.is_none() && self.scope.is_empty()
    }

    /// Remembers a use; writes at most once a second, so that cores do not fight for the number.
    pub fn touch(&self, now: u64) {
        if self.last_used.load(Ordering::Relaxed) < now {
            self.last_used.store(now, Ordering::Relaxed);
        }
    }
}

/// The sessions alive.
#[derive(Default)]
pub(super) struct Sessions {
    map: DashMap<Key, Arc<Session>, BuildHasherDefault<FirstEightBytes>>,
    /// The number of sessions inserted so far.
    count: AtomicU64,
}

impl Sessions {
    pub(super) fn find(&self, key: &Key) -> Option<Arc<Session>> {
        self.map.get(key).map(|session| Arc::clone(&session))
    }

    /// Adds a session, unless it is there: several requests may look one up at once, and what is
    /// open for the one that was there would not end with another one.
    pub(super) fn insert(&self, session: Session) {
        let order = self.count.fetch_add(1, Ordering::Relaxed);
        session.order.store(order, Ordering::Relaxed);
        self.map.entry(session.key).or_insert(Arc::new(session));
    }

    /// Removes the sessions for which `gone` holds and notifies all that is open for them. Returns
    /// their keys.
    pub(super) fn end(&self, gone: impl Fn(&Session) -> bool) -> Vec<Key> {
        let keys: Vec<_> = self
            .map
            .iter()
            .filter(|session| gone(session))
            .map(|session| *session.key())
            .collect();
        keys.into_iter().filter(|key| self.end_one(key)).collect()
    }

    /// Notifies all that is open for the session, then removes it; false if it is not there. In
    /// this order: once it can no longer be found, the notification has been sent.
    pub(super) fn end_one(&self, key: &Key) -> bool {
        if let Some(session) = self.find(key) {
            session.end();
        }
        self.map.remove(key).is_some()
    }

    /// Maps the live sessions for which `wanted` holds.
    pub(super) fn map_alive<T>(
        &self,
        wanted: impl Fn(&Session) -> bool,
        describe: impl Fn(&Session) -> T,
    ) -> Vec<T> {
        let sessions = self.map.iter();
        let sessions = sessions.filter(|session| wanted(session));
        sessions.map(|session| describe(&session)).collect()
    }

    /// The keys of each user's sessions beyond `most` that were not used for the longest time; of
    /// one user, or of all. Service tokens do not count.
    pub(super) fn surplus(&self, most: usize, user: Option<&str>) -> Vec<Key> {
        let counted = |session: &Session| {
            !session.is_service_token() && user.is_none_or(|user| session.user == user)
        };
        let mut by_user: HashMap<SmolStr, Vec<(u64, u64, Key)>> = HashMap::new();
        for session in self.map.iter().filter(|session| counted(session)) {
            let order = session.order.load(Ordering::Relaxed);
            let all = by_user.entry(session.user.clone()).or_default();
            let last = session.last_used().unwrap_or(session.created);
            all.push((last, order, session.key));
        }
        let unused = by_user.into_values().flat_map(|mut all| {
            all.sort_unstable();
            all.truncate(all.len().saturating_sub(most));
            all
        });
        unused.map(|(.., key)| key).collect()
    }

    pub(super) fn for_each(&self, visit: impl Fn(&Session)) {
        self.map.iter().for_each(|session| visit(&session));
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }
}

/// The hash of a key: its first eight bytes. A SHA-256 is spread evenly already, and since only
/// tokens that we made are inserted, an attacker cannot choose keys that collide.
#[derive(Default)]
pub(super) struct FirstEightBytes(u64);

impl Hasher for FirstEightBytes {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_ne_bytes(*first);
        }
    }

    /// Ignores the array's length, which is always the same.
    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
