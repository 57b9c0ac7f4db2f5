//! The `admin` of the first start, as long as the configuration has no user.

use super::database::{DATABASE, Database};
use super::{Error, GENERATED_ADMIN, Store};
use crate::config;
use crypto::Secret;

impl Store {
    /// The hash of the `admin` made at the first start, if one was made.
    pub async fn generated_admin(&self) -> Result<Option<Secret>, Error> {
        self.owner
            .ask(|disk| Ok(disk.database.fact(GENERATED_ADMIN)?.map(Secret::new)))
            .await
    }

    /// Keeps the hash of the `admin` made at the first start, unless another gateway has made one;
    /// answers the one that is kept.
    pub async fn claim_generated_admin(&self, hash: Secret) -> Result<Secret, Error> {
        self.owner
            .ask(move |disk| disk.database.claim_fact(GENERATED_ADMIN, hash.reveal()))
            .await
            .map(Secret::new)
    }

    /// Keeps the hash of the `admin` made at the first start.
    pub async fn save_generated_admin(&self, hash: Secret) -> Result<(), Error> {
        self.owner
            .ask(move |disk| disk.database.tell_fact(GENERATED_ADMIN, hash.reveal()))
            .await
    }

    /// Forgets the `admin` made at the first start, and the passkeys that are bound to this record
    /// of its password; false: there was none.
    pub async fn forget_generated_admin(&self, record: [u8; 32]) -> Result<bool, Error> {
        self.owner
            .ask(move |disk| disk.database.forget_generated_admin(&record))
            .await
    }
}

/// Returns whether the data directory has an `admin` of the first start, read next to a gateway
/// that may run. `None`: no gateway has used it, or it cannot be read so; a shared database is not
/// asked.
pub fn has_generated_admin(config: &config::Storage) -> Option<bool> {
    let file = config.directory.join(DATABASE);
    if config.shared.is_some() || !file.exists() {
        return None;
    }
    let database = Database::open_to_read(&file).ok()?;
    Some(database.fact(GENERATED_ADMIN).ok()?.is_some())
}
