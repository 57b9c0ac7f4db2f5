//! The one thread that owns what is on disk. Callers send it questions over a channel, in order, and await the answers;
//! a question that was sent is carried out even if its caller no longer waits.

use super::Error;
use super::disk::Disk;
use crate::config;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce(&mut Disk) + Send>;

/// The thread; dropped, it answers what was asked and then closes everything.
pub(super) struct StoreThread {
    questions: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl StoreThread {
    /// Opens the disk and starts the thread.
    pub(super) fn start(config: &config::Storage) -> Result<Self, Error> {
        let mut disk = Disk::open(config)?;
        let (questions, received) = mpsc::channel::<Job>();
        let thread = thread::Builder::new()
            .name("store".into())
            .spawn(move || {
                for question in received {
                    // One question that panics fails alone: its transaction rolls back, and the disk holds no other
                    // state.
                    let _ = catch_unwind(AssertUnwindSafe(|| question(&mut disk)));
                }
            })
            .map_err(|source| Error::Io {
                what: "the store's thread".into(),
                source,
            })?;
        Ok(Self {
            questions: Some(questions),
            thread: Some(thread),
        })
    }

    /// Sends a question and waits for its answer.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Disk) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, waiting) = oneshot::channel();
        let question: Job = Box::new(move |disk| {
            let _ = answer.send(question(disk));
        });
        if let Some(questions) = &self.questions {
            // If the thread is gone, `answer` is dropped, and the caller gets an error.
            let _ = questions.send(question);
        }
        waiting
            .await
            .unwrap_or_else(|_| Err(Error::Database("the store gave no answer".into())))
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
