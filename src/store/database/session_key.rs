//! The row of a session and its MAC, keyed by `storage.credential_secret`: a row that someone else
//! has inserted or changed is no session.
//!
//! Without that secret rows have none. It covers what a session may do, not when it was used or its
//! provider is asked next.

use super::connection::{Connection, Row, values};
use super::{Database, SAVE_FACT, integer};
use crate::store::{Error, SessionRow};
use crypto::{Secret, constant_time_eq, hmac_sha256};
use serde_json::json;
use zeroize::Zeroizing;

/// The columns that [`session`] reads. The MAC comes after them.
pub(super) const COLUMNS: &str = r#"token, "user", client, scope, created, expires, password, agent, networks, rate_limit, creator,
    confirmed, factor, provider"#;

/// The purpose of the key: the same secret encrypts credentials elsewhere.
const LABEL: &[u8] = b"flowgate session rows";

/// The fact that the sessions of a file have had MACs.
const SESSIONS_SIGNED: &str = "sessions_signed";

/// Columns of a row before its MAC.
const WIDTH: usize = 14;

/// The key of the MACs; `None`: there is no secret.
#[derive(Clone, Default)]
pub(in crate::store) struct SessionKey(Option<Zeroizing<[u8; 32]>>);

impl SessionKey {
    pub(in crate::store) fn of(secret: Option<&Secret>) -> Self {
        let key = secret.map(|secret| hmac_sha256(secret.reveal().as_bytes(), LABEL));
        Self(key.map(Zeroizing::new))
    }

    /// Returns whether rows need a MAC.
    pub(super) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// The MAC of a row as the database returns it.
    pub(super) fn mac(&self, row: &SessionRow) -> Option<[u8; 32]> {
        let key = self.0.as_ref()?;
        let text = json!([
            row.token,
            row.user,
            row.client,
            row.agent,
            row.scope,
            row.networks,
            row.rate_limit,
            row.creator,
            integer(row.created),
            integer(row.expires),
            row.password,
            integer(row.confirmed),
            integer(row.factor),
            row.provider,
        ]);
        Some(hmac_sha256(&**key, text.to_string().as_bytes()))
    }

    /// The session of a row, whose columns begin at `first` and end with its MAC; `None`: another
    /// one has written the row.
    pub(super) fn verified(
        &self,
        row: &Row<'_>,
        first: usize,
    ) -> Result<Option<SessionRow>, Error> {
        let read = session(row, first)?;
        let stored: Option<Vec<u8>> = row.get(first + WIDTH)?;
        let counts = match (self.mac(&read), stored) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(mac), Some(stored)) => constant_time_eq(&mac, &stored),
        };
        Ok(counts.then_some(read))
    }

    /// Gives a MAC to the rows that were written before rows had one.
    pub(super) fn sign(&self, connection: &Connection) -> Result<(), Error> {
        if !self.is_there() {
            return Ok(());
        }
        let sql = format!("SELECT {COLUMNS} FROM session WHERE mac IS NULL");
        for row in connection.query(&sql, &[], |row| session(row, 0))? {
            let mac = self.mac(&row);
            let sql = "UPDATE session SET mac = ? WHERE token = ?";
            connection.execute(sql, values![&mac, &row.token])?;
        }
        Ok(())
    }
}

impl Database {
    /// A file whose sessions have MACs by this secret from now on. Those that are there get one the
    /// first time: who can write the file is flowgate's own user.
    pub(in crate::store) fn signed_with(mut self, secret: Option<&Secret>) -> Result<Self, Error> {
        self.session_key = SessionKey::of(secret);
        if self.session_key.is_there() && self.fact(SESSIONS_SIGNED)?.is_none() {
            let transaction = self.connection.begin()?;
            self.session_key.sign(&transaction)?;
            transaction.execute(SAVE_FACT, values![SESSIONS_SIGNED, "yes"])?;
            transaction.commit()?;
        }
        Ok(self)
    }
}

/// The sessions of rows; logs how many rows do not count.
pub(super) fn counted<T>(rows: Vec<Option<T>>) -> Vec<T> {
    let refused = rows.iter().filter(|row| row.is_none()).count();
    if refused > 0 {
        tracing::error!(
            rows = refused,
            "sessions in the database do not count, because they were not written with this storage.credential_secret: with another one, or none, or by someone else"
        );
    }
    rows.into_iter().flatten().collect()
}

/// A session, whose columns begin at `first`.
fn session(row: &Row<'_>, first: usize) -> Result<SessionRow, Error> {
    let networks: Option<String> = row.get(first + 8)?;
    Ok(SessionRow {
        token: row.hash(first)?,
        user: row.get(first + 1)?,
        client: row.get(first + 2)?,
        scope: row.list(first + 3)?,
        created: row.unsigned(first + 4)?,
        expires: row.unsigned(first + 5)?,
        password: row.hash_if_any(first + 6)?,
        agent: row.get(first + 7)?,
        networks: networks.map(|_| row.list(first + 8)).transpose()?,
        rate_limit: row.get(first + 9)?,
        creator: row.get(first + 10)?,
        confirmed: row.unsigned(first + 11)?,
        factor: row.unsigned(first + 12)?,
        provider: row.get(first + 13)?,
    })
}
