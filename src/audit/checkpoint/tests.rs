//! What an attacker does to a signed log who may write the whole data directory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::super::record::ChainHash;
use super::super::{Audit, Signed, Trust, files, rfc3339, verify_files_signed, verify_signed};
use super::*;
use crate::audit::Actor;
use crate::config::{self, Config, DEFAULT};
use crate::metrics::Metrics;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

const NOW: u64 = 1_700_000_000;

/// A data directory, and a key beside it.
struct Place {
    data: TempDir,
    keys: TempDir,
}

impl Place {
    fn new() -> Self {
        let keys = TempDir::new().unwrap();
        SigningKey::make(&keys.path().join("audit.key")).unwrap();
        let data = TempDir::new().unwrap();
        Self { data, keys }
    }

    fn key(&self) -> SigningKey {
        SigningKey::read(&self.keys.path().join("audit.key")).unwrap()
    }

    fn config(&self, lines: &str) -> config::Audit {
        let key = self.keys.path().join("audit.key");
        let before = DEFAULT.split("\n[audit]\n").next().unwrap();
        let text = format!(
            "{before}\n[audit]\nsigning_key = \"{}\"\n{lines}",
            key.display()
        );
        let config = Config::parse(&text, "gateway.toml", Path::new("")).unwrap();
        config.audit
    }

    fn open(&self, lines: &str) -> Audit {
        Audit::open(&self.config(lines), self.data.path(), Metrics::new(), NOW).unwrap()
    }

    /// Writes `count` records, and closes the log.
    fn write(&self, count: u64) {
        self.write_with("", count);
    }

    fn write_with(&self, lines: &str, count: u64) {
        let audit = self.open(lines);
        for number in 0..count {
            let facts = json!({ "number": number });
            audit.record(Event::TokenCreate, &Actor::program(), NOW, facts);
        }
    }

    fn log(&self) -> PathBuf {
        self.data.path().join("audit.log")
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.log()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Replaces the whole log, its chain and its head, as an attacker can who may write the data
    /// directory.
    fn forge(&self, lines: Vec<Value>, key: Option<&SigningKey>) {
        let mut last = ChainHash::START;
        let mut text = String::new();
        for mut line in lines {
            line["seq"] = (last.seq + 1).into();
            line["prev"] = hex(&last.hash).into();
            let mut line = line.to_string();
            if line.contains("audit.checkpoint")
                && let Some(key) = key
            {
                line = signed(&line, key);
            }
            last = ChainHash::after(last.seq + 1, line.as_bytes());
            text += &(line + "\n");
        }
        fs::write(self.log(), text).unwrap();
        let head = files::head_text(&last);
        fs::write(self.data.path().join(files::HEAD), head).unwrap();
    }

    fn verify(&self, trust: &Trust) -> Result<Signed, String> {
        let found = verify_signed(self.data.path(), trust);
        let report = found.map_err(|fault| {
            let directory = format!("{}/", self.data.path().display());
            fault.to_string().replace(&directory, "")
        });
        report.map(|report| report.signed.unwrap())
    }

    fn fault(&self) -> String {
        self.verify(&self.trust()).unwrap_err()
    }

    fn trust(&self) -> Trust {
        Trust {
            anchor: None,
            keys: vec![self.key().public()],
            ..Trust::default()
        }
    }
}

/// A checkpoint signed anew.
fn signed(line: &str, key: &SigningKey) -> String {
    let mut fields: Value = serde_json::from_str(line).unwrap();
    fields["key"] = key.public().id().into();
    fields["signature"] = "".into();
    let line = fields.to_string();
    let at = line.len() - AFTER;
    format!(
        "{}{}{}",
        &line[..at],
        key.sign(line.as_bytes()),
        &line[at..]
    )
}

fn ten_and_a_checkpoint() -> Place {
    let place = Place::new();
    place.write(10);
    place.write(10);
    let report = place.verify(&place.trust()).unwrap();
    assert_eq!(
        (report.checkpoints, report.last, report.waiting),
        (2, 22, 0)
    );
    place
}

#[test]
fn every_line_is_signed_at_the_end_of_the_process_and_after_a_hundred_at_the_latest() {
    let place = Place::new();
    place.write(250);
    let report = place.verify(&place.trust()).unwrap();
    assert_eq!((report.checkpoints, report.waiting), (3, 0));
    assert_eq!(report.time, rfc3339(NOW));
    let at = |line: &Value| line["event"] == "audit.checkpoint";
    let lines = place.lines();
    let numbers: Vec<_> = lines.iter().filter(|line| at(line)).collect();
    assert_eq!(numbers[0]["seq"], 101);
    assert_eq!(
        (&numbers[1]["from"], &numbers[1]["seq"]),
        (&json!(102), &json!(202))
    );

    let audit = place.open("");
    audit.record(Event::TokenCreate, &Actor::program(), NOW, json!({}));
    audit.tick(NOW + 59);
    audit.tick(NOW + 60);
    audit.record(Event::TokenCreate, &Actor::program(), NOW + 60, json!({}));
    drop(audit);
    let lines = place.lines();
    let last: Vec<_> = lines
        .iter()
        .rev()
        .take(4)
        .map(|line| &line["event"])
        .collect();
    let (checkpoint, record) = ("audit.checkpoint", "token.create");
    assert_eq!(last, [checkpoint, record, checkpoint, record]);
    assert_eq!(place.verify(&place.trust()).unwrap().waiting, 0);
}

#[test]
fn a_rotated_file_ends_with_a_checkpoint_and_verifies_by_itself() {
    let place = Place::new();
    place.write_with("rotate_size = \"2KiB\"", 40);
    assert_eq!(place.verify(&place.trust()).unwrap().waiting, 0);
    let all = files::all(place.data.path()).unwrap();
    assert!(all.len() > 3);
    for file in all {
        let report = verify_files_signed(&[file], &place.trust()).unwrap();
        assert_eq!(report.signed.unwrap().waiting, 0);
    }
}

#[test]
fn a_log_that_is_rewritten_with_a_whole_new_chain_is_detected() {
    let place = ten_and_a_checkpoint();
    let mut lines = place.lines();
    lines[4]["user"] = "bobby".into();
    place.forge(lines.clone(), None);
    let fault = "audit.log:11: the signature of this checkpoint is not valid: lines up to it were changed, or it was moved";
    assert_eq!(place.fault(), fault);

    // A line is removed, and those after it are numbered anew.
    lines.remove(4);
    place.forge(lines.clone(), None);
    assert_eq!(place.fault(), fault.replace(":11:", ":10:"));

    // Without any checkpoint.
    lines.retain(|line| line["event"] != "audit.checkpoint");
    place.forge(lines, None);
    let fault = place.fault();
    assert!(
        fault.starts_with("audit.log:1: the numbers 1 to 19 are not signed"),
        "{fault}"
    );
}

#[test]
fn a_log_that_the_gateway_continues_after_it_was_rewritten_is_detected() {
    let place = ten_and_a_checkpoint();
    let mut lines = place.lines();
    lines.retain(|line| line["event"] != "audit.checkpoint");
    lines[4]["user"] = "bobby".into();
    place.forge(lines, None);
    place.write(5);
    let fault = place.fault();
    assert!(
        fault.starts_with("audit.log:1: the numbers 1 to 20 are not signed"),
        "{fault}"
    );

    // Up to a checkpoint everything is left as it was, and what follows is invented.
    let place = ten_and_a_checkpoint();
    let mut lines = place.lines();
    lines.truncate(14);
    place.forge(lines, None);
    place.write(5);
    let fault = place.fault();
    assert!(
        fault.starts_with("audit.log:12: the numbers 12 to 14 are not signed"),
        "{fault}"
    );
    let mut trust = place.trust();
    trust.accepted.push(12..=14);
    assert_eq!(place.verify(&trust).unwrap().waiting, 0);
}

#[test]
fn checkpoints_of_a_foreign_key_and_moved_ones_are_detected() {
    let place = ten_and_a_checkpoint();
    let other = Place::new().key();
    let lines = place.lines();
    place.forge(lines.clone(), Some(&other));
    let fault = format!(
        "audit.log:11: this checkpoint is signed with another key, {:?}",
        other.public().id()
    );
    assert_eq!(place.fault(), fault);
    let mut both = place.trust();
    both.keys.push(other.public());
    assert!(place.verify(&both).is_ok(), "a key that was replaced");

    let mut moved = lines.clone();
    moved.swap(9, 10);
    place.forge(moved, None);
    assert!(
        place
            .fault()
            .contains("audit.log:10: the signature of this checkpoint is not valid")
    );

    for (field, value) in [
        ("from", json!(0)),
        ("gateway", json!("other")),
        ("signature", json!("AA")),
    ] {
        let mut changed = lines.clone();
        changed[10][field] = value;
        place.forge(changed, None);
        assert!(
            place.fault().contains("audit.log:11: the signature"),
            "{field}"
        );
    }
}

#[test]
fn a_cut_tail_and_a_log_rewritten_with_the_stolen_key_are_detected_by_a_copy_elsewhere() {
    let place = ten_and_a_checkpoint();
    let copy = place.keys.path().join("received.log");
    let text = fs::read_to_string(place.log()).unwrap();
    let received: Vec<&str> = text.lines().skip(2).collect();
    fs::write(&copy, received.join("\n") + "\n").unwrap();
    let mut trust = place.trust();
    trust.seen.push(copy);
    assert!(place.verify(&trust).is_ok());

    let lines = place.lines();
    place.forge(lines[..11].to_vec(), None);
    assert_eq!(
        place.verify(&place.trust()).unwrap().last,
        11,
        "no file here shows it"
    );
    let fault = place.verify(&trust).unwrap_err();
    assert!(fault.ends_with("received.log:10: number 12 was received elsewhere, and is missing at the end of the log"), "{fault}");

    let mut changed = lines.clone();
    changed[4]["user"] = "bobby".into();
    place.forge(changed, Some(&place.key()));
    assert!(
        place.verify(&place.trust()).is_ok(),
        "the key is all that counts"
    );
    let fault = place.verify(&trust).unwrap_err();
    assert!(
        fault.starts_with("audit.log:5: this line is not as it was received elsewhere"),
        "{fault}"
    );
}

#[test]
fn lines_that_a_killed_gateway_has_not_signed_are_named_and_a_copy_vouches_for_them() {
    let place = Place::new();
    place.write(10);
    let copy = place.keys.path().join("received.log");
    let mut lines = place.lines();
    lines.truncate(8);
    place.forge(lines, None);
    fs::copy(place.log(), &copy).unwrap();
    place.write(3);
    let fault = place.fault();
    assert!(
        fault.starts_with("audit.log:1: the numbers 1 to 8 are not signed"),
        "{fault}"
    );
    let mut trust = place.trust();
    trust.seen.push(copy);
    assert_eq!(place.verify(&trust).unwrap().checkpoints, 1);
}

#[test]
fn a_log_without_the_named_key_does_not_open() {
    let place = Place::new();
    let path = place.keys.path().join("audit.key");
    let open = || {
        let opened = Audit::open(&place.config(""), place.data.path(), Metrics::new(), NOW);
        opened
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert!(SigningKey::make(&path).is_err(), "a key is never replaced");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
    assert!(open().contains("every user of this machine may read or write it"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "not a key").unwrap();
    assert!(open().contains("expected a private key of Ed25519"));
    fs::remove_file(&path).unwrap();
    assert!(open().contains("make the key with `flowgate audit key`"));
}

#[test]
fn public_keys_are_read_as_they_are_written() {
    let public = Place::new().key().public();
    assert_eq!(
        PublicKey::parse(&format!("{public}\n")),
        Some(public.clone())
    );
    let text = public.to_string();
    for wrong in ["", "ed25519:", &text[8..], &text[..50], &format!("{text}A")] {
        assert_eq!(PublicKey::parse(wrong), None, "{wrong}");
    }
}
