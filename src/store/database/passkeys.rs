//! The table of passkeys.

use super::connection::{Row, unreadable, values};
use super::{Database, integer};
use crate::store::Error;
use crate::store::passkeys::{PasskeyAdded, PasskeyRow};

const COLUMNS: &str =
    r#"id, "user", name, handle, rp, algorithm, key, counter, password, created, last_used"#;

impl Database {
    pub(in crate::store) fn passkey(&self, id: &[u8]) -> Result<Option<PasskeyRow>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM passkey WHERE id = ?");
        self.connection.first(&sql, values![id], passkey)
    }

    pub(in crate::store) fn passkeys(&self, user: Option<&str>) -> Result<Vec<PasskeyRow>, Error> {
        let sql = format!(
            r#"SELECT {COLUMNS} FROM passkey WHERE ?1 IS NULL OR "user" = ?1 ORDER BY created, id"#
        );
        self.connection.query(&sql, values![user], passkey)
    }

    pub(in crate::store) fn add_passkey(
        &self,
        row: &PasskeyRow,
        most: usize,
    ) -> Result<PasskeyAdded, Error> {
        self.connection.transact(|transaction| {
            transaction.execute(
                r#"DELETE FROM passkey WHERE "user" = ? AND password <> ?"#,
                values![&row.user, &row.password],
            )?;
            let count = transaction.one(
                r#"SELECT count(*) FROM passkey WHERE "user" = ?"#,
                values![&row.user],
                |row| row.unsigned(0),
            )?;
            if usize::try_from(count).unwrap_or(usize::MAX) >= most {
                return Ok(PasskeyAdded::TooMany);
            }
            let added = transaction.execute(
                &format!(
                    "INSERT INTO passkey ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
                ),
                values![
                    &row.id,
                    &row.user,
                    &row.name,
                    &row.handle,
                    &row.rp,
                    row.algorithm,
                    &row.key,
                    i64::from(row.counter),
                    &row.password,
                    integer(row.created),
                    row.last_used.map(integer),
                ],
            )?;
            Ok(if added == 1 {
                PasskeyAdded::Added
            } else {
                PasskeyAdded::Taken
            })
        })
    }

    /// The counter grows, or the authenticator has none (W3C Web Authentication Level 3 §7.2 step
    /// 21).
    pub(in crate::store) fn use_passkey(
        &self,
        id: &[u8],
        counter: u32,
        now: u64,
    ) -> Result<bool, Error> {
        let changed = self.change(
            "UPDATE passkey SET counter = ?2, last_used = ?3
             WHERE id = ?1 AND (counter < ?2 OR (counter = 0 AND ?2 = 0))",
            values![id, i64::from(counter), integer(now)],
        )?;
        Ok(changed == 1)
    }

    pub(in crate::store) fn remove_passkeys(&self, ids: &[Vec<u8>]) -> Result<(), Error> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        self.connection.transact(|transaction| {
            for id in &ids {
                transaction.execute("DELETE FROM passkey WHERE id = ?", values![id])?;
            }
            Ok(())
        })
    }
}

fn passkey(row: &Row<'_>) -> Result<PasskeyRow, Error> {
    let counter: i64 = row.get(7)?;
    Ok(PasskeyRow {
        id: row.get(0)?,
        user: row.get(1)?,
        name: row.get(2)?,
        handle: row.get(3)?,
        rp: row.get(4)?,
        algorithm: row.get(5)?,
        key: row.get(6)?,
        counter: counter
            .try_into()
            .map_err(|error| unreadable("counter", &error))?,
        password: row.hash(8)?,
        created: row.unsigned(9)?,
        last_used: row.unsigned_if_any(10)?,
    })
}
