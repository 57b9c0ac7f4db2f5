//! The end of the audit log, which the database keeps as well: a log that is cut or deleted does
//! not begin again unseen.
//!
//! Gateways that share a database have one each.

use super::database::{DATABASE, Database};
use super::{AUDIT_HEAD, Error, Store};
use crate::config;

/// The name of the fact: in a shared database with the machine's name and the data directory.
pub(super) fn name(config: &config::Storage) -> String {
    if config.shared.is_none() {
        return AUDIT_HEAD.to_owned();
    }
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy();
    let directory = std::path::absolute(&config.directory);
    let directory = directory.unwrap_or_else(|_| config.directory.clone());
    format!("{AUDIT_HEAD}:{machine}:{}", directory.display())
}

/// Reads it next to a gateway that may run; `None`: there is none, or it cannot be read so. A
/// shared database is not asked.
pub fn audit_head(config: &config::Storage) -> Option<String> {
    let file = config.directory.join(DATABASE);
    if config.shared.is_some() || !file.exists() {
        return None;
    }
    let database = Database::open_to_read(&file).ok()?;
    database.fact(AUDIT_HEAD).ok()?
}

impl Store {
    /// The end of the audit log when it was kept last; `None`: there was no log.
    pub async fn audit_head(&self) -> Result<Option<String>, Error> {
        let name = self.audit_head.clone();
        self.owner.ask(move |disk| disk.database.fact(&name)).await
    }

    /// Keeps it, over what was there.
    pub async fn save_audit_head(&self, head: String) -> Result<(), Error> {
        let name = self.audit_head.clone();
        self.owner
            .ask(move |disk| disk.database.save_fact(&name, &head))
            .await
    }
}
