//! The table of sessions.

use super::changes::Changed;
use super::connection::{Connection, Row, values};
use super::session_key::{COLUMNS, counted};
use super::{Database, integer};
use crate::store::{Error, SessionRow};
use serde_json::Value as Json;

impl Database {
    pub(in crate::store) fn sessions(&self) -> Result<Vec<SessionRow>, Error> {
        let sql = format!("SELECT {COLUMNS}, mac FROM session ORDER BY created");
        let verified = |row: &Row<'_>| self.session_key.verified(row, 0);
        Ok(counted(self.connection.query(&sql, &[], verified)?))
    }

    pub(in crate::store) fn session(&self, token: &[u8; 32]) -> Result<Option<SessionRow>, Error> {
        let sql = format!("SELECT {COLUMNS}, mac FROM session WHERE token = ?");
        let verified = |row: &Row<'_>| self.session_key.verified(row, 0);
        let found = self.connection.first(&sql, values![token], verified)?;
        Ok(found.flatten())
    }

    pub(in crate::store) fn save_session(&self, session: &SessionRow) -> Result<(), Error> {
        let list = |list: &[String]| Json::from(list).to_string();
        let networks = session.networks.as_deref().map(list);
        self.transact_logged(|transaction| {
            transaction.execute(
                &format!(
                    r#"INSERT INTO session ({COLUMNS}, mac) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                     ON CONFLICT (token) DO UPDATE SET "user" = excluded."user", client = excluded.client,
                        scope = excluded.scope, created = excluded.created, expires = excluded.expires,
                        password = excluded.password, agent = excluded.agent, networks = excluded.networks,
                        rate_limit = excluded.rate_limit, creator = excluded.creator, confirmed = excluded.confirmed,
                        factor = excluded.factor, provider = excluded.provider, mac = excluded.mac"#
                ),
                values![
                    &session.token,
                    &session.user,
                    &session.client,
                    &list(&session.scope),
                    integer(session.created),
                    integer(session.expires),
                    &session.password,
                    &session.agent,
                    &networks,
                    &session.rate_limit,
                    &session.creator,
                    integer(session.confirmed),
                    integer(session.factor),
                    &session.provider,
                    &self.session_key.mac(session),
                ],
            )?;
            transaction.log(Changed::Session(&session.token))
        })
    }

    /// Keeps when the user last gave the password or a second factor, and a second factor; earlier
    /// times change nothing.
    pub(in crate::store) fn confirm_session(
        &self,
        token: &[u8; 32],
        confirmed: u64,
        factor: u64,
    ) -> Result<(), Error> {
        self.transact_logged(|transaction| {
            self.change_session(transaction, token, |session| {
                session.confirmed = session.confirmed.max(confirmed);
                session.factor = session.factor.max(factor);
            })?;
            transaction.log(Changed::Session(token))
        })
    }

    /// Claims, until a time, to ask the provider of a session; gives what it said last. `None`: it
    /// is not yet time, as another gateway asks or has just asked; or the session has ended.
    pub(in crate::store) fn claim_provider(
        &self,
        token: &[u8; 32],
        until: u64,
        now: u64,
    ) -> Result<Option<String>, Error> {
        self.connection.transact(|transaction| {
            let sql = "UPDATE session SET ask_after = ? WHERE token = ? AND ask_after <= ? RETURNING provider";
            let values = values![integer(until), token, integer(now)];
            transaction.first(sql, values, |row| row.get(0))
        })
    }

    /// Keeps what the provider of a session has said, and when it is asked next, unless the session
    /// has ended.
    pub(in crate::store) fn save_provider(
        &self,
        token: &[u8; 32],
        sealed: &str,
        next: u64,
    ) -> Result<(), Error> {
        self.transact_logged(|transaction| {
            let changed = self.change_session(transaction, token, |session| {
                session.provider = Some(sealed.to_owned());
            })?;
            if changed {
                let sql = "UPDATE session SET ask_after = ? WHERE token = ?";
                transaction.execute(sql, values![integer(next), token])?;
                transaction.log(Changed::Session(token))?;
            }
            Ok(())
        })
    }

    /// Keeps when sessions were used last at this gateway.
    pub(in crate::store) fn save_uses(&self, uses: &[([u8; 32], u64)]) -> Result<(), Error> {
        if !self.connection.is_shared() {
            return Ok(());
        }
        let mut uses = uses.to_vec();
        uses.sort_unstable();
        self.connection.transact(|transaction| {
            for (token, used) in &uses {
                transaction.execute(
                    "UPDATE session SET used = ?2 WHERE token = ?1 AND used < ?2",
                    values![token, integer(*used)],
                )?;
            }
            Ok(())
        })
    }

    pub(in crate::store) fn bind_sessions(
        &self,
        sessions: &[([u8; 32], [u8; 32])],
    ) -> Result<(), Error> {
        let mut sessions = sessions.to_vec();
        sessions.sort_unstable();
        self.connection.transact(|transaction| {
            for (token, password) in &sessions {
                self.change_session(transaction, token, |session| {
                    session.password = Some(*password);
                })?;
            }
            Ok(())
        })
    }

    /// Changes the row of a session that counts, and its MAC; false: there is none. The first
    /// statement locks the row.
    fn change_session(
        &self,
        transaction: &Connection,
        token: &[u8; 32],
        change: impl FnOnce(&mut SessionRow),
    ) -> Result<bool, Error> {
        let sql =
            format!("UPDATE session SET client = client WHERE token = ? RETURNING {COLUMNS}, mac");
        let verified = |row: &Row<'_>| self.session_key.verified(row, 0);
        let found = transaction.first(&sql, values![token], verified)?;
        let Some(mut session) = found.flatten() else {
            return Ok(false);
        };
        change(&mut session);
        transaction.execute(
            "UPDATE session SET password = ?, confirmed = ?, factor = ?, provider = ?, mac = ? WHERE token = ?",
            values![
                &session.password,
                integer(session.confirmed),
                integer(session.factor),
                &session.provider,
                &self.session_key.mac(&session),
                token,
            ],
        )?;
        Ok(true)
    }

    pub(in crate::store) fn remove_sessions(&self, tokens: &[[u8; 32]]) -> Result<(), Error> {
        let mut tokens = tokens.to_vec();
        tokens.sort_unstable();
        self.transact_logged(|transaction| {
            for token in &tokens {
                let sql = "DELETE FROM session WHERE token = ?";
                if transaction.execute(sql, values![token])? > 0 {
                    transaction.log(Changed::SessionEnded(token))?;
                }
            }
            Ok(())
        })
    }
}
