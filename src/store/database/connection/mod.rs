//! A connection to the database: SQLite's, or PostgreSQL's. Both are asked in the same SQL, with
//! `?` or `?1` for values.
//!
//! What only one of the two understands is in its own file; the tables of each are in `schema`.

mod connector;
mod postgres;
mod row;
mod sqlite;
mod value;

pub(in crate::store) use connector::{Connector, LOCK_IS_TAKEN, failure, limit};
pub(in crate::store) use postgres::Postgres;
pub(super) use row::{Row, unreadable};
pub(super) use value::{Value, values};

use super::failed;
use crate::store::Error;
use crate::store::failpoint;
use rusqlite::params_from_iter;

/// How often a transaction is carried out that PostgreSQL undoes each time. Our choice: each
/// attempt waits for the lock that the one before it did not get.
const MAX_ATTEMPTS: usize = 5;

/// A connection, used by one thread.
pub(super) enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres(Box<Postgres>),
}

impl Connection {
    /// All rows that a statement finds, each as `read` makes it.
    pub(super) fn query<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        match self {
            Self::Sqlite(connection) => {
                let mut query = connection.prepare_cached(sql)?;
                let mut rows = query.query(params_from_iter(values))?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    found.push(read(&Row::Sqlite(row))?);
                }
                Ok(found)
            }
            Self::Postgres(connection) => {
                let rows = connection.query(sql, values)?;
                rows.iter().map(|row| read(&Row::Postgres(row))).collect()
            }
        }
    }

    /// The first row that a statement finds; `None`: it finds none.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        Ok(self.query(sql, values, read)?.into_iter().next())
    }

    /// The one row that a statement always finds.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let found = self.first(sql, values, read)?;
        found.ok_or_else(|| Error::Database("a row is missing".to_owned()))
    }

    /// Carries out a statement; answers how many rows it has changed.
    pub(super) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, Error> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                let changed = statement.execute(params_from_iter(values))?;
                Ok(u64::try_from(changed).unwrap_or(u64::MAX))
            }
            Self::Postgres(connection) => connection.execute(sql, values),
        }
    }

    /// Carries out statements without values.
    pub(super) fn batch(&self, sql: &str) -> Result<(), Error> {
        match self {
            Self::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            Self::Postgres(connection) => connection.batch(sql),
        }
    }

    /// Begins a transaction. Dropped before [`Transaction::commit`], it has changed nothing.
    pub(super) fn begin(&self) -> Result<Transaction<'_>, Error> {
        match self {
            Self::Sqlite(connection) => connection.execute_batch("BEGIN")?,
            Self::Postgres(connection) => connection.begin()?,
        }
        Ok(Transaction {
            connection: self,
            is_open: true,
        })
    }

    /// Carries out a transaction, and does so again if PostgreSQL has undone it for the sake of
    /// another one. PostgreSQL ends a transaction that is idle before this gateway gives up on its
    /// `COMMIT`, so a change that was reported as failed cannot arrive later and replace a newer
    /// one.
    ///
    /// Locks are taken in one order, so that no two transactions wait for each other: the lock of
    /// the log of changes, then rows, those of one table by their keys.
    pub(super) fn transact<T>(
        &self,
        work: impl Fn(&Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut attempts = 1;
        loop {
            match self.attempt(&work) {
                Err(Error::Busy {
                    is_undone: true, ..
                }) if attempts < MAX_ATTEMPTS => {
                    attempts += 1;
                }
                done => return done,
            }
        }
    }

    fn attempt<T>(&self, work: impl Fn(&Transaction<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let transaction = self.begin()?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Returns whether other gateways have connections to the same database.
    pub(super) fn is_shared(&self) -> bool {
        !matches!(self, Self::Sqlite(_))
    }

    fn end(&self, sql: &str) -> Result<(), Error> {
        match self {
            Self::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            Self::Postgres(connection) => connection.end(sql),
        }
    }
}

/// A transaction under way.
pub(super) struct Transaction<'a> {
    connection: &'a Connection,
    is_open: bool,
}

impl Transaction<'_> {
    /// Makes durable what it has changed.
    pub(super) fn commit(mut self) -> Result<(), Error> {
        failpoint::next().map_err(failed)?;
        self.is_open = false;
        let committed = self.connection.end("COMMIT");
        if committed.is_err() {
            // SQLite leaves it open when the disk is full. Without it there is nothing to undo.
            let _ = self.connection.end("ROLLBACK");
        }
        committed
    }
}

impl std::ops::Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // A connection that is lost has undone it.
            let _ = self.connection.end("ROLLBACK");
        }
    }
}
