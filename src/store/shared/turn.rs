//! The turn of a deployment among gateways: a lock of PostgreSQL, which ends with its connection.

use super::ANSWER;
use crate::store::Error;
use crate::store::database::{Connector, LOCK_IS_TAKEN, SHOW_LIFE, failure};
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

/// The turn of a deployment; dropped, others have theirs.
#[derive(Debug)]
pub struct Turn {
    client: Arc<Client>,
    alive: JoinHandle<()>,
}

impl Turn {
    pub(super) async fn take(connector: &Connector, runtime: &str) -> Result<Self, Error> {
        let client = Arc::new(connector.connect().await?);
        let sql =
            "SELECT pg_advisory_lock(hashtextextended('flowgate deploys to ' || $1, 0)) IS NULL";
        loop {
            match client.query(sql, &[&runtime]).await {
                Ok(_) => break,
                // The server's limit for one wait.
                Err(error) if error.code() == Some(&LOCK_IS_TAKEN) => {}
                Err(error) => return Err(failure(&error)),
            }
        }
        let shown = Arc::clone(&client);
        let alive = tokio::spawn(async move {
            loop {
                sleep(SHOW_LIFE).await;
                // Without an answer the turn is lost, which `check` finds.
                let _ = shown.simple_query("").await;
            }
        });
        Ok(Self { client, alive })
    }

    /// Fails if the turn is lost: the database was not reached for too long, and another gateway
    /// may deploy.
    pub async fn check(&self) -> Result<(), Error> {
        let answer = timeout(ANSWER, self.client.simple_query("")).await;
        let answer = answer.map_err(|_| Error::Unreachable("it does not answer".to_owned()))?;
        answer.map(drop).map_err(|error| failure(&error))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.alive.abort();
    }
}
