//! Stores persistent data: sessions, history, the throttle's memory (one `SQLite` database) and the
//! flow files (`flows.json`, `flows_cred.json`, as Node-RED names and formats them). Callers use
//! plain async functions, no SQL.

mod audit_head;
mod commit;
mod crash_loop;
mod credentials;
mod database;
mod deployments;
mod directory;
mod disk;
mod engine_state;
mod failpoint;
mod first_admin;
mod flow_files;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod history;
mod kept_there;
mod library;
mod load;
mod migrate;
mod node_history;
mod passkeys;
mod proposals;
mod recovery;
mod relocate;
mod replica;
mod secret_check;
mod sessions;
mod shared;
mod tags;
#[cfg(test)]
mod tests;
mod thread;
mod touched;
mod upstream_history;
mod write_ahead_log;
mod written;

pub use audit_head::audit_head;
pub use deployments::{Page, Past};
pub use engine_state::{flows_of, is_context, is_engine_state, is_global_context, take_over};
pub use first_admin::has_generated_admin;
pub use history::History;
pub use library::{Entry, Item, KINDS, LibraryPath};
pub use migrate::{MigrateTo, migrate};
pub use node_history::{NodeChange, NodePage};
pub use passkeys::{PasskeyAdded, PasskeyRow};
pub use proposals::{
    Added, Decision, NewProposal, Proposal, ProposalContent, ProposalFilter, ProposalState, TooMany,
};
pub use relocate::{Locked, has_flows_to_move, lock, move_flow_files};
pub use replica::{EngineState, Replica};
pub use secret_check::accept_new_secret;
pub use sessions::SessionRow;
pub use shared::Turn;
pub use shared::{Follower, SharedChange};
#[cfg(feature = "engine")]
pub use shared::{KeptState, Lease, Renewed, Seen};
pub use tags::Tagged;
pub use upstream_history::{Intent, UpstreamRecord};

use crate::allocator;
use crate::config;
use crypto::Secret;
use disk::Disk;
use flows::{Counts, Credentials, FlowSet};
use library::library_file;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use thread::StoreThread;
use tokio::sync::oneshot;

/// Storage failed. The text for the client names no path.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing failed.
    #[error("{what}: {source}{}", way_out(source))]
    Io {
        /// The file, for the log.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The database that gateways share cannot be reached, or was lost before it answered.
    #[error("the shared database cannot be reached: {0}")]
    Unreachable(String),
    /// The database that gateways share has changed nothing, because others are in the way.
    #[error("the shared database is busy: {reason}")]
    Busy {
        /// The database's message.
        reason: String,
        /// True if it has undone the whole transaction, which can be carried out again at once;
        /// else it was too slow.
        is_undone: bool,
    },
    /// The database failed.
    #[error("{0}")]
    Database(String),
    /// The gateways that share the database have another secret.
    #[error(
        "storage.credential_secret is another one than that of the gateways that share this database, whose credentials it \
         cannot decrypt: give this gateway the same one. If that one is lost, stop all gateways and run `flowgate store \
         new-secret` with the new one"
    )]
    OtherSecret,
    /// A deployment would replace credentials that cannot be decrypted, without new ones for all
    /// nodes that have some.
    #[error(
        "the stored credentials cannot be decrypted, and a deployment replaces them only with new ones for all nodes that have \
         some ({}): set storage.credential_secret to the secret that they were encrypted with and restart, or move \
         flows_cred.json elsewhere and deploy with type reload",
        missing(nodes)
    )]
    UnreadableCredentials {
        /// The nodes without new ones; empty: it is not known which have some.
        nodes: Vec<String>,
    },
    /// The database is not what it should be.
    #[error(
        "{what} is damaged ({reason}). It was left as it is. Put back a backup of the data directory; or move \
         flowgate.db, flowgate.db-wal and flowgate.db-shm elsewhere: the flows stay, everybody signs in again, and the \
         history begins anew"
    )]
    Damaged {
        /// The file, for the log.
        what: String,
        /// The fault found.
        reason: String,
    },
    /// Another process has the data directory.
    #[error(
        "{what}: another process uses this data directory{}; stop it or set another storage.directory",
        process.map(|number| format!(" (process {number})")).unwrap_or_default()
    )]
    InUse {
        /// The file, for the log.
        what: String,
        /// Its number, if it is known.
        process: Option<i32>,
    },
    /// A flow file is not what it should be.
    #[error("{what}: {reason}")]
    Invalid {
        /// The file, for the log.
        what: String,
        /// The fault found.
        reason: String,
    },
}

/// Names the nodes whose credentials a deployment lacks.
fn missing(nodes: &[String]) -> String {
    if nodes.is_empty() {
        "the history does not tell which".to_owned()
    } else {
        format!("it has none for {}", nodes.join(", "))
    }
}

/// The remedy for a failure of the system, for the operator.
fn way_out(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "; flowgate's user must own the data directory and what is in it (chown, chmod 700)"
        }
        ErrorKind::ReadOnlyFilesystem => {
            "; make it writable for flowgate's user (mount, chown, ReadWritePaths= of a systemd unit), or set another \
             storage.directory"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; make room on its disk: nothing was changed, and it can be tried again"
        }
        ErrorKind::FileTooLarge => "; raise the largest file size of this process (ulimit -f)",
        _ => "",
    }
}

/// A step of a deployment that changes nothing on disk comes now: a crash at it is tested like one
/// at the others.
pub fn step() {
    // The step itself cannot fail, so there is no error to return.
    let _ = failpoint::next();
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

/// An address that a user has signed in from.
#[derive(Debug, Clone, PartialEq)]
pub struct AddressRow {
    /// The user, as in [`FailureRow`].
    pub user: String,
    /// The address, or its /64.
    pub address: String,
    /// The last time, seconds since 1970.
    pub at: u64,
}

/// One accepted deployment, to be made durable.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its entry in the history.
    pub revision: Revision,
    /// The flow set.
    pub flows: Arc<FlowSet>,
    /// All credentials.
    pub credentials: Arc<Credentials>,
}

/// The content of the flow files.
#[derive(Debug)]
pub struct Loaded {
    /// The flow set.
    pub flows: FlowSet,
    /// Its credentials; empty when they could not be decrypted (which is logged).
    pub credentials: Credentials,
    /// True if there are credentials that could not be decrypted: nothing may replace them unasked.
    pub locked: bool,
    /// The revision of the last deployment, when the files are what it wrote; `None`: edited from
    /// outside, or never deployed.
    pub rev: Option<String>,
}

/// The flow files, before they are parsed.
#[derive(Debug)]
pub struct Reading {
    /// The number of times in a row that the process ended while reading just these.
    pub failed: u32,
    /// The revision of the last deployment, when they are what it wrote.
    pub rev: Option<String>,
}

/// One flow set in the history, without its content.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Revision {
    /// Its place in the history, which the store fills in: later ones have higher numbers.
    pub number: i64,
    /// The name of the upstream that has it; [`ENGINE`]: flowgate's own engine.
    pub runtime: String,
    /// Its name.
    pub rev: String,
    /// The revision deployed before it, which the store fills in; `None`: there was none.
    pub parent: Option<String>,
    /// The deploying user; empty: the program itself.
    pub user: String,
    /// How the user was identified, as in the audit log; empty: not at all.
    pub how: String,
    /// The client's address; empty: none.
    pub address: String,
    /// `full`, `nodes`, `flows`, `reload`, `outside-edit`, `start` …
    pub kind: String,
    /// Seconds since 1970.
    pub at: u64,
    /// Its difference to its parent; `None`: not counted.
    pub counts: Option<Counts>,
    /// What the user has said about it; empty: nothing.
    pub message: String,
    /// Its tags, which the store fills in.
    pub tags: Vec<String>,
}

/// The name of the engine in the history; no upstream has it.
pub const ENGINE: &str = "";
/// The name of the fact that holds the end of the audit log.
const AUDIT_HEAD: &str = "audit_head";
/// The name of the fact that holds the hash of the `admin` made at the first start.
pub const GENERATED_ADMIN: &str = "generated_admin";
/// The kind, in the history, of a deployment that the program made because the one after it did not
/// start.
pub const FALLBACK: &str = "fallback";
/// The kind, in the history, of a flow set that others have made.
pub const OUTSIDE_EDIT: &str = "outside-edit";
/// The name of the fact that holds the freeze that an operator has commanded.
pub const FREEZE: &str = "freeze";
/// The freeze that a fact holds: its end, seconds since 1970, and its reason.
pub fn freeze_of(value: &str) -> Option<(u64, String)> {
    let (until, reason) = value.split_once(' ')?;
    Some((until.parse().ok()?, reason.to_owned()))
}

/// The store; clones share it. When the last one is dropped, what was asked is done and everything
/// is closed.
#[derive(Clone)]
pub struct Store {
    owner: Arc<StoreThread>,
    /// True if upstreams have a history.
    upstream_history: bool,
    /// The secret of the configuration.
    secret: Option<Secret>,
    /// The name of the fact that holds the end of this gateway's audit log.
    audit_head: String,
    /// `None`: no other gateway has it.
    shared: Option<shared::Shared>,
}

impl Store {
    /// Opens or makes the data directory (mode 0700) and its database, and brings forward what a
    /// crash left half done. A second process on the same directory is refused.
    pub fn open(config: &config::Storage) -> Result<Self, Error> {
        let (owner, shared) = StoreThread::start(config)?;
        Ok(Self {
            owner: Arc::new(owner),
            upstream_history: config.history > 0,
            secret: config.credential_secret.clone(),
            audit_head: audit_head::name(config),
            shared,
        })
    }

    /// Failures of sign-in since a time, in the order they were remembered; older ones are
    /// forgotten.
    pub async fn failures(&self, since: u64) -> Result<Vec<FailureRow>, Error> {
        self.owner
            .ask(move |disk| disk.database.failures(since))
            .await
    }

    /// Remembers a failure of sign-in. The newest 100,000 are kept.
    pub async fn save_failure(&self, failure: FailureRow) -> Result<(), Error> {
        self.owner
            .ask(move |disk| disk.database.save_failure(&failure))
            .await
    }

    /// Forgets the failures of one user from one address.
    pub async fn clear_failures(&self, user: &str, address: &str) -> Result<(), Error> {
        let (user, address) = (user.to_owned(), address.to_owned());
        self.owner
            .ask(move |disk| disk.database.clear_failures(&user, &address))
            .await
    }

    /// The addresses that users have signed in from since a time; older ones are forgotten.
    pub async fn known_addresses(&self, since: u64) -> Result<Vec<AddressRow>, Error> {
        self.owner
            .ask(move |disk| disk.database.known_addresses(since))
            .await
    }

    /// Remembers an address that a user has signed in from. The newest `keep` of this user are
    /// kept.
    pub async fn save_known_address(&self, row: AddressRow, keep: usize) -> Result<(), Error> {
        self.owner
            .ask(move |disk| disk.database.save_known_address(&row, keep))
            .await
    }

    /// Forgets changes that were logged long ago.
    pub async fn forget_changes(&self) -> Result<(), Error> {
        self.owner.ask(|disk| disk.database.forget_changes()).await
    }

    /// Reads the flow files. Missing files are an empty flow set; broken ones an error, and nothing
    /// is overwritten.
    pub async fn load(&self) -> Result<Loaded, Error> {
        self.owner.ask(Disk::load).await
    }

    /// Returns the content of the flow files, if it was changed (not only its formatting or
    /// encryption) by anything but a deployment. A broken file is no edit: the next
    /// [`Self::commit`] sets it aside.
    pub async fn edited_outside(&self) -> Result<Option<Loaded>, Error> {
        self.owner.ask(|disk| disk.edited_outside()).await
    }

    /// Makes a deployment durable: history row, then files. Once this answers, every start finds
    /// it; after an error everything is as before. The files replaced stay as `.flows.json.backup`
    /// and `.flows_cred.json.backup`; a file that could not be read stays as
    /// `flows.json.broken-TIME` or `flows_cred.json.undecryptable`. Credentials that [`Self::load`]
    /// could not decrypt are replaced only by new ones for all nodes that have some.
    pub async fn commit(&self, record: Record) -> Result<(), Error> {
        self.owner.ask(move |disk| disk.commit(&record)).await
    }

    /// The same, unless `permitted` is answered with no, or dropped, once the history has its row:
    /// then everything is as before, and the answer is no.
    pub async fn commit_if(
        &self,
        record: Record,
        permitted: oneshot::Receiver<bool>,
    ) -> Result<bool, Error> {
        let commit = move |disk: &mut Disk| {
            disk.commit_if(&record, || permitted.blocking_recv() == Ok(true))
        };
        let committed = self.owner.ask(commit).await;
        // The answer does not wait for this.
        self.owner.send(|_| allocator::purge());
        committed
    }

    /// The revision of the deployment whose files a crash or a power failure had left behind, and
    /// that this start has finished: its audit record may be missing.
    pub async fn finished(&self) -> Result<Option<String>, Error> {
        self.owner.ask(|disk| Ok(disk.finished.take())).await
    }

    /// Adds a flow set to the history without touching the files: an outside edit that a deployment
    /// replaces.
    pub async fn keep(&self, record: Record) -> Result<(), Error> {
        self.owner.ask(move |disk| disk.keep(&record)).await
    }

    /// The history of all runtimes, newest first.
    pub async fn history(&self) -> Result<Vec<Revision>, Error> {
        self.owner.ask(|disk| disk.database.history()).await
    }

    /// The flow files are about to be read, which may end the process.
    pub async fn begin_reading(&self) -> Result<Reading, Error> {
        self.owner.ask(Disk::begin_reading).await
    }

    /// That has gone well, or the files are known to be broken.
    pub async fn end_reading(&self) -> Result<(), Error> {
        self.owner.ask(Disk::end_reading).await
    }

    /// Counts a start of a revision; answers how many there were in a row before it that neither
    /// settled nor ended well.
    pub async fn begin_start(&self, rev: &str) -> Result<u32, Error> {
        let rev = rev.to_owned();
        self.owner.ask(move |disk| disk.begin_start(&rev)).await
    }

    /// The flows have run for long enough, or are to be tried anew: earlier starts do not count any
    /// more.
    pub async fn forget_starts(&self) -> Result<(), Error> {
        self.owner.ask(Disk::forget_starts).await
    }

    /// The process ends well: its start does not count.
    pub async fn end_start(&self) -> Result<(), Error> {
        self.owner.ask(Disk::end_start).await
    }

    /// The flow set deployed before the active one, to be started if that does not start.
    pub async fn earlier(&self) -> Result<Option<Loaded>, Error> {
        self.owner.ask(|disk| disk.earlier()).await
    }

    /// Keeps the active flow set, which has this revision, beside as `flows.set-aside-REV.json`;
    /// the history calls it `set-aside`.
    pub async fn set_aside(&self, rev: &str) -> Result<(), Error> {
        let rev = rev.to_owned();
        self.owner
            .ask(move |disk| disk.set_aside_active(&rev))
            .await
    }

    /// The revision set aside, as long as the one started instead is active.
    pub async fn fallen_back(&self) -> Result<Option<String>, Error> {
        self.owner.ask(|disk| disk.fallen_back()).await
    }

    /// The editor's settings of a user, as JSON; `None`: nothing.
    pub async fn user_settings(&self, user: &str) -> Result<Option<String>, Error> {
        let user = user.to_owned();
        self.owner
            .ask(move |disk| disk.database.user_settings(&user))
            .await
    }

    /// Changes what the editor keeps for a user, in one piece; `change` gives nothing if it is to
    /// stay as it is, which is the answer then.
    pub async fn change_user_settings(
        &self,
        user: &str,
        change: impl FnOnce(Option<String>) -> Option<String> + Send + 'static,
    ) -> Result<bool, Error> {
        let user = user.to_owned();
        self.owner
            .ask(move |disk| {
                let changed = change(disk.database.user_settings(&user)?);
                if let Some(value) = &changed {
                    disk.database.save_user_settings(&user, value)?;
                }
                Ok(changed.is_some())
            })
            .await
    }

    /// Remembers that a code of a user's second factor was used; false: it was before.
    pub async fn use_code(&self, user: String, code: Vec<u8>, now: u64) -> Result<bool, Error> {
        self.owner
            .ask(move |disk| disk.database.use_code(&user, &code, now))
            .await
    }

    /// The entry at a path of the library; `None`: nothing.
    pub async fn library(&self, place: LibraryPath) -> Result<Option<Entry>, Error> {
        self.owner
            .ask(move |disk| disk.directory.library(&place))
            .await
    }

    /// Keeps a text in the library, over what was there, with facts about it in its first lines.
    pub async fn save_in_library(
        &self,
        place: LibraryPath,
        facts: Vec<(String, String)>,
        text: String,
    ) -> Result<(), Error> {
        let save = move |disk: &mut Disk| {
            let (name, content) = (
                disk.directory.library_name(&place),
                library_file(&facts, &text),
            );
            disk.replicate([(name, content)].into())?;
            disk.directory.save_in_library(&place, &facts, &text)
        };
        self.owner.ask(save).await
    }

    /// The end of the freeze that an operator has commanded, seconds since 1970, and its reason.
    pub async fn freeze(&self) -> Result<Option<(u64, String)>, Error> {
        let kept = self.owner.ask(|disk| disk.database.fact(FREEZE)).await?;
        Ok(kept.as_deref().and_then(freeze_of))
    }

    /// Keeps it, over what was there; `None`: there is none any more.
    pub async fn save_freeze(&self, freeze: Option<(u64, String)>) -> Result<(), Error> {
        let kept = freeze.map_or_else(String::new, |(until, reason)| format!("{until} {reason}"));
        self.owner
            .ask(move |disk| disk.database.tell_fact(FREEZE, &kept))
            .await
    }
}
