//! The thread that writes the audit log, so that neither a worker nor the control runtime ever waits for a disk.
//!
//! Lines are written in the order in which they were given. Those that somebody waits for are durable together: one
//! fsync for all that came meanwhile; the others within about a second.

use super::Event;
use super::fold::Fold;
use super::line::Entry;
use super::trail::Trail;
use crate::metrics::Metrics;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use tokio::sync::oneshot::Sender;

/// How long a line may lie in the system's memory while no other comes. Those that come begin a sync with each second.
const IDLE: Duration = Duration::from_millis(250);

/// Lines written at a time before those who wait are told. Our choice: a burst must not let them wait for long.
const BATCH: usize = 64;

/// A line to be written, and who waits for what.
pub(super) struct Order {
    pub(super) entry: Entry,
    pub(super) wait: Wait,
}

/// What somebody waits for.
pub(super) enum Wait {
    Nothing,
    /// That the line stands in the file.
    Written(Sender<bool>),
    /// That it survives a power failure.
    Durable(Sender<bool>),
}

/// Writes what is ordered until nobody can order any more.
pub(super) fn run(trail: Trail, orders: &Receiver<Box<Order>>, metrics: Arc<Metrics>) {
    let mut writer = Writer {
        trail,
        fold: Fold::default(),
        unsynced: None,
        metrics,
    };
    loop {
        let first = if writer.unsynced.is_some() {
            orders.recv_timeout(IDLE)
        } else {
            orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match first {
            Ok(first) => writer.write(std::iter::once(first).chain(orders.try_iter().take(BATCH))),
            Err(end) => {
                for entry in writer.fold.flush() {
                    writer.append(&entry);
                }
                writer.sync();
                if end == RecvTimeoutError::Disconnected {
                    return;
                }
            }
        }
    }
}

struct Writer {
    trail: Trail,
    fold: Fold,
    /// The second of the first line that is not synced, or is held back.
    unsynced: Option<u64>,
    metrics: Arc<Metrics>,
}

impl Writer {
    fn write(&mut self, orders: impl Iterator<Item = Box<Order>>) {
        let mut durable = Vec::new();
        let mut now = 0;
        for order in orders {
            let Order { entry, wait } = *order;
            now = entry.now;
            self.unsynced.get_or_insert(now);
            let mut done = true;
            for entry in self.fold.pass(entry) {
                done = self.append(&entry);
            }
            match wait {
                Wait::Nothing => {}
                Wait::Written(waiting) => drop(waiting.send(done)),
                Wait::Durable(waiting) => durable.push((waiting, done)),
            }
        }
        if !durable.is_empty() || self.unsynced.is_some_and(|second| second != now) {
            let synced = self.sync();
            for (waiting, done) in durable {
                let _ = waiting.send(done && synced);
            }
        }
    }

    fn append(&mut self, entry: &Entry) -> bool {
        let result = self.trail.append(entry);
        self.told(result, Some(entry.event))
    }

    fn sync(&mut self) -> bool {
        self.unsynced = None;
        let result = self.trail.sync();
        self.told(result, None)
    }

    /// Whether it was done; a failure is told loudly.
    fn told(&self, result: io::Result<()>, event: Option<Event>) -> bool {
        let Err(error) = result else { return true };
        self.metrics.audit_failure();
        let event = event.map(Event::name);
        tracing::error!(%error, event, "the audit log cannot be written");
        false
    }
}
