//! The throttle's persistent memory: failures of sign-in, and the addresses that users have signed
//! in from.

use super::changes::Changed;
use super::connection::values;
use super::{Database, integer};
use crate::store::{AddressRow, Error, FailureRow, GENERATED_ADMIN};

/// Failures kept at most. Unauthenticated clients can make more of them than are worth keeping.
const FAILURES: i64 = 100_000;

/// For how long a code of an authenticator app is remembered, seconds. It is right for 90; our
/// choice is more, for clocks that are set back.
const CODES_KEPT: u64 = 24 * 60 * 60;

impl Database {
    /// Forgets the `admin` of the first start and its passkeys, also at other gateways; false:
    /// there was none.
    pub(in crate::store) fn forget_generated_admin(
        &self,
        record: &[u8; 32],
    ) -> Result<bool, Error> {
        self.transact_logged(|transaction| {
            let sql = "DELETE FROM fact WHERE name = ?";
            let removed = transaction.execute(sql, values![GENERATED_ADMIN])? > 0;
            if removed {
                let sql = "DELETE FROM passkey WHERE password = ?";
                transaction.execute(sql, values![record])?;
                transaction.log(Changed::Fact(GENERATED_ADMIN))?;
            }
            Ok(removed)
        })
    }

    pub(in crate::store) fn failures(&self, since: u64) -> Result<Vec<FailureRow>, Error> {
        self.change("DELETE FROM failure WHERE at < ?", values![integer(since)])?;
        let sql = r#"SELECT "user", address, at FROM failure ORDER BY number"#;
        self.connection.query(sql, &[], |row| {
            Ok(FailureRow {
                user: row.get(0)?,
                address: row.get(1)?,
                at: row.unsigned(2)?,
            })
        })
    }

    pub(in crate::store) fn save_failure(&self, failure: &FailureRow) -> Result<(), Error> {
        self.transact_logged(|transaction| {
            let newest: i64 = transaction.one(
                r#"INSERT INTO failure ("user", address, at) VALUES (?, ?, ?) RETURNING number"#,
                values![&failure.user, &failure.address, integer(failure.at)],
                |row| row.get(0),
            )?;
            transaction.execute(
                "DELETE FROM failure WHERE number <= ?",
                values![newest - FAILURES],
            )?;
            transaction.log(Changed::Failure(failure))
        })
    }

    pub(in crate::store) fn clear_failures(&self, user: &str, address: &str) -> Result<(), Error> {
        self.transact_logged(|transaction| {
            transaction.execute(
                r#"DELETE FROM failure WHERE "user" = ? AND address = ?"#,
                values![user, address],
            )?;
            transaction.log(Changed::FailuresCleared(user, address))
        })
    }

    /// Remembers a code of a second factor; false: it was there. Codes that can be right no more
    /// are forgotten, but recovery codes, which have 32 bytes, are not.
    pub(in crate::store) fn use_code(
        &self,
        user: &str,
        code: &[u8],
        now: u64,
    ) -> Result<bool, Error> {
        self.connection.transact(|transaction| {
            transaction.execute(
                "DELETE FROM used_code WHERE length(code) < 32 AND at < ?",
                values![integer(now.saturating_sub(CODES_KEPT))],
            )?;
            let added = transaction.execute(
                r#"INSERT INTO used_code ("user", code, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"#,
                values![user, code, integer(now)],
            )?;
            Ok(added == 1)
        })
    }

    /// Remembers, until a time, that something that counts once was used; false: it was before.
    pub(in crate::store) fn use_once(
        &self,
        key: &[u8; 32],
        until: u64,
        now: u64,
    ) -> Result<bool, Error> {
        self.connection.transact(|transaction| {
            let expired = "DELETE FROM used_once WHERE until <= ?";
            transaction.execute(expired, values![integer(now)])?;
            let added = transaction.execute(
                "INSERT INTO used_once (key, until) VALUES (?, ?) ON CONFLICT DO NOTHING",
                values![key, integer(until)],
            )?;
            Ok(added == 1)
        })
    }

    pub(in crate::store) fn known_addresses(&self, since: u64) -> Result<Vec<AddressRow>, Error> {
        self.change(
            "DELETE FROM known_address WHERE at < ?",
            values![integer(since)],
        )?;
        let sql = r#"SELECT "user", address, at FROM known_address ORDER BY at"#;
        self.connection.query(sql, &[], |row| {
            Ok(AddressRow {
                user: row.get(0)?,
                address: row.get(1)?,
                at: row.unsigned(2)?,
            })
        })
    }

    pub(in crate::store) fn save_known_address(
        &self,
        row: &AddressRow,
        keep: usize,
    ) -> Result<(), Error> {
        self.transact_logged(|transaction| {
            transaction.execute(
                r#"INSERT INTO known_address ("user", address, at) VALUES (?, ?, ?)
                 ON CONFLICT ("user", address) DO UPDATE SET at = excluded.at"#,
                values![&row.user, &row.address, integer(row.at)],
            )?;
            transaction.execute(
                r#"DELETE FROM known_address WHERE "user" = ?1 AND address NOT IN
                    (SELECT address FROM known_address WHERE "user" = ?1 ORDER BY at DESC LIMIT ?2)"#,
                values![&row.user, i64::try_from(keep).unwrap_or(i64::MAX)],
            )?;
            transaction.log(Changed::KnownAddress(&row.user, &row.address, row.at),
            )
        })
    }
}
