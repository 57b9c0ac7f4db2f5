//! Connections kept for another request, each worker thread its own: no lock, no task switch to
//! another core.

use super::http1::Connection;
use crate::metrics;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// The time between two sweeps. Our choice: an upstream that closes a connection waits no longer
/// for its end.
const SWEEP: Duration = Duration::from_secs(1);

/// Numbers the pools of a process: tests have many gateways.
static POOLS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// This thread's connections, by the number of their pool; the one used last stands last.
    static KEPT: RefCell<Vec<OfThread>> = const { RefCell::new(Vec::new()) };
}

/// The connections that one thread keeps in one pool.
#[derive(Default)]
struct OfThread {
    kept: Vec<Kept>,
    /// Runs while there are any.
    sweeper: Option<JoinHandle<()>>,
}

struct Kept {
    connection: Box<Connection>,
    since: Instant,
    _counted: Counted,
}

impl Kept {
    /// Returns whether it takes a request, as far as can be known.
    fn is_good(&mut self, now: Instant, keep_alive: Duration) -> bool {
        now.duration_since(self.since) < keep_alive && self.connection.is_idle()
    }
}

/// Counts a kept connection until dropped.
struct Counted(Arc<metrics::Upstream>);

/// The kept connections of one upstream.
pub(super) struct Pool {
    number: usize,
    /// Raised when the upstream is elsewhere: connections from before are of no use.
    generation: AtomicUsize,
    size: usize,
    keep_alive: Duration,
    metrics: Arc<metrics::Upstream>,
}

impl Pool {
    /// Keeps at most `size` connections for each thread, and none longer than `keep_alive`.
    pub(super) fn new(size: usize, keep_alive: Duration, metrics: Arc<metrics::Upstream>) -> Self {
        Self {
            number: POOLS.fetch_add(1, Ordering::Relaxed),
            generation: AtomicUsize::new(0),
            size,
            keep_alive,
            metrics,
        }
    }

    /// That of connections that are made now.
    pub(super) fn generation(&self) -> usize {
        self.generation.load(Ordering::Acquire)
    }

    /// Uses no connection again that was made before.
    pub(super) fn renew(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// A connection that takes a request, as far as can be known; the one used last, because it is
    /// the least likely to be closed.
    pub(super) fn take(&self, now: Instant) -> Option<Box<Connection>> {
        loop {
            let mut kept = of_this_thread(self.number, |pool| pool.kept.pop())??;
            if kept.connection.generation == self.generation() && kept.is_good(now, self.keep_alive)
            {
                return Some(kept.connection);
            }
        }
    }

    /// Keeps a connection whose response has ended, if there is room.
    pub(super) fn put(&self, mut connection: Box<Connection>) {
        connection.shrink();
        let kept = Kept {
            connection,
            since: Instant::now(),
            _counted: Counted::new(&self.metrics),
        };
        of_this_thread(self.number, |pool| {
            if pool.kept.len() < self.size {
                pool.kept.push(kept);
                self.start_sweeper(pool);
            }
        });
    }

    fn start_sweeper(&self, pool: &mut OfThread) {
        if pool.sweeper.as_ref().is_some_and(|one| !one.is_finished()) {
            return;
        }
        // Without a runtime the connections are no good either.
        if let Ok(runtime) = Handle::try_current() {
            pool.sweeper = Some(runtime.spawn(sweep(self.number, self.keep_alive)));
        }
    }
}

/// Closes the connections of this thread that are of no more use, until there are none: no task
/// waits for what an upstream does with an idle one.
async fn sweep(number: usize, keep_alive: Duration) {
    loop {
        sleep(SWEEP).await;
        let now = Instant::now();
        let left = of_this_thread(number, |pool| {
            pool.kept.retain_mut(|kept| kept.is_good(now, keep_alive));
            pool.kept.len()
        });
        if matches!(left, None | Some(0)) {
            return;
        }
    }
}

/// `None`: the thread is ending.
fn of_this_thread<T>(number: usize, act: impl FnOnce(&mut OfThread) -> T) -> Option<T> {
    let found = KEPT.try_with(|kept| {
        let mut pools = kept.borrow_mut();
        if pools.len() <= number {
            pools.resize_with(number + 1, OfThread::default);
        }
        pools.get_mut(number).map(act)
    });
    found.ok().flatten()
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
