//! Measures how long something takes, for the tests of a promised time.
//!
//! A machine that runs tests is busy: a control in the same run, a thread that only sleeps,
//! measures for how long the machine ran something else in the meantime. A test that uses it has
//! `_within_` in its name, so that `tests/run` runs it alone, after all others; `tests/layers.rs`
//! checks the names.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the control sleeps at a time.
const NAP: Duration = Duration::from_millis(2);

/// Several processes take their steps one after the other, and each may have to wait for the
/// processor: the gateways, the engines and the database of a cluster.
const STEPS: u32 = 4;

pub struct Stopwatch {
    since: Instant,
    /// How much longer than asked for the control has slept, in microseconds.
    overslept: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    control: Option<JoinHandle<()>>,
}

impl Stopwatch {
    pub fn start() -> Self {
        let overslept = Arc::new(AtomicU64::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let (sum, end) = (Arc::clone(&overslept), Arc::clone(&is_over));
        let control = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let began = Instant::now();
                thread::sleep(NAP);
                // A sleep is never exact: up to its own length is the timer's.
                let late = began.elapsed().saturating_sub(2 * NAP);
                sum.fetch_add(u64::try_from(late.as_micros()).unwrap(), Ordering::Relaxed);
            }
        });
        Self {
            since: Instant::now(),
            overslept,
            is_over,
            control: Some(control),
        }
    }

    /// Asserts that no more time has passed than this, and what the machine took for others.
    pub fn assert_within(&self, limit: Duration) {
        let took = self.since.elapsed();
        let overslept = Duration::from_micros(self.overslept.load(Ordering::Relaxed));
        assert!(
            took <= limit + overslept * STEPS,
            "{took:?} instead of at most {limit:?}; the control overslept by {overslept:?}"
        );
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(control) = self.control.take() {
            let _ = control.join();
        }
    }
}
