//! The state of the engine that the gateways of a cluster keep: its flows and what belongs to them, by name.

use super::ANSWER;
use crate::store::database::{Connector, failure};
use crate::store::{EngineState, Error};
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

/// The time for all of it to arrive or be written. Our choice: as long as PostgreSQL may take for a statement.
const TRANSFER: Duration = Duration::from_secs(8);

/// The kept state.
pub struct KeptState {
    connector: Connector,
    client: Option<Client>,
}

impl KeptState {
    pub(super) fn new(connector: Connector) -> Self {
        Self {
            connector,
            client: None,
        }
    }

    /// All of it; nothing: no engine of the cluster has run yet.
    pub async fn all(&mut self) -> Result<EngineState, Error> {
        let client = self.connected().await?;
        let asked = client.query("SELECT name, content FROM engine_state", &[]);
        let rows = timeout(TRANSFER, asked).await.map_err(|_| late())?;
        let rows = rows.map_err(|error| failure(&error))?;
        self.client = Some(client);
        let entry = |row: &tokio_postgres::Row| {
            let (name, content) = (row.get::<_, String>(0), row.get(1));
            let content = String::from_utf8(content).map_err(|_| Error::Invalid {
                what: name.clone(),
                reason: "it is no text".to_owned(),
            })?;
            Ok((name, content))
        };
        rows.iter().map(entry).collect()
    }

    /// Keeps a part of it for the holder of the lease; false: that is another one now.
    pub async fn keep(&mut self, fence: i64, state: &EngineState) -> Result<bool, Error> {
        // The lock does not wait for renewals, and a change of the holder waits for it: the fencing number is the row's key.
        let sql = "WITH held AS (
                       SELECT 1 FROM engine_lease WHERE fence = $1 AND holder IS NOT NULL FOR KEY SHARE
                   )
                   INSERT INTO engine_state (name, content)
                   SELECT part.name, part.content FROM unnest($2::text[], $3::bytea[]) AS part (name, content), held
                   ON CONFLICT (name) DO UPDATE SET content = excluded.content";
        let names: Vec<&str> = state.keys().map(String::as_str).collect();
        let contents: Vec<&[u8]> = state.values().map(String::as_bytes).collect();
        let client = self.connected().await?;
        let values: [&(dyn ToSql + Sync); 3] = [&fence, &names, &contents];
        let asked = client.execute(sql, &values);
        let kept = timeout(TRANSFER, asked).await.map_err(|_| late())?;
        let kept = kept.map_err(|error| failure(&error))?;
        self.client = Some(client);
        Ok(kept > 0)
    }

    /// The connection, which is put back once it has answered.
    async fn connected(&mut self) -> Result<Client, Error> {
        match self.client.take() {
            // A connection that was idle for long may be lost without a word.
            Some(client) => {
                let answers = timeout(ANSWER, client.simple_query("")).await;
                if matches!(answers, Ok(Ok(_))) {
                    return Ok(client);
                }
                self.connector.connect().await
            }
            None => self.connector.connect().await,
        }
    }
}

fn late() -> Error {
    Error::Unreachable("it does not answer".to_owned())
}
