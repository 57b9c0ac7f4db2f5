//! The lease of an engine: which gateway of a cluster runs it. Each shard of the flows has an
//! engine, and a row.
//!
//! The row has a fencing number, which every change of the holder raises, and counts the holder's
//! renewals. Who wants the lease takes it once the row has stayed the same for a while, by a clock
//! of its own. So no clock is compared with that of another machine. It also has the places of
//! flows by which the holder runs its shard: leases by other places are taken by none meanwhile, so
//! no flow is in two shards that run.

use crate::store::Error;
use crate::store::database::{Connector, failure};
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

/// The time for an answer. Our choice: less than half of what a lease lasts, so that it can be
/// asked for again.
const ANSWER: Duration = Duration::from_secs(1);

/// The row as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Where other members reach the holder, `host:port`; `None`: no member holds it.
    pub holder: Option<String>,
    /// The fencing number.
    pub fence: i64,
    renewal: i64,
}

/// What came of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// It is held further.
    Held,
    /// The same, and the member that is to have it asks for it.
    Wanted,
    /// Another member holds it, or none.
    Lost,
}

/// The row of the lease.
pub struct Lease {
    connector: Connector,
    client: Option<Client>,
    /// The shard; empty: the main one.
    shard: String,
    /// The places of all flows, as text.
    places: String,
}

impl Lease {
    pub(super) fn new(connector: Connector, shard: String, places: String) -> Self {
        Self {
            connector,
            client: None,
            shard,
            places,
        }
    }

    /// The row.
    pub async fn see(&mut self) -> Result<Seen, Error> {
        let sql = "SELECT holder, fence, renewal FROM engine_lease WHERE shard = $1";
        let row = match self.ask(sql, &[]).await? {
            Some(row) => row,
            None => self.first().await?,
        };
        Ok(seen(&row))
    }

    /// The row of a shard that is new.
    async fn first(&mut self) -> Result<Row, Error> {
        let sql = "INSERT INTO engine_lease (shard, fence, holder, renewal) VALUES ($1, 0, NULL, 0)
                   ON CONFLICT (shard) DO UPDATE SET shard = excluded.shard RETURNING holder, fence, renewal";
        let row = self.ask(sql, &[]).await?;
        row.ok_or_else(|| Error::Database("the row of the lease is gone".to_owned()))
    }

    /// Takes it for who is reached there, if the row is still as it was seen; the new fencing
    /// number. `None`: it is not, or another shard is held by other places.
    pub async fn take(&mut self, seen: &Seen, holder: &str) -> Result<Option<i64>, Error> {
        let sql = "SELECT take_engine_lease($1, $2, $3, $4, $5)";
        let places = self.places.clone();
        let values: [&(dyn ToSql + Sync); 4] = [&seen.fence, &seen.renewal, &holder, &places];
        let row = self.ask(sql, &values).await?;
        Ok(row.and_then(|row| row.get(0)))
    }

    /// Renews it.
    pub async fn renew(&mut self, fence: i64) -> Result<Renewed, Error> {
        let sql = "UPDATE engine_lease SET renewal = renewal + 1
                   WHERE shard = $1 AND fence = $2 AND holder IS NOT NULL RETURNING wanted";
        let row = self.ask(sql, &[&fence]).await?;
        Ok(match row.map(|row| row.get(0)) {
            Some(true) => Renewed::Wanted,
            Some(false) => Renewed::Held,
            None => Renewed::Lost,
        })
    }

    /// Asks its holder for it.
    pub async fn want(&mut self, seen: &Seen) -> Result<(), Error> {
        let sql = "UPDATE engine_lease SET wanted = true
                   WHERE shard = $1 AND fence = $2 AND holder IS NOT NULL RETURNING fence";
        self.ask(sql, &[&seen.fence]).await.map(drop)
    }

    /// Gives it up, if it is still held.
    pub async fn release(&mut self, fence: i64) -> Result<(), Error> {
        let sql = "UPDATE engine_lease SET holder = NULL, fence = fence + 1, renewal = 0
                   WHERE shard = $1 AND fence = $2 RETURNING fence";
        self.ask(sql, &[&fence]).await.map(drop)
    }

    /// The leases of other shards that are held by other places, with the names of the shards.
    pub async fn others(&mut self) -> Result<Vec<(String, Seen)>, Error> {
        let sql = "SELECT holder, fence, renewal, shard FROM engine_lease
                   WHERE shard <> $1 AND holder IS NOT NULL AND places <> $2";
        let places = self.places.clone();
        let rows = self.rows(sql, &[&places]).await?;
        Ok(rows.iter().map(|row| (row.get(3), seen(row))).collect())
    }

    /// Takes that of another shard from its holder for no one, if the row is still as it was seen.
    pub async fn clear(&mut self, shard: &str, seen: &Seen) -> Result<(), Error> {
        let sql = "UPDATE engine_lease SET holder = NULL, fence = fence + 1, renewal = 0
                   WHERE shard <> $1 AND shard = $2 AND fence = $3 AND renewal = $4 RETURNING fence";
        let values: [&(dyn ToSql + Sync); 3] = [&shard, &seen.fence, &seen.renewal];
        self.ask(sql, &values).await.map(drop)
    }

    /// The row that a statement answers with.
    async fn ask(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        Ok(self.rows(sql, values).await?.pop())
    }

    /// The rows that a statement answers with, on a connection that has always answered in time.
    /// The first of its values is the shard.
    async fn rows(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        let asked = async {
            let client = match self.client.take() {
                Some(client) => client,
                None => self.connector.connect().await?,
            };
            let mut all: Vec<&(dyn ToSql + Sync)> = vec![&self.shard];
            all.extend(values);
            let rows = client.query(sql, &all).await;
            let rows = rows.map_err(|error| failure(&error))?;
            self.client = Some(client);
            Ok(rows)
        };
        let answer = timeout(ANSWER, asked).await;
        answer.unwrap_or_else(|_| Err(Error::Unreachable("it does not answer".to_owned())))
    }
}

/// A row that begins with holder, fencing number and renewals.
fn seen(row: &Row) -> Seen {
    Seen {
        holder: row.get(0),
        fence: row.get(1),
        renewal: row.get(2),
    }
}
