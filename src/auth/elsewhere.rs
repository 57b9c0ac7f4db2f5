//! Sessions that another gateway has begun in the store that they share.
//!
//! What has ended is remembered for a while, wherever it was ended: its row may have been read just
//! before, and must not bring it back.

use super::Auth;
use super::session::{self, Key, REVOKED_JWT, Session};
use crate::store;
use crypto::sha256;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// For how long a session that has ended is remembered, in seconds: no row is under way for as
/// long.
const REMEMBERED: u64 = 60;

impl Auth {
    /// Returns whether a token that is not known here may be one that another gateway has just
    /// handed out.
    pub fn may_be_elsewhere(&self, token: &str) -> bool {
        self.0.store.grace().is_some() && session::has_form(token.as_bytes())
    }

    /// Whether that was so at the latest tick; it outlives the store.
    pub fn was_cut_off(&self) -> Arc<AtomicBool> {
        self.0.registry.was_cut_off()
    }

    /// Returns whether the store was not reached for so long that what is known of sessions does
    /// not count any more.
    pub fn is_cut_off(&self, now: u64) -> bool {
        self.0.registry.is_cut_off(now)
    }

    /// A session that another gateway has begun, or has learnt more about, or the revocation of a
    /// JWT.
    pub(super) fn begin_elsewhere(&self, row: &store::SessionRow, now: u64) {
        let sessions = self.0.registry.sessions();
        if row.client == REVOKED_JWT {
            self.0.jwt.revoked().insert(row.token, row.expires);
            sessions.end_one(&row.token);
            return;
        }
        let counts = match (&row.provider, sessions.find(&row.token)) {
            (Some(sealed), _) => self.take_over_oidc(row, sealed, now),
            (None, Some(session)) => {
                session.confirm(row.confirmed, row.factor);
                true
            }
            (None, None) => {
                self.0.registry.restore(Session::new(row, now));
                true
            }
        };
        // A task that ends one remembers it first: it is found here, or is removed there after it
        // was added.
        if !counts || self.has_ended_lately(&row.token) {
            sessions.end_one(&row.token);
        }
    }

    /// Looks for the session of a token that is not known here; another gateway may have just
    /// handed it out. The look-ups of an address are limited: each is a question to the database.
    pub async fn find_elsewhere(
        &self,
        token: &str,
        address: IpAddr,
        now: u64,
    ) -> Result<(), store::Error> {
        if self.may_be_elsewhere(token) && self.looked_up().count(address, now).is_none() {
            let found = self.0.store.session(sha256(token.as_bytes())).await?;
            if let Some(row) = found {
                self.begin_elsewhere(&row, now);
            }
        }
        Ok(())
    }

    /// Remembers sessions that end.
    pub(super) fn remember_ended(&self, keys: &[Key]) {
        if self.0.store.grace().is_some() {
            let now = self.0.registry.last_tick();
            let mut ended = self.0.ended_lately.lock();
            ended.retain(|_, at| *at + REMEMBERED > now);
            ended.extend(keys.iter().map(|key| (*key, now)));
        }
    }

    fn has_ended_lately(&self, key: &Key) -> bool {
        let ended = self.0.ended_lately.lock();
        ended.contains_key(key)
    }
}
