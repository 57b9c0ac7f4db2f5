//! Invariants checked for every sequence of audit events, whatever their users, addresses and
//! times.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a check: it may panic"
)]

use super::record::Entry;
use super::suppression::{ACTS, Class, FIXED, MAX_KEYS, Suppression, WINDOW, class};
use super::{Actor, Event};
use crate::config;
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Seconds since 1970 at which every sequence begins.
const BEGIN: u64 = 1_700_000_000;

/// Counts add up; the first record of each kind, and whatever is relevant for security, is written
/// at once; memory is bounded, and so are the bytes of refusals.
pub fn suppression(data: &[u8]) {
    let Some((&limits, steps)) = data.split_first() else {
        return;
    };
    let config = config(limits);
    let mut suppression = Suppression::new(&config);
    let mut tally = Tally::default();
    let mut now = BEGIN;
    for (number, step) in steps.chunks_exact(4).enumerate() {
        let before = now;
        now = moved(now, step[3]);
        tally.forward += now.saturating_sub(before);
        tally.backward += u64::from(now < before);
        if step[0] == u8::MAX {
            tally.take(suppression.ticked(now));
        } else if step[0] == u8::MAX - 1 {
            let times = u64::from(step[1]);
            suppression.dropped(Event::Denied, times);
            tally.seen.insert(Event::Denied);
            *tally.offered.entry(Event::Denied).or_default() += times;
        } else {
            let entry = entry(step, number, now);
            let at_once = tally.offer(&entry);
            let request = entry.actor.request.clone();
            let written = suppression.passed(entry);
            let found = written.iter().any(|entry| entry.actor.request == request);
            assert!(
                found || !at_once,
                "a record that must be written at once is not"
            );
            tally.take(written);
        }
        assert!(suppression.len() <= MAX_KEYS + 100 * (ACTS + Event::ALL.len()));
    }
    tally.check_bytes(&config);
    let counted = suppression.len();
    let last = suppression.flushed();
    assert!(last.len() <= counted && suppression.len() == 0);
    tally.take(last);
    tally.check();
}

impl Suppression {
    /// The records that [`pass`](Self::pass) writes.
    pub(super) fn passed(&mut self, entry: Entry) -> Vec<Entry> {
        let mut written = Vec::new();
        self.pass(entry, &mut keep(&mut written));
        written
    }

    /// The records that [`tick`](Self::tick) writes.
    pub(super) fn ticked(&mut self, now: u64) -> Vec<Entry> {
        let mut written = Vec::new();
        self.tick(now, &mut keep(&mut written));
        written
    }

    /// The records that [`flush`](Self::flush) writes.
    pub(super) fn flushed(&mut self) -> Vec<Entry> {
        let mut written = Vec::new();
        self.flush(&mut keep(&mut written));
        written
    }
}

fn keep(written: &mut Vec<Entry>) -> impl FnMut(&Entry) -> bool {
    |entry| {
        written.push(entry.clone());
        true
    }
}

/// The events offered, and those written.
#[derive(Default)]
struct Tally {
    offered: HashMap<Event, u64>,
    written: HashMap<Event, u64>,
    /// Requests of records that are never suppressed, in their order.
    relevant: Vec<String>,
    kept: Vec<String>,
    seen: HashSet<Event>,
    /// Lines that count several events, and those of refusals.
    refusals: u64,
    /// Acts that may be counted together.
    acts: u64,
    /// Seconds that have passed, and how often the clock was set back.
    forward: u64,
    backward: u64,
}

impl Tally {
    /// Returns whether this record must be written at once.
    fn offer(&mut self, entry: &Entry) -> bool {
        *self.offered.entry(entry.event).or_default() += 1;
        let class = class(entry);
        let always = class == Class::Act && entry.actor.has_all;
        self.acts += u64::from(class != Class::Refused);
        if always {
            self.relevant.push(entry.actor.request.clone());
        }
        self.seen.insert(entry.event) || always
    }

    fn take(&mut self, written: Vec<Entry>) {
        for entry in written {
            let times = entry.facts["times"].as_u64();
            assert_ne!(times, Some(0));
            *self.written.entry(entry.event).or_default() += times.unwrap_or(1);
            self.refusals += u64::from(times.is_some() || class(&entry) == Class::Refused);
            if times.is_none() && class(&entry) == Class::Act && entry.actor.has_all {
                self.kept.push(entry.actor.request);
            }
        }
    }

    fn check(mut self) {
        self.offered.retain(|_, times| *times > 0);
        assert_eq!(self.offered, self.written);
        assert_eq!(self.relevant, self.kept);
    }

    /// Kinds have a line at the beginning and with each window, acts of one key five and one with
    /// each window; all else needs credit.
    fn check_bytes(&self, limits: &config::Audit) {
        let windows = 2 + self.forward / WINDOW + 2 * self.backward;
        let share = self.forward * (limits.max_size / 2) / limits.keep_for.as_secs();
        let credit = limits.max_size / 4 + share;
        let kinds = Event::ALL.len() as u64 * windows;
        assert!(self.refusals <= credit / FIXED + kinds + self.acts * windows);
    }
}

/// Other limits, so that credit runs out now and then.
fn config(limits: u8) -> config::Audit {
    config::Audit {
        off: false,
        stdout: false,
        rotate_size: 1 << 10,
        rotate_age: Duration::from_hours(1),
        keep: 1,
        keep_for: Duration::from_hours(1 + u64::from(limits >> 4)),
        max_size: 1 << (11 + u64::from(limits & 15)),
        refuse: true,
        signing_key: None,
        checkpoint: Duration::from_mins(1),
        sinks: Vec::new(),
    }
}

/// Another time: mostly later, by seconds or hours; sometimes earlier.
fn moved(now: u64, by: u8) -> u64 {
    match by {
        0..128 => now,
        128..224 => now + u64::from(by - 127),
        224..248 => now + 600 * u64::from(by - 223),
        248.. => now.saturating_sub(900 * u64::from(by - 247)),
    }
}

fn entry(step: &[u8], number: usize, now: u64) -> Entry {
    let event = Event::ALL[usize::from(step[0]) % Event::ALL.len()];
    let (number_of_user, address) = (step[1], step[2]);
    let user = match number_of_user {
        0..64 => String::new(),
        64..128 => format!("unknown:{number_of_user:08x}"),
        _ => format!("user{}", number_of_user % 16),
    };
    let reason = ["store", "unknown", "stale", "refused"][usize::from(address % 4)];
    Entry {
        event,
        actor: Actor {
            user,
            by: String::new(),
            address: Some([192, 0, 2, address / 4].into()),
            request: number.to_string(),
            has_all: number_of_user % 16 == 1,
        },
        now,
        facts: json!({ "reason": reason }),
    }
}
