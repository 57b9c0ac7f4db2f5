//! What must survive: sessions, history, the throttle's memory (one SQLite database) and the flow files
//! (`flows.json`, `flows_cred.json`, as Node-RED names and formats them). Callers see plain async functions, no SQL.

use crate::config;
use crate::flows::{Credentials, FlowSet};
use crate::secret::Secret;
use std::sync::Arc;

/// Storage failed. The text for the client names no path.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing failed.
    #[error("{what}: {source}")]
    Io {
        /// Which file, for the log.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The database failed.
    #[error("database: {0}")]
    Database(String),
    /// A flow file is not what it should be.
    #[error("{what}: {reason}")]
    Invalid {
        /// Which file, for the log.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// What is kept of a session; the token itself is not.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    /// SHA-256 of the token.
    pub token: [u8; 32],
    /// Its user.
    pub user: String,
    /// `service-admin`, `node-red-editor` …
    pub client: String,
    /// The scope asked for; empty: all that the user has at the time of use.
    pub scope: Vec<String>,
    /// When it was handed out, seconds since 1970.
    pub created: u64,
    /// When it ends, seconds since 1970.
    pub expires: u64,
}

/// One remembered failure of a sign-in.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureRow {
    /// The user named.
    pub user: String,
    /// The address, or its /64.
    pub address: String,
    /// Seconds since 1970.
    pub at: u64,
}

/// One accepted deployment, to be made durable.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its new revision.
    pub rev: String,
    /// The flow set.
    pub flows: Arc<FlowSet>,
    /// All credentials.
    pub credentials: Arc<Credentials>,
    /// Who deployed; empty: the program itself.
    pub user: String,
    /// `full`, `nodes`, `flows`, `reload`, `outside-edit`, `start` …
    pub kind: String,
    /// Seconds since 1970.
    pub at: u64,
}

/// What the flow files hold.
#[derive(Debug)]
pub struct Loaded {
    /// The flow set.
    pub flows: FlowSet,
    /// Its credentials; empty when they could not be decrypted (the log says so).
    pub credentials: Credentials,
    /// The revision of the last deployment, when the files are what it wrote; `None`: edited from outside, or never deployed.
    pub rev: Option<String>,
}

/// The store; clones share it.
#[derive(Clone)]
pub struct Store {}

impl Store {
    /// Opens or makes the data directory (mode 0700) and its database, and brings forward what a crash left half done.
    pub fn open(_config: &config::Storage) -> Result<Self, Error> {
        todo!()
    }

    /// All sessions.
    pub async fn sessions(&self) -> Result<Vec<SessionRow>, Error> {
        todo!()
    }

    /// Keeps a session.
    pub async fn save_session(&self, _session: SessionRow) -> Result<(), Error> {
        todo!()
    }

    /// Forgets sessions.
    pub async fn remove_sessions(&self, _tokens: Vec<[u8; 32]>) -> Result<(), Error> {
        todo!()
    }

    /// Failures of sign-in since a time; older ones are forgotten.
    pub async fn failures(&self, _since: u64) -> Result<Vec<FailureRow>, Error> {
        todo!()
    }

    /// Remembers a failure of sign-in.
    pub async fn save_failure(&self, _failure: FailureRow) -> Result<(), Error> {
        todo!()
    }

    /// Forgets the failures of one user from one address.
    pub async fn clear_failures(&self, _user: &str, _address: &str) -> Result<(), Error> {
        todo!()
    }

    /// The hash of the `admin` made at the first start, if one was made.
    pub async fn generated_admin(&self) -> Result<Option<Secret>, Error> {
        todo!()
    }

    /// Keeps the hash of the `admin` made at the first start.
    pub async fn save_generated_admin(&self, _hash: Secret) -> Result<(), Error> {
        todo!()
    }

    /// Reads the flow files. Missing files are an empty flow set; broken ones an error, and nothing is overwritten.
    pub async fn load(&self) -> Result<Loaded, Error> {
        todo!()
    }

    /// Whether `flows.json` now has other content (not only other formatting) than the last deployment wrote.
    pub async fn edited_outside(&self) -> Result<Option<Loaded>, Error> {
        todo!()
    }

    /// Makes a deployment durable: history row, then files (temp, fsync, rename, fsync of the directory).
    pub async fn commit(&self, _record: Record) -> Result<(), Error> {
        todo!()
    }

    /// Adds a flow set to the history without touching the files: an outside edit that a deployment replaces.
    pub async fn keep(&self, _record: Record) -> Result<(), Error> {
        todo!()
    }

    /// Whether flows were running when last told (`POST /flows/state`); true unless stopped.
    pub async fn running(&self) -> Result<bool, Error> {
        todo!()
    }

    /// Remembers whether flows run.
    pub async fn save_running(&self, _running: bool) -> Result<(), Error> {
        todo!()
    }
}
