//! Connections kept for another request, each worker thread its own: no lock, no task switch to another core.

use super::sender::Sender;
use crate::metrics;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Numbers the pools of a process: tests have many gateways.
static POOLS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// This thread's connections, by the number of their pool; the one used last stands last.
    static KEPT: RefCell<Vec<Vec<Kept>>> = const { RefCell::new(Vec::new()) };
}

struct Kept {
    sender: Sender,
    since: Instant,
    _counted: Counted,
}

/// Counts a kept connection until dropped.
struct Counted(Arc<metrics::Upstream>);

/// The kept connections of one upstream.
pub(super) struct Pool {
    number: usize,
    size: usize,
    keep_alive: Duration,
    metrics: Arc<metrics::Upstream>,
}

impl Pool {
    /// Keeps at most `size` connections for each thread, and none longer than `keep_alive`.
    pub(super) fn new(size: usize, keep_alive: Duration, metrics: Arc<metrics::Upstream>) -> Self {
        Self {
            number: POOLS.fetch_add(1, Ordering::Relaxed),
            size,
            keep_alive,
            metrics,
        }
    }

    /// A connection that takes a request, as far as can be known; the one used last, because it is the least likely
    /// to be closed.
    pub(super) async fn take(&self, now: Instant) -> Option<Sender> {
        loop {
            let mut kept = self.of_this_thread(Vec::pop)??;
            if now.duration_since(kept.since) < self.keep_alive
                && !kept.sender.is_closed()
                && kept.sender.ready().await
            {
                return Some(kept.sender);
            }
        }
    }

    /// Takes a connection back whose answer has been read, or dropped: hyper then closes it, and `take` notices.
    pub(super) fn put(&self, sender: Sender) {
        if sender.is_closed() || self.size == 0 {
            return;
        }
        let now = Instant::now();
        let kept = Kept {
            sender,
            since: now,
            _counted: Counted::new(&self.metrics),
        };
        self.of_this_thread(|all| {
            let old = |kept: &Kept| now.duration_since(kept.since) >= self.keep_alive;
            if all.first().is_some_and(old) {
                all.retain(|kept| !old(kept));
            }
            if all.len() < self.size {
                all.push(kept);
            }
        });
    }

    /// `None`: the thread is ending.
    fn of_this_thread<T>(&self, act: impl FnOnce(&mut Vec<Kept>) -> T) -> Option<T> {
        let found = KEPT.try_with(|kept| {
            let mut pools = kept.borrow_mut();
            if pools.len() <= self.number {
                pools.resize_with(self.number + 1, Vec::new);
            }
            pools.get_mut(self.number).map(act)
        });
        found.ok().flatten()
    }
}

impl Counted {
    fn new(metrics: &Arc<metrics::Upstream>) -> Self {
        metrics.idle(true);
        Self(Arc::clone(metrics))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.idle(false);
    }
}
