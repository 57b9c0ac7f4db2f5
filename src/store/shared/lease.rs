//! The lease of the engine: which gateway of a cluster runs it.
//!
//! The row has a fencing number, which every change of the holder raises, and counts the holder's renewals. Who wants the lease takes
//! it once the row has stayed the same for a while, by a clock of its own. So no clock is compared with that of another machine.

use crate::store::Error;
use crate::store::database::{Connector, failure};
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

/// The time for an answer. Our choice: less than half of what a lease lasts, so that it can be asked for again.
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

/// The row of the lease.
pub struct Lease {
    connector: Connector,
    client: Option<Client>,
}

impl Lease {
    pub(super) fn new(connector: Connector) -> Self {
        Self {
            connector,
            client: None,
        }
    }

    /// The row.
    pub async fn see(&mut self) -> Result<Seen, Error> {
        let sql = "SELECT holder, fence, renewal FROM engine_lease";
        let row = self.ask(sql, &[]).await?;
        let row = row.ok_or_else(|| Error::Database("the row of the lease is gone".to_owned()))?;
        Ok(Seen {
            holder: row.get(0),
            fence: row.get(1),
            renewal: row.get(2),
        })
    }

    /// Takes it for who is reached there, if the row is still as it was seen; the new fencing number.
    pub async fn take(&mut self, seen: &Seen, holder: &str) -> Result<Option<i64>, Error> {
        let sql = "UPDATE engine_lease SET holder = $1, fence = fence + 1, renewal = 0
                   WHERE fence = $2 AND renewal = $3 RETURNING fence";
        let row = self
            .ask(sql, &[&holder, &seen.fence, &seen.renewal])
            .await?;
        Ok(row.map(|row| row.get(0)))
    }

    /// Renews it; false: another member holds it, or none.
    pub async fn renew(&mut self, fence: i64) -> Result<bool, Error> {
        let sql = "UPDATE engine_lease SET renewal = renewal + 1
                   WHERE fence = $1 AND holder IS NOT NULL RETURNING renewal";
        Ok(self.ask(sql, &[&fence]).await?.is_some())
    }

    /// Gives it up, if it is still held.
    pub async fn release(&mut self, fence: i64) -> Result<(), Error> {
        let sql = "UPDATE engine_lease SET holder = NULL, fence = fence + 1, renewal = 0
                   WHERE fence = $1 RETURNING fence";
        self.ask(sql, &[&fence]).await.map(drop)
    }

    /// The row that a statement answers with, on a connection that has always answered in time.
    async fn ask(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        let asked = async {
            let client = match self.client.take() {
                Some(client) => client,
                None => self.connector.connect().await?,
            };
            let row = client.query_opt(sql, values).await;
            let row = row.map_err(|error| failure(&error))?;
            self.client = Some(client);
            Ok(row)
        };
        let answer = timeout(ANSWER, asked).await;
        answer.unwrap_or_else(|_| Err(Error::Unreachable("it does not answer".to_owned())))
    }
}
