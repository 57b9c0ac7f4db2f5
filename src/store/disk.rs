//! Everything on disk that one thread owns: directory, database, and how to reach the credentials.

use super::credentials;
use super::database::{DATABASE, Database, Retention};
use super::directory::Directory;
use super::flow_files::{CREDENTIALS, FLOWS, FlowFiles};
use super::kept_there::KeptThere;
use super::replica::Replica;
use super::written::{FileIds, Written};
use super::{Error, write_ahead_log};
use crate::config;
use crypto::Secret;
use std::collections::HashMap;

/// The state of the store's thread. The database closes before the directory is unlocked.
pub(super) struct Disk {
    pub(super) database: Database,
    pub(super) directory: Directory,
    /// True if the start of this process is counted.
    pub(super) counted: bool,
    /// How much of the history is kept.
    pub(super) retention: Retention,
    /// The revision of the deployment that the start had to finish.
    pub(super) finished: Option<String>,
    /// What the newest deployment wrote, if this process made it.
    pub(super) written: Option<Written>,
    /// The newest deployment, while its files are not forced to disk.
    pub(super) unsynced: Option<i64>,
    /// What keeps the state of the engine elsewhere; `None`: nothing does.
    pub(super) replica: Option<Replica>,
    /// What this process has added last to the history of each upstream.
    pub(super) kept_there: HashMap<String, KeptThere>,
    /// SHA-256 of the credentials file that could not be decrypted when the flow files were last
    /// loaded.
    pub(super) unread: Option<[u8; 32]>,
    pub(super) credential_secret: Option<Secret>,
}

impl Disk {
    /// Opens everything and finishes what a crash interrupted.
    pub(super) fn open(config: &config::Storage) -> Result<Self, Error> {
        let directory = Directory::open(&config.directory)?;
        let secret = config.credential_secret.as_ref();
        let database = match &config.shared {
            None => open_file(&directory)?.signed_with(secret)?,
            Some(shared) => Database::open_shared(shared, secret)?,
        };
        let mut disk = Self {
            database,
            directory,
            counted: false,
            retention: Retention {
                earlier: config.history,
                age: config.history_age.as_secs(),
                bytes: config.history_bytes,
            },
            finished: None,
            written: None,
            unsynced: None,
            replica: None,
            kept_there: HashMap::new(),
            unread: None,
            credential_secret: config.credential_secret.clone(),
        };
        disk.prove_secret()?;
        disk.finished = disk.bring_forward()?;
        disk.list_touched()?;
        Ok(disk)
    }

    pub(super) fn read_files(&self) -> Result<FlowFiles, Error> {
        Ok(FlowFiles {
            flows: self.directory.read(FLOWS)?,
            credentials: self.directory.read(CREDENTIALS)?,
        })
    }

    /// The newest deployment, if this process made it and the files are still those that it has
    /// written.
    pub(super) fn intact(&self) -> Result<Option<&Written>, Error> {
        let Some(written) = &self.written else {
            return Ok(None);
        };
        Ok((self.file_ids()? == written.files).then_some(written))
    }

    pub(super) fn file_ids(&self) -> Result<FileIds, Error> {
        Ok([self.directory.id(CREDENTIALS)?, self.directory.id(FLOWS)?])
    }

    /// The secrets of the credentials file; the first one encrypts.
    pub(super) fn secrets(&self) -> Result<Vec<Secret>, Error> {
        credentials::secrets(&self.directory, self.credential_secret.as_ref())
    }
}

/// Opens the database's file in the directory.
pub(super) fn open_file(directory: &Directory) -> Result<Database, Error> {
    // SQLite gives its other files the mode of this one.
    directory.make(DATABASE)?;
    write_ahead_log::keep(directory)?;
    Database::open(&directory.path(DATABASE)).map_err(|error| located(error, directory))
}

/// The same error with the whole path of the database.
fn located(error: Error, directory: &Directory) -> Error {
    let what = directory.path(DATABASE).display().to_string();
    match error {
        Error::Io { source, .. } => Error::Io { what, source },
        Error::Damaged { reason, .. } => Error::Damaged { what, reason },
        other => other,
    }
}
