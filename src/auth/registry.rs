//! The users and sessions of this moment, and a generation number that changes whenever permissions
//! may have.
//!
//! All of it is in memory and no call blocks; [`super::Auth`] makes it durable. A reload replaces
//! the users, then ends sessions, then increments the generation and wakes the watches
//! ([`super::AuthWatch`]), in this order.

use super::session::{Key, Session, Sessions};
use super::sync_shim::{ArcSwap, AtomicBool, AtomicU64};
use super::users::Users;
use super::wakers::Wakers;
use super::{AuthMethod, Caller, Permissions, Withheld};
use crate::config::{RateLimit, writes_some_flows_only};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Users and sessions at this moment.
pub struct Registry {
    users: ArcSwap<Users>,
    sessions: Sessions,
    /// True if some user has networks or a limit of requests: most gateways have none, and ask no
    /// further.
    has_restricted: AtomicBool,
    /// True if there was a token since the start whose scope is for changes of some flows only.
    has_limited_token: AtomicBool,
    /// Incremented by each change of users, permissions or routes.
    generation: AtomicU64,
    /// Watches of callers without a session: certificates, anonymous and public requests.
    others: Wakers,
    /// The time of the latest [`tick`](Self::tick), seconds since 1970.
    now: AtomicU64,
    /// No session or watched certificate expires before this time.
    due: AtomicU64,
    /// Until when what is known of sessions counts, in seconds since 1970, unless it is learned
    /// anew; the maximum: no other gateway ends them.
    trusted_until: AtomicU64,
    /// Whether it did not count any more at the latest [`tick`](Self::tick).
    was_cut_off: Arc<std::sync::atomic::AtomicBool>,
}

impl Registry {
    pub(super) fn new(users: Users, now: u64) -> Self {
        Self {
            has_restricted: AtomicBool::new(users.has_restricted()),
            users: ArcSwap::from_pointee(users),
            sessions: Sessions::default(),
            has_limited_token: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            others: Wakers::default(),
            now: AtomicU64::new(now),
            due: AtomicU64::new(0),
            trusted_until: AtomicU64::new(u64::MAX),
            was_cut_off: Arc::default(),
        }
    }

    /// What is known of sessions counts until then.
    pub(super) fn trust_until(&self, until: u64) {
        self.trusted_until.store(until, Ordering::Release);
    }

    /// Returns whether what is known of sessions does not count any more.
    pub(super) fn is_cut_off(&self, now: u64) -> bool {
        now > self.trusted_until.load(Ordering::Acquire)
    }

    /// Whether it did not count any more at the latest tick.
    pub(super) fn was_cut_off(&self) -> Arc<std::sync::atomic::AtomicBool> {
        Arc::clone(&self.was_cut_off)
    }

    /// The time of the latest tick, seconds since 1970.
    pub(super) fn last_tick(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// The users.
    pub(super) fn users(&self) -> Arc<Users> {
        self.users.load_full()
    }

    /// The sessions.
    pub(super) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Returns whether there was a token since the start whose scope is for changes of some flows
    /// only, whatever its user may change.
    pub fn has_limited_token(&self) -> bool {
        self.has_limited_token.load(Ordering::Acquire)
    }

    /// The present generation. An authorization of an earlier one has to be checked again.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The caller behind a token; `None`: unknown, expired or revoked. Takes one map shard.
    pub(super) fn identify(&self, key: &Key, now: u64) -> Option<Caller> {
        let session = self.sessions.find(key)?;
        let users = self.users.load();
        let permissions = permissions(&users, &session)?;
        if session.is_over(now, users.idle) || session.is_ahead(now) {
            return None;
        }
        session.touch(now);
        Some(Caller {
            user: session.user.clone(),
            permissions,
            known: AuthMethod::Token(session),
        })
    }

    /// The caller with the permissions of now. `None`: the user, the password or the certificate's
    /// entry is gone. Expiry and revocation are [`has_ended`](Self::has_ended).
    pub(super) fn again(&self, caller: &Caller) -> Option<Caller> {
        let users = self.users.load();
        match &caller.known {
            AuthMethod::Anonymous => users.anonymous.clone(),
            AuthMethod::Token(session) => Some(Caller {
                permissions: permissions(&users, session)?,
                ..caller.clone()
            }),
            AuthMethod::Certificate(certificate) => users
                .of(certificate)
                .filter(|again| again.user == caller.user),
            // The gateway in front watches it.
            AuthMethod::Gateway => Some(caller.clone()),
        }
    }

    /// Returns whether the caller's requests may come from an address: its user and its service
    /// token name the networks.
    pub fn admits(&self, caller: &Caller, address: IpAddr) -> bool {
        let session = caller.session();
        let networks = session.and_then(|session| session.networks.as_ref());
        networks.is_none_or(|networks| networks.contains(address))
            && (!self.has_restricted.load(Ordering::Relaxed)
                || self.users.load().admits(caller.account(), address))
    }

    /// The caller without the permissions that it may not use from this address, or without a
    /// recent second factor.
    pub fn conditioned(&self, mut caller: Caller, address: Option<IpAddr>) -> Caller {
        let users = self.users.load();
        if users.conditions.is_empty() {
            return caller;
        }
        let has_factor = |user: &str| users.find(user).is_some_and(|user| user.totp.is_some());
        let session = caller
            .session()
            .filter(|session| !session.is_service_token() && !session.is_basic());
        let factor = session.and_then(|session| {
            // Every sign-in of such a user has a second factor.
            let at_sign_in = has_factor(&session.user).then_some(session.created);
            session.factor().max(at_sign_in)
        });
        let address = address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let now = self.now.load(Ordering::Relaxed);
        caller.permissions.withheld = Withheld::of(&users.conditions, factor, address, now);
        caller
    }

    /// The limit of the caller's requests: that of its user or its service token.
    pub fn rate_limit(&self, caller: &Caller) -> Option<RateLimit> {
        let own = caller.session().and_then(|session| session.rate_limit);
        if own.is_some() || !self.has_restricted.load(Ordering::Relaxed) {
            return own;
        }
        self.users.load().find(caller.account())?.rate_limit
    }

    /// Returns whether the caller's session or certificate is revoked or expired.
    pub(super) fn has_ended(&self, caller: &Caller, now: u64) -> bool {
        match &caller.known {
            AuthMethod::Anonymous | AuthMethod::Gateway => false,
            AuthMethod::Token(session) => {
                session.has_ended()
                    || session.is_over(now, self.users.load().idle)
                    || self.is_cut_off(now)
            }
            AuthMethod::Certificate(certificate) => certificate.expires <= now,
        }
    }

    /// The same by the time of the latest tick, without reading a clock.
    pub(super) fn is_known_to_have_ended(&self, caller: &Caller) -> bool {
        match &caller.known {
            AuthMethod::Anonymous | AuthMethod::Gateway => false,
            AuthMethod::Token(session) => session.has_ended(),
            AuthMethod::Certificate(certificate) => {
                certificate.expires <= self.now.load(Ordering::Relaxed)
            }
        }
    }

    /// The tasks that are woken when this caller's session ends, and by each change.
    pub(super) fn wakers<'a>(&'a self, caller: Option<&'a Caller>) -> &'a Wakers {
        match caller.map(|caller| &caller.known) {
            Some(AuthMethod::Token(session)) => &session.watches,
            Some(AuthMethod::Certificate(certificate)) => {
                self.due.fetch_min(certificate.expires, Ordering::AcqRel);
                &self.others
            }
            Some(AuthMethod::Anonymous | AuthMethod::Gateway) | None => &self.others,
        }
    }

    /// Adds a session read from the store.
    pub(super) fn restore(&self, session: Session) {
        if writes_some_flows_only(&session.scope) {
            self.has_limited_token.store(true, Ordering::Release);
        }
        let first_end = session.first_end(self.users.load().idle);
        self.sessions.insert(session);
        self.due.fetch_min(first_end, Ordering::AcqRel);
    }

    /// Adds a new session. `None`: a reload has removed the user or changed the password since the
    /// sign-in was checked, and the session has ended. Otherwise ends the user's sessions beyond
    /// the limit, first those not used for the longest time, and returns their keys.
    pub(super) fn admit(&self, session: Session) -> Option<Vec<Key>> {
        let (key, user) = (session.key, session.user.clone());
        self.restore(session);
        // A concurrent reload either finds this session, or has stored its users before this load.
        let users = self.users.load();
        let stays = self
            .sessions
            .find(&key)
            .is_some_and(|session| permissions(&users, &session).is_some());
        if !stays {
            self.sessions.end_one(&key);
            return None;
        }
        Some(self.end_surplus(&users, Some(&user)))
    }

    /// Replaces the users and ends sessions whose user is gone or has another password, and those
    /// beyond the limit. Returns their keys.
    pub(super) fn reload(&self, users: Users) -> Vec<Key> {
        let has_restricted = users.has_restricted();
        self.users.store(Arc::new(users));
        self.has_restricted.store(has_restricted, Ordering::Release);
        let ended = self.end_orphans();
        self.changed();
        ended
    }

    /// Replaces the hash of the generated admin, for the same password.
    pub(super) fn renew(&self, renewed: impl Fn(&Users) -> Users) {
        self.users.rcu(|users| renewed(users));
    }

    /// Ends sessions without a matching user and password, and those beyond the limit of a user.
    pub(super) fn end_orphans(&self) -> Vec<Key> {
        let users = self.users.load();
        let mut ended = self
            .sessions
            .end(|session| permissions(&users, session).is_none());
        ended.extend(self.end_surplus(&users, None));
        // The idle time may be shorter now.
        self.due.store(0, Ordering::Release);
        ended
    }

    fn end_surplus(&self, users: &Users, user: Option<&str>) -> Vec<Key> {
        let surplus = self.sessions.surplus(users.sessions_per_user, user);
        let ended = surplus.into_iter();
        ended.filter(|key| self.sessions.end_one(key)).collect()
    }

    /// Permissions or routes have changed: all watches are checked again.
    pub(super) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.sessions.for_each(|session| session.watches.wake());
        self.others.wake();
    }

    /// Ends expired sessions, and returns their keys. To be called every second; returns at once
    /// while none can have expired.
    pub(super) fn tick(&self, now: u64) -> Vec<Key> {
        self.now.fetch_max(now, Ordering::AcqRel);
        let is_cut_off = self.is_cut_off(now);
        if is_cut_off != self.was_cut_off.swap(is_cut_off, Ordering::AcqRel) {
            self.changed();
        }
        if now < self.due.load(Ordering::Acquire) {
            return Vec::new();
        }
        // Before the sessions are read: one that is added meanwhile lowers it again.
        self.due.store(u64::MAX, Ordering::Release);
        let idle = self.users.load().idle;
        let ended = self.sessions.end(|session| session.is_over(now, idle));
        self.sessions.for_each(|session| {
            self.due
                .fetch_min(session.first_end(idle), Ordering::AcqRel);
        });
        // Watches of certificates: each that has not expired lowers it again.
        self.others.wake();
        ended
    }
}

/// The permissions of a session; `None`: its user is gone, or the password is not the one of the
/// sign-in.
pub(super) fn permissions(users: &Users, session: &Session) -> Option<Permissions> {
    if let Some(federated) = &session.federated {
        return Some(federated.permissions().everywhere());
    }
    if session.is_service_token() {
        return match &session.creator {
            None => Some(Permissions::of(Arc::clone(&session.scope))),
            Some(creator) => {
                let user = users.find(creator)?;
                let had = Arc::clone(&user.permissions);
                Some(Permissions::new(Arc::clone(&session.scope), had))
            }
        };
    }
    let user = users.find(&session.user)?;
    let same_password = user.record.is_some() && user.record == session.password;
    same_password
        .then(|| Permissions::new(Arc::clone(&session.scope), Arc::clone(&user.permissions)))
}
