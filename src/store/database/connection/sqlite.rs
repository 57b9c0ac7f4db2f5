//! Opens the database file of SQLite, and says what its errors mean.

use crate::store::Error;
use crate::store::database::migrations::{MIGRATIONS, migrate, version};
use crate::store::database::{DATABASE, failed};
use rusqlite::trace::config_log;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

/// A person who looks into the database with a tool may hold it for a moment.
const BUSY: Duration = Duration::from_secs(5);

/// KiB of pages that `SQLite` keeps in memory (its default is 2,000): we read little and rarely
/// twice.
const CACHE_KIB: i64 = 256;

/// Bytes of the write-ahead log kept after a checkpoint; one large deployment makes it many times
/// that.
const LOG_BYTES: i64 = 1 << 20;

/// `SQLITE_NOTICE_RECOVER_WAL` (<https://www.sqlite.org/rescode.html>).
const RECOVERED: i32 = 283;

/// Logs how many frames of a write-ahead log `SQLite` has recovered.
fn log_recovery() {
    static ONCE: Once = Once::new();
    let log = |code, message: &str| {
        if code == RECOVERED {
            tracing::info!("SQLite: {message}");
        }
    };
    #[allow(
        unsafe_code,
        reason = "nothing else configures SQLite, and the first connection is opened afterwards"
    )]
    ONCE.call_once(|| {
        // An error: a connection is there already, and nothing is logged.
        let _ = unsafe { config_log(Some(log)) };
    });
}

impl super::Connection {
    /// Opens a database, if it is whole, and brings its tables up to date.
    pub(in crate::store::database) fn open_file(path: &Path) -> Result<Self, Error> {
        log_recovery();
        check(path)?;
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        migrate(&mut connection)?;
        Ok(Self::Sqlite(connection))
    }

    /// Opens a database that is there, of the present version, to read it beside who has it.
    pub(in crate::store::database) fn open_file_to_read(path: &Path) -> Result<Self, Error> {
        let connection = reading(path)?;
        let version = version(&connection)?;
        if version != MIGRATIONS.len() {
            return Err(Error::Database(format!(
                "flowgate.db has version {version}, and this flowgate reads version {}: start this one on it",
                MIGRATIONS.len()
            )));
        }
        Ok(Self::Sqlite(connection))
    }

    /// Carries out something whose durability may wait for the next checkpoint.
    pub(in crate::store::database) fn relaxed<T>(
        &self,
        change: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let synchronous = |mode: &str| match self {
            Self::Sqlite(connection) => connection.pragma_update(None, "synchronous", mode),
            Self::Postgres(_) => Ok(()),
        };
        synchronous("NORMAL")?;
        let changed = change();
        synchronous("FULL")?;
        changed
    }
}

/// Looks at every page (half a second for half a gigabyte). Through a connection that cannot write:
/// one that can writes when it is closed, and what is damaged stays as it is.
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
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let connection = if Path::new(&log).exists() {
        Connection::open_with_flags(path, flags)?
    } else {
        // Without a log no process has the file open. A reader would leave an empty log, which it
        // cannot remove.
        let name = format!("file:{}?immutable=1", encoded(path));
        Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_URI)?
    };
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// The path in a URI (<https://www.sqlite.org/uri.html> §3.2).
fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(*byte)),
            byte => {
                let digits = crypto::hex(&[*byte]);
                text.push('%');
                text.push_str(&digits);
            }
        }
    }
    text
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
            _ => return Self::Database(format!("flowgate.db: {error}")),
        };
        failed(io::Error::new(kind, error))
    }
}
