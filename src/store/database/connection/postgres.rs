//! A connection to PostgreSQL, made anew whenever it is lost.
//!
//! A statement that may not have been carried out is an error, [`Error::Unreachable`]; only what
//! reads is asked again. What writes is in a transaction, which PostgreSQL ends before this gateway
//! gives up on its answer.

use super::value::Value;
use super::{Connector, connector};
use crate::store::Error;
use bytes::BytesMut;
use std::cell::RefCell;
use std::error::Error as StdError;
use std::fmt::Write;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Row};

/// The time for an answer: a little more than the server's own limits for a statement, and for a
/// transaction that is idle.
const ANSWER: Duration = Duration::from_secs(10);

/// After a failure to connect, how long nothing is tried: callers wait in a queue, and must not
/// wait for each other's failures. Our choice.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection, used by one thread.
pub(in crate::store) struct Postgres {
    runtime: Runtime,
    connector: Connector,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// `None`: there is none, or it was lost.
    client: Option<Client>,
    /// A transaction goes on. If its connection is lost, nothing more happens until it ends.
    in_transaction: bool,
    /// When connecting failed.
    failed: Option<Instant>,
}

impl Postgres {
    /// Connects.
    pub(in crate::store) fn open(connector: Connector) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let postgres = Self {
            runtime: runtime.map_err(|source| Error::Io {
                what: "the store's connection".to_owned(),
                source,
            })?,
            connector,
            state: RefCell::default(),
        };
        postgres.batch("SELECT 1")?;
        Ok(postgres)
    }

    pub(super) fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        let (numbered, typed) = (numbered(sql), typed(values));
        self.ask(sql, &async |client| {
            client.query_typed(&numbered, &typed).await
        })
    }

    pub(super) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, Error> {
        let (numbered, typed) = (numbered(sql), typed(values));
        self.ask(sql, &async |client| {
            client.execute_typed(&numbered, &typed).await
        })
    }

    /// Carries out statements without values.
    pub(in crate::store::database) fn batch(&self, sql: &str) -> Result<(), Error> {
        self.ask(sql, &async |client| client.batch_execute(sql).await)
    }

    pub(super) fn begin(&self) -> Result<(), Error> {
        self.batch("BEGIN")?;
        self.state.borrow_mut().in_transaction = true;
        Ok(())
    }

    /// Ends the transaction.
    pub(super) fn end(&self, sql: &str) -> Result<(), Error> {
        let ended = self.batch(sql);
        self.state.borrow_mut().in_transaction = false;
        ended
    }

    /// Asks something, and once more on a new connection if it only reads and the connection was
    /// lost meanwhile.
    fn ask<T>(
        &self,
        sql: &str,
        question: &impl AsyncFn(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        let mut state = self.state.borrow_mut();
        let had_client = state.client.is_some();
        let reads = sql.starts_with("SELECT") || sql == "BEGIN";
        let answer = self.ask_once(&mut state, question);
        match answer {
            Err(Error::Unreachable(_)) if had_client && reads && !state.in_transaction => {
                self.ask_once(&mut state, question)
            }
            answer => answer,
        }
    }

    fn ask_once<T>(
        &self,
        state: &mut State,
        question: &impl AsyncFn(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        let client = match state.client.take() {
            Some(client) => client,
            None => self.connect(state)?,
        };
        // Its clock is the runtime's.
        let in_time = async { timeout(ANSWER, question(&client)).await };
        let answer = self.runtime.block_on(in_time);
        let answer = answer.map_err(|_| Error::Unreachable("it does not answer".to_owned()))?;
        match answer {
            Ok(answer) => {
                state.client = Some(client);
                Ok(answer)
            }
            Err(error) => {
                if !connector::is_lost(&error) {
                    state.client = Some(client);
                }
                Err(connector::failure(&error))
            }
        }
    }

    fn connect(&self, state: &mut State) -> Result<Client, Error> {
        if state.in_transaction {
            return Err(Error::Unreachable("the connection was lost".to_owned()));
        }
        if state.failed.is_some_and(|failed| failed.elapsed() < PAUSE) {
            return Err(Error::Unreachable(
                "it could not be reached just now".to_owned(),
            ));
        }
        let connected = self.runtime.block_on(self.connector.connect());
        state.failed = connected.is_err().then(Instant::now);
        connected
    }
}

/// The statement with `$1` in the place of `?` and `?1`.
fn numbered(sql: &str) -> String {
    let mut parts = sql.split('?');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (position, part) in parts.enumerate() {
        text.push('$');
        if !part.starts_with(|first: char| first.is_ascii_digit()) {
            // Writing to a text cannot fail.
            let _ = write!(text, "{}", position + 1);
        }
        text.push_str(part);
    }
    text
}

fn typed<'a>(values: &'a [Value<'a>]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    let each = values.iter();
    each.map(|value| (value as &(dyn ToSql + Sync), value.kind()))
        .collect()
}

impl Value<'_> {
    fn kind(&self) -> Type {
        match self {
            Self::Text(_) => Type::TEXT,
            Self::Integer(_) => Type::INT8,
            Self::Bytes(_) => Type::BYTEA,
            Self::Boolean(_) => Type::BOOL,
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            // PostgreSQL's texts have no NUL.
            Self::Text(Some(text)) if text.contains('\0') => {
                text.replace('\0', "\u{fffd}").to_sql(kind, out)
            }
            Self::Text(text) => text.to_sql(kind, out),
            Self::Integer(number) => number.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.to_sql(kind, out),
            Self::Boolean(yes) => yes.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Binary
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn places_of_values_are_numbered_as_postgresql_wants_it() {
        assert_eq!(numbered("a = ? AND b = ?"), "a = $1 AND b = $2");
        assert_eq!(numbered("a = ?2 OR b = ?1"), "a = $2 OR b = $1");
        assert_eq!(numbered("SELECT 1"), "SELECT 1");
    }
}
