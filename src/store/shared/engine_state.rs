//! The state of the engine that the gateways of a cluster keep: its flows and what belongs to them,
//! by name.
//!
//! The main engine keeps all of it. That of another shard keeps the contexts of its flows, and its
//! own global context, whose names begin with that of the shard and a colon.

use super::ANSWER;
use crate::store::database::{Connector, failure, pack, unpack};
use crate::store::engine_state::{DEPLOYED, MARKS};
use crate::store::{EngineState, Error, is_context, is_engine_state, is_global_context};
use std::borrow::Cow;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

/// The time for all of it to arrive or be written. Our choice: as long as PostgreSQL may take for a
/// statement.
const TRANSFER: Duration = Duration::from_secs(8);

/// The bytes from which a part is compressed. Our choice: PostgreSQL compresses what is longer than
/// 2 KB itself, and takes longer.
const LONG: usize = 2048;

/// The kept state.
pub struct KeptState {
    connector: Connector,
    client: Option<Client>,
    /// The shard; empty: the main one.
    shard: String,
    /// The number of the last write that was sent.
    number: i64,
}

impl KeptState {
    pub(super) fn new(connector: Connector, shard: String) -> Self {
        Self {
            connector,
            client: None,
            shard,
            number: 0,
        }
    }

    /// Returns whether a part of the state is one that this shard keeps.
    pub fn keeps(&self, name: &str) -> bool {
        if self.shard.is_empty() {
            is_engine_state(name)
        } else {
            is_context(name)
        }
    }

    /// What changes when the flows do, or whether they run.
    pub async fn mark(&mut self) -> Result<String, Error> {
        let client = self.connected().await?;
        let sql = "SELECT coalesce(string_agg(encode(content, 'escape'), ' ' ORDER BY name), '')
                   FROM engine_state WHERE name = ANY($1)";
        let values: [&(dyn ToSql + Sync); 1] = [&MARKS];
        let asked = timeout(ANSWER, client.query_one(sql, &values));
        let row = asked.await.map_err(|_| late())?;
        let row = row.map_err(|error| failure(&error))?;
        self.client = Some(client);
        Ok(row.get(0))
    }

    /// All of it; nothing: no engine of the cluster has run yet.
    pub async fn all(&mut self) -> Result<EngineState, Error> {
        let sql = "SELECT name, content, packed FROM engine_state";
        self.query(sql, &[]).await
    }

    /// The flows, and whether they run.
    pub async fn flows(&mut self) -> Result<EngineState, Error> {
        let sql = "SELECT name, content, packed FROM engine_state WHERE name = ANY($1)";
        self.query(sql, &[&DEPLOYED]).await
    }

    async fn query(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<EngineState, Error> {
        let client = self.connected().await?;
        let asked = client.query(sql, values);
        let rows = timeout(TRANSFER, asked).await.map_err(|_| late())?;
        let rows = rows.map_err(|error| failure(&error))?;
        self.client = Some(client);
        let entry = |row: &tokio_postgres::Row| {
            let name = self.name_here(row.get(0))?;
            let content = as_text(row.get(1), row.get(2));
            let content = content.ok_or_else(|| Error::Invalid {
                what: name.to_owned(),
                reason: "it is no text".to_owned(),
            });
            Some(content.map(|content| (name.to_owned(), content)))
        };
        rows.iter().filter_map(entry).collect()
    }

    /// A name in the database as the engine of the shard has it; `None`: it is that of another one.
    fn name_here<'n>(&self, name: &'n str) -> Option<&'n str> {
        match name.split_once(':') {
            Some((shard, name)) if !shard.contains('/') => (shard == self.shard).then_some(name),
            _ => (self.shard.is_empty() || !is_global_context(name)).then_some(name),
        }
    }

    fn name_in_database(&self, name: &str) -> String {
        if self.shard.is_empty() || !is_global_context(name) {
            name.to_owned()
        } else {
            format!("{}:{name}", self.shard)
        }
    }

    /// Keeps a part of it for the holder of the lease; false: that is another one now. Each attempt
    /// has a number, and one that arrives after a later one changes nothing: a write that took too
    /// long and was sent again may still be on its way.
    pub async fn keep(&mut self, fence: i64, state: &EngineState) -> Result<bool, Error> {
        // The lock does not wait for renewals, and a change of the holder waits for it: the fencing
        // number is the row's key.
        let sql = "WITH held AS (
                       SELECT 1 FROM engine_lease WHERE shard = $4 AND fence = $1 AND holder IS NOT NULL FOR KEY SHARE
                   ), newest AS (
                       INSERT INTO engine_write (shard, fence, number) SELECT $4, $1, $6::bigint FROM held
                       ON CONFLICT (shard) DO UPDATE SET fence = excluded.fence, number = excluded.number
                       WHERE (engine_write.fence, engine_write.number) < (excluded.fence, excluded.number)
                       RETURNING 1
                   )
                   INSERT INTO engine_state (name, content, packed)
                   SELECT part.name, part.content, part.packed
                   FROM unnest($2::text[], $3::bytea[], $5::boolean[]) AS part (name, content, packed), newest
                   ON CONFLICT (name) DO UPDATE SET content = excluded.content, packed = excluded.packed";
        self.number += 1;
        let number = self.number;
        let names: Vec<String> = state
            .keys()
            .map(|name| self.name_in_database(name))
            .collect();
        let (contents, packed): (Vec<Cow<'_, [u8]>>, Vec<bool>) =
            state.values().map(|text| as_stored(text)).unzip();
        let client = self.connected().await?;
        let shard = self.shard.clone();
        let values: [&(dyn ToSql + Sync); 6] =
            [&fence, &names, &contents, &shard, &packed, &number];
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

/// The bytes of a part in the database, and whether they are compressed.
fn as_stored(text: &str) -> (Cow<'_, [u8]>, bool) {
    if text.len() < LONG {
        (Cow::Borrowed(text.as_bytes()), false)
    } else {
        (Cow::Owned(pack(text)), true)
    }
}

/// The text of a part that was stored so; `None`: it is damaged.
fn as_text(content: Vec<u8>, is_packed: bool) -> Option<String> {
    if is_packed {
        unpack(&content)
    } else {
        String::from_utf8(content).ok()
    }
}

fn late() -> Error {
    Error::Unreachable("it does not answer".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_again_and_a_long_text_takes_less() {
        for text in [
            String::new(),
            "true".to_owned(),
            "{\"a\":\"ä\"}".repeat(LONG),
        ] {
            let (bytes, is_packed) = as_stored(&text);
            assert_eq!(is_packed, text.len() >= LONG);
            assert!(!is_packed || bytes.len() < text.len() / 10);
            assert_eq!(as_text(bytes.into_owned(), is_packed), Some(text));
        }
        assert_eq!(as_text(b"damaged".to_vec(), true), None);
    }
}
