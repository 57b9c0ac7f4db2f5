//! The table of passkeys.

use super::{Database, commit, integer, seconds};
use crate::store::Error;
use crate::store::passkeys::{PasskeyAdded, PasskeyRow};
use rusqlite::{OptionalExtension, Row, params};

const COLUMNS: &str =
    "id, user, name, handle, rp, algorithm, key, counter, password, created, last_used";

impl Database {
    pub(in crate::store) fn passkey(&self, id: &[u8]) -> Result<Option<PasskeyRow>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM passkey WHERE id = ?");
        let mut query = self.connection.prepare_cached(&sql)?;
        Ok(query.query_row([id], row).optional()?)
    }

    pub(in crate::store) fn passkeys(&self, user: Option<&str>) -> Result<Vec<PasskeyRow>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM passkey WHERE ?1 IS NULL OR user = ?1 ORDER BY created, id"
        );
        let mut query = self.connection.prepare_cached(&sql)?;
        let rows = query.query_map([user], row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(in crate::store) fn add_passkey(
        &mut self,
        row: &PasskeyRow,
        most: usize,
    ) -> Result<PasskeyAdded, Error> {
        let transaction = self.connection.transaction()?;
        transaction
            .prepare_cached("DELETE FROM passkey WHERE user = ? AND password <> ?")?
            .execute(params![row.user, row.password])?;
        let count: i64 = transaction
            .prepare_cached("SELECT count(*) FROM passkey WHERE user = ?")?
            .query_row([&row.user], |row| row.get(0))?;
        if usize::try_from(count).unwrap_or(usize::MAX) >= most {
            return Ok(PasskeyAdded::TooMany);
        }
        let sql = format!(
            "INSERT OR IGNORE INTO passkey ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        );
        let added = transaction.prepare_cached(&sql)?.execute(params![
            row.id,
            row.user,
            row.name,
            row.handle,
            row.rp,
            row.algorithm,
            row.key,
            row.counter,
            row.password,
            integer(row.created),
            row.last_used.map(integer),
        ])?;
        commit(transaction)?;
        Ok(if added == 1 {
            PasskeyAdded::Added
        } else {
            PasskeyAdded::Taken
        })
    }

    /// The counter grows, or the authenticator has none (W3C Web Authentication Level 3 §7.2 step 21).
    pub(in crate::store) fn use_passkey(
        &mut self,
        id: &[u8],
        counter: u32,
        now: u64,
    ) -> Result<bool, Error> {
        let transaction = self.connection.transaction()?;
        let changed = transaction
            .prepare_cached(
                "UPDATE passkey SET counter = ?2, last_used = ?3
                 WHERE id = ?1 AND (counter < ?2 OR (counter = 0 AND ?2 = 0))",
            )?
            .execute(params![id, counter, integer(now)])?;
        commit(transaction)?;
        Ok(changed == 1)
    }

    pub(in crate::store) fn remove_passkeys(&mut self, ids: &[Vec<u8>]) -> Result<(), Error> {
        let transaction = self.connection.transaction()?;
        for id in ids {
            transaction
                .prepare_cached("DELETE FROM passkey WHERE id = ?")?
                .execute([id])?;
        }
        commit(transaction)
    }
}

fn row(row: &Row<'_>) -> rusqlite::Result<PasskeyRow> {
    Ok(PasskeyRow {
        id: row.get(0)?,
        user: row.get(1)?,
        name: row.get(2)?,
        handle: row.get(3)?,
        rp: row.get(4)?,
        algorithm: row.get(5)?,
        key: row.get(6)?,
        counter: row.get(7)?,
        password: row.get(8)?,
        created: seconds(row, 9)?,
        last_used: match row.get::<_, Option<i64>>(10)? {
            Some(_) => Some(seconds(row, 10)?),
            None => None,
        },
    })
}
