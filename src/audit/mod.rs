//! Writes audit records (user, event, time, address) as append-only lines of JSON to `audit.log` in
//! the data directory, or to standard output.
//!
//! Each line carries its number and the hash of the line before, so that [`verify()`] finds lines
//! changed, removed or moved, and [`checkpoint`]s sign the chain. [`mod@record`] defines the form
//! of a line, [`log`] the files, [`rotation`] selects those to remove, [`writer`] is the thread
//! that writes them, [`reading`] shows them to people; [`mod@queue`] and [`suppression`] keep
//! refused requests from filling them. The callers supply the event and its fields; no secret may
//! be among them.

mod anchor;
mod checkpoint;
mod event;
mod files;
mod follow;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod health;
mod log;
mod queue;
mod reading;
mod record;
mod rotation;
mod signatures;
mod suppression;
mod verify;
mod writer;

pub use anchor::Anchor;
pub use checkpoint::{KeyError, PublicKey, SigningKey};
pub use event::Event;
pub use follow::{Batch, Follower, Reader, Record};
pub use health::{Health, Monitor};
pub use reading::{ChainFault, ChainPart, LogFiles, Page, Query, Section};
pub use record::{rfc3339, seconds as from_rfc3339};
pub use signatures::{Trust, verify_files_signed, verify_signed};
pub use verify::{
    LineRef, Removed, Report, Signed, VerifyError, verify, verify_anchored, verify_files,
};

use crate::config;
use crate::metrics::Metrics;
use log::Log;
use queue::{Order, Queue, Queued, Wait, queue};
use record::{ChainHash, Entry};
use serde_json::Value;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use suppression::Suppression;
use tokio::sync::{oneshot, watch};

/// The actor of an event, for audit and history.
#[derive(Debug, Clone)]
pub struct Actor {
    /// The user; empty: not signed in, or the program itself.
    pub user: String,
    /// The authentication method; empty: none, or the record is of the attempt.
    pub by: String,
    /// The client's address.
    pub address: Option<IpAddr>,
    /// The request's id.
    pub request: String,
    /// True if this is the program, or a caller with `*`, whose records may use the reserve of the
    /// log.
    pub has_all: bool,
}

/// The name of this machine, which checkpoints and sinks have.
pub fn machine_name() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}

fn no_thread(source: &io::Error) -> io::Error {
    let text = format!(
        "the system gives no thread: {source}; raise the limits of this process (`ulimit -u`, `ulimit -v`)"
    );
    io::Error::new(source.kind(), text)
}

/// It could not be written down, and what is not written down must not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the audit log cannot be written, so nothing was done")]
pub struct Unavailable;

/// The audit log; clones share it. When the last one is dropped, everything has been written.
#[derive(Clone)]
pub struct Audit(Arc<Parts>);

struct Parts {
    /// `None`: nothing is kept.
    queue: Option<Queue>,
    thread: Option<JoinHandle<()>>,
    metrics: Arc<Metrics>,
    monitor: Arc<Monitor>,
    /// True if acts that cannot be recorded are refused.
    refuse: bool,
    directory: PathBuf,
    /// True if there are files to read: it goes neither to standard output nor nowhere.
    has_file: bool,
    /// The number of the last line that is durable.
    durable: watch::Receiver<u64>,
    /// That line.
    end: watch::Receiver<ChainHash>,
    /// The identity of the log; empty: nothing is kept.
    id: String,
}

impl Audit {
    /// Opens or makes the log, mode 0600, and repairs its end; `now` is in seconds since 1970.
    pub fn open(
        config: &config::Audit,
        directory: &Path,
        metrics: Arc<Metrics>,
        now: u64,
    ) -> io::Result<Self> {
        Self::open_anchored(config, directory, metrics, None, now)
    }

    /// The same; `anchor` is a line that the log must have.
    pub fn open_anchored(
        config: &config::Audit,
        directory: &Path,
        metrics: Arc<Metrics>,
        anchor: Option<&Anchor>,
        now: u64,
    ) -> io::Result<Self> {
        if config.off {
            return Ok(Self::off(directory, metrics));
        }
        let trail = Log::open(config, directory, anchor, now)?;
        let suppression = Suppression::new(config);
        let (queue, orders) = queue();
        let monitor = Arc::new(Monitor::new(trail.followers().clone()));
        let (durable, end) = (trail.durable_lines(), trail.end());
        let id = trail.id().to_owned();
        monitor.set_damaged(trail.is_damaged());
        let output = writer::Output::new(trail, Arc::clone(&metrics), Arc::clone(&monitor));
        output.observe(true);
        let thread = thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer::run(output, suppression, &orders))
            .map_err(|source| no_thread(&source))?;
        Ok(Self(Arc::new(Parts {
            queue: Some(queue),
            thread: Some(thread),
            metrics,
            monitor,
            refuse: config.refuse,
            directory: directory.to_owned(),
            has_file: !config.stdout,
            durable,
            end,
            id,
        })))
    }

    /// A log that keeps nothing and makes no file.
    fn off(directory: &Path, metrics: Arc<Metrics>) -> Self {
        Self(Arc::new(Parts {
            queue: None,
            thread: None,
            metrics,
            monitor: Arc::default(),
            refuse: false,
            directory: directory.to_owned(),
            has_file: false,
            durable: watch::Sender::new(0).subscribe(),
            end: watch::Sender::new(ChainHash::START).subscribe(),
            id: String::new(),
        }))
    }

    /// Writes an event down soon; never waits, so that any thread may call it. `facts` are the
    /// event's own fields. A failure goes to the log and is counted.
    pub fn record(&self, event: Event, actor: &Actor, now: u64, facts: Value) {
        self.order(entry(event, actor, now, facts), Wait::Nothing);
    }

    /// Writes an event down before it happens. An error: it must not happen.
    pub async fn written(
        &self,
        event: Event,
        actor: &Actor,
        now: u64,
        facts: Value,
    ) -> Result<(), Unavailable> {
        self.ask(entry(event, actor, now, facts), Wait::Written)
            .await
    }

    /// The same, so that a power failure does not undo it.
    pub async fn durable(
        &self,
        event: Event,
        actor: &Actor,
        now: u64,
        facts: Value,
    ) -> Result<(), Unavailable> {
        self.ask(entry(event, actor, now, facts), Wait::Durable)
            .await
    }

    async fn ask(
        &self,
        entry: Entry,
        wait: fn(oneshot::Sender<bool>) -> Wait,
    ) -> Result<(), Unavailable> {
        if self.0.refuse && self.0.monitor.sinks_lag() && !entry.event.is_of_process() {
            return Err(Unavailable);
        }
        let (done, waiting) = oneshot::channel();
        self.order(entry, wait(done));
        if waiting.await.unwrap_or(false) || !self.0.refuse {
            Ok(())
        } else {
            Err(Unavailable)
        }
    }

    /// Passes the time to the writer, so that counts of suppressed records are written although no
    /// record comes.
    pub fn tick(&self, now: u64) {
        // One that does not fit is followed by others.
        let _ = self
            .0
            .queue
            .as_ref()
            .map(|queue| queue.push(Order::Tick(now)));
    }

    /// Returns whether records may be lost or refused, and acts that are not recorded must not
    /// happen.
    pub fn refuses(&self) -> bool {
        let monitor = &self.0.monitor;
        let lost = matches!(
            monitor.health(),
            Health::Reserve | Health::Full | Health::Failing
        );
        self.0.refuse && (lost || monitor.sinks_lag())
    }

    /// The positions of the sinks, in the order of the config.
    pub fn followers(&self) -> &[Arc<Follower>] {
        self.0.monitor.followers()
    }

    /// Reads the log after the position of a sink.
    pub fn reader(&self, follower: &Follower) -> Reader {
        Reader::new(&self.0.directory, follower)
    }

    /// The files of the log; `None`: it goes to standard output, or nowhere.
    pub fn files(&self) -> Option<LogFiles> {
        self.0.has_file.then(|| LogFiles::new(&self.0.directory))
    }

    /// The number of the last line that is on disk; closed when the log is.
    pub fn durable_lines(&self) -> watch::Receiver<u64> {
        self.0.durable.clone()
    }

    /// The identity of the log, which one that begins again does not have; empty: nothing is kept.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The last line that is durable, to be kept next to the log; `None`: nothing is kept.
    pub fn anchor(&self) -> Option<Anchor> {
        let log = Some(self.0.id.clone()).filter(|id| !id.is_empty())?;
        let line = *self.0.end.borrow();
        Some(Anchor { line, log })
    }

    /// The log's health; the monitor outlives the log.
    pub fn monitor(&self) -> &Arc<Monitor> {
        &self.0.monitor
    }

    /// A waiting caller sees a failure, because the sender is dropped.
    fn order(&self, entry: Entry, wait: Wait) {
        let event = entry.event.name();
        let order = Order::Record(entry, wait);
        let Some(queue) = &self.0.queue else {
            return;
        };
        match queue.push(order) {
            Queued::Yes | Queued::Counted => {}
            Queued::Lost => {
                // Until the writer has written another record.
                self.0.monitor.set(Health::Failing);
                self.0.metrics.audit_failure();
                tracing::error!(event, "the audit log is written too slowly: a line is lost");
            }
        }
    }
}

impl Actor {
    /// The program itself.
    pub fn program() -> Self {
        Self {
            user: String::new(),
            by: String::new(),
            address: None,
            request: String::new(),
            has_all: true,
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn entry(event: Event, actor: &Actor, now: u64, facts: Value) -> Entry {
    Entry {
        event,
        actor: actor.clone(),
        now,
        facts,
    }
}

#[cfg(test)]
mod tests;
