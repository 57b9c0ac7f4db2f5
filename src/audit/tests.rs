//! The log on a real disk: writing, reading again, repair, and detection of changes.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::config::{Config, DEFAULT};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;

const NOW: u64 = 1_700_000_000;

fn config(lines: &str) -> config::Audit {
    let before = DEFAULT.split("\n[audit]\n").next().unwrap();
    let text = format!("{before}\n[audit]\n{lines}\n");
    let config = Config::parse(&text, "gateway.toml", Path::new("")).unwrap();
    config.audit
}

fn open(place: &TempDir, lines: &str) -> Audit {
    Audit::open(&config(lines), place.path(), Metrics::new(), NOW).unwrap()
}

fn alice() -> Actor {
    Actor {
        user: "alice".into(),
        by: String::new(),
        address: Some("192.0.2.7".parse().unwrap()),
        request: "r1".into(),
        has_all: true,
    }
}

/// A user without `*`.
fn mallory() -> Actor {
    Actor {
        user: "mallory".into(),
        has_all: false,
        ..alice()
    }
}

/// Writes `count` lines, and closes the log.
fn write(place: &TempDir, lines: &str, count: u64) {
    write_at(place, lines, count, NOW);
}

/// The same at another time.
fn write_at(place: &TempDir, lines: &str, count: u64, now: u64) {
    let audit = open(place, lines);
    for number in 0..count {
        audit.record(
            Event::TokenCreate,
            &alice(),
            now,
            json!({ "number": number }),
        );
    }
}

fn current(place: &TempDir) -> PathBuf {
    place.path().join("audit.log")
}

fn text(place: &TempDir) -> String {
    fs::read_to_string(current(place)).unwrap()
}

fn found(place: &TempDir) -> String {
    match verify(place.path()) {
        Ok(report) => format!("{} lines", report.lines),
        Err(fault) => fault
            .to_string()
            .replace(&format!("{}/", place.path().display()), ""),
    }
}

/// Changes the log of ten lines and returns the result of its verification.
fn after(change: impl Fn(&mut Vec<String>)) -> String {
    let place = TempDir::new().unwrap();
    write(&place, "", 10);
    assert_eq!(found(&place), "10 lines");
    let mut lines: Vec<String> = text(&place).lines().map(|l| format!("{l}\n")).collect();
    change(&mut lines);
    fs::write(current(&place), lines.concat()).unwrap();
    found(&place)
}

#[test]
fn the_files_are_owner_only_and_the_chain_continues_after_a_restart() {
    let place = TempDir::new().unwrap();
    write(&place, "", 3);
    write(&place, "", 3);
    for file in ["audit.log", "audit.head"] {
        let mode = fs::metadata(place.path().join(file)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{file}");
    }
    assert_eq!(found(&place), "6 lines");
}

#[test]
fn verify_names_the_line_that_was_changed() {
    for at in [0, 4, 9] {
        let said = after(|lines| lines[at] = lines[at].replace("alice", "bobby"));
        assert_eq!(said, format!("audit.log:{}: this line was changed", at + 1));
    }
    let other = "f".repeat(64);
    let said = after(|lines| {
        let prev = lines[4].split("\"prev\":\"").nth(1).unwrap()[..64].to_owned();
        lines[4] = lines[4].replace(&prev, &other);
    });
    assert_eq!(said, "audit.log:5: this line was changed");
    let said = after(|lines| lines[4] = "garbage\n".into());
    assert_eq!(said, "audit.log:5: this line was changed");
}

#[test]
fn verify_names_where_lines_are_missing() {
    let said = after(|lines| drop(lines.remove(4)));
    let missing = "before this line are missing: numbers 5 to 5";
    assert_eq!(said, format!("audit.log:5: {missing}"));
    let said = after(|lines| drop(lines.drain(..2)));
    let missing = "before this line are missing: numbers 1 to 2";
    assert_eq!(said, format!("audit.log:1: {missing}"));
    let said = after(|lines| lines.truncate(7));
    let missing = "after this line are missing: numbers 8 to 10";
    assert_eq!(said, format!("audit.log:7: {missing}"));
    let said = after(Vec::clear);
    let missing = "after this line are missing: numbers 1 to 10";
    assert_eq!(said, format!("audit.log:0: {missing}"));
}

#[test]
fn verify_names_lines_that_are_out_of_order_or_truncated() {
    let said = after(|lines| lines.swap(3, 4));
    assert_eq!(
        said,
        "audit.log:4: this line is out of order: it is number 5, and 4 comes here"
    );
    let said = after(|lines| lines.insert(6, lines[2].clone()));
    assert_eq!(
        said,
        "audit.log:7: this line is out of order: it is number 3, and 7 comes here"
    );
    let said = after(|lines| lines[9].truncate(30));
    assert_eq!(said, "audit.log:10: this line is truncated");
}

#[test]
fn a_half_written_line_is_set_aside_and_the_chain_continues() {
    let place = TempDir::new().unwrap();
    write(&place, "", 3);
    let torn = format!("{}{{\"seq\":4,\"ti", text(&place));
    fs::write(current(&place), torn).unwrap();
    write(&place, "", 1);
    let lines: Vec<Value> = text(&place)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[3]["event"], "audit.repaired");
    let kept = lines[3]["kept"].as_str().unwrap();
    assert_eq!(
        fs::read_to_string(place.path().join(kept)).unwrap(),
        "{\"seq\":4,\"ti"
    );
    let report = verify(place.path()).unwrap();
    assert_eq!((report.lines, report.repairs.len()), (5, 1));
}

#[test]
fn removed_lines_stay_missing_after_a_restart() {
    let place = TempDir::new().unwrap();
    write(&place, "", 5);
    let first: String = text(&place)
        .lines()
        .take(2)
        .flat_map(|l| [l, "\n"])
        .collect();
    fs::write(current(&place), first).unwrap();
    write(&place, "", 1);
    assert!(text(&place).contains("lines are missing"));
    assert_eq!(
        found(&place),
        "audit.log:3: before this line are missing: numbers 3 to 5"
    );

    fs::remove_file(current(&place)).unwrap();
    write(&place, "", 1);
    assert_eq!(
        found(&place),
        "audit.log:1: before this line are missing: numbers 1 to 7"
    );
}

#[test]
fn a_log_that_cannot_be_continued_is_kept_and_its_lines_count_as_missing() {
    let place = TempDir::new().unwrap();
    write(&place, "", 3);
    fs::write(current(&place), "not ours\n").unwrap();
    write(&place, "", 1);
    let kept = place.path().join(format!("audit.log.damaged-{NOW}"));
    assert_eq!(fs::read_to_string(kept).unwrap(), "not ours\n");
    assert!(
        found(&place).contains("missing: numbers 1 to 3"),
        "{}",
        found(&place)
    );
}

/// Opens a log that must have this line, and closes it; returns the kind of its problem.
fn reopen(place: &TempDir, anchor: &Anchor) -> Option<String> {
    let metrics = Metrics::new();
    let audit = Audit::open_anchored(&config(""), place.path(), metrics, Some(anchor), NOW);
    let problem = audit.unwrap().monitor().problem();
    problem.map(|problem| problem.split(':').next().unwrap().to_owned())
}

/// A log of five lines, and the last of them.
fn anchored() -> (TempDir, Anchor) {
    let place = TempDir::new().unwrap();
    let audit = open(&place, "");
    for number in 0..5 {
        audit.record(
            Event::TokenCreate,
            &alice(),
            NOW,
            json!({ "number": number }),
        );
    }
    drop(audit);
    let anchor = Anchor {
        line: files::ending(&current(&place)).unwrap().last.unwrap(),
        log: files::id(place.path()).unwrap().unwrap(),
    };
    assert_eq!(Anchor::parse(&anchor.text()), Some(anchor.clone()));
    assert_eq!(reopen(&place, &anchor), None);
    assert_eq!(found(&place), "5 lines");
    (place, anchor)
}

fn remove_head(place: &TempDir) {
    fs::remove_file(place.path().join("audit.head")).unwrap();
}

fn cut(place: &TempDir) {
    let whole = text(place);
    let lines: Vec<&str> = whole.lines().take(3).collect();
    fs::write(current(place), lines.join("\n") + "\n").unwrap();
}

/// Another log of so many lines, in the place of the first.
fn replace(place: &TempDir, lines: u64) {
    fs::remove_file(current(place)).unwrap();
    remove_head(place);
    write_at(place, "", lines, NOW + 1);
}

#[test]
fn a_log_that_was_cut_or_rewritten_is_found_by_its_anchor() {
    type Change = fn(&TempDir);
    let changes: [(Change, &str, &str); 4] = [
        (remove_head, "audit.head is missing", "6 lines"),
        (cut, "lines are missing", "missing: numbers 4 to 5"),
        (
            |place| replace(place, 3),
            "lines are missing",
            "missing: numbers 4 to 5",
        ),
        (
            |place| replace(place, 9),
            "a line before the end was changed",
            "audit.log:5: this line was changed",
        ),
    ];
    for (change, reason, verified) in changes {
        let (place, anchor) = anchored();
        change(&place);
        assert_eq!(reopen(&place, &anchor).as_deref(), Some("damaged"));
        assert!(text(&place).contains(reason), "{}", text(&place));
        let result = match verify_anchored(place.path(), Some(&anchor)) {
            Ok(report) => format!("{} lines", report.lines),
            Err(fault) => fault.to_string(),
        };
        assert!(result.contains(verified), "{reason}: {result}");
    }
}

#[test]
fn without_its_head_the_log_cannot_be_verified_as_complete() {
    let place = TempDir::new().unwrap();
    assert_eq!(
        found(&place),
        format!("{}: there is no audit log here", place.path().display())
    );
    write(&place, "", 3);
    fs::remove_file(place.path().join("audit.head")).unwrap();
    assert!(found(&place).starts_with("audit.head: missing or damaged"));
    assert_eq!(verify_files(&[current(&place)]).unwrap().lines, 3);
}

const DAY: u64 = 86_400;

/// Files of three lines each, of which those are kept that are younger than two days.
const FEW: &str = "rotate_size = \"1KiB\"\nkeep = 3\nkeep_for = \"2d\"";

fn report(place: &TempDir) -> Report {
    verify(place.path()).unwrap_or_else(|fault| panic!("{fault}"))
}

#[test]
fn files_rotate_by_size_and_old_ones_are_removed_without_a_gap() {
    let place = TempDir::new().unwrap();
    for days in [0, 3, 6, 9] {
        write_at(&place, FEW, 10, NOW + days * DAY);
    }
    let files = files::all(place.path()).unwrap();
    assert!(
        files
            .iter()
            .all(|file| fs::metadata(file).unwrap().len() < 2_000)
    );
    let report = report(&place);
    let removed = report.removed.unwrap();
    // The last ten lines, and those before them whose files were not yet old when a file was
    // changed last.
    assert!((10..30).contains(&report.lines), "{}", report.lines);
    let first = files::beginning(&files[0]).unwrap().unwrap();
    assert_eq!(removed.to, first.seq - 1);
    assert_eq!(removed.since, rfc3339(NOW));
    assert_eq!(removed.until, rfc3339(NOW + 6 * DAY));

    // Files that the gateway did not remove itself are missing.
    fs::remove_file(&files[0]).unwrap();
    assert!(found(&place).contains("before this line are missing"));
}

#[test]
fn files_with_young_records_are_kept_whatever_their_number() {
    let place = TempDir::new().unwrap();
    for hours in 0..20 {
        write_at(&place, FEW, 10, NOW + hours * 3600);
    }
    let files = files::all(place.path()).unwrap();
    assert!(files.len() > 20, "{files:?}");
    assert_eq!(report(&place).removed, None);
    write_at(&place, FEW, 10, NOW + 3 * DAY);
    assert!(files::all(place.path()).unwrap().len() < 10);
    let removed = report(&place).removed.unwrap();
    assert_eq!(removed.since, rfc3339(NOW));
    assert_eq!(removed.until, rfc3339(NOW + 19 * 3600));
}

#[test]
fn a_log_that_begins_later_must_record_the_removed_lines() {
    let place = TempDir::new().unwrap();
    for days in [0, 3, 6, 9] {
        write_at(&place, FEW, 10, NOW + days * DAY);
    }
    let lines = report(&place).lines;
    // Without the account, or with one that begins later, no rotation accounts for the missing
    // lines.
    let files = files::all(place.path()).unwrap();
    let texts: Vec<String> = files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let accounts = texts.concat().matches("removed_from").count();
    assert!(accounts >= 3, "each file has the account: {accounts}");
    let faults: Vec<String> = ["\"removed_from\":1,", "\"removed_to\":"]
        .iter()
        .zip(["\"removed_from\":4,", "\"removed\":"])
        .map(|(account, other)| {
            let changed = rechained(&place, &texts.concat().replace(account, other));
            fs::write(current(&place), changed).unwrap();
            for file in &files[..files.len() - 1] {
                let _ = fs::remove_file(file);
            }
            found(&place)
        })
        .collect();
    assert!(faults[0].contains("missing: numbers 1 to 3"), "{faults:?}");
    assert!(faults[1].contains("missing: numbers 1 to "), "{faults:?}");
    assert!(lines > 0);
}

/// The same lines in an intact chain, as an attacker who can write the data directory would make
/// it.
fn rechained(place: &TempDir, text: &str) -> String {
    let mut out = String::new();
    let mut last: Option<record::ChainHash> = None;
    for line in text.lines() {
        let read = record::Read::parse(line.as_bytes()).unwrap();
        let prev = last.map_or(read.prev.clone(), |last| crypto::hex(&last.hash));
        let line = line.replace(&read.prev, &prev);
        last = Some(record::ChainHash::after(read.seq, line.as_bytes()));
        out += &(line + "\n");
    }
    let head = files::head_text(&last.unwrap());
    fs::write(place.path().join("audit.head"), head).unwrap();
    out
}

#[test]
fn a_file_removed_from_outside_stays_missing_after_rotation() {
    let place = TempDir::new().unwrap();
    for days in [0, 1] {
        write_at(&place, FEW, 20, NOW + days * DAY);
    }
    let files = files::all(place.path()).unwrap();
    fs::remove_file(&files[1]).unwrap();
    assert!(found(&place).contains("before this line are missing: numbers 7 to 12"));
    write_at(&place, FEW, 20, NOW + 6 * DAY);
    assert!(!files[0].exists() && !files[2].exists());
    assert!(found(&place).contains("before this line are missing: numbers 1 to 12"));
}

#[test]
fn files_left_by_an_interrupted_removal_are_removed_later() {
    let place = TempDir::new().unwrap();
    write_at(&place, FEW, 20, NOW);
    let before: Vec<_> = files::all(place.path())
        .unwrap()
        .into_iter()
        .map(|file| (file.clone(), fs::read(&file).unwrap()))
        .collect();
    write_at(&place, FEW, 1, NOW + 3 * DAY);
    // A crash came between the record and the removal.
    for (file, text) in &before[..2] {
        fs::write(file, text).unwrap();
    }
    assert_eq!(report(&place).removed, None);
    write_at(&place, FEW, 10, NOW + 3 * DAY);
    assert!(!before[0].0.exists() && !before[1].0.exists());
    let removed = report(&place).removed.unwrap();
    assert_eq!((removed.since, removed.until), (rfc3339(NOW), rfc3339(NOW)));
}

#[test]
fn the_removal_record_of_an_older_version_is_continued() {
    let place = TempDir::new().unwrap();
    for days in [0, 3, 6] {
        write_at(&place, FEW, 10, NOW + days * DAY);
    }
    let files = files::all(place.path()).unwrap();
    let old = |text: &str| {
        let mut lines = String::new();
        for line in text.lines() {
            let mut fields: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
            for name in ["removed_from", "removed_since", "removed_until"] {
                fields.shift_remove(name);
            }
            lines += &(Value::Object(fields).to_string() + "\n");
        }
        lines
    };
    let texts: Vec<String> = files
        .iter()
        .map(|file| old(&fs::read_to_string(file).unwrap()))
        .collect();
    let chained = rechained(&place, &texts.concat());
    let mut rest = chained.as_str();
    for (file, text) in files.iter().zip(&texts) {
        let count = text.lines().count();
        let end = rest.match_indices('\n').nth(count - 1).unwrap().0 + 1;
        fs::write(file, &rest[..end]).unwrap();
        rest = &rest[end..];
    }
    let before = report(&place).removed.unwrap();
    assert_eq!((before.since.as_str(), before.until.as_str()), ("", ""));
    write_at(&place, FEW, 20, NOW + 9 * DAY);
    let removed = report(&place).removed.unwrap();
    assert!(removed.to > before.to);
    assert_eq!(removed.since, "");
    let days = [3, 6].map(|days| rfc3339(NOW + days * DAY));
    assert!(days.contains(&removed.until), "{}", removed.until);
}

/// A log of at most 8 KiB.
const SMALL: &str = "rotate_size = \"1KiB\"\nkeep = 3\nkeep_for = \"2d\"\nmax_size = \"8KiB\"";

#[tokio::test]
async fn a_full_log_refuses_until_records_are_old_enough() {
    for (on_failure, refused) in [("refuse", Err(Unavailable)), ("continue", Ok(()))] {
        let place = TempDir::new().unwrap();
        let metrics = Metrics::new();
        let config = config(&format!("{SMALL}\non_failure = \"{on_failure}\""));
        let audit = Audit::open(&config, place.path(), Arc::clone(&metrics), NOW).unwrap();
        let durable = async |event, now| audit.durable(event, &alice(), now, json!({})).await;
        let mut written = 0;
        while audit.monitor().health() != Health::Full {
            // With "continue", the next check of the log's health finds it full.
            written += usize::from(durable(Event::TokenCreate, NOW).await.is_ok());
            assert!(written < 100);
        }
        // The one that found it full, where failures do not matter.
        let lost = usize::from(on_failure == "continue");
        assert_eq!(audit.refuses(), on_failure == "refuse");
        for _ in 0..50 {
            assert_eq!(durable(Event::Deploy, NOW + DAY).await, refused);
        }
        // The program's own records are written, and once that the log is full.
        let program = Actor::program();
        let end = audit.durable(Event::Reload, &program, NOW + DAY, json!({}));
        assert_eq!(end.await, Ok(()));
        assert!(!metrics.render().contains("flowgate_audit_failures_total 0"));
        let text: String = files::all(place.path())
            .unwrap()
            .iter()
            .map(|file| fs::read_to_string(file).unwrap())
            .collect();
        assert_eq!(text.matches("audit.full").count(), 1);
        let logins = text.matches("token.create").count();
        assert!(
            (written - lost..=written).contains(&logins),
            "{logins} of {written}"
        );
        assert_eq!(text.matches("flows.deploy").count(), 0);
        assert_eq!(text.matches("\"reload\"").count(), 1);

        // Two days later the oldest files go, although no more than `keep` are wanted away.
        assert_eq!(durable(Event::Deploy, NOW + 2 * DAY + 1).await, Ok(()));
        assert!(!audit.refuses());
        drop(audit);
        let removed = report(&place).removed.unwrap();
        assert_eq!((removed.since, removed.until), (rfc3339(NOW), rfc3339(NOW)));
    }
}

#[test]
fn a_full_log_is_full_after_a_restart_and_has_room_under_a_larger_limit() {
    let place = TempDir::new().unwrap();
    write(&place, SMALL, 100);
    let size = |place: &TempDir| -> u64 {
        let files = files::all(place.path()).unwrap();
        let sizes = files.iter().map(|file| fs::metadata(file).unwrap().len());
        sizes.sum()
    };
    assert!((8 << 10..9 << 10).contains(&size(&place)));
    let before = report(&place).lines;
    write(&place, SMALL, 100);
    // The second alarm.
    assert_eq!(report(&place).lines, before + 1);
    let larger = SMALL.replace("8KiB", "64KiB");
    write(&place, &larger, 10);
    assert!(report(&place).lines > before + 10);
}

#[tokio::test]
async fn the_log_reports_that_it_is_filling_before_it_is_full() {
    let place = TempDir::new().unwrap();
    let audit = open(&place, SMALL);
    let mut seen = Vec::new();
    for _ in 0..50 {
        let _ = audit
            .durable(Event::TokenCreate, &alice(), NOW, json!({}))
            .await;
        let health = audit.monitor().health();
        if seen.last() != Some(&health) {
            seen.push(health);
        }
    }
    let expected = [Health::Well, Health::Filling, Health::Reserve, Health::Full];
    assert_eq!(seen, expected);
}

#[test]
fn refusals_never_fill_the_log() {
    let place = TempDir::new().unwrap();
    let audit = open(&place, &SMALL.replace("8KiB", "64KiB"));
    for n in 0..DAY / 10 {
        let [.., high, low] = n.to_be_bytes();
        let actor = Actor {
            address: Some([10, 0, high, low].into()),
            ..alice()
        };
        audit.record(Event::Denied, &actor, NOW + n * 20, json!({}));
    }
    audit.record(Event::Deploy, &alice(), NOW + 2 * DAY, json!({}));
    let monitor = Arc::clone(audit.monitor());
    drop(audit);
    assert_ne!(monitor.health(), Health::Full);
    let texts = files::all(place.path()).unwrap();
    let text: String = texts
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    assert_eq!(text.matches("flows.deploy").count(), 1);
    let records = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let times: u64 = records
        .filter(|record| record["event"] == "permission.denied")
        .map(|record| record["times"].as_u64().unwrap_or(1))
        .sum();
    assert_eq!(times, DAY / 10);
}

#[tokio::test]
async fn distinct_writes_of_one_user_neither_fill_the_log_nor_stop_others() {
    let place = TempDir::new().unwrap();
    let audit = open(&place, "rotate_size = \"64KiB\"\nmax_size = \"1MiB\"");
    let (alice, mallory) = (alice(), mallory());
    let write =
        |n: u64| json!({ "method": "POST", "path": format!("/context/{n}"), "status": 200 });
    for n in 0..20_000 {
        audit.record(Event::Write, &mallory, NOW + n / 1000, write(n));
        // Deployments and service tokens, too.
        for event in [Event::Deploy, Event::TokenCreate, Event::Propose] {
            let done = audit.written(event, &mallory, NOW + n / 1000, json!({ "number": n }));
            assert_eq!(done.await, Ok(()));
        }
    }
    let monitor = Arc::clone(audit.monitor());
    let later = audit.durable(Event::Deploy, &alice, NOW + 20, json!({}));
    assert_eq!(later.await, Ok(()));
    assert_eq!(monitor.health(), Health::Well);
    drop(audit);
    let files = files::all(place.path()).unwrap();
    let size: u64 = files
        .iter()
        .map(|file| fs::metadata(file).unwrap().len())
        .sum();
    assert!(size < 64 << 10, "{size}");
    let times: u64 = text(&place)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|record| record["event"] == "admin.write")
        .map(|record| record["times"].as_u64().unwrap_or(1))
        .sum();
    assert_eq!(times, 20_000);
}

#[tokio::test]
async fn the_reserve_lets_others_sign_in_and_deploy_also_after_a_restart() {
    let place = TempDir::new().unwrap();
    let limits = SMALL.replace("8KiB", "64KiB");
    let mut audit = open(&place, &limits);
    let (alice, mallory) = (alice(), mallory());
    while audit.monitor().health() != Health::Reserve {
        let filled = audit.written(Event::TokenCreate, &alice, NOW, json!({}));
        assert_eq!(filled.await, Ok(()));
    }
    let bob = Actor {
        user: "bob".into(),
        ..mallory.clone()
    };
    for _ in 0..2 {
        assert!(audit.refuses());
        let problem = audit.monitor().problem().unwrap();
        assert!(problem.starts_with("reserve: "), "{problem}");
        for _ in 0..300 {
            let write = audit.written(Event::WriteBegin, &mallory, NOW, json!({}));
            assert_eq!(write.await, Err(Unavailable));
            audit.record(Event::Write, &mallory, NOW, json!({}));
            // Counted, after the first ones.
            let deploy = audit.durable(Event::Deploy, &mallory, NOW, json!({}));
            assert_eq!(deploy.await, Ok(()));
        }
        for actor in [&bob, &alice] {
            for event in [Event::Login, Event::Deploy] {
                assert_eq!(audit.durable(event, actor, NOW, json!({})).await, Ok(()));
            }
        }
        let write = audit.written(Event::WriteBegin, &alice, NOW, json!({}));
        assert_eq!(write.await, Ok(()));
        assert_eq!(audit.monitor().health(), Health::Reserve);
        drop(audit);
        audit = open(&place, &limits);
    }
    assert_eq!(audit.monitor().health(), Health::Reserve);
    drop(audit);
    assert!(found(&place).ends_with(" lines"), "{}", found(&place));
}

#[test]
fn a_removed_file_in_between_is_missing() {
    let place = TempDir::new().unwrap();
    write(&place, "rotate_size = \"1KiB\"", 30);
    let files = files::all(place.path()).unwrap();
    fs::remove_file(&files[1]).unwrap();
    let next = files[2].file_name().unwrap().to_str().unwrap();
    assert!(found(&place).starts_with(&format!("{next}:1: before this line are missing")));
}

#[test]
fn files_rotate_by_the_age_of_their_first_line() {
    let place = TempDir::new().unwrap();
    let audit = open(&place, "rotate_age = \"1h\"");
    for minutes in [0, 30, 59, 60, 61] {
        audit.record(Event::TokenCreate, &alice(), NOW + minutes * 60, json!({}));
    }
    drop(audit);
    // After a restart the age is still that of the first line.
    let audit = open(&place, "rotate_age = \"1h\"");
    audit.record(Event::TokenCreate, &alice(), NOW + 120 * 60, json!({}));
    drop(audit);
    let files = files::all(place.path()).unwrap();
    let lines = |file: &PathBuf| fs::read_to_string(file).unwrap().lines().count();
    assert_eq!(files.iter().map(lines).collect::<Vec<_>>(), [3, 3, 2]);
    assert_eq!(found(&place), "8 lines");
}

#[tokio::test]
async fn an_unwritable_record_refuses_the_act_unless_configured_to_continue() {
    for (on_failure, expected) in [("refuse", Err(Unavailable)), ("continue", Ok(()))] {
        let place = TempDir::new().unwrap();
        // Linux' device that is always full.
        std::os::unix::fs::symlink("/dev/full", current(&place)).unwrap();
        let metrics = Metrics::new();
        let config = config(&format!("on_failure = \"{on_failure}\""));
        let audit = Audit::open(&config, place.path(), Arc::clone(&metrics), NOW).unwrap();
        let facts = json!({});
        let written = audit.durable(Event::Deploy, &alice(), NOW, facts).await;
        assert_eq!(written, expected);
        assert!(!metrics.render().contains("flowgate_audit_failures_total 0"));
    }
}

#[tokio::test]
async fn durable_records_are_in_the_head_file_too() {
    let place = TempDir::new().unwrap();
    let audit = open(&place, "");
    for number in 0..3 {
        let facts = json!({ "number": number });
        audit
            .durable(Event::Deploy, &alice(), NOW, facts)
            .await
            .unwrap();
    }
    assert_eq!(files::head(place.path()).unwrap().unwrap().seq, 3);
    assert_eq!(found(&place), "3 lines");
}

#[test]
fn lines_of_several_threads_never_mix() {
    let place = TempDir::new().unwrap();
    let audit = open(&place, "");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let audit = audit.clone();
            scope.spawn(move || {
                for _ in 0..100 {
                    audit.record(
                        Event::TokenCreate,
                        &alice(),
                        NOW,
                        json!({"long": "x".repeat(200)}),
                    );
                }
            });
        }
    });
    drop(audit);
    assert_eq!(found(&place), "400 lines");
}

#[tokio::test]
async fn suppressed_writes_survive_a_full_log_and_later_acts_are_refused() {
    let (place, alice) = (TempDir::new().unwrap(), alice());
    let audit = open(&place, SMALL);
    let act = json!({ "method": "POST", "path": "/inject/a", "status": 200 });
    for _ in 0..100 {
        audit.record(Event::Write, &alice, NOW, act.clone());
    }
    for _ in 0..31 {
        let read = audit.written(Event::SecretRead, &alice, NOW, json!({}));
        let _ = read.await;
    }
    while audit.monitor().health() != Health::Full {
        let _ = audit
            .written(Event::TokenCreate, &alice, NOW, json!({}))
            .await;
    }
    audit.tick(NOW + 300);
    // The budget of reads is spent, so this one would only be counted.
    let read = audit.written(Event::SecretRead, &alice, NOW + 300, json!({}));
    assert_eq!(read.await, Err(Unavailable));
    assert!(audit.refuses());
    let later = NOW + 2 * DAY + 1;
    let deployed = audit.durable(Event::Deploy, &alice, later, json!({}));
    assert_eq!(deployed.await, Ok(()));
    drop(audit);
    // The bytes of one user in so small a log are used up at once.
    assert!(text(&place).contains("\"times\":97"), "{}", text(&place));
}
