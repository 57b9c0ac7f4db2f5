//! Suppression of repeated records: refusals are counted per kind, user and address, so that
//! requests cannot fill the log.
//!
//! The first records of a key are written at once; further ones are counted, and the count is
//! written when the window ends; a count that cannot be written is kept. Refusals take bytes from a
//! token bucket, their share of `max_size`; when it is empty, or with too many keys, a refusal is
//! counted per kind only. Each user has a share of its own, and a budget for each kind of record
//! ([`user`]). When only the reserve of the log is left, it is for security-relevant records, and
//! for users with `*`. Depends on no file and no clock.
//!
//! The window of a key is no rate limit of the `limits` crate: it sums up what it suppresses, and
//! doubles while the refusals go on.

mod user;

use super::Event;
use crate::audit::record::{Entry, rfc3339};
use crate::config::{self, UNKNOWN_USER};
use crate::visible_json;
use limits::ip_prefix::IpPrefix;
use limits::token_bucket::{Rate, TokenBucket};
use serde_json::json;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
#[cfg(any(test, fuzzing))]
pub(super) use user::ACTS;
use user::{Limit, User};

/// Records of one key that are written one by one before the others are counted. Our choice: each
/// of a person's typing errors is shown.
pub(super) const EACH: u32 = 5;
/// The first window of a key, seconds.
pub(super) const WINDOW: u64 = 60;
/// Windows of a refusal that goes on double up to this length, seconds: 24 records a day.
pub(super) const MAX_WINDOW: u64 = 3600;
/// After a count could not be written: seconds until the next attempt.
const RETRY_DELAY: u64 = 60;
/// Keys that are counted at a time. Our choice: some 500 KiB.
pub(super) const MAX_KEYS: usize = 1024;
/// Users that are counted at a time; those beyond are counted together.
pub(super) const MAX_USERS: usize = 1024;
/// Bytes of refusals that may be written in a burst. Our choice: some 1,500 records.
const BURST: u64 = 512 << 10;
/// Bytes of a line beside the user and its own fields: sequence number, time, event, address,
/// request, hash.
pub(super) const FIXED: u64 = 352;

/// The suppression class of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Each time while the user's bytes last, then counted per user; of a user with `*` each time.
    Act,
    /// Each time while the user's budget lasts, then counted per user: any user can repeat it
    /// without limit, from any address, and the anonymous one too.
    PerUser,
    /// Counted if the same user repeats the same act, and all acts beyond the user's bytes.
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
    users: HashMap<String, User>,
    max_size: u64,
    keep_for: u64,
    /// True if only the reserve of the log is left.
    reserve: bool,
    /// Refusals without a key of their own.
    kinds: HashMap<Event, Count>,
    /// Bytes that refusals may still write. Within `keep_for` at most half of `max_size` is added,
    /// so that refusals never fill the log.
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
            max_size: config.max_size,
            keep_for: config.keep_for.as_secs(),
            reserve: false,
            kinds: HashMap::new(),
            refusal_bytes: TokenBucket::new(burst, rate, 0),
            suppressed: 0,
            retry_at: 0,
        }
    }

    /// Sets whether only the reserve of the log is left.
    pub(super) fn set_reserve(&mut self, reserve: bool) {
        self.reserve = reserve;
    }

    /// Writes the counts whose window has ended, and the record itself unless it is suppressed.
    /// False: the record could not be written, or may not use the reserve.
    pub(super) fn pass(&mut self, entry: Entry, append: Append<'_>) -> bool {
        // A request that took long brings an older time than those before it: only `tick` sets the
        // time back.
        if entry.now > self.now {
            self.tick(entry.now, append);
        }
        let class = class(&entry);
        let (free, reserve) = (entry.actor.has_all, self.reserve && !entry.actor.has_all);
        let admitted = !reserve || may_use_reserve(&entry);
        let passed = match class {
            Class::Act if free => Some(entry),
            Class::Refused if !reserve => self.refused(entry),
            Class::Refused => self.refused_in_reserve(entry),
            Class::Act | Class::PerUser | Class::Repeatable => self.of_user(entry, class),
        };
        if let Some(entry) = passed {
            return append(&entry);
        }
        self.suppressed += 1;
        admitted
    }

    /// Counts records of a kind that did not fit into the queue.
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
        let kinds = &mut self.kinds;
        kinds.retain(|event, count| fails(count.of_kind(*event, now)));
        self.users.retain(|_, user| {
            user.flush(now, append);
            user.len() > 0
        });
    }

    /// The clock was set back: no window may last longer for that.
    fn set_back(&mut self, now: u64) {
        self.users.values_mut().for_each(|user| user.set_back(now));
        for count in self.keys.values_mut().chain(self.kinds.values_mut()) {
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
            && self.end_users(now, append)
            && self.end_kinds(now, append)
    }

    fn end_kinds(&mut self, now: u64, append: Append<'_>) -> bool {
        let mut done = true;
        self.kinds.retain(|event, count| {
            if !done || !count.has_ended(now) {
                return true;
            }
            // Forgotten only after a long silence: otherwise a slow client gets a first record
            // again and again.
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

    fn end_users(&mut self, now: u64, append: Append<'_>) -> bool {
        let mut done = true;
        self.users.retain(|_, user| {
            done = done && user.end_windows(now, append);
            !user.is_over(now)
        });
        done
    }

    /// The number of keys, acts and kinds counted.
    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        let users = self.users.values().map(User::len);
        self.keys.len() + users.sum::<usize>() + self.kinds.len()
    }

    /// Ends the window of a key: its count is written, or added to that of its kind if the bytes of
    /// refusals are used up. False: it could not be written, and the window goes on.
    fn end_window(&mut self, key: &Key, now: u64, append: Append<'_>) -> bool {
        let Some(count) = self.keys.get_mut(key) else {
            return true;
        };
        let Some(summary) = count.summary(now) else {
            self.keys.remove(key);
            return true;
        };
        if !self.refusal_bytes.take(cost(&summary)) {
            let times = count.suppressed;
            self.keys.remove(key);
            self.count_kind(key.event, times);
            return true;
        }
        if !append(&summary) {
            self.refusal_bytes.add(cost(&summary));
            return false;
        }
        count.restart(now, MAX_WINDOW);
        true
    }

    fn count_kind(&mut self, event: Event, times: u64) {
        let now = self.now;
        let count = self.kinds.entry(event).or_insert_with(|| Count::new(now));
        count.suppressed += times;
    }

    fn of_user(&mut self, entry: Entry, class: Class) -> Option<Entry> {
        let (now, reserve) = (self.now, self.reserve && !entry.actor.has_all);
        let name = &entry.actor.user;
        if self.users.len() >= MAX_USERS && !self.users.contains_key(name) {
            return self.of_many(entry, !reserve);
        }
        let new = || User::new(self.max_size, self.keep_for, now);
        let user = self.users.entry(name.clone()).or_insert_with(new);
        match class {
            _ if reserve && !may_use_reserve(&entry) => {
                user.count(entry, now);
                None
            }
            _ if reserve => user.pass(entry, Limit::Reserve, now),
            Class::Repeatable => {
                let act = self.hasher.hash_one(entry.facts.to_string());
                user.act(entry, act, now)
            }
            Class::PerUser => user.pass(entry, Limit::Kind, now),
            Class::Act | Class::Refused => user.pass(entry, Limit::Bytes, now),
        }
    }

    /// Counts a record with those of others of its kind; the first is written, if any may be.
    fn of_many(&mut self, entry: Entry, first: bool) -> Option<Entry> {
        let now = self.now;
        let count = self.kinds.entry(entry.event);
        let count = count.or_insert_with(|| Count::new(now));
        count.pass(entry, u32::from(first))
    }

    fn refused_in_reserve(&mut self, entry: Entry) -> Option<Entry> {
        self.of_many(entry, false)
    }

    fn refused(&mut self, entry: Entry) -> Option<Entry> {
        let now = self.now;
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
        self.of_many(entry, true)
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

    /// One record for those suppressed in this window: the last of them, how many there were, and
    /// when.
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
        }
    }
}

/// Bytes of a record.
fn cost(entry: &Entry) -> u64 {
    let own = entry.actor.user.len() + visible_json::escaped(entry.facts.to_string()).len();
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
        | Event::CommsClose
        // The program's own, which users' deployments and proposals cause.
        | Event::OutsideEdit
        | Event::Fallback
        | Event::Safe
        | Event::Finished
        | Event::ProposalExpire => Class::PerUser,
        Event::Write => Class::Repeatable,
        // Each shows a change, or no client can cause it at will.
        _ => Class::Act,
    }
}

/// Returns whether a record of a user without `*` may use the reserve: security-relevant ones, each
/// of which is limited.
fn may_use_reserve(entry: &Entry) -> bool {
    let others = [
        Event::Write,
        Event::WriteBegin,
        Event::CommsOpen,
        Event::CommsClose,
    ];
    !others.contains(&entry.event)
}

#[cfg(test)]
mod tests;
