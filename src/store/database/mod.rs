//! The database: all the SQL there is, for the file `flowgate.db` of SQLite and for PostgreSQL.
//! Knows rows and hashes; nothing of files or of what a flow is.

mod changes;
mod connection;
mod contents;
mod copy;
mod deployments;
mod entry;
mod follow;
mod intents;
mod migrations;
mod passkeys;
mod postgres_migrations;
mod proposals;
mod retention;
mod secret_check;
mod session_key;
mod sessions;
mod sign_ins;
mod tags;
mod touched;

pub(super) use changes::CHANNEL;
pub(super) use connection::{Connector, LOCK_IS_TAKEN, failure, limit};
pub(super) use contents::{pack, unpack};
pub(super) use deployments::{Content, Deployment};
pub(super) use follow::{changes_since, sessions_with_uses};
pub(super) use retention::Retention;
pub(super) use session_key::SessionKey;
pub(super) use touched::Touch;

use super::Error;
use changes::Changed;
use connection::Postgres;
use connection::{Connection, Transaction, Value, values};
use crypto::Secret;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How often a connection shows that its gateway is alive: PostgreSQL ends it after 20 s without.
/// Our choice.
pub(super) const SHOW_LIFE: Duration = Duration::from_secs(5);

/// Keeps a single thing under a name, in the place of what was there.
const SAVE_FACT: &str = "INSERT INTO fact (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// The database's file.
pub(super) const DATABASE: &str = "flowgate.db";

/// The open database.
pub(super) struct Database {
    connection: Connection,
    /// Names this process among those that share the database.
    gateway: [u8; 16],
    session_key: SessionKey,
}

impl Database {
    /// Opens a file, if it is whole, and brings its tables up to date.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        Connection::open_file(path).map(Self::of)
    }

    /// Opens a file that is there, of the present version, to read it beside who has it.
    pub(super) fn open_to_read(path: &Path) -> Result<Self, Error> {
        Connection::open_file_to_read(path).map(Self::of)
    }

    /// Opens the database that gateways share, and brings its tables up to date.
    pub(super) fn open_shared(
        shared: &crate::config::SharedStore,
        secret: Option<&Secret>,
    ) -> Result<Self, Error> {
        let postgres = Postgres::open(Connector::new(shared)?)?;
        let session_key = SessionKey::of(secret);
        let connection = postgres_migrations::migrate(postgres, &session_key)?;
        Ok(Self {
            session_key,
            ..Self::of(connection)
        })
    }

    fn of(connection: Connection) -> Self {
        Self {
            connection,
            gateway: crypto::random(),
            session_key: SessionKey::default(),
        }
    }

    /// The longest time without a question: PostgreSQL ends connections that are silent. `None`: it
    /// is a file.
    pub(super) fn shows_life_every(&self) -> Option<Duration> {
        self.connection.is_shared().then_some(SHOW_LIFE)
    }

    /// Shows that this gateway is alive.
    pub(super) fn show_life(&self) {
        if self.connection.is_shared() {
            // A connection that is lost is made anew with the next question.
            let _ = self.connection.query("SELECT 1", &[], |_| Ok(()));
        }
    }

    /// A single thing kept under a name.
    pub(super) fn fact(&self, name: &str) -> Result<Option<String>, Error> {
        let sql = "SELECT value FROM fact WHERE name = ?";
        self.connection.first(sql, values![name], |row| row.get(0))
    }

    pub(super) fn save_fact(&self, name: &str, value: &str) -> Result<(), Error> {
        self.change(SAVE_FACT, values![name, value]).map(drop)
    }

    /// The same, and other gateways take it over.
    pub(super) fn tell_fact(&self, name: &str, value: &str) -> Result<(), Error> {
        self.transact_logged(|transaction| {
            transaction.execute(SAVE_FACT, values![name, value])?;
            transaction.log(Changed::Fact(name))
        })
    }

    /// Keeps a fact unless there is one of this name; answers the one that there is then.
    pub(super) fn claim_fact(&self, name: &str, value: &str) -> Result<String, Error> {
        let sql = "INSERT INTO fact (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING";
        self.change(sql, values![name, value])?;
        Ok(self.fact(name)?.unwrap_or_default())
    }

    /// The editor's settings of a user.
    pub(super) fn user_settings(&self, user: &str) -> Result<Option<String>, Error> {
        let sql = r#"SELECT value FROM user_settings WHERE "user" = ?"#;
        self.connection.first(sql, values![user], |row| row.get(0))
    }

    pub(super) fn save_user_settings(&self, user: &str, value: &str) -> Result<(), Error> {
        let sql = r#"INSERT INTO user_settings ("user", value) VALUES (?, ?)
            ON CONFLICT ("user") DO UPDATE SET value = excluded.value"#;
        self.change(sql, values![user, value]).map(drop)
    }

    /// One statement that is a transaction of its own; answers how many rows it has changed.
    fn change(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, Error> {
        let changed = |transaction: &Transaction<'_>| transaction.execute(sql, values);
        self.connection.transact(changed)
    }
}

/// Neither database has unsigned integers; no clock reaches the bound.
fn integer(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// A failure of the system under the database.
fn failed(source: io::Error) -> Error {
    Error::Io {
        what: DATABASE.into(),
        source,
    }
}
