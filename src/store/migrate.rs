//! Moves a gateway's state between the file in its data directory and the database that several
//! gateways share.

use super::Error;
use super::database::Database;
use super::directory::Directory;
use super::disk::open_file;
use crate::config;

/// Where the state is copied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrateTo {
    /// The file of the data directory.
    Sqlite,
    /// The database that `[storage] url` names.
    Postgres,
}

/// Copies users' sessions, the throttle's memory, passkeys, settings, proposals and the history of
/// upstreams into a database that has none of them; answers the number of rows. No gateway may run
/// on the data directory.
pub fn migrate(config: &config::Storage, to: MigrateTo) -> Result<usize, Error> {
    let Some(shared) = &config.shared else {
        let sentence =
            "storage.url names no database: it must be that of PostgreSQL, in both directions";
        return Err(Error::Database(sentence.to_owned()));
    };
    let directory = Directory::open(&config.directory)?;
    let secret = config.credential_secret.as_ref();
    let file = open_file(&directory)?.signed_with(secret)?;
    let shared = Database::open_shared(shared, secret)?;
    match to {
        MigrateTo::Postgres => file.copy_to(&shared),
        MigrateTo::Sqlite => shared.copy_to(&file),
    }
}
