//! Follows what other gateways change: it is woken by PostgreSQL, and looks by itself when it is
//! not.

use super::ANSWER;
use crate::store::database::{self, CHANNEL, Connector, SessionKey, failure, limit};
use crate::store::{AddressRow, Error, FailureRow, SessionRow};
use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client};

/// The longest time between two looks. Our choice: half of the second within which a revocation
/// must arrive.
const LOOK: Duration = Duration::from_millis(500);

/// A change that another gateway has made.
#[derive(Debug)]
pub enum SharedChange {
    /// A session has begun, or its row has changed.
    Session(Box<SessionRow>),
    /// The session of the token with this hash has ended.
    SessionEnded([u8; 32]),
    /// A sign-in has failed.
    Failure(FailureRow),
    /// The failures of a user from an address count no more.
    FailuresCleared {
        /// The user.
        user: String,
        /// The address, or its /64.
        address: String,
    },
    /// A user has signed in from an address.
    KnownAddress(AddressRow),
    /// A fact has this value now.
    Fact {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// Changes may have been missed: everything has to be compared.
    Missed,
}

/// Follows the log of changes.
pub struct Follower {
    connector: Connector,
    gateway: [u8; 16],
    session_key: SessionKey,
    /// The number of the newest change that was read.
    newest: i64,
    connection: Option<Followed>,
}

struct Followed {
    client: Client,
    woken: Arc<Notify>,
}

impl Follower {
    pub(super) fn new(
        connector: Connector,
        gateway: [u8; 16],
        session_key: SessionKey,
        newest: i64,
    ) -> Self {
        Self {
            connector,
            gateway,
            session_key,
            newest,
            connection: None,
        }
    }

    /// Waits until there may be changes, for half a second at most.
    pub async fn wait(&self) {
        match &self.connection {
            Some(followed) => {
                // Elapsed: it looks without being woken.
                let _ = timeout(LOOK, followed.woken.notified()).await;
            }
            None => tokio::time::sleep(LOOK).await,
        }
    }

    /// The changes of other gateways since the last call, in their order. After an error all of
    /// them are still to come.
    pub async fn changes(&mut self) -> Result<Vec<SharedChange>, Error> {
        let followed = self.connected().await?;
        let asked = database::changes_since(
            &followed.client,
            &self.gateway,
            &self.session_key,
            self.newest,
        );
        let (changes, newest) = answer(timeout(ANSWER, asked).await)?;
        self.connection = Some(followed);
        self.newest = newest;
        Ok(changes)
    }

    /// All sessions, each with the time of its last use at any gateway.
    pub async fn sessions(&mut self) -> Result<Vec<(SessionRow, u64)>, Error> {
        let followed = self.connected().await?;
        let asked = database::sessions_with_uses(&followed.client, &self.session_key);
        let sessions = answer(timeout(ANSWER, asked).await)?;
        self.connection = Some(followed);
        Ok(sessions)
    }

    /// The connection, which is put back once it has answered.
    async fn connected(&mut self) -> Result<Followed, Error> {
        match self.connection.take() {
            Some(followed) => Ok(followed),
            None => connect(&self.connector).await,
        }
    }
}

fn answer<T>(answer: Result<Result<T, Error>, Elapsed>) -> Result<T, Error> {
    answer.unwrap_or_else(|_| Err(Error::Unreachable("it does not answer".to_owned())))
}

/// A connection on which PostgreSQL tells of changes.
async fn connect(connector: &Connector) -> Result<Followed, Error> {
    let (client, mut driver) = connector.open().await?;
    let woken = Arc::new(Notify::new());
    let wakes = Arc::clone(&woken);
    tokio::spawn(async move {
        let mut messages = poll_fn(move |cx| driver.poll_message(cx));
        while let Some(Ok(message)) = messages.next().await {
            if matches!(message, AsyncMessage::Notification(_)) {
                wakes.notify_one();
            }
        }
        // The next question finds that the connection is lost.
        wakes.notify_one();
    });
    limit(&client).await?;
    let listen = format!("LISTEN {CHANNEL}");
    let listens = timeout(ANSWER, client.batch_execute(&listen)).await;
    answer(listens.map(|listens| listens.map_err(|error| failure(&error))))?;
    Ok(Followed { client, woken })
}
