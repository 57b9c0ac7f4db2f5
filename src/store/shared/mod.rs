//! The store that several gateways share: what others change, and whose turn a deployment is.
//!
//! Sessions and the throttle are in the memory of each gateway. Each follows the log of changes in
//! the database, and compares everything now and then; see docs/cluster.md.

mod engine_state;
mod follower;
mod lease;
mod turn;

#[cfg_attr(
    not(feature = "engine"),
    allow(unreachable_pub, reason = "engines of a cluster use it elsewhere, too")
)]
pub use engine_state::KeptState;
pub use follower::{Follower, SharedChange};
#[cfg_attr(
    not(feature = "engine"),
    allow(
        unreachable_pub,
        unused_imports,
        reason = "engines of a cluster use them elsewhere, too"
    )
)]
pub use lease::{Lease, Renewed, Seen};
pub use turn::Turn;

use super::database::{Connector, Database, SessionKey};
use super::{Error, Store};
use crate::config;
use std::time::Duration;

/// The time for an answer; then the connection counts as lost. Our choice.
const ANSWER: Duration = Duration::from_secs(3);

/// What every clone of a store on a shared database has.
#[derive(Clone)]
pub(super) struct Shared {
    connector: Connector,
    gateway: [u8; 16],
    /// The newest change when the store was opened.
    since: i64,
    grace: Duration,
}

impl Shared {
    /// That of an open database; `None`: it is a file.
    pub(super) fn of(database: &Database, config: &config::Storage) -> Result<Option<Self>, Error> {
        let Some(shared) = &config.shared else {
            return Ok(None);
        };
        Ok(Some(Self {
            connector: Connector::new(shared)?,
            gateway: database.gateway(),
            since: database.newest_change()?,
            grace: shared.grace,
        }))
    }
}

impl Store {
    /// For how long what is known of sessions counts while the database cannot be reached; `None`:
    /// no other gateway changes it.
    pub fn grace(&self) -> Option<Duration> {
        self.shared.as_ref().map(|shared| shared.grace)
    }

    /// Follows what other gateways change; `None`: there are none.
    pub fn follow(&self) -> Option<Follower> {
        let shared = self.shared.as_ref()?;
        let key = SessionKey::of(self.secret.as_ref());
        let connector = shared.connector.clone();
        Some(Follower::new(connector, shared.gateway, key, shared.since))
    }

    /// The lease of the engine that runs a shard, and its state that the gateways keep; `None`: no
    /// other gateway runs it. `shard`: empty, if it is the main one; `places`: those of all flows,
    /// as text.
    pub fn lease(&self, shard: &str, places: String) -> Option<(Lease, KeptState)> {
        let store = self.shared.as_ref()?;
        let lease = Lease::new(store.connector.clone(), shard.to_owned(), places);
        Some((lease, self.kept_state(shard)?))
    }

    /// The state of the engine that the gateways keep, as the engine of a shard has it; `None`: no
    /// other gateway runs it.
    pub fn kept_state(&self, shard: &str) -> Option<KeptState> {
        let store = self.shared.as_ref()?;
        Some(KeptState::new(store.connector.clone(), shard.to_owned()))
    }

    /// Waits until no other gateway deploys to a runtime, and keeps others from it until what it
    /// returns is dropped; `None`: there are no others. Not bounded in time: the caller is.
    pub async fn turn(&self, runtime: &str) -> Result<Option<Turn>, Error> {
        match &self.shared {
            None => Ok(None),
            Some(shared) => Turn::take(&shared.connector, runtime).await.map(Some),
        }
    }
}
