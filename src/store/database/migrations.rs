//! The tables of SQLite, version by version, and how a database is brought to the newest one.

use super::failed;
use crate::store::Error;
use crate::store::failpoint;
use rusqlite::Connection;

/// The migrations: entry n brings a database of version n (its `user_version`) to version n + 1.
/// Only ever added to.
pub(super) const MIGRATIONS: &[&str] = &["
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
", "
    ALTER TABLE session ADD COLUMN confirmed INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE session ADD COLUMN factor INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE session ADD COLUMN provider TEXT;
    ALTER TABLE session ADD COLUMN ask_after INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE used_once (key BLOB PRIMARY KEY, until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
", "
    CREATE TABLE intent (
        runtime TEXT PRIMARY KEY, user TEXT NOT NULL, how TEXT NOT NULL, address TEXT NOT NULL, kind TEXT NOT NULL,
        at INTEGER NOT NULL, message TEXT NOT NULL, base TEXT NOT NULL, sent TEXT NOT NULL, content BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
", "
    ALTER TABLE session ADD COLUMN mac BLOB;
", "
    ALTER TABLE proposal ADD COLUMN message TEXT NOT NULL DEFAULT '';
    ALTER TABLE proposal ADD COLUMN owner TEXT NOT NULL DEFAULT '';
    UPDATE proposal SET owner = CASE WHEN how LIKE 'token of %' THEN substr(how, 10) ELSE user END;
"];

/// The number of migrations applied to a database.
pub(super) fn version(connection: &Connection) -> Result<usize, Error> {
    let version =
        connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

/// Applies the migrations that a database lacks, in one transaction.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), Error> {
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
    failpoint::next().map_err(failed)?;
    Ok(transaction.commit()?)
}
