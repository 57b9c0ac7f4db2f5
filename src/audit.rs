//! Who did what, when, from where: append-only lines of JSON, in `audit.log` of the data directory.
//!
//! Knows the form of a line. What happened, and which facts belong to it, the callers know; no secret may be among them.

use serde::Serialize;
use serde_json::{Map, Value};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// Who acts, for audit and history.
#[derive(Debug, Clone, Serialize)]
pub struct Actor {
    /// The user; empty: nobody signed in, or the program itself.
    pub user: String,
    /// Where from.
    pub address: Option<IpAddr>,
    /// The request's id.
    pub request: String,
}

/// The audit log; clones share it.
#[derive(Clone)]
pub struct Audit {
    file: Arc<File>,
}

impl Audit {
    /// Opens or makes the file, mode 0600.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(directory.join("audit.log"))?;
        Ok(Self {
            file: Arc::new(file),
        })
    }

    /// Appends one event at `now`, seconds since 1970; `facts` are its own fields, and never replace `time`, `event`,
    /// `user`, `address` or `request`. A failure goes to the log.
    pub fn record(&self, event: &'static str, actor: &Actor, now: u64, facts: Value) {
        let line = line(event, actor, now, facts);
        // One write of a whole line at the end of the file: lines of several threads never mix.
        if let Err(error) = (&*self.file).write_all(line.as_bytes()) {
            tracing::error!(%error, event, "the audit log cannot be written");
        }
    }
}

fn line(event: &str, actor: &Actor, now: u64, facts: Value) -> String {
    let mut fields = Map::new();
    fields.insert("time".into(), rfc3339(now).into());
    fields.insert("event".into(), event.into());
    fields.insert("user".into(), actor.user.as_str().into());
    fields.insert(
        "address".into(),
        actor.address.map(|address| address.to_string()).into(),
    );
    fields.insert("request".into(), actor.request.as_str().into());
    match facts {
        Value::Null => {}
        Value::Object(facts) => {
            for (name, fact) in facts {
                fields.entry(name).or_insert(fact);
            }
        }
        other => {
            fields.insert("facts".into(), other);
        }
    }
    format!("{}\n", Value::Object(fields))
}

/// Seconds since 1970 as RFC 3339 §5.6 writes them, in UTC. The calendar is that of RFC 3339 appendix B turned round:
/// years begin in March, so that a leap day is the last of its year, and 400 years have 146,097 days.
fn rfc3339(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // 0000-03-01 was 719,468 days before 1970-01-01.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // March to July and August to December have 153 days each.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + next;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn alice() -> Actor {
        Actor {
            user: "alice".into(),
            address: Some("192.0.2.7".parse().unwrap()),
            request: "r1".into(),
        }
    }

    #[test]
    fn a_line_has_the_fixed_fields_and_then_the_facts() {
        let text = line(
            "flows.set",
            &alice(),
            1_700_000_000,
            json!({"rev": "abc", "nodes": 3}),
        );
        let expected = r#"{"time":"2023-11-14T22:13:20Z","event":"flows.set","user":"alice","address":"192.0.2.7","request":"r1","rev":"abc","nodes":3}"#;
        assert_eq!(text, format!("{expected}\n"));
    }

    #[test]
    fn facts_do_not_replace_fixed_fields_and_cannot_begin_a_line() {
        let text = line(
            "auth.login",
            &alice(),
            0,
            json!({"user": "mallory", "name": "a\n{\"event\":\"x\"}"}),
        );
        assert_eq!(text.lines().count(), 1);
        let fields: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(fields["user"], "alice");
        assert_eq!(fields["name"], "a\n{\"event\":\"x\"}");
    }

    #[test]
    fn facts_may_be_missing_or_a_single_value() {
        let program = Actor {
            user: String::new(),
            address: None,
            request: String::new(),
        };
        let fields: Value = serde_json::from_str(&line("start", &program, 0, Value::Null)).unwrap();
        assert_eq!(fields.as_object().unwrap().len(), 5);
        assert_eq!(fields["address"], Value::Null);
        let fields: Value = serde_json::from_str(&line("start", &program, 0, json!([1]))).unwrap();
        assert_eq!(fields["facts"], json!([1]));
    }

    #[test]
    fn the_file_is_for_its_owner_and_is_only_ever_appended_to() {
        let place = tempfile::tempdir().unwrap();
        Audit::open(place.path())
            .unwrap()
            .record("first", &alice(), 0, Value::Null);
        Audit::open(place.path())
            .unwrap()
            .record("second", &alice(), 0, Value::Null);
        let path = place.path().join("audit.log");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let events: Vec<Value> = fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].take())
            .collect();
        assert_eq!(events, ["first", "second"]);
    }

    #[test]
    fn lines_of_several_threads_never_mix() {
        let place = tempfile::tempdir().unwrap();
        let audit = Audit::open(place.path()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let audit = audit.clone();
                scope.spawn(move || {
                    for _ in 0..100 {
                        audit.record("event", &alice(), 0, json!({"long": "x".repeat(5_000)}));
                    }
                });
            }
        });
        let text = fs::read_to_string(place.path().join("audit.log")).unwrap();
        assert_eq!(text.lines().count(), 400);
        assert!(
            text.lines()
                .all(|line| serde_json::from_str::<Value>(line).is_ok())
        );
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, time) in [
            (0, "1970-01-01T00:00:00Z"),
            (68_169_599, "1972-02-28T23:59:59Z"),
            (68_169_600, "1972-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), time);
        }
    }
}
