//! What a gateway reads of the log of changes, and of all sessions, on a connection of its own.

use super::changes::{FACT, FAILURE, FAILURES_CLEARED, KNOWN_ADDRESS, SESSION, SESSION_ENDED};
use super::connection::{Row, failure};
use super::session_key::{COLUMNS, SessionKey};
use crate::store::{AddressRow, Error, FailureRow, SessionRow, SharedChange};
use tokio_postgres::Client;

/// The most changes that are read at a time.
const MOST: i64 = 1000;

/// The changes of other gateways after one, in their order, and the number of the newest one that
/// was read.
pub(in crate::store) async fn changes_since(
    client: &Client,
    gateway: &[u8; 16],
    key: &SessionKey,
    newest: i64,
) -> Result<(Vec<SharedChange>, i64), Error> {
    let ends = "SELECT coalesce(min(number), 0), coalesce(max(number), 0) FROM change";
    let ends = client.query_one(ends, &[]).await;
    let ends = ends.map_err(|error| failure(&error))?;
    let (first, last): (i64, i64) = (ends.get(0), ends.get(1));
    // The log before `first` was cut; one that ends before `newest` is that of a replica that had
    // not received all.
    if last < newest || first > newest + 1 {
        return Ok((vec![SharedChange::Missed], last));
    }
    let sql = format!(
        "SELECT change.number, change.kind, change.key, change.name, change.address, change.at, fact.value,
            change.gateway = $1, {COLUMNS}, session.mac
         FROM change LEFT JOIN session ON change.kind = '{SESSION}' AND session.token = change.key
            LEFT JOIN fact ON change.kind = '{FACT}' AND fact.name = change.name
         WHERE change.number > $2 ORDER BY change.number LIMIT $3"
    );
    let rows = client
        .query(&sql, &[&gateway.as_slice(), &newest, &MOST])
        .await;
    let rows = rows.map_err(|error| failure(&error))?;
    let mut changes = Vec::new();
    let mut read = newest;
    for row in &rows {
        let row = Row::Postgres(row);
        read = row.get(0)?;
        let is_own: bool = row.get(7)?;
        if !is_own {
            changes.extend(change(&row, key)?);
        }
    }
    Ok((changes, read))
}

/// The change of a row; `None`: a later one says more, or this flowgate does not know its kind.
fn change(row: &Row<'_>, key: &SessionKey) -> Result<Option<SharedChange>, Error> {
    let kind: String = row.get(1)?;
    Ok(match kind.as_str() {
        SESSION => {
            let token: Option<Vec<u8>> = row.get(8)?;
            match token {
                Some(_) => {
                    let session = key.verified(row, 8)?;
                    session.map(|session| SharedChange::Session(Box::new(session)))
                }
                None => None,
            }
        }
        SESSION_ENDED => Some(SharedChange::SessionEnded(row.hash(2)?)),
        FAILURE => Some(SharedChange::Failure(FailureRow {
            user: row.get(3)?,
            address: row.get(4)?,
            at: row.unsigned(5)?,
        })),
        FAILURES_CLEARED => Some(SharedChange::FailuresCleared {
            user: row.get(3)?,
            address: row.get(4)?,
        }),
        KNOWN_ADDRESS => Some(SharedChange::KnownAddress(AddressRow {
            user: row.get(3)?,
            address: row.get(4)?,
            at: row.unsigned(5)?,
        })),
        FACT => {
            let value: Option<String> = row.get(6)?;
            Some(SharedChange::Fact {
                name: row.get(3)?,
                value: value.unwrap_or_default(),
            })
        }
        _ => None,
    })
}

/// All sessions, each with the time of its last use at any gateway.
pub(in crate::store) async fn sessions_with_uses(
    client: &Client,
    key: &SessionKey,
) -> Result<Vec<(SessionRow, u64)>, Error> {
    let sql = format!("SELECT {COLUMNS}, mac, used FROM session ORDER BY created");
    let rows = client.query(&sql, &[]).await;
    let rows = rows.map_err(|error| failure(&error))?;
    let rows = rows.iter().map(Row::Postgres);
    let read = rows.map(|row| {
        let session = key.verified(&row, 0)?;
        Ok(session.zip(Some(row.unsigned("used")?)))
    });
    Ok(read
        .collect::<Result<Vec<_>, Error>>()?
        .into_iter()
        .flatten()
        .collect())
}
