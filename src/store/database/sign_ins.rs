//! The throttle's persistent memory: failures of sign-in, and the addresses that users have signed in from.

use super::{Database, commit, integer, seconds};
use crate::store::{AddressRow, Error, FailureRow};
use rusqlite::params;

/// Failures kept at most. Unauthenticated clients can make more of them than are worth keeping.
const FAILURES: i64 = 100_000;

/// For how long a code of an authenticator app is remembered, seconds. It is right for 90; our choice is more, for clocks
/// that are set back.
const CODES_KEPT: u64 = 24 * 60 * 60;

impl Database {
    pub(in crate::store) fn failures(&self, since: u64) -> Result<Vec<FailureRow>, Error> {
        self.change("DELETE FROM failure WHERE at < ?", [integer(since)])?;
        let mut query = self
            .connection
            .prepare("SELECT user, address, at FROM failure ORDER BY number")?;
        let rows = query.query_map([], |row| {
            Ok(FailureRow {
                user: row.get(0)?,
                address: row.get(1)?,
                at: seconds(row, 2)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(in crate::store) fn save_failure(&mut self, failure: &FailureRow) -> Result<(), Error> {
        let transaction = self.connection.transaction()?;
        transaction
            .prepare_cached("INSERT INTO failure (user, address, at) VALUES (?, ?, ?)")?
            .execute(params![failure.user, failure.address, integer(failure.at)])?;
        let newest = transaction.last_insert_rowid();
        transaction
            .prepare_cached("DELETE FROM failure WHERE number <= ?")?
            .execute([newest - FAILURES])?;
        commit(transaction)
    }

    pub(in crate::store) fn clear_failures(&self, user: &str, address: &str) -> Result<(), Error> {
        self.change(
            "DELETE FROM failure WHERE user = ? AND address = ?",
            [user, address],
        )
    }

    /// Remembers a code of a second factor; false: it was there. Codes that can be right no more are forgotten, but recovery
    /// codes, which have 32 bytes, are not.
    pub(in crate::store) fn use_code(
        &mut self,
        user: &str,
        code: &[u8],
        now: u64,
    ) -> Result<bool, Error> {
        let transaction = self.connection.transaction()?;
        transaction
            .prepare_cached("DELETE FROM used_code WHERE length(code) < 32 AND at < ?")?
            .execute([integer(now.saturating_sub(CODES_KEPT))])?;
        let added = transaction
            .prepare_cached("INSERT OR IGNORE INTO used_code (user, code, at) VALUES (?, ?, ?)")?
            .execute(params![user, code, integer(now)])?;
        commit(transaction)?;
        Ok(added == 1)
    }

    pub(in crate::store) fn known_addresses(&self, since: u64) -> Result<Vec<AddressRow>, Error> {
        self.change("DELETE FROM known_address WHERE at < ?", [integer(since)])?;
        let mut query = self
            .connection
            .prepare("SELECT user, address, at FROM known_address ORDER BY at")?;
        let rows = query.query_map([], |row| {
            Ok(AddressRow {
                user: row.get(0)?,
                address: row.get(1)?,
                at: seconds(row, 2)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(in crate::store) fn save_known_address(
        &mut self,
        row: &AddressRow,
        keep: usize,
    ) -> Result<(), Error> {
        let transaction = self.connection.transaction()?;
        transaction
            .prepare_cached("REPLACE INTO known_address (user, address, at) VALUES (?, ?, ?)")?
            .execute(params![row.user, row.address, integer(row.at)])?;
        transaction
            .prepare_cached(
                "DELETE FROM known_address WHERE user = ?1 AND address NOT IN
                    (SELECT address FROM known_address WHERE user = ?1 ORDER BY at DESC LIMIT ?2)",
            )?
            .execute(params![row.user, i64::try_from(keep).unwrap_or(i64::MAX)])?;
        commit(transaction)
    }
}
