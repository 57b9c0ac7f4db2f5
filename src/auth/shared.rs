//! Takes over what other gateways have changed in the store that they share: each knows the
//! sessions of all in its own memory.

use super::Auth;
use super::pair::Pair;
use super::session::{Key, REVOKED_JWT, Session};
use crate::store::{self, GENERATED_ADMIN, SharedChange};
use crypto::Secret;
use std::collections::HashSet;

impl Auth {
    /// Sessions of the store are known as they were at this time; until the grace after it has
    /// passed, they count.
    pub fn has_seen_store(&self, at: u64) {
        if let Some(grace) = self.0.store.grace() {
            let until = at.saturating_add(grace.as_secs());
            self.0.registry.trust_until(until);
        }
    }

    /// Takes over what another gateway has changed.
    pub fn take_over(&self, change: SharedChange, now: u64) {
        match change {
            SharedChange::Session(row) => self.begin_elsewhere(&row, now),
            SharedChange::SessionEnded(key) => {
                self.remember_ended(&[key]);
                self.0.registry.sessions().end_one(&key);
            }
            SharedChange::Failure(row) => self.throttle().remember(&[row], &[], now),
            SharedChange::KnownAddress(row) => self.throttle().remember(&[], &[row], now),
            SharedChange::FailuresCleared { user, address } => {
                if let Some(pair) = Pair::parse(&user, &address) {
                    self.throttle().clear(&pair);
                }
            }
            SharedChange::Fact { name, value } if name == GENERATED_ADMIN => {
                let hash = Secret::new(value);
                self.0.registry.renew(|users| users.renewed(&hash));
            }
            SharedChange::Fact { .. } | SharedChange::Missed => {}
        }
    }

    /// The keys of the sessions here that the store should have.
    pub fn stored_keys(&self) -> Vec<[u8; 32]> {
        let stored = |session: &Session| session.is_stored();
        self.0
            .registry
            .sessions()
            .map_alive(stored, |session| session.key)
    }

    /// The sessions that were used here since a time, with their last use.
    pub fn uses_since(&self, since: u64) -> Vec<([u8; 32], u64)> {
        let used = |session: &Session| session.last_used().is_some_and(|used| used >= since);
        let wanted = |session: &Session| session.is_stored() && used(session);
        let sessions = self.0.registry.sessions();
        sessions.map_alive(wanted, |session| {
            (session.key, session.last_used().unwrap_or(since))
        })
    }

    /// Compares the sessions here with all of the store: ends those of `before` that it has no
    /// more, and takes over when each was used. `before` are [`Self::stored_keys`], taken before
    /// the store was read. With `all`, begins those that are missing here, and takes over what is
    /// new about the others.
    pub fn compare(
        &self,
        before: &[Key],
        stored: &[(store::SessionRow, u64)],
        all: bool,
        now: u64,
    ) {
        let sessions = self.0.registry.sessions();
        let kept: HashSet<&Key> = stored.iter().map(|(row, _)| &row.token).collect();
        let gone = before.iter().filter(|key| !kept.contains(key)).copied();
        let gone: Vec<Key> = gone.collect();
        self.remember_ended(&gone);
        for key in &gone {
            sessions.end_one(key);
        }
        for (row, used) in stored {
            if all || row.client == REVOKED_JWT {
                self.begin_elsewhere(row, now);
            }
            if let Some(session) = sessions.find(&row.token) {
                session.touch(*used);
            }
        }
    }
}
