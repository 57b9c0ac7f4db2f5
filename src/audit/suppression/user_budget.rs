//! The records of one kind of one user: the first of each period are written, further ones are counted.

use super::{Append, Count};
use crate::audit::record::Entry;
use limits::fixed_window::FixedWindow;

/// Records of one kind that one user may have written one by one in [`PERIOD`]. Our choice: all that a person does,
/// and some 40 MiB of one user who repeats it for 90 days.
const BUDGET: u32 = 30;
/// The period of that budget, seconds.
const PERIOD: u64 = 3600;
/// The interval at which a user's records beyond the budget are summed up, seconds. Our choice: a crash loses one
/// interval at most.
const WINDOW: u64 = 300;

/// The records of one kind of one user.
#[derive(Debug)]
pub(super) struct UserBudget {
    /// Those written in this period.
    written: FixedWindow,
    /// Those beyond the budget.
    count: Count,
}

impl UserBudget {
    pub(super) fn new(now: u64) -> Self {
        Self {
            written: FixedWindow::new(now),
            count: Count::new(now),
        }
    }

    /// The record itself while the budget lasts; otherwise it is counted.
    pub(super) fn pass(&mut self, entry: Entry, now: u64) -> Option<Entry> {
        if self.written.admit(BUDGET, PERIOD, now) {
            return Some(entry);
        }
        if self.count.suppressed == 0 {
            (self.count.since, self.count.length) = (now, WINDOW);
        }
        self.count.pass(entry, 0)
    }

    /// Writes the count, if its window has ended. False: it could not be written, and the window goes on.
    pub(super) fn end_window(&mut self, now: u64, append: Append<'_>) -> bool {
        if !self.count.has_ended(now) {
            return true;
        }
        let done = self.summary(now).is_none_or(|summary| append(&summary));
        if done {
            self.count.restart(now, WINDOW);
        }
        done
    }

    /// One record for those that were counted.
    pub(super) fn summary(&self, now: u64) -> Option<Entry> {
        self.count.summary(now)
    }

    /// The clock was set back. Gives the count, for which the same holds.
    pub(super) fn set_back(&mut self, now: u64) -> &mut Count {
        self.written.set_back(now);
        &mut self.count
    }

    /// Whether nothing of it counts any more.
    pub(super) fn is_over(&self, now: u64) -> bool {
        self.count.suppressed == 0 && self.written.left(PERIOD, now) == 0
    }
}
