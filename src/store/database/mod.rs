//! The database `flowgate.db`: all the SQL there is. Knows rows and hashes; nothing of files or of what a flow is.

mod contents;
mod deployments;
mod entry;
mod passkeys;
mod proposals;
mod retention;
mod sign_ins;
mod tags;
mod touched;

pub(super) use deployments::{Content, Deployment};
pub(super) use retention::Retention;
pub(super) use touched::Touch;

use super::{Error, SessionRow};
use crate::store::failpoint;
use rusqlite::types::Type;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Params, Row, Transaction, params,
};
use serde_json::Value;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

/// The database's file.
pub(super) const DATABASE: &str = "flowgate.db";

/// The migrations: entry n brings a database of version n (its `user_version`) to version n + 1. Only ever added to.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE session (
        token BLOB PRIMARY KEY, user TEXT NOT NULL, client TEXT NOT NULL, scope TEXT NOT NULL,
        created INTEGER NOT NULL, expires INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE failure (
        number INTEGER PRIMARY KEY, user TEXT NOT NULL, address TEXT NOT NULL, at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX failure_pair ON failure (user, address);
    CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE history (
        number INTEGER PRIMARY KEY, rev TEXT NOT NULL, user TEXT NOT NULL, kind TEXT NOT NULL, at INTEGER NOT NULL,
        deployed INTEGER NOT NULL,
        flows_before BLOB, credentials_before BLOB, flows_after BLOB, credentials_after BLOB,
        flows BLOB NOT NULL, credentials BLOB
    ) STRICT;
", "
    CREATE TABLE user_settings (user TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
", "
    ALTER TABLE history ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;
", "
    CREATE TABLE known_address (
        user TEXT NOT NULL, address TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (user, address)
    ) STRICT, WITHOUT ROWID;
", "
    ALTER TABLE session ADD COLUMN password BLOB;
", "
    ALTER TABLE history RENAME TO deployments;
    ALTER TABLE deployments RENAME COLUMN flows TO content;
    ALTER TABLE deployments DROP COLUMN flows_after;
    ALTER TABLE deployments DROP COLUMN credentials_after;
    ALTER TABLE deployments ADD COLUMN base INTEGER;
    ALTER TABLE deployments ADD COLUMN parent TEXT;
    ALTER TABLE deployments ADD COLUMN how TEXT NOT NULL DEFAULT '';
    ALTER TABLE deployments ADD COLUMN address TEXT NOT NULL DEFAULT '';
    ALTER TABLE deployments ADD COLUMN message TEXT NOT NULL DEFAULT '';
    ALTER TABLE deployments ADD COLUMN nodes INTEGER;
    ALTER TABLE deployments ADD COLUMN added INTEGER;
    ALTER TABLE deployments ADD COLUMN changed INTEGER;
    ALTER TABLE deployments ADD COLUMN removed INTEGER;
    UPDATE deployments SET parent = (
        SELECT rev FROM deployments AS earlier WHERE earlier.deployed AND earlier.number < deployments.number
        ORDER BY earlier.number DESC LIMIT 1);
", "
    ALTER TABLE deployments ADD COLUMN runtime TEXT NOT NULL DEFAULT '';
    ALTER TABLE deployments ADD COLUMN forgotten INTEGER NOT NULL DEFAULT FALSE;
    ALTER TABLE deployments ADD COLUMN bytes INTEGER NOT NULL
        AS (length(content) + coalesce(length(credentials), 0)) VIRTUAL;
    CREATE INDEX deployments_of_runtime ON deployments (runtime, forgotten, at, bytes);
    CREATE INDEX deployments_rev ON deployments (rev);
    CREATE INDEX deployments_base ON deployments (base);
    CREATE TABLE touched (
        number INTEGER NOT NULL REFERENCES deployments ON DELETE CASCADE, id TEXT NOT NULL,
        flow TEXT NOT NULL, was_on TEXT, difference TEXT NOT NULL, credentials INTEGER NOT NULL,
        PRIMARY KEY (number, id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX touched_id ON touched (id);
    INSERT INTO fact SELECT 'unlisted', number FROM deployments ORDER BY number DESC LIMIT 1;
", "
    CREATE TABLE tag (
        runtime TEXT NOT NULL, name TEXT NOT NULL,
        number INTEGER NOT NULL REFERENCES deployments ON DELETE CASCADE, PRIMARY KEY (runtime, name)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tag_number ON tag (number);
", "
    CREATE TABLE proposal (
        number INTEGER PRIMARY KEY AUTOINCREMENT, runtime TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'open',
        user TEXT NOT NULL, how TEXT NOT NULL, address TEXT NOT NULL, at INTEGER NOT NULL, expires INTEGER NOT NULL,
        kind TEXT NOT NULL, base TEXT NOT NULL,
        decided_by TEXT NOT NULL DEFAULT '', decided_at INTEGER, reason TEXT NOT NULL DEFAULT '',
        rev TEXT NOT NULL DEFAULT '',
        bytes INTEGER NOT NULL, before BLOB NOT NULL, after BLOB NOT NULL, credentials BLOB, replacing BLOB
    ) STRICT;
", "
    ALTER TABLE deployments ADD COLUMN touched_bytes INTEGER NOT NULL DEFAULT 0;
    UPDATE deployments SET touched_bytes = (
        SELECT coalesce(sum(16 + 2 * length(id) + length(flow) + coalesce(length(was_on), 0) + length(difference)), 0)
        FROM touched WHERE touched.number = deployments.number)
        WHERE number IN (SELECT number FROM touched);
    DROP INDEX deployments_of_runtime;
    CREATE INDEX deployments_of_runtime ON deployments (runtime, forgotten, at, bytes, touched_bytes);
", "
    ALTER TABLE session ADD COLUMN agent TEXT NOT NULL DEFAULT '';
    ALTER TABLE session ADD COLUMN networks TEXT;
    ALTER TABLE session ADD COLUMN rate_limit TEXT;
    CREATE TABLE used_code (
        user TEXT NOT NULL, code BLOB NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (user, code)
    ) STRICT, WITHOUT ROWID;
", "
    CREATE TABLE passkey (
        id BLOB PRIMARY KEY, user TEXT NOT NULL, name TEXT NOT NULL, handle BLOB NOT NULL, rp TEXT NOT NULL,
        algorithm INTEGER NOT NULL, key BLOB NOT NULL, counter INTEGER NOT NULL, password BLOB NOT NULL,
        created INTEGER NOT NULL, last_used INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX passkey_user ON passkey (user);
", "
    ALTER TABLE session ADD COLUMN creator TEXT;
"];

/// A person who looks into the database with a tool may hold it for a moment.
const BUSY: Duration = Duration::from_secs(5);

/// KiB of pages that `SQLite` keeps in memory (its default is 2,000): we read little and rarely twice.
const CACHE_KIB: i64 = 256;

/// Bytes of the write-ahead log kept after a checkpoint; one large deployment makes it many times that.
const LOG_BYTES: i64 = 1 << 20;

/// The open database.
pub(super) struct Database {
    connection: Connection,
}

impl Database {
    /// Opens the database, if it is whole, and brings its tables up to date.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        check(path)?;
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        migrate(&mut connection)?;
        Ok(Self { connection })
    }

    /// Opens a database that is there, of the present version, to read it beside who has it.
    pub(super) fn open_to_read(path: &Path) -> Result<Self, Error> {
        let connection = reading(path)?;
        let version = version(&connection)?;
        if version != MIGRATIONS.len() {
            return Err(Error::Database(format!(
                "it has version {version}, and this flowgate reads version {}: start this one on it",
                MIGRATIONS.len()
            )));
        }
        Ok(Self { connection })
    }

    pub(super) fn sessions(&self) -> Result<Vec<SessionRow>, Error> {
        let mut query = self.connection.prepare(
            "SELECT token, user, client, scope, created, expires, password, agent, networks, rate_limit, creator
             FROM session ORDER BY created",
        )?;
        let rows = query.query_map([], |row| {
            Ok(SessionRow {
                token: row.get(0)?,
                user: row.get(1)?,
                client: row.get(2)?,
                scope: scope(row, 3)?,
                created: seconds(row, 4)?,
                expires: seconds(row, 5)?,
                password: row.get(6)?,
                agent: row.get(7)?,
                networks: networks(row, 8)?,
                rate_limit: row.get(9)?,
                creator: row.get(10)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(super) fn save_session(&self, session: &SessionRow) -> Result<(), Error> {
        self.change(
            "INSERT OR REPLACE INTO session (token, user, client, scope, created, expires, password, agent, networks, rate_limit, creator)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                session.token,
                session.user,
                session.client,
                Value::from(session.scope.as_slice()).to_string(),
                integer(session.created),
                integer(session.expires),
                session.password,
                session.agent,
                session.networks.as_deref().map(|list| Value::from(list).to_string()),
                session.rate_limit,
                session.creator,
            ],
        )
    }

    pub(super) fn bind_sessions(&mut self, sessions: &[([u8; 32], [u8; 32])]) -> Result<(), Error> {
        let transaction = self.connection.transaction()?;
        for (token, password) in sessions {
            transaction
                .prepare_cached("UPDATE session SET password = ? WHERE token = ?")?
                .execute(params![password, token])?;
        }
        commit(transaction)
    }

    pub(super) fn remove_sessions(&mut self, tokens: &[[u8; 32]]) -> Result<(), Error> {
        let transaction = self.connection.transaction()?;
        for token in tokens {
            transaction
                .prepare_cached("DELETE FROM session WHERE token = ?")?
                .execute([token])?;
        }
        commit(transaction)
    }

    /// A single thing kept under a name.
    pub(super) fn fact(&self, name: &str) -> Result<Option<String>, Error> {
        let mut query = self
            .connection
            .prepare_cached("SELECT value FROM fact WHERE name = ?")?;
        Ok(query.query_row([name], |row| row.get(0)).optional()?)
    }

    pub(super) fn save_fact(&self, name: &str, value: &str) -> Result<(), Error> {
        self.change("INSERT OR REPLACE INTO fact VALUES (?, ?)", [name, value])
    }

    /// The editor's settings of a user.
    pub(super) fn user_settings(&self, user: &str) -> Result<Option<String>, Error> {
        let mut query = self
            .connection
            .prepare("SELECT value FROM user_settings WHERE user = ?")?;
        Ok(query.query_row([user], |row| row.get(0)).optional()?)
    }

    pub(super) fn save_user_settings(&self, user: &str, value: &str) -> Result<(), Error> {
        self.change("REPLACE INTO user_settings VALUES (?, ?)", [user, value])
    }

    /// One statement that is a transaction of its own.
    fn change(&self, sql: &str, values: impl Params) -> Result<(), Error> {
        failpoint::next().map_err(failed)?;
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }
}

/// Looks at every page (half a second for half a gigabyte). Through a connection that cannot write: one that can
/// writes when it is closed, and what is damaged stays as it is.
fn check(path: &Path) -> Result<(), Error> {
    let connection = reading(path)?;
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        return Ok(());
    }
    Err(Error::Damaged {
        what: DATABASE.into(),
        reason: found.replace('\n', " "),
    })
}

fn reading(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// The number of migrations applied to a database.
fn version(connection: &Connection) -> Result<usize, Error> {
    let version =
        connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

fn commit(transaction: Transaction<'_>) -> Result<(), Error> {
    failpoint::next().map_err(failed)?;
    Ok(transaction.commit()?)
}

fn migrate(connection: &mut Connection) -> Result<(), Error> {
    let version = version(connection)?;
    let Some(missing) = MIGRATIONS.get(version..) else {
        return Err(Error::Database(format!(
            "flowgate.db has version {version} and was made by a newer flowgate; this one knows versions up to {}",
            MIGRATIONS.len()
        )));
    };
    if missing.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for migration in missing {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(
        None,
        "user_version",
        i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX),
    )?;
    commit(transaction)
}

/// `SQLite` has no unsigned integers; no clock reaches the bound.
fn integer(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn seconds(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column)
        .map(|seconds| u64::try_from(seconds).unwrap_or(0))
}

fn scope(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<String>> {
    serde_json::from_str(&row.get::<_, String>(column)?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
    })
}

fn networks(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Vec<String>>> {
    match row.get::<_, Option<String>>(column)? {
        Some(_) => scope(row, column).map(Some),
        None => Ok(None),
    }
}

/// A failure of the system under the database.
fn failed(source: io::Error) -> Error {
    Error::Io {
        what: DATABASE.into(),
        source,
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => ErrorKind::StorageFull,
            Some(ErrorCode::ReadOnly) => ErrorKind::ReadOnlyFilesystem,
            Some(ErrorCode::CannotOpen) => ErrorKind::PermissionDenied,
            Some(ErrorCode::SystemIoFailure) => ErrorKind::Other,
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                return Self::Damaged {
                    what: DATABASE.into(),
                    reason: error.to_string(),
                };
            }
            _ => return Self::Database(error.to_string()),
        };
        failed(io::Error::new(kind, error))
    }
}
