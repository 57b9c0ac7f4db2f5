//! The store of a program that was built without PostgreSQL: no other gateway shares it.

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

impl Store {
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
