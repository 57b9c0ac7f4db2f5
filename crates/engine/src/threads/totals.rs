//! Figures of each thread of the engine, added up, or compared with those of the others.

use crate::memory_budget::GRACE;
use crate::metrics::Metrics;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The running nodes and flows of each thread.
#[derive(Debug)]
pub(crate) struct Running(Mutex<Vec<(usize, usize)>>);

impl Running {
    pub(super) fn new(threads: usize) -> Self {
        Self(Mutex::new(vec![(0, 0); threads]))
    }

    /// Sets the nodes and flows of a thread, and in the metrics those of all, less flows that were
    /// stopped.
    pub(crate) fn set(
        &self,
        thread: usize,
        nodes: usize,
        flows: usize,
        metrics: &dyn Metrics,
        stopped: usize,
    ) {
        let mut threads = self.0.lock();
        threads[thread] = (nodes, flows);
        let nodes = threads.iter().map(|(nodes, _)| nodes).sum();
        let flows: usize = threads.iter().map(|(_, flows)| flows).sum();
        metrics.running(nodes, flows.saturating_sub(stopped));
    }
}

/// The bytes of the largest queue of each thread, as they were when the thread last looked at the
/// memory: where there is too little, only the largest of all is to be dropped, and then no other
/// for a while.
#[derive(Debug)]
pub(crate) struct LargestQueues {
    bytes: Box<[AtomicU64]>,
    /// When the next one may be dropped; `None`: at once.
    next: Mutex<Option<Instant>>,
}

impl LargestQueues {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            bytes: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            next: Mutex::default(),
        }
    }

    /// Sets the bytes of a thread's largest queue. True: no other thread has a larger one.
    pub(crate) fn set(&self, thread: usize, bytes: u64) -> bool {
        if self.bytes.len() == 1 {
            return true;
        }
        self.bytes[thread].store(bytes, Ordering::Relaxed);
        let all = self.bytes.iter().map(|queue| queue.load(Ordering::Relaxed));
        all.max() == Some(bytes)
    }

    /// Returns whether a queue may be dropped now. If so, it is to be dropped.
    pub(crate) fn may_drop(&self, now: Instant) -> bool {
        let mut next = self.next.lock();
        let may = next.is_none_or(|next| now >= next);
        if may {
            *next = Some(now + GRACE);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_with_the_largest_queue_drops_it() {
        let queues = LargestQueues::new(2);
        assert!(queues.set(0, 10));
        assert!(queues.set(1, 20));
        assert!(!queues.set(0, 15));
        assert!(!queues.set(1, 0));
        assert!(queues.set(0, 15));
        assert!(LargestQueues::new(1).set(0, 0));
    }

    #[test]
    fn threads_drop_queues_one_after_the_other() {
        let queues = LargestQueues::new(2);
        let now = Instant::now();
        assert!(queues.may_drop(now));
        assert!(!queues.may_drop(now + GRACE / 2));
        assert!(queues.may_drop(now + GRACE));
    }
}
