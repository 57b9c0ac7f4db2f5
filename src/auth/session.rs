//! Sessions: what is kept about a token, in the concurrent map keyed by the token's SHA-256.
//!
//! Knows tokens and lifetimes. Never keeps a token, and knows nothing of users' permissions or of the store.

use super::map::DashMap;
use crate::secret::{Secret, random, sha256};
use crate::store::SessionRow;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use smol_str::SmolStr;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// Characters of a token: 32 bytes as base64 without padding. A text of another length needs no look-up.
pub const TOKEN_LENGTH: usize = 43;

/// How far in the future a session may have begun, in seconds: clocks are corrected by seconds now and then. Our choice.
pub(super) const AHEAD: u64 = 60;

/// Bytes of a token that are random: 224 bits. RFC 6749 §10.10 asks for 128 at least.
const RANDOM: usize = 28;
/// Bytes of a token in all.
const TOKEN: usize = RANDOM + CHECKSUM;
/// Bytes of its checksum. Some other program's text of the same form has the right one once in 2^32.
const CHECKSUM: usize = 4;

/// A new token: random bytes and their checksum, as base64url without padding.
///
/// The checksum is neither secret nor a proof. It makes a token recognisable as the gateway's own after its session has
/// ended, so that it is not passed on even then.
///
/// It is a `b64token` of RFC 6750 §2.1, and unlike Node-RED's (standard base64) it can stand unescaped in a form or a
/// shell. Clients must treat it as opaque.
pub(super) fn new_token() -> Secret {
    let random = random::<RANDOM>();
    let mut token = [0; TOKEN];
    token[..RANDOM].copy_from_slice(&random);
    token[RANDOM..].copy_from_slice(&checksum(&random));
    Secret::new(URL_SAFE_NO_PAD.encode(token))
}

/// Whether a text has the form of a [`new_token`], of any gateway and any age.
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
    /// The scope asked for; empty: all that the user has at the time of use.
    pub scope: Arc<[SmolStr]>,
    /// When it was handed out, seconds since 1970.
    pub created: u64,
    /// When it ends, seconds since 1970.
    pub expires: u64,
    /// Becomes true when the session is revoked or over: whoever holds something open for it closes it.
    pub ended: watch::Sender<bool>,
    /// Seconds since 1970; kept in memory only, because a write at each use would cost more than it is worth.
    last_used: AtomicU64,
}

impl Session {
    /// A session as the store has it. Its idle lifetime starts at `now`, after a restart too.
    pub(super) fn new(row: &SessionRow, now: u64) -> Self {
        Self {
            key: row.token,
            user: SmolStr::new(&row.user),
            client: SmolStr::new(&row.client),
            scope: row.scope.iter().map(SmolStr::new).collect(),
            created: row.created,
            expires: row.expires,
            ended: watch::Sender::new(false),
            last_used: AtomicU64::new(now),
        }
    }

    /// Waits until the session is revoked or over.
    pub async fn over(&self) {
        // an error would mean that the sender is gone, but it is a part of this session
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Whether it is a machine's, without a user.
    pub fn is_service_token(&self) -> bool {
        self.client == super::inventory::CLIENT
    }

    /// Whether its absolute lifetime has passed, or the idle one since its last use.
    pub(super) fn is_over(&self, now: u64, idle: Option<Duration>) -> bool {
        let last_used = self.last_used.load(Ordering::Relaxed);
        // A machine may rest for as long as it likes.
        let idle = idle.filter(|_| !self.is_service_token());
        self.expires <= now
            || idle.is_some_and(|idle| last_used.saturating_add(idle.as_secs()) <= now)
    }

    /// Whether it begins in the future: the clock has been set back, and it would live longer than it was given. It is
    /// good again when the clock is right.
    pub(super) fn is_ahead(&self, now: u64) -> bool {
        self.created > now.saturating_add(AHEAD)
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
    map: DashMap<[u8; 32], Arc<Session>, BuildHasherDefault<FirstEightBytes>>,
}

impl Sessions {
    pub(super) fn find(&self, key: &[u8; 32]) -> Option<Arc<Session>> {
        self.map.get(key).map(|session| Arc::clone(&session))
    }

    pub(super) fn insert(&self, session: Session) {
        self.map.insert(session.key, Arc::new(session));
    }

    /// Takes out those for which `gone` holds and tells whoever has something open for them. Returns their keys.
    pub(super) fn end(&self, gone: impl Fn(&Session) -> bool) -> Vec<[u8; 32]> {
        let keys: Vec<_> = self
            .map
            .iter()
            .filter(|session| gone(session))
            .map(|session| *session.key())
            .collect();
        keys.into_iter().filter(|key| self.end_one(key)).collect()
    }

    /// Tells whoever has something open for it, and takes it out; false if it is not there. In this order: for whoever
    /// does not find it any more, it has been told.
    pub(super) fn end_one(&self, key: &[u8; 32]) -> bool {
        if let Some(session) = self.find(key) {
            session.ended.send_replace(true);
        }
        self.map.remove(key).is_some()
    }

    /// What is to be known of those for which `wanted` holds.
    pub(super) fn map_alive<T>(
        &self,
        wanted: impl Fn(&Session) -> bool,
        told: impl Fn(&Session) -> T,
    ) -> Vec<T> {
        let sessions = self.map.iter();
        let sessions = sessions.filter(|session| wanted(session));
        sessions.map(|session| told(&session)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }
}

/// The hash of a key: its first eight bytes. A SHA-256 is spread evenly already, and since only tokens that we made
/// are inserted, nobody can choose keys that collide.
#[derive(Default)]
pub(super) struct FirstEightBytes(u64);

impl Hasher for FirstEightBytes {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_ne_bytes(*first);
        }
    }

    /// The length of the array, which says nothing.
    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
