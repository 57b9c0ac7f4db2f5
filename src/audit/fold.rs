//! What strangers can make happen as often as they like is written a few times a second for each address, then counted:
//! else a flood of refused sign-ins would push everything else out of the log.

use super::Event;
use super::line::Entry;
use std::collections::HashMap;
use std::net::IpAddr;

/// Lines of one kind and one address within a second; more are counted. Our choice: somebody who mistypes is told of
/// each time, and one address cannot fill the room of the log within a day.
const EACH: u32 = 5;

type Kind = (Event, Option<IpAddr>);
type Held = (Entry, u64);

/// The repetitions within one second.
#[derive(Default)]
pub(super) struct Fold {
    second: u64,
    /// Of each kind, how many were written; the newest of those that were not, and how many these are.
    repeated: HashMap<Kind, (u32, Option<Held>)>,
}

impl Fold {
    /// What is to be written now that this has happened: it, or nothing, and what was held back before.
    pub(super) fn pass(&mut self, entry: Entry) -> Vec<Entry> {
        let mut due = if entry.now == self.second {
            Vec::new()
        } else {
            self.flush()
        };
        self.second = entry.now;
        if !is_free(&entry) {
            due.push(entry);
            return due;
        }
        let key = (entry.event, entry.actor.address);
        let (written, held) = self.repeated.entry(key).or_default();
        if *written < EACH {
            *written += 1;
            due.push(entry);
        } else {
            let times = held.as_ref().map_or(0, |(_, times)| *times);
            *held = Some((entry, times + 1));
        }
        due
    }

    /// What was held back, each with how often it happened.
    pub(super) fn flush(&mut self) -> Vec<Entry> {
        let held = self.repeated.drain().filter_map(|(_, (_, held))| held);
        held.map(|(mut entry, times)| {
            if times > 1 {
                entry.facts["times"] = times.into();
            }
            entry
        })
        .collect()
    }
}

/// Whether it takes neither a password nor a token to make it happen again. Wrong passwords are the throttle's.
fn is_free(entry: &Entry) -> bool {
    match entry.event {
        Event::LoginThrottled | Event::LoginInvalid | Event::CommsRefused => true,
        // Any page that a browser shows can make it ask.
        Event::Denied => entry.actor.user.is_empty() || entry.facts["reason"] == "origin",
        _ => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::audit::Actor;
    use serde_json::json;

    fn entry(event: Event, address: u8, now: u64) -> Entry {
        let actor = Actor {
            address: Some([192, 0, 2, address].into()),
            ..Actor::program()
        };
        Entry {
            event,
            actor,
            now,
            facts: json!({}),
        }
    }

    #[test]
    fn a_flood_of_one_address_is_six_lines_a_second() {
        let mut fold = Fold::default();
        let mut written = Vec::new();
        for n in 0..1000 {
            written.extend(fold.pass(entry(Event::LoginThrottled, 1, n / 500)));
        }
        written.extend(fold.pass(entry(Event::LoginThrottled, 2, 1)));
        written.extend(fold.flush());
        let times: Vec<_> = written
            .iter()
            .map(|entry| entry.facts["times"].as_u64().unwrap_or(1))
            .collect();
        assert_eq!(times, [1, 1, 1, 1, 1, 495, 1, 1, 1, 1, 1, 1, 495]);
    }

    #[test]
    fn what_takes_a_password_is_always_written() {
        let mut fold = Fold::default();
        for _ in 0..10 {
            assert_eq!(fold.pass(entry(Event::LoginCredentials, 1, 0)).len(), 1);
        }
        let mut denied = entry(Event::Denied, 1, 0);
        denied.actor.user = "ann".into();
        assert_eq!(fold.pass(denied).len(), 1);
    }
}
