//! The log on a real disk: what is written, found again, repaired, and found out.
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
    }
}

/// Writes so many lines, and closes the log.
fn write(place: &TempDir, lines: &str, count: u64) {
    let audit = open(place, lines);
    for number in 0..count {
        audit.record(Event::Login, &alice(), NOW, json!({ "number": number }));
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

/// Changes the log of ten lines and tells what is found.
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
fn the_file_is_for_its_owner_and_a_chain_goes_on_after_a_restart() {
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
fn verify_names_what_is_out_of_order_or_truncated() {
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
fn a_half_written_line_is_kept_aside_and_the_chain_goes_on() {
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
fn lines_that_somebody_removed_stay_missing_after_a_restart() {
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

#[test]
fn without_its_head_nobody_knows_whether_the_log_is_whole() {
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

#[test]
fn files_are_changed_by_size_and_the_oldest_removed_without_a_hole_in_the_chain() {
    let place = TempDir::new().unwrap();
    let few = "rotate_size = \"1KiB\"\nkeep = 3";
    for _ in 0..4 {
        write(&place, few, 10);
    }
    let files = files::all(place.path()).unwrap();
    assert_eq!(files.len(), 4, "{files:?}");
    assert!(
        files
            .iter()
            .all(|file| fs::metadata(file).unwrap().len() < 2_000)
    );
    let report = verify(place.path()).unwrap();
    assert!(report.lines < 40);

    // What the gateway did not remove itself is missing.
    fs::remove_file(&files[0]).unwrap();
    assert!(found(&place).contains("before this line are missing"));
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
fn files_are_changed_by_age_of_their_first_line() {
    let place = TempDir::new().unwrap();
    let audit = open(&place, "rotate_age = \"1h\"");
    for minutes in [0, 30, 59, 60, 61] {
        audit.record(Event::Login, &alice(), NOW + minutes * 60, json!({}));
    }
    drop(audit);
    // After a restart the age is still that of the first line.
    let audit = open(&place, "rotate_age = \"1h\"");
    audit.record(Event::Login, &alice(), NOW + 120 * 60, json!({}));
    drop(audit);
    let files = files::all(place.path()).unwrap();
    let lines = |file: &PathBuf| fs::read_to_string(file).unwrap().lines().count();
    assert_eq!(files.iter().map(lines).collect::<Vec<_>>(), [3, 3, 2]);
    assert_eq!(found(&place), "8 lines");
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_unless_the_operator_wants_to_go_on() {
    for (on_failure, expected) in [("refuse", Err(Unavailable)), ("continue", Ok(()))] {
        let place = TempDir::new().unwrap();
        // Linux' device that is always full.
        std::os::unix::fs::symlink("/dev/full", current(&place)).unwrap();
        let metrics = Metrics::new();
        let config = config(&format!("on_failure = \"{on_failure}\""));
        let audit = Audit::open(&config, place.path(), Arc::clone(&metrics), NOW).unwrap();
        let facts = json!({});
        let told = audit.durable(Event::Deploy, &alice(), NOW, facts).await;
        assert_eq!(told, expected);
        assert!(!metrics.render().contains("flowgate_audit_failures_total 0"));
    }
}

#[tokio::test]
async fn what_is_durable_is_in_the_head_too() {
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
                        Event::Login,
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
