//! Suppression of repeated records: refusals are counted per kind, user and address, so that requests cannot fill the log.
//!
//! The first records of a key are written at once; further ones are counted, and the count is written when the window
//! ends. Refusals spend a byte budget, their share of `max_size`; without budget, or with too many keys, a refusal is
//! counted per kind only. Knows no file and no clock.

use super::Event;
use super::line::{Entry, rfc3339};
use crate::config::{self, UNKNOWN_USER};
use crate::ip_prefix::IpPrefix;
use serde_json::json;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Records of one key that are written one by one before the others are counted. Our choice: each of a person's typing
/// errors is shown.
pub(super) const EACH: u32 = 5;
/// The first window of a key, seconds.
pub(super) const WINDOW: u64 = 60;
/// Windows of a refusal that goes on double up to this length, seconds: 24 records a day.
pub(super) const MAX_WINDOW: u64 = 3600;
/// Keys that are counted at a time. Our choice: some 500 KiB.
pub(super) const MAX_KEYS: usize = 1024;
/// Bytes of refusals that may be written in a burst. Our choice: some 1,500 records.
const BURST: u64 = 512 << 10;
/// Bytes of a line beside the user and its own fields: sequence number, time, event, address, request, hash.
pub(super) const FIXED: u64 = 352;

/// How often an event may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Each time: security-relevant, and a client needs a password or a permission for it.
    Always,
    /// Counted if the same user repeats the same act; never dropped for want of credit or keys.
    Repeatable,
    /// Counted per user and address: a refused client can repeat it without limit.
    Refused,
}

/// What is counted together.
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
    /// How long it lasts, seconds.
    length: u64,
    /// Records written one by one.
    written: u32,
    /// Records suppressed in this window.
    suppressed: u64,
    /// The newest of them.
    last: Option<Entry>,
}

/// Decides which records are written, and counts the others.
pub(super) struct Suppression {
    now: u64,
    hasher: RandomState,
    keys: HashMap<Key, Count>,
    /// Refusals without a key of their own.
    kinds: HashMap<Event, Count>,
    credit: Credit,
    /// Records suppressed since this was asked last.
    suppressed: u64,
}

/// Bytes that refusals may still write. Within `keep_for` at most half of `max_size` is added, so that refusals never
/// fill the log.
struct Credit {
    bytes: u64,
    burst: u64,
    share: u64,
    period: u64,
    refilled: u64,
}

impl Suppression {
    pub(super) fn new(config: &config::Audit) -> Self {
        let burst = BURST.min(config.max_size / 4);
        Self {
            now: 0,
            hasher: RandomState::new(),
            keys: HashMap::new(),
            kinds: HashMap::new(),
            credit: Credit {
                bytes: burst,
                burst,
                share: config.max_size / 2,
                period: config.keep_for.as_secs().max(1),
                refilled: 0,
            },
            suppressed: 0,
        }
    }

    /// The records to be written now that this one has come: counts whose window has ended, and the record itself
    /// unless it is suppressed.
    pub(super) fn pass(&mut self, entry: Entry) -> Vec<Entry> {
        // A request that took long brings an older time than those before it: only `tick` sets the time back.
        let mut due = if entry.now > self.now {
            self.tick(entry.now)
        } else {
            Vec::new()
        };
        let passed = match class(&entry) {
            Class::Always => Some(entry),
            Class::Repeatable => self.repeatable(entry),
            Class::Refused => self.refused(entry),
        };
        match passed {
            Some(entry) => due.push(entry),
            None => self.suppressed += 1,
        }
        due
    }

    /// Counts refusals of a kind that did not fit into the queue.
    pub(super) fn dropped(&mut self, event: Event, times: u64) {
        self.suppressed += times;
        self.count_kind(event, times);
    }

    /// How many records have been suppressed since this was asked last.
    pub(super) fn take_suppressed(&mut self) -> u64 {
        std::mem::take(&mut self.suppressed)
    }

    /// The counts whose window has ended.
    pub(super) fn tick(&mut self, now: u64) -> Vec<Entry> {
        if now == self.now {
            return Vec::new();
        }
        if now < self.now {
            // The clock was set back: no window may last longer for that.
            let counts = self.keys.values_mut().chain(self.kinds.values_mut());
            counts.for_each(|count| count.since = count.since.min(now));
        }
        self.now = now;
        self.credit.refill(now);
        let keys = self.keys.iter();
        let ended = keys.filter(|(_, count)| count.has_ended(now));
        let ended: Vec<Key> = ended.map(|(key, _)| key.clone()).collect();
        let mut due: Vec<Entry> = ended
            .iter()
            .filter_map(|key| self.end_window(key, now))
            .collect();
        self.kinds.retain(|event, count| {
            if !count.has_ended(now) {
                return true;
            }
            // Forgotten only after a long silence: otherwise a slow client gets a first record again and again.
            let silent = count.suppressed == 0 && count.length == MAX_WINDOW;
            due.extend(count.of_kind(*event, now));
            count.restart(now, MAX_WINDOW);
            !silent
        });
        due
    }

    /// All counts, at the end of the program.
    pub(super) fn flush(&mut self) -> Vec<Entry> {
        let now = self.now;
        let keys = self.keys.drain();
        let mut due: Vec<Entry> = keys
            .filter_map(|(_, mut count)| count.summary(now))
            .collect();
        let kinds = self.kinds.drain();
        due.extend(kinds.filter_map(|(event, mut count)| count.of_kind(event, now)));
        due
    }

    /// How many keys and kinds are counted.
    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.keys.len() + self.kinds.len()
    }

    /// Ends the window of a key: its count is written, or added to that of its kind if there is no credit.
    fn end_window(&mut self, key: &Key, now: u64) -> Option<Entry> {
        let count = self.keys.get_mut(key)?;
        let Some(summary) = count.summary(now) else {
            self.keys.remove(key);
            return None;
        };
        if class(&summary) == Class::Repeatable {
            count.restart(now, WINDOW);
            return Some(summary);
        }
        if self.credit.spend(&summary) {
            count.restart(now, MAX_WINDOW);
            return Some(summary);
        }
        self.keys.remove(key);
        let times = summary.facts["times"].as_u64().unwrap_or(1);
        self.count_kind(key.event, times);
        None
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

    fn refused(&mut self, entry: Entry) -> Option<Entry> {
        let (now, event) = (self.now, entry.event);
        let key = Key::of_refusal(&entry);
        if let Some(count) = self.keys.get_mut(&key) {
            let each = if count.written < EACH && self.credit.spend(&entry) {
                EACH
            } else {
                count.written
            };
            return count.pass(entry, each);
        }
        if self.keys.len() < MAX_KEYS && self.credit.spend(&entry) {
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
    }

    /// One record for those suppressed in this window.
    fn summary(&mut self, now: u64) -> Option<Entry> {
        let mut entry = self.last.take()?;
        entry.now = now;
        if self.suppressed > 1 {
            entry.facts["times"] = self.suppressed.into();
            entry.facts["since"] = rfc3339(self.since).into();
        }
        Some(entry)
    }

    /// The same for a kind: of several users and addresses.
    fn of_kind(&mut self, event: Event, now: u64) -> Option<Entry> {
        self.last = None;
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

impl Credit {
    fn refill(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.refilled);
        let gained = u128::from(elapsed) * u128::from(self.share) / u128::from(self.period);
        if gained > 0 || now < self.refilled {
            let bytes = u128::from(self.bytes) + gained;
            self.bytes = u64::try_from(bytes).map_or(self.burst, |bytes| bytes.min(self.burst));
            self.refilled = now;
        }
    }

    /// Whether the record may be written.
    fn spend(&mut self, entry: &Entry) -> bool {
        let own = entry.actor.user.len() + entry.facts.to_string().len();
        let rest = self.bytes.checked_sub(FIXED + own as u64);
        self.bytes = rest.unwrap_or(self.bytes);
        rest.is_some()
    }
}

/// How often this may be written; every event has its class.
pub(super) fn class(entry: &Entry) -> Class {
    let reason = || entry.facts["reason"].as_str().unwrap_or_default();
    match entry.event {
        Event::LoginCredentials
        | Event::LoginScope
        | Event::LoginThrottled
        | Event::LoginInvalid
        | Event::LoginStore
        | Event::Lockout
        | Event::Guessing
        | Event::Denied
        | Event::WriteFail
        | Event::CommsRefused => Class::Refused,
        Event::RevokeFail if reason() != "store" => Class::Refused,
        // The others follow a record of the deployment, which they take back.
        Event::DeployFail if matches!(reason(), "stale" | "malformed" | "no_such_flow") => {
            Class::Refused
        }
        Event::Write | Event::CommsOpen | Event::CommsClose => Class::Repeatable,
        Event::RevokeFail
        | Event::DeployFail
        | Event::WriteBegin
        | Event::Start
        | Event::End
        | Event::Reload
        | Event::ReloadFail
        | Event::ConfigChange
        | Event::Login
        | Event::Revoke
        | Event::TokenCreate
        | Event::TokenRevoke
        | Event::SessionRevoke
        | Event::SecretRead
        | Event::DeployBegin
        | Event::Deploy
        | Event::OutsideEdit
        | Event::Fallback
        | Event::Safe
        | Event::StateBegin
        | Event::State
        | Event::StateFail
        | Event::Rotated
        | Event::Repaired
        | Event::Full => Class::Always,
    }
}

#[cfg(test)]
mod tests;
