//! Suppression of repeated records: refusals are counted per kind, user and address, so that requests cannot fill the
//! log.
//!
//! The first records of a key are written at once; further ones are counted, and the count is written when the window
//! ends; a count that cannot be written is kept. Events that any user can repeat are counted per user. Refusals take
//! bytes from a token bucket, their share of `max_size`; when it is empty, or with too many keys, a refusal is counted
//! per kind only. Depends on no file and no clock.
//!
//! The window of a key is no rate limit of the `limits` crate: it sums up what it suppresses, and doubles while the
//! refusals go on.

mod user_budget;

use super::Event;
use crate::audit::record::{Entry, rfc3339};
use crate::config::{self, UNKNOWN_USER};
use limits::ip_prefix::IpPrefix;
use limits::token_bucket::{Rate, TokenBucket};
use serde_json::json;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use user_budget::UserBudget;

/// Records of one key that are written one by one before the others are counted. Our choice: each of a person's typing
/// errors is shown.
pub(super) const EACH: u32 = 5;
/// The first window of a key, seconds.
pub(super) const WINDOW: u64 = 60;
/// Windows of a refusal that goes on double up to this length, seconds: 24 records a day.
pub(super) const MAX_WINDOW: u64 = 3600;
/// After a count could not be written: seconds until the next attempt.
const RETRY_DELAY: u64 = 60;
/// Keys that are counted at a time. Our choice: some 500 KiB.
pub(super) const MAX_KEYS: usize = 1024;
/// Bytes of refusals that may be written in a burst. Our choice: some 1,500 records.
const BURST: u64 = 512 << 10;
/// Bytes of a line beside the user and its own fields: sequence number, time, event, address, request, hash.
pub(super) const FIXED: u64 = 352;

/// The suppression class of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Each time: security-relevant, and a client needs a permission to write for it.
    Always,
    /// Each time while the user's budget lasts, then counted per user: any user can repeat it without limit, from any
    /// address, and the anonymous one too.
    PerUser,
    /// Counted if the same user repeats the same act; never dropped for want of bytes or keys.
    Repeatable,
    /// Counted per user and address: a refused client can repeat it without limit.
    Refused,
}

/// The key of records counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    event: Event,
    user: String,
    network: Option<IpPrefix>,
    /// A keyed hash of the fields, where only equal acts are counted together.
    act: u64,
}

/// The records of one key, or of one kind, in the current window.
#[derive(Debug)]
struct Count {
    /// When the window began.
    since: u64,
    /// Its length in seconds.
    length: u64,
    /// Records written one by one.
    written: u32,
    /// Records suppressed in this window.
    suppressed: u64,
    /// The newest of them.
    last: Option<Entry>,
}

/// Writes a record; false: it could not be written.
pub(super) type Append<'a> = &'a mut dyn FnMut(&Entry) -> bool;

/// Decides which records are written, and counts the others.
pub(super) struct Suppression {
    now: u64,
    hasher: RandomState,
    keys: HashMap<Key, Count>,
    users: HashMap<(Event, String), UserBudget>,
    /// Refusals without a key of their own.
    kinds: HashMap<Event, Count>,
    /// Bytes that refusals may still write. Within `keep_for` at most half of `max_size` is added, so that refusals never
    /// fill the log.
    refusal_bytes: TokenBucket,
    /// Records suppressed since this was asked last.
    suppressed: u64,
    /// When counts may be written again after a failure.
    retry_at: u64,
}

impl Suppression {
    pub(super) fn new(config: &config::Audit) -> Self {
        let burst = BURST.min(config.max_size / 4);
        let rate = Rate {
            tokens: config.max_size / 2,
            period: config.keep_for.as_secs(),
        };
        Self {
            now: 0,
            hasher: RandomState::new(),
            keys: HashMap::new(),
            users: HashMap::new(),
            kinds: HashMap::new(),
            refusal_bytes: TokenBucket::new(burst, rate, 0),
            suppressed: 0,
            retry_at: 0,
        }
    }

    /// Writes the counts whose window has ended, and the record itself unless it is suppressed. False: the record could
    /// not be written.
    pub(super) fn pass(&mut self, entry: Entry, append: Append<'_>) -> bool {
        // A request that took long brings an older time than those before it: only `tick` sets the time back.
        if entry.now > self.now {
            self.tick(entry.now, append);
        }
        let passed = match class(&entry) {
            Class::Always => Some(entry),
            Class::PerUser => self.per_user(entry),
            Class::Repeatable => self.repeatable(entry),
            Class::Refused => self.refused(entry),
        };
        if let Some(entry) = passed {
            return append(&entry);
        }
        self.suppressed += 1;
        true
    }

    /// Counts refusals of a kind that did not fit into the queue.
    pub(super) fn dropped(&mut self, event: Event, times: u64) {
        self.suppressed += times;
        self.count_kind(event, times);
    }

    /// Returns the number of records suppressed since the last call.
    pub(super) fn take_suppressed(&mut self) -> u64 {
        std::mem::take(&mut self.suppressed)
    }

    /// Writes the counts whose window has ended. Those that cannot be written go on.
    pub(super) fn tick(&mut self, now: u64, append: Append<'_>) {
        if now == self.now {
            return;
        }
        if now < self.now {
            self.set_back(now);
        }
        self.now = now;
        self.refusal_bytes.refill(now);
        if now >= self.retry_at && !self.end_windows(now, append) {
            self.retry_at = now.saturating_add(RETRY_DELAY);
        }
    }

    /// Writes all counts, at the end of the program; keeps those that cannot be written.
    pub(super) fn flush(&mut self, append: Append<'_>) {
        let now = self.now;
        let mut fails = |summary: Option<Entry>| summary.is_some_and(|summary| !append(&summary));
        self.keys.retain(|_, count| fails(count.summary(now)));
        self.users.retain(|_, budget| fails(budget.summary(now)));
        let kinds = &mut self.kinds;
        kinds.retain(|event, count| fails(count.of_kind(*event, now)));
    }

    /// The clock was set back: no window may last longer for that.
    fn set_back(&mut self, now: u64) {
        let budgets = self.users.values_mut().map(|budget| budget.set_back(now));
        let counts = self.keys.values_mut().chain(self.kinds.values_mut());
        for count in counts.chain(budgets) {
            count.since = count.since.min(now);
        }
        self.retry_at = self.retry_at.min(now.saturating_add(RETRY_DELAY));
    }

    /// False: a count could not be written, and others have not been tried.
    fn end_windows(&mut self, now: u64, append: Append<'_>) -> bool {
        let keys = self.keys.iter();
        let ended = keys.filter(|(_, count)| count.has_ended(now));
        let ended: Vec<Key> = ended.map(|(key, _)| key.clone()).collect();
        ended.iter().all(|key| self.end_window(key, now, append))
            && self.end_budgets(now, append)
            && self.end_kinds(now, append)
    }

    fn end_kinds(&mut self, now: u64, append: Append<'_>) -> bool {
        let mut done = true;
        self.kinds.retain(|event, count| {
            if !done || !count.has_ended(now) {
                return true;
            }
            // Forgotten only after a long silence: otherwise a slow client gets a first record again and again.
            let silent = count.suppressed == 0 && count.length == MAX_WINDOW;
            done = count
                .of_kind(*event, now)
                .is_none_or(|summary| append(&summary));
            if done {
                count.restart(now, MAX_WINDOW);
            }
            !silent
        });
        done
    }

    fn end_budgets(&mut self, now: u64, append: Append<'_>) -> bool {
        let mut done = true;
        self.users.retain(|_, budget| {
            done = done && budget.end_window(now, append);
            !budget.is_over(now)
        });
        done
    }

    /// The number of keys, users and kinds counted.
    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.keys.len() + self.users.len() + self.kinds.len()
    }

    /// Ends the window of a key: its count is written, or added to that of its kind if the bytes of refusals are used up. False: it
    /// could not be written, and the window goes on.
    fn end_window(&mut self, key: &Key, now: u64, append: Append<'_>) -> bool {
        let Some(count) = self.keys.get_mut(key) else {
            return true;
        };
        let Some(summary) = count.summary(now) else {
            self.keys.remove(key);
            return true;
        };
        let refused = class(&summary) == Class::Refused;
        if refused && !self.refusal_bytes.take(cost(&summary)) {
            let times = count.suppressed;
            self.keys.remove(key);
            self.count_kind(key.event, times);
            return true;
        }
        if !append(&summary) {
            if refused {
                self.refusal_bytes.add(cost(&summary));
            }
            return false;
        }
        count.restart(now, if refused { MAX_WINDOW } else { WINDOW });
        true
    }

    fn count_kind(&mut self, event: Event, times: u64) {
        let now = self.now;
        let count = self.kinds.entry(event).or_insert_with(|| Count::new(now));
        count.suppressed += times;
    }

    fn repeatable(&mut self, entry: Entry) -> Option<Entry> {
        let key = Key::of_act(&entry, &self.hasher);
        if self.keys.len() >= MAX_KEYS && !self.keys.contains_key(&key) {
            return Some(entry);
        }
        let now = self.now;
        let count = self.keys.entry(key).or_insert_with(|| Count::new(now));
        count.pass(entry, EACH)
    }

    fn per_user(&mut self, entry: Entry) -> Option<Entry> {
        let (now, event) = (self.now, entry.event);
        let key = (event, entry.actor.user.clone());
        if self.users.len() >= MAX_KEYS && !self.users.contains_key(&key) {
            let count = self.kinds.entry(event).or_insert_with(|| Count::new(now));
            return count.pass(entry, 1);
        }
        let budget = self
            .users
            .entry(key)
            .or_insert_with(|| UserBudget::new(now));
        budget.pass(entry, now)
    }

    fn refused(&mut self, entry: Entry) -> Option<Entry> {
        let (now, event) = (self.now, entry.event);
        let key = Key::of_refusal(&entry);
        if let Some(count) = self.keys.get_mut(&key) {
            let each = if count.written < EACH && self.refusal_bytes.take(cost(&entry)) {
                EACH
            } else {
                count.written
            };
            return count.pass(entry, each);
        }
        if self.keys.len() < MAX_KEYS && self.refusal_bytes.take(cost(&entry)) {
            let count = self.keys.entry(key).or_insert_with(|| Count::new(now));
            return count.pass(entry, EACH);
        }
        let count = self.kinds.entry(event).or_insert_with(|| Count::new(now));
        count.pass(entry, 1)
    }
}

impl Count {
    fn new(now: u64) -> Self {
        Self {
            since: now,
            length: WINDOW,
            written: 0,
            suppressed: 0,
            last: None,
        }
    }

    fn has_ended(&self, now: u64) -> bool {
        now.saturating_sub(self.since) >= self.length
    }

    /// The record itself while fewer than `each` were written; otherwise it is counted.
    fn pass(&mut self, entry: Entry, each: u32) -> Option<Entry> {
        if self.written < each {
            self.written += 1;
            return Some(entry);
        }
        self.suppressed += 1;
        self.last = Some(entry);
        None
    }

    /// The next window, twice as long; all of its records are counted.
    fn restart(&mut self, now: u64, longest: u64) {
        self.length = (self.length * 2).min(longest);
        (self.since, self.written, self.suppressed) = (now, u32::MAX, 0);
        self.last = None;
    }

    /// One record for those suppressed in this window: the last of them, how many there were, and when.
    fn summary(&self, now: u64) -> Option<Entry> {
        let mut entry = self.last.clone()?;
        if self.suppressed > 1 {
            entry.facts["times"] = self.suppressed.into();
            entry.facts["since"] = rfc3339(self.since).into();
        }
        entry.facts["until"] = rfc3339(entry.now).into();
        entry.now = now;
        Some(entry)
    }

    /// The same for a kind: of several users and addresses.
    fn of_kind(&self, event: Event, now: u64) -> Option<Entry> {
        let facts = json!({
            "of": "several users or addresses", "times": self.suppressed,
            "since": rfc3339(self.since),
        });
        (self.suppressed > 0).then(|| Entry::of_program(event, facts, now))
    }
}

impl Key {
    fn of_refusal(entry: &Entry) -> Self {
        // Names of users who do not exist are free: they count as one.
        let user = match entry.actor.user.as_str() {
            user if user.starts_with(UNKNOWN_USER) => UNKNOWN_USER,
            user => user,
        };
        Self {
            event: entry.event,
            user: user.to_owned(),
            network: entry.actor.address.map(IpPrefix::of),
            act: 0,
        }
    }

    fn of_act(entry: &Entry, hasher: &RandomState) -> Self {
        Self {
            act: hasher.hash_one(entry.facts.to_string()),
            ..Self::of_refusal(entry)
        }
    }
}

/// Bytes of a record.
fn cost(entry: &Entry) -> u64 {
    let own = entry.actor.user.len() + entry.facts.to_string().len();
    FIXED + own as u64
}

/// The reasons of deployments that changed nothing.
const REFUSALS: [&str; 5] = ["stale", "malformed", "no_such_flow", "policy", "proposal"];

/// Returns the suppression class of a record; every event has one.
pub(super) fn class(entry: &Entry) -> Class {
    let reason = || entry.facts["reason"].as_str().unwrap_or_default();
    match entry.event {
        Event::LoginCredentials
        | Event::LoginScope
        | Event::LoginThrottled
        | Event::LoginInvalid
        | Event::LoginStore
        | Event::LoginProvider
        | Event::Lockout
        | Event::Guessing
        | Event::Denied
        | Event::WriteFail
        | Event::CommsRefused
        | Event::PackageFail
        | Event::ProposalFail => Class::Refused,
        Event::RevokeFail if reason() != "store" => Class::Refused,
        // The others follow a record of the deployment, which they take back.
        Event::DeployFail if REFUSALS.contains(&reason()) => Class::Refused,
        Event::Login
        | Event::StepUp
        | Event::PasskeyCounter
        | Event::Revoke
        | Event::SecretRead
        | Event::CommsOpen
        | Event::CommsClose => Class::PerUser,
        Event::Write => Class::Repeatable,
        // No client can cause these at will, or each tells of a change.
        _ => Class::Always,
    }
}

#[cfg(test)]
mod tests;
