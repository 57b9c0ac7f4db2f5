//! Tasks of nodes on the engine's thread, and what a closing node still waits for.

use std::future::Future;
use std::pin::Pin;
use tokio::task::JoinHandle;

/// The work that remains for a node after `close` returned.
pub(crate) type Closing = Pin<Box<dyn Future<Output = ()>>>;

/// A task of a node; aborted when this is dropped.
#[derive(Debug)]
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    /// Runs a future on the engine's thread.
    pub(crate) fn run(future: impl Future<Output = ()> + 'static) -> Self {
        Self(tokio::task::spawn_local(future))
    }

    /// Aborts the task; the future is ready when everything that the task held is released, its
    /// port for instance.
    pub(crate) fn end(mut self) -> Closing {
        self.0.abort();
        Box::pin(async move {
            // The error says that the task was aborted.
            let _ = (&mut self.0).await;
        })
    }

    /// Waits until the task has ended by itself.
    pub(crate) fn ended(mut self) -> Closing {
        Box::pin(async move {
            let _ = (&mut self.0).await;
        })
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
