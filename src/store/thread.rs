//! The one thread that owns what is on disk. Callers send it questions over a channel, in order,
//! and await the answers; a question that was sent is carried out even if its caller no longer
//! waits.

use super::Error;
use super::disk::Disk;
use super::shared::Shared;
use crate::config;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce(&mut Disk) + Send>;

/// How long files that were written may wait to be forced to disk. Our choice: well within the
/// second that is promised.
const SYNC_AFTER: Duration = Duration::from_millis(500);

/// The thread; dropped, it answers what was asked and then closes everything.
pub(super) struct StoreThread {
    questions: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl StoreThread {
    /// Opens the disk and starts the thread.
    pub(super) fn start(config: &config::Storage) -> Result<(Self, Option<Shared>), Error> {
        let (questions, received) = mpsc::channel::<Job>();
        let (opened, is_open) = mpsc::sync_channel(1);
        let config = config.clone();
        let open_and_run = move || {
            let open = || {
                let disk = Disk::open(&config)?;
                let shared = Shared::of(&disk.database, &config)?;
                Ok((disk, shared))
            };
            match open() {
                Ok((mut disk, shared)) => {
                    // Without a receiver there are no questions either.
                    let _ = opened.send(Ok(shared));
                    run(&received, &mut disk);
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            }
        };
        let thread = thread::Builder::new()
            .name("store".into())
            .spawn(open_and_run)
            .map_err(|source| Error::Io {
                what: "the store's thread".into(),
                source,
            })?;
        let opened = is_open.recv();
        let shared = opened.unwrap_or_else(|_| Err(no_answer()))?;
        let owner = Self {
            questions: Some(questions),
            thread: Some(thread),
        };
        Ok((owner, shared))
    }

    /// Sends a question and waits for its answer.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Disk) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, waiting) = oneshot::channel();
        self.send(move |disk| {
            let _ = answer.send(question(disk));
        });
        waiting.await.unwrap_or_else(|_| Err(no_answer()))
    }

    /// Sends something to do after what was asked before. If the thread is gone, it is dropped, and
    /// an answer with it.
    pub(super) fn send(&self, job: impl FnOnce(&mut Disk) + Send + 'static) {
        if let Some(questions) = &self.questions {
            let _ = questions.send(Box::new(job));
        }
    }
}

fn no_answer() -> Error {
    Error::Database("the store gave no answer".into())
}

/// Carries out questions until there will be no more. Meanwhile it forces the files of deployments
/// to disk.
fn run(questions: &mpsc::Receiver<Job>, disk: &mut Disk) {
    let mut written: Option<Instant> = None;
    loop {
        let left = written.map(|written| SYNC_AFTER.saturating_sub(written.elapsed()));
        let left = left.or(disk.database.shows_life_every());
        let question = match left {
            None => questions.recv().map_err(RecvTimeoutError::from),
            Some(Duration::ZERO) => Err(RecvTimeoutError::Timeout),
            Some(left) => questions.recv_timeout(left),
        };
        match question {
            // One question that panics fails alone: its transaction rolls back, and the disk holds
            // no other state.
            Ok(question) => {
                let _ = catch_unwind(AssertUnwindSafe(|| question(disk)));
            }
            Err(RecvTimeoutError::Timeout) => {
                disk.sync_written();
                disk.database.show_life();
            }
            Err(RecvTimeoutError::Disconnected) => return disk.sync_written(),
        }
        written = disk.unsynced.map(|_| written.unwrap_or_else(Instant::now));
    }
}

impl Drop for StoreThread {
    fn drop(&mut self) {
        self.questions = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
