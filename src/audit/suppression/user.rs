//! The records of one user: each kind has a budget, and all kinds share the bytes that one user may
//! write.
//!
//! Within both, each record is written; beyond them, records are counted, and the first of each
//! kind and hour are written all the same, so that a flood of one kind hides no other act of the
//! same user.

use super::{Append, Count, EACH, MAX_WINDOW, cost};
use crate::audit::Event;
use crate::audit::record::Entry;
use limits::fixed_window::FixedWindow;
use limits::token_bucket::{Rate, TokenBucket};
use std::collections::HashMap;

/// Records of a kind that any user can repeat which one user may have written one by one in
/// [`PERIOD`]: all that a person does.
const BUDGET: u32 = 30;
/// The same of each kind, when the user's bytes are used up or only the reserve is left: what shows
/// which kinds of acts the user is doing.
const LEAST: u32 = 3;
/// The period of those budgets, seconds.
const PERIOD: u64 = 3600;
/// The first interval at which a user's records beyond the budget are summed up, seconds. It
/// doubles while they go on, up to an hour, which a crash loses at most.
const WINDOW: u64 = 300;
/// Equal acts of one user that are counted each by itself.
pub(in crate::audit) const ACTS: usize = 16;
/// Bytes that one user may have written in a burst: some 2,000 records.
const BURST: u64 = 1 << 20;
/// One user's share of `max_size` within `keep_for`.
const SHARE: u64 = 64;

/// The limit of a record of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// The user's bytes.
    Bytes,
    /// Those, and the budget of its kind.
    Kind,
    /// Only the reserve is left.
    Reserve,
}

/// The records of one user.
#[derive(Debug)]
pub(super) struct User {
    /// Bytes that the user may still have written.
    bytes: TokenBucket,
    burst: u64,
    /// Repeated acts, by a keyed hash of their fields.
    acts: HashMap<u64, Count>,
    kinds: HashMap<Event, KindBudget>,
}

/// The records of one kind.
#[derive(Debug)]
struct KindBudget {
    /// Those written in this period.
    written: FixedWindow,
    /// Those beyond the budget.
    count: Count,
}

impl User {
    pub(super) fn new(max_size: u64, keep_for: u64, now: u64) -> Self {
        let rate = Rate {
            tokens: max_size / SHARE,
            period: keep_for,
        };
        let burst = BURST.min(max_size / SHARE);
        Self {
            bytes: TokenBucket::new(burst, rate, now),
            burst,
            acts: HashMap::new(),
            kinds: HashMap::new(),
        }
    }

    /// The record itself while the budgets last; otherwise it is counted.
    pub(super) fn pass(&mut self, entry: Entry, limit: Limit, now: u64) -> Option<Entry> {
        let affordable = self.bytes.tokens() >= cost(&entry);
        let most = match limit {
            Limit::Bytes if affordable => u32::MAX,
            Limit::Kind if affordable => BUDGET,
            Limit::Bytes | Limit::Kind | Limit::Reserve => LEAST,
        };
        let passed = self.kind(entry.event, now).pass(entry, most, now);
        self.charge(passed.as_ref());
        passed
    }

    /// The same for an act that is counted by itself if it is repeated.
    pub(super) fn act(&mut self, entry: Entry, act: u64, now: u64) -> Option<Entry> {
        let known = self.acts.contains_key(&act);
        let affordable = self.bytes.tokens() >= cost(&entry);
        if !known && (!affordable || self.acts.len() >= ACTS) {
            return self.pass(entry, Limit::Bytes, now);
        }
        let count = self.acts.entry(act).or_insert_with(|| Count::new(now));
        let passed = count.pass(entry, if affordable { EACH } else { 0 });
        self.charge(passed.as_ref());
        passed
    }

    /// Counts a record without writing it.
    pub(super) fn count(&mut self, entry: Entry, now: u64) {
        let _ = self.kind(entry.event, now).pass(entry, 0, now);
    }

    /// Writes the counts whose window has ended. False: one could not be written, and goes on.
    pub(super) fn end_windows(&mut self, now: u64, append: Append<'_>) -> bool {
        self.bytes.refill(now);
        let ended = self.acts.iter().filter(|(_, count)| count.has_ended(now));
        let ended: Vec<u64> = ended.map(|(act, _)| *act).collect();
        let acts = ended
            .into_iter()
            .all(|act| self.end_act(act, now, &mut *append));
        let mut kinds = self.kinds.values_mut();
        acts && kinds.all(|budget| budget.end_window(now, &mut *append))
    }

    /// Ends the window of an act: its count is written, or added to that of its kind if the user's
    /// bytes are used up. False: it could not be written.
    fn end_act(&mut self, act: u64, now: u64, append: Append<'_>) -> bool {
        let Some(count) = self.acts.get_mut(&act) else {
            return true;
        };
        let Some(summary) = count.summary(now) else {
            self.acts.remove(&act);
            return true;
        };
        if self.bytes.tokens() < cost(&summary) {
            let counted = self.acts.remove(&act);
            if let Some(counted) = counted {
                self.kind(summary.event, now).add(counted, now);
            }
            return true;
        }
        if !append(&summary) {
            return false;
        }
        count.restart(now, super::WINDOW);
        self.charge(Some(&summary));
        true
    }

    /// Writes all counts, and keeps those that cannot be written.
    pub(super) fn flush(&mut self, now: u64, append: Append<'_>) {
        let mut fails = |summary: Option<Entry>| summary.is_some_and(|summary| !append(&summary));
        self.acts.retain(|_, count| fails(count.summary(now)));
        let kinds = &mut self.kinds;
        kinds.retain(|_, budget| fails(budget.count.summary(now)));
    }

    /// The clock was set back: no window may last longer for that.
    pub(super) fn set_back(&mut self, now: u64) {
        for count in self.acts.values_mut() {
            count.since = count.since.min(now);
        }
        for budget in self.kinds.values_mut() {
            budget.written.set_back(now);
            budget.count.since = budget.count.since.min(now);
        }
    }

    /// Forgets what does not count any more; returns whether anything is left.
    pub(super) fn is_over(&mut self, now: u64) -> bool {
        self.kinds.retain(|_, budget| !budget.is_over(now));
        self.kinds.is_empty() && self.acts.is_empty() && self.bytes.tokens() >= self.burst
    }

    /// The number of kinds and acts counted.
    pub(super) fn len(&self) -> usize {
        self.kinds.len() + self.acts.len()
    }

    fn kind(&mut self, event: Event, now: u64) -> &mut KindBudget {
        let new = || KindBudget::new(now);
        self.kinds.entry(event).or_insert_with(new)
    }

    fn charge(&mut self, written: Option<&Entry>) {
        let cost = written.map_or(0, cost).min(self.bytes.tokens());
        // It takes no more than there is.
        let _ = self.bytes.take(cost);
    }
}

impl KindBudget {
    fn new(now: u64) -> Self {
        let mut count = Count::new(now);
        count.length = WINDOW;
        Self {
            written: FixedWindow::new(now),
            count,
        }
    }

    fn pass(&mut self, entry: Entry, most: u32, now: u64) -> Option<Entry> {
        if most > 0 && self.written.admit(most, PERIOD, now) {
            return Some(entry);
        }
        self.begin(now);
        self.count.pass(entry, 0)
    }

    /// Adds the records of an act.
    fn add(&mut self, act: Count, now: u64) {
        self.begin(now);
        self.count.suppressed += act.suppressed;
        self.count.since = self.count.since.min(act.since);
        self.count.last = act.last;
    }

    /// Begins the window with its first record; a long one only if the records go on.
    fn begin(&mut self, now: u64) {
        if self.count.suppressed == 0 {
            let length = self.count.length;
            self.count.length = if self.count.has_ended(now) {
                WINDOW
            } else {
                length
            };
            self.count.since = now;
        }
    }

    /// Writes the count, if its window has ended. False: it could not be written, and the window
    /// goes on.
    fn end_window(&mut self, now: u64, append: Append<'_>) -> bool {
        if self.count.suppressed == 0 || !self.count.has_ended(now) {
            return true;
        }
        let done = self
            .count
            .summary(now)
            .is_none_or(|summary| append(&summary));
        if done {
            self.count.restart(now, MAX_WINDOW);
        }
        done
    }

    fn is_over(&self, now: u64) -> bool {
        self.count.suppressed == 0 && self.written.left(PERIOD, now) == 0
    }
}
