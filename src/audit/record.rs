//! One line of the audit log: its form, its link to the line before, its time.
//!
//! Knows no file.

use super::{Actor, Event};
use crate::visible_json;
use crypto::{hex, sha256};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Characters kept of a name that a client has chosen freely. Our choice: longer ones are no names.
const MAX_LENGTH: usize = 256;

/// Something that is to be written down.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) event: Event,
    pub(super) actor: Actor,
    /// Seconds since 1970.
    pub(super) now: u64,
    /// Its own fields; they never replace the fixed ones.
    pub(super) facts: Value,
}

/// The end of a chain: the number of its last line, and the SHA-256 of that line's bytes, without
/// the line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainHash {
    pub(super) seq: u64,
    pub(super) hash: [u8; 32],
}

/// The fields needed of a line that was read.
#[derive(Debug, Deserialize)]
pub(super) struct Read {
    pub(super) seq: u64,
    pub(super) prev: String,
    #[serde(default)]
    pub(super) time: String,
    #[serde(default)]
    pub(super) event: String,
    /// [`Event::Rotated`]: the number of the first record that rotation has removed.
    #[serde(default)]
    pub(super) removed_from: u64,
    /// The number of the last one; 0: none was removed.
    #[serde(default)]
    pub(super) removed_to: u64,
    /// The time of the first one.
    #[serde(default)]
    pub(super) removed_since: String,
    /// The time of the last one.
    #[serde(default)]
    pub(super) removed_until: String,
    /// [`Event::Checkpoint`]: the number of the first line that it vouches for.
    #[serde(default)]
    pub(super) from: u64,
    /// The name of the key.
    #[serde(default)]
    pub(super) key: String,
    /// The name of the gateway.
    #[serde(default)]
    pub(super) gateway: String,
    /// The identity of the log.
    #[serde(default)]
    pub(super) log: String,
}

impl Entry {
    /// A record of the program itself.
    pub(super) fn of_program(event: Event, facts: Value, now: u64) -> Self {
        Self {
            event,
            actor: Actor::program(),
            now,
            facts,
        }
    }
}

impl ChainHash {
    /// Before the first line.
    pub(super) const START: Self = Self {
        seq: 0,
        hash: [0; 32],
    };

    /// After a line.
    pub(super) fn after(seq: u64, line: &[u8]) -> Self {
        Self {
            seq,
            hash: sha256(line),
        }
    }

    /// The next line, without a line feed: JSON never has one inside. Characters that readers do
    /// not see are escaped, so that no record looks like another, or like two.
    pub(super) fn next(&self, entry: &Entry) -> String {
        let mut fields = Map::new();
        fields.insert("seq".into(), (self.seq + 1).into());
        fields.insert("time".into(), rfc3339(entry.now).into());
        fields.insert("event".into(), entry.event.name().into());
        fields.insert("user".into(), shortened(&entry.actor.user).into());
        if !entry.actor.by.is_empty() {
            fields.insert("by".into(), entry.actor.by.as_str().into());
        }
        let address = entry.actor.address.map(|address| address.to_string());
        fields.insert("address".into(), address.into());
        fields.insert("request".into(), entry.actor.request.as_str().into());
        if let Value::Object(facts) = &entry.facts {
            for (name, fact) in facts {
                let fact = fact.as_str().map_or_else(|| fact.clone(), shortened_value);
                fields.entry(name).or_insert(fact);
            }
        }
        fields.shift_remove("prev");
        fields.insert("prev".into(), hex(&self.hash).into());
        visible_json::escaped(Value::Object(fields).to_string())
    }
}

impl Read {
    /// `None`: it is no line of ours.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

/// The bytes of a hash, as [`hex`] writes it.
pub(super) fn unhex(text: &str) -> Option<[u8; 32]> {
    crypto::unhex(text).filter(|bytes| hex(bytes) == text)
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn shortened_value(text: &str) -> Value {
    shortened(text).into()
}

/// Seconds since 1970 as RFC 3339 §5.6 writes them, in UTC; December 9999 at most.
pub fn rfc3339(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).ok();
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.unwrap_or(Timestamp::MAX)
        .strftime("%FT%TZ")
        .to_string()
}

/// Parses a time of RFC 3339 into whole seconds since 1970; `None`: it is none, or before 1970.
pub fn seconds(text: &str) -> Option<u64> {
    // jiff takes a space for the `T` too, which RFC 3339 leaves to applications.
    let time: Timestamp = text.parse().ok().filter(|_| !text.contains(' '))?;
    u64::try_from(time.as_second()).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(facts: Value) -> Entry {
        Entry {
            event: Event::Deploy,
            actor: Actor {
                user: "alice".into(),
                by: "token".into(),
                address: Some("192.0.2.7".parse().unwrap()),
                request: "r1".into(),
                has_all: false,
            },
            now: 1_700_000_000,
            facts,
        }
    }

    #[test]
    fn a_record_has_fixed_fields_then_extra_fields_and_the_previous_hash() {
        let line = ChainHash::START.next(&entry(json!({"rev": "abc", "nodes": 3})));
        let expected = format!(
            r#"{{"seq":1,"time":"2023-11-14T22:13:20Z","event":"flows.deploy","user":"alice","by":"token","address":"192.0.2.7","request":"r1","rev":"abc","nodes":3,"prev":"{}"}}"#,
            "0".repeat(64)
        );
        assert_eq!(line, expected);
        let next = ChainHash::after(1, line.as_bytes()).next(&entry(json!({})));
        let read = Read::parse(next.as_bytes()).unwrap();
        assert_eq!((read.seq, read.prev), (2, hex(&sha256(line.as_bytes()))));
    }

    #[test]
    fn extra_fields_cannot_replace_fixed_fields_or_begin_a_line() {
        let facts =
            json!({"user": "mallory", "seq": 9, "prev": "x", "name": "a\n{\"event\":\"x\"}"});
        let line = ChainHash::START.next(&entry(facts));
        assert_eq!(line.lines().count(), 1);
        let fields: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&fields["user"], &fields["seq"]),
            (&json!("alice"), &json!(1))
        );
        assert_eq!(fields["prev"], "0".repeat(64));
        assert_eq!(fields["name"], "a\n{\"event\":\"x\"}");
    }

    #[test]
    fn invisible_characters_of_clients_are_escaped_and_remain_the_same() {
        let hostile = "a\u{2028}{\"seq\":9}\u{2029}\u{202e}b\u{200b}\u{85}\u{e0041}\u{feff}";
        let mut one = entry(json!({ "path": hostile, "sets": [hostile] }));
        one.actor.user = hostile.to_owned();
        let line = ChainHash::START.next(&one);
        let raw = |character: char| !character.is_ascii();
        assert!(!line.contains(raw), "{line}");
        assert!(
            line.contains(r#""user":"a\u2028{\"seq\":9}\u2029\u202eb"#),
            "{line}"
        );
        let fields: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&fields["user"], &fields["path"]),
            (&json!(hostile), &json!(hostile))
        );
        assert_eq!(fields["sets"], json!([hostile]));
    }

    #[test]
    fn overlong_client_and_user_names_are_truncated() {
        let mut long = entry(json!({ "client": "é".repeat(9_000) }));
        long.actor.user = "x".repeat(100_000);
        assert!(ChainHash::START.next(&long).len() < 2_000);
    }

    #[test]
    fn timestamps_follow_rfc_3339_and_are_read_back() {
        for (seconds, time) in [
            (0, "1970-01-01T00:00:00Z"),
            (68_169_599, "1972-02-28T23:59:59Z"),
            (68_169_600, "1972-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_207_200, "9999-12-30T22:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), time);
            assert_eq!(super::seconds(time), Some(seconds));
        }
        for time in [
            "2023-11-14T23:13:20+01:00",
            "2023-11-14T22:13:20.5Z",
            "2023-11-14t22:13:20z",
        ] {
            assert_eq!(super::seconds(time), Some(1_700_000_000), "{time}");
        }
        for text in [
            "",
            "2023",
            "2023-02-30T00:00:00Z",
            "2023-11-14T22:13:20",
            "2023-11-14 22:13:20Z",
            "1969-12-31T23:59:59Z",
            "0000-00-00T00:00:00Z",
        ] {
            assert_eq!(super::seconds(text), None, "{text}");
        }
    }
}
