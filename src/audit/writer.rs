//! The thread that writes the audit log, so that neither a worker nor the control runtime ever
//! waits for a disk.
//!
//! Lines are written in the order in which they were given. Those awaited as durable are synced
//! together: one fsync for all that came meanwhile; the others within about a second.

use super::Event;
use super::health::{Health, Monitor};
use super::log::Log;
use super::queue::{Order, Orders, Wait};
use super::record::Entry;
use super::suppression::Suppression;
use crate::metrics::Metrics;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// The time after which a line is synced if no other follows. While lines follow, each second
/// begins a sync.
const IDLE: Duration = Duration::from_millis(250);

/// Lines written before the waiting callers are answered. Our choice: a burst must not let them
/// wait for long.
const BATCH: usize = 64;

/// Processes orders until every sender has been dropped.
pub(super) fn run(output: Output, suppression: Suppression, orders: &Orders) {
    let mut writer = Writer {
        suppression,
        output,
        now: 0,
    };
    loop {
        match orders.next(writer.output.unsynced.map(|_| IDLE)) {
            Ok(first) => {
                writer.count_dropped(orders);
                writer.write(std::iter::once(first).chain(orders.ready().take(BATCH)));
            }
            Err(RecvTimeoutError::Timeout) => drop(writer.output.sync()),
            Err(RecvTimeoutError::Disconnected) => {
                writer.count_dropped(orders);
                writer.flush();
                writer.checkpoint();
                writer.output.sync();
                return;
            }
        }
    }
}

struct Writer {
    suppression: Suppression,
    output: Output,
    /// The time of the last order, seconds since 1970.
    now: u64,
}

/// The log, and the observers of its health.
pub(super) struct Output {
    trail: Log,
    /// The second of the first line that is not synced.
    unsynced: Option<u64>,
    metrics: Arc<Metrics>,
    monitor: Arc<Monitor>,
}

impl Output {
    pub(super) fn new(trail: Log, metrics: Arc<Metrics>, monitor: Arc<Monitor>) -> Self {
        Self {
            trail,
            unsynced: None,
            metrics,
            monitor,
        }
    }
}

impl Writer {
    fn write(&mut self, orders: impl Iterator<Item = Order>) {
        let mut durable = Vec::new();
        let mut now = 0;
        for order in orders {
            let (entry, wait) = match order {
                Order::Record(entry, wait) => (entry, wait),
                Order::Tick(time) => {
                    let output = &mut self.output;
                    self.suppression
                        .tick(time, &mut |entry| output.append(entry));
                    output.tick(time);
                    self.now = time;
                    continue;
                }
            };
            now = entry.now;
            self.now = now;
            let last = entry.event == Event::End;
            if last {
                self.flush();
            }
            let done = self.record(entry, &wait);
            if last {
                self.checkpoint();
            }
            match wait {
                Wait::Nothing => {}
                Wait::Written(waiting) => drop(waiting.send(done)),
                Wait::Durable(waiting) => durable.push((waiting, done)),
            }
        }
        self.output
            .metrics
            .audit_suppressed(self.suppression.take_suppressed());
        if !durable.is_empty() || self.output.unsynced.is_some_and(|second| second != now) {
            let synced = self.output.sync();
            for (waiting, done) in durable {
                let _ = waiting.send(done && synced);
            }
        }
    }

    /// Counts records that did not fit into the queue.
    fn count_dropped(&mut self, orders: &Orders) {
        for (event, times) in orders.dropped() {
            self.suppression.dropped(event, times);
        }
    }

    /// Writes a record, or counts it. False: it is not in the log, and will not be.
    fn record(&mut self, entry: Entry, wait: &Wait) -> bool {
        let Self {
            suppression,
            output,
            ..
        } = self;
        suppression.set_reserve(output.has_only_reserve());
        // A count is no record yet: while the log fails, no act may go on for being counted.
        if output.is_failing() && !matches!(wait, Wait::Nothing) {
            return output.append(&entry);
        }
        suppression.pass(entry, &mut |entry| output.append(entry))
    }

    /// Signs what is not signed yet.
    fn checkpoint(&mut self) {
        if self.output.trail.checkpoint(self.now) {
            self.output.unsynced.get_or_insert(self.now);
        }
    }

    /// Writes all counts.
    fn flush(&mut self) {
        let output = &mut self.output;
        self.suppression.flush(&mut |entry| output.append(entry));
    }
}

impl Output {
    /// Returns whether the last record could not be written.
    fn is_failing(&self) -> bool {
        matches!(self.monitor.health(), Health::Full | Health::Failing)
    }

    /// Returns whether only the reserve of the log is left.
    fn has_only_reserve(&self) -> bool {
        matches!(self.trail.health(), Health::Reserve | Health::Full)
    }

    fn append(&mut self, entry: &Entry) -> bool {
        self.unsynced.get_or_insert(entry.now);
        let result = self.trail.append(entry);
        let done = self.check_written(result, Some(entry.event));
        self.observe(done);
        done
    }

    /// Signs what has waited for it.
    fn tick(&mut self, now: u64) {
        if self.trail.checkpoint_if_due(now) {
            self.unsynced.get_or_insert(now);
        }
    }

    fn sync(&mut self) -> bool {
        self.unsynced = None;
        let result = self.trail.sync();
        let done = self.check_written(result, None);
        if !done {
            self.observe(false);
        }
        done
    }

    /// Returns whether it was done; a failure is counted and logged as an error.
    fn check_written(&self, result: io::Result<()>, event: Option<Event>) -> bool {
        let Err(error) = result else { return true };
        self.metrics.audit_failure();
        let event = event.map(Event::name);
        tracing::error!(%error, event, "the audit log cannot be written");
        false
    }

    /// Reports how the log is now.
    pub(super) fn observe(&self, done: bool) {
        let (used, max) = self.trail.size();
        self.metrics.audit_size(used, max);
        let health = match self.trail.health() {
            Health::Full => Health::Full,
            _ if !done => Health::Failing,
            health => health,
        };
        let before = self.monitor.set(health);
        if before != health {
            tell(health, used, max);
        }
    }
}

/// Reports a change of the log's health.
fn tell(health: Health, used: u64, max: u64) {
    match health {
        Health::Well => tracing::info!("the audit log is written again"),
        Health::Filling => tracing::warn!(
            used,
            max,
            "the audit log is nearly full, and no file is older than audit.keep_for: archive old files, or raise audit.max_size"
        ),
        Health::Reserve => tracing::error!(
            used,
            max,
            "only the reserve of the audit log is left, for security-relevant records and for users with *: archive old files, or raise audit.max_size; until then other writes of users are refused, see audit.on_failure"
        ),
        Health::Full => tracing::error!(
            used,
            max,
            "the audit log is full, and no file is older than audit.keep_for: archive old files, or raise audit.max_size; until then, see audit.on_failure"
        ),
        // Each failure is reported where it happens.
        Health::Failing => {}
    }
}
