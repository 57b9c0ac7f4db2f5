//! What gateways that share a database tell each other: a log of changes, in the order in which
//! they were committed.
//!
//! A change is logged in the transaction that makes it. Nothing is logged in a file of SQLite,
//! which one process has.

use super::Database;
use super::connection::{Connection, Transaction, values};
use crate::store::{Error, FailureRow};

/// A change that others take over.
#[derive(Clone, Copy)]
pub(super) enum Changed<'a> {
    /// A session has begun, or its row has changed.
    Session(&'a [u8; 32]),
    /// A session has ended.
    SessionEnded(&'a [u8; 32]),
    /// A sign-in has failed.
    Failure(&'a FailureRow),
    /// The failures of a user from an address count no more.
    FailuresCleared(&'a str, &'a str),
    /// A user has signed in from an address.
    KnownAddress(&'a str, &'a str, u64),
    /// A fact.
    Fact(&'a str),
}

/// The kinds of changes, as the log has them.
pub(super) const SESSION: &str = "session";
pub(super) const SESSION_ENDED: &str = "session-ended";
pub(super) const FAILURE: &str = "failure";
pub(super) const FAILURES_CLEARED: &str = "failures-cleared";
pub(super) const KNOWN_ADDRESS: &str = "known-address";
pub(super) const FACT: &str = "fact";

/// The channel of PostgreSQL on which gateways wake each other.
pub(in crate::store) const CHANNEL: &str = "flowgate";

/// The number of the lock under which changes are logged: any number but that of the migrations.
const ORDER: i64 = 0x6368_616e_6765_7300;

impl Database {
    /// The number of the newest change.
    pub(in crate::store) fn newest_change(&self) -> Result<i64, Error> {
        let sql = "SELECT coalesce(max(number), 0) FROM change";
        self.connection.one(sql, &[], |row| row.get(0))
    }

    /// Forgets changes that every gateway has read, or has missed for an hour. The newest one
    /// stays, which tells where the log ends.
    pub(in crate::store) fn forget_changes(&self) -> Result<(), Error> {
        if !self.connection.is_shared() {
            return Ok(());
        }
        let sql = "DELETE FROM change WHERE changed < now() - interval '1 hour'
            AND number < (SELECT max(number) FROM change)";
        self.change(sql, &[]).map(drop)
    }

    /// Names this process among those that share the database.
    pub(in crate::store) fn gateway(&self) -> [u8; 16] {
        self.gateway
    }

    /// Carries out a transaction whose changes other gateways take over. The lock of the log is its
    /// first: one that is taken after those of rows lets two transactions wait for each other.
    pub(super) fn transact_logged<T>(
        &self,
        work: impl Fn(&Logged<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.connection.transact(|transaction| {
            if transaction.is_shared() {
                // Held until the transaction ends: numbers are committed in their order, and a
                // reader of one has read all earlier ones.
                transaction.one(
                    "SELECT pg_advisory_xact_lock(?) IS NULL",
                    values![ORDER],
                    |row| row.get::<bool>(0),
                )?;
            }
            work(&Logged {
                transaction,
                gateway: &self.gateway,
            })
        })
    }
}

/// A transaction that has the lock of the log of changes.
pub(super) struct Logged<'a> {
    transaction: &'a Transaction<'a>,
    gateway: &'a [u8; 16],
}

impl std::ops::Deref for Logged<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.transaction
    }
}

impl Logged<'_> {
    /// Logs a change.
    pub(super) fn log(&self, changed: Changed<'_>) -> Result<(), Error> {
        if !self.is_shared() {
            return Ok(());
        }
        let nothing: Option<&str> = None;
        let (kind, key, (name, address), at) = match changed {
            Changed::Session(token) => (SESSION, Some(token), (nothing, nothing), None),
            Changed::SessionEnded(token) => (SESSION_ENDED, Some(token), (nothing, nothing), None),
            Changed::Failure(failure) => {
                let pair = (Some(failure.user.as_str()), Some(failure.address.as_str()));
                (FAILURE, None, pair, Some(super::integer(failure.at)))
            }
            Changed::FailuresCleared(user, address) => {
                (FAILURES_CLEARED, None, (Some(user), Some(address)), None)
            }
            Changed::KnownAddress(user, address, at) => {
                let at = Some(super::integer(at));
                (KNOWN_ADDRESS, None, (Some(user), Some(address)), at)
            }
            Changed::Fact(name) => (FACT, None, (Some(name), nothing), None),
        };
        self.execute(
            "INSERT INTO change (gateway, kind, key, name, address, at) VALUES (?, ?, ?, ?, ?, ?)",
            values![
                self.gateway.as_slice(),
                kind,
                key.map(<[u8; 32]>::as_slice),
                name,
                address,
                at
            ],
        )?;
        self.execute(&format!("NOTIFY {CHANNEL}"), &[]).map(drop)
    }
}
