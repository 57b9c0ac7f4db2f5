//! Writes a store's files on a thread of its own, so that a slow disk does not delay flows. Jobs
//! run in order, one after the other; a failed write is tried again with the next one and at the
//! end.
//!
//! The threads of the engine share the writer of a store: the jobs for a context that moves from
//! one to another keep their order.

use super::kept::{self, UnkeptChange};
use crate::settings::ContextStore;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// A job for the writer.
#[derive(Debug)]
pub(super) enum Job {
    Write {
        path: PathBuf,
        text: String,
        /// The first of the changes that it has.
        unkept: Option<Arc<UnkeptChange>>,
    },
    Remove(PathBuf),
    RemoveDirectory(PathBuf),
}

/// The thread. Dropping it waits until everything is done.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// The writers of the stores' files, in the order of the stores; the threads of the engine share
/// them.
#[derive(Debug, Clone)]
pub(crate) struct Writers(pub(super) Vec<Option<Arc<Writer>>>);

impl Writers {
    /// Starts the writer of each store that has files.
    pub(crate) fn start(stores: &[ContextStore]) -> Self {
        let writer = |store: &ContextStore| {
            let files = store.files.as_ref();
            files.map(|_| Arc::new(Writer::start()))
        };
        Self(stores.iter().map(writer).collect())
    }
}

impl Writer {
    pub(super) fn start() -> Self {
        let (jobs, inbox) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("context-files".into())
            .spawn(move || work(&inbox));
        match thread {
            Ok(thread) => Self {
                jobs: Some(jobs),
                thread: Some(thread),
            },
            Err(error) => {
                tracing::error!(%error, "contexts are not written to disk: no thread can be started");
                Self {
                    jobs: None,
                    thread: None,
                }
            }
        }
    }

    pub(super) fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // The thread lives until the sender is dropped.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(inbox: &mpsc::Receiver<Job>) {
    let mut failed: BTreeMap<PathBuf, Unwritten> = BTreeMap::new();
    for job in inbox {
        match job {
            Job::Write { path, text, unkept } => {
                let failed_before = failed.remove(&path).and_then(|before| before.unkept);
                let unkept = failed_before.or(unkept);
                failed.insert(path, Unwritten { text, unkept });
                failed.retain(|path, unwritten| !written(path, &unwritten.text));
            }
            Job::Remove(path) => {
                failed.remove(&path);
                forgotten(&path);
                removed(&path, fs::remove_file(&path));
            }
            Job::RemoveDirectory(path) => {
                failed.retain(|file, _| !file.starts_with(&path));
                let files = fs::read_dir(&path).into_iter().flatten().flatten();
                files.for_each(|file| forgotten(&file.path()));
                removed(&path, fs::remove_dir_all(&path));
            }
        }
    }
    failed.retain(|path, unwritten| !written(path, &unwritten.text));
}

/// The content of a file that is not written yet.
struct Unwritten {
    text: String,
    /// The first change that it has and the file has not.
    unkept: Option<Arc<UnkeptChange>>,
}

fn written(path: &Path, text: &str) -> bool {
    let kept = kept::keep(path, text).map_err(io::Error::other);
    let result = kept.and_then(|()| replace(path, text.as_bytes()));
    if let Err(error) = &result {
        tracing::error!(file = %path.display(), %error, "a context cannot be written; it is tried again");
    }
    result.is_ok()
}

/// The file is gone where it is kept elsewhere.
fn forgotten(path: &Path) {
    if let Err(error) = kept::keep(path, "") {
        tracing::error!(path = %path.display(), error, "the context of what was deleted is kept elsewhere");
    }
}

fn removed(path: &Path, result: io::Result<()>) {
    if let Err(error) = result
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::error!(path = %path.display(), %error, "the context of what was deleted cannot be removed");
    }
}

/// Puts the new file in the place of the old one: a crash leaves the one or the other, whole.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some(directory) = path.parent() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let temporary = path.with_extension("json.new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(directory)?.sync_all()
}
