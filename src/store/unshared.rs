//! The store of a program that was built without PostgreSQL: no other gateway shares it.

#[cfg(feature = "engine")]
use super::EngineState;
use super::database::Database;
use super::{Error, Store};
use crate::config;
use std::time::Duration;

/// What a shared store has: there is none.
#[derive(Clone)]
pub(super) enum Shared {}

impl Shared {
    /// The database is a file.
    #[allow(
        clippy::unnecessary_wraps,
        reason = "it can fail in a program with PostgreSQL"
    )]
    pub(super) fn of(_: &Database, _: &config::Storage) -> Result<Option<Self>, Error> {
        Ok(None)
    }
}

/// The turn of a deployment among gateways: there are none.
#[derive(Debug)]
pub enum Turn {}

impl Turn {
    /// Whether it is still this gateway's.
    #[allow(
        clippy::unused_async,
        reason = "it asks the database in a program with PostgreSQL"
    )]
    pub async fn check(&self) -> Result<(), Error> {
        match *self {}
    }
}

/// The row of a lease as it was seen.
#[cfg(feature = "engine")]
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where other members reach the holder.
    pub holder: Option<String>,
    /// The fencing number.
    pub fence: i64,
}

/// What came of a renewal.
#[cfg(feature = "engine")]
pub enum Renewed {
    /// It is held further.
    Held,
    /// The same, and the member that is to have it asks for it.
    Wanted,
    /// Another member holds it, or none.
    Lost,
}

/// The lease of the engine: no other gateway runs it.
#[cfg(feature = "engine")]
pub enum Lease {}

#[cfg(feature = "engine")]
#[allow(
    clippy::unused_async,
    reason = "it asks the database in a program with PostgreSQL"
)]
impl Lease {
    /// The row.
    pub async fn see(&mut self) -> Result<Seen, Error> {
        match *self {}
    }

    /// Takes it.
    pub async fn take(&mut self, _: &Seen, _: &str) -> Result<Option<i64>, Error> {
        match *self {}
    }

    /// Renews it.
    pub async fn renew(&mut self, _: i64) -> Result<Renewed, Error> {
        match *self {}
    }

    /// Asks its holder for it.
    pub async fn want(&mut self, _: &Seen) -> Result<(), Error> {
        match *self {}
    }

    /// Gives it up.
    pub async fn release(&mut self, _: i64) -> Result<(), Error> {
        match *self {}
    }

    /// The leases of other shards.
    pub async fn others(&mut self) -> Result<Vec<(String, Seen)>, Error> {
        match *self {}
    }

    /// Takes that of another shard from its holder for no one.
    pub async fn clear(&mut self, _: &str, _: &Seen) -> Result<(), Error> {
        match *self {}
    }
}

/// The state of the engine that gateways keep: none does.
#[cfg(feature = "engine")]
pub enum KeptState {}

#[cfg(feature = "engine")]
#[allow(
    clippy::unused_async,
    reason = "it asks the database in a program with PostgreSQL"
)]
impl KeptState {
    /// Whether a part of the state is kept.
    pub fn keeps(&self, _: &str) -> bool {
        match *self {}
    }

    /// What changes when the flows do.
    pub async fn mark(&mut self) -> Result<String, Error> {
        match *self {}
    }

    /// The flows.
    pub async fn flows(&mut self) -> Result<EngineState, Error> {
        match *self {}
    }

    /// All of it.
    pub async fn all(&mut self) -> Result<EngineState, Error> {
        match *self {}
    }

    /// Keeps a part of it.
    pub async fn keep(&mut self, _: i64, _: &EngineState) -> Result<bool, Error> {
        match *self {}
    }
}

impl Store {
    /// No other gateway runs the engine.
    #[cfg(feature = "engine")]
    pub fn lease(&self, _: &str, _: String) -> Option<(Lease, KeptState)> {
        self.shared.as_ref().map(|shared| match *shared {})
    }

    /// No other gateway runs the engine.
    #[cfg(feature = "engine")]
    pub fn kept_state(&self, _: &str) -> Option<KeptState> {
        self.shared.as_ref().map(|shared| match *shared {})
    }

    /// No other gateway changes the store.
    pub fn grace(&self) -> Option<Duration> {
        self.shared.as_ref().map(|shared| match *shared {})
    }

    /// Every turn is this gateway's.
    #[allow(
        clippy::unused_async,
        reason = "it asks the database in a program with PostgreSQL"
    )]
    pub async fn turn(&self, _: &str) -> Result<Option<Turn>, Error> {
        Ok(None)
    }
}
