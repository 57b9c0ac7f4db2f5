//! The history, read from beside: the gateway may run or not, and nothing is changed.

use super::database::{DATABASE, Database};
use super::directory::failed;
use super::{Error, Revision};
use crate::config;
use std::io::ErrorKind;

/// The flow sets that were deployed.
pub struct History {
    database: Database,
}

impl History {
    /// Opens the database of the data directory, which must be there, to read it; or the one that
    /// gateways share.
    pub fn open(config: &config::Storage) -> Result<Self, Error> {
        if let Some(shared) = &config.shared {
            let database = Database::open_shared(shared, config.credential_secret.as_ref())?;
            return Ok(Self { database });
        }
        let file = config.directory.join(DATABASE);
        if !file.exists() {
            return Err(failed(&file, ErrorKind::NotFound.into()));
        }
        let database = Database::open_to_read(&file)?;
        Ok(Self { database })
    }

    /// All of them, newest first.
    pub fn all(&self) -> Result<Vec<Revision>, Error> {
        self.database.history()
    }

    /// The flows of the revision whose name begins like this, as JSON. Credentials are not part of
    /// it. It must be the only one.
    pub fn flows(&self, rev: &str) -> Result<Vec<u8>, Error> {
        let known = self.database.numbers(rev)?;
        let [number] = known[..] else {
            return Err(Error::Database(match known.len() {
                0 => format!("the history has no revision {rev:?}"),
                some => format!("the history has {some} revisions that begin with {rev:?}"),
            }));
        };
        Ok(self.database.files(number)?.flows.unwrap_or_default())
    }
}
