//! The rendezvous of the engine's threads in a change that all make: none starts a node before all
//! have closed theirs.
//!
//! A thread that has ended, or ends meanwhile, does not hold up the others: it counts as one that
//! has arrived.

use super::placement::Placement;
use crate::context::MovedFlow;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

/// One thread's part in the rendezvous.
pub(crate) struct Rendezvous {
    shared: Arc<SharedChange>,
    /// All threads have arrived when the last clone is dropped.
    token: Option<Arc<watch::Sender<()>>>,
    arrived: watch::Receiver<()>,
}

/// A change as all threads see it, and the data that they hand to each other.
pub(crate) struct SharedChange {
    /// The number of the change; later ones have higher numbers.
    pub number: u64,
    /// Which thread runs which flow from now on.
    pub placement: Arc<Placement>,
    /// The types that the flow set needs and the engine lacks, as the first thread has found.
    missing: OnceLock<Vec<String>>,
    moved: Mutex<Vec<MovedFlow>>,
}

/// The arrival of a thread.
pub(crate) struct Arrival {
    token: Option<Arc<watch::Sender<()>>>,
    arrived: watch::Receiver<()>,
}

impl Rendezvous {
    /// The parts of that many threads.
    pub(super) fn new(threads: usize, number: u64, placement: &Arc<Placement>) -> Vec<Self> {
        let shared = Arc::new(SharedChange {
            number,
            placement: Arc::clone(placement),
            missing: OnceLock::new(),
            moved: Mutex::default(),
        });
        let (token, arrived) = watch::channel(());
        let token = Arc::new(token);
        let part = |token| Self {
            shared: Arc::clone(&shared),
            token: Some(token),
            arrived: arrived.clone(),
        };
        let parts = (0..threads).map(|_| part(Arc::clone(&token)));
        parts.collect()
    }

    /// The change as all threads see it.
    pub(crate) fn shared(&self) -> &Arc<SharedChange> {
        &self.shared
    }

    /// To be awaited when everything has closed.
    pub(crate) fn arrival(&mut self) -> Arrival {
        Arrival {
            token: self.token.take(),
            arrived: self.arrived.clone(),
        }
    }
}

impl Arrival {
    /// Arrives, and waits for the others.
    pub(crate) async fn wait(self) {
        let Self { token, mut arrived } = self;
        drop(token);
        // An error: the last token is gone.
        while arrived.changed().await.is_ok() {}
    }
}

impl SharedChange {
    /// Decides, for all threads, which types are missing. Called before the first thread arrives.
    pub(crate) fn set_missing(&self, types: Vec<String>) {
        // There is one first thread, which decides once.
        let _ = self.missing.set(types);
    }

    /// The missing types; known when all have arrived.
    pub(crate) fn missing(&self) -> &[String] {
        self.missing.get().map_or(&[], Vec::as_slice)
    }

    /// Hands over contexts to the threads that they belong to from now on.
    pub(crate) fn hand_over(&self, flows: Vec<MovedFlow>) {
        let mut moved = self.moved.lock();
        moved.extend(flows);
    }

    /// Takes the contexts that now belong to a thread.
    pub(crate) fn take_over(&self, thread: usize) -> Vec<MovedFlow> {
        let mut moved = self.moved.lock();
        let is_for = |flow: &mut MovedFlow| self.placement.thread_of(&flow.flow) == thread;
        moved.extract_if(.., is_for).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SHORT: Duration = Duration::from_millis(5);

    #[tokio::test]
    async fn no_thread_goes_on_before_all_have_arrived() {
        let mut parts = Rendezvous::new(2, 1, &Arc::default());
        let arrivals: Vec<_> = parts.iter_mut().map(Rendezvous::arrival).collect();
        let [first, second]: [Arrival; 2] = arrivals.try_into().ok().expect("two");
        let mut first = std::pin::pin!(first.wait());
        assert!(tokio::time::timeout(SHORT, &mut first).await.is_err());
        second.wait().await;
        first.await;
    }

    #[tokio::test]
    async fn a_thread_that_has_ended_holds_up_no_other() {
        let mut parts = Rendezvous::new(2, 1, &Arc::default());
        let arrival = parts[0].arrival();
        parts.truncate(1);
        arrival.wait().await;
    }
}
