//! Pages, parts of the chain and copies of logs that were written, rotated and damaged.

use super::*;
use crate::audit::{Actor, Audit, Event, verify};
use crate::config::{self, Config, DEFAULT};
use crate::metrics::Metrics;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

const NOW: u64 = 1_700_000_000;

fn config(lines: &str) -> config::Audit {
    let before = DEFAULT.split("\n[audit]\n").next().unwrap();
    let text = format!("{before}\n[audit]\n{lines}\n");
    let config = Config::parse(&text, "gateway.toml", Path::new("")).unwrap();
    config.audit
}

/// Writes records of several users and events, `count` in all, and closes the log.
fn written(lines: &str, count: u64) -> (TempDir, LogFiles) {
    let place = TempDir::new().unwrap();
    write(&place, lines, count);
    let files = LogFiles::new(place.path());
    (place, files)
}

fn write(place: &TempDir, lines: &str, count: u64) {
    let audit = Audit::open(&config(lines), place.path(), Metrics::new(), NOW).unwrap();
    let events = [
        Event::TokenCreate,
        Event::Deploy,
        Event::Freeze,
        Event::ReloadFail,
    ];
    for number in 0..count {
        let event = events[usize::try_from(number % 4).unwrap()];
        let actor = Actor {
            user: format!("user {}", number % 3),
            ..Actor::program()
        };
        audit.record(event, &actor, NOW + number, json!({ "number": number }));
    }
}

fn numbers(page: &Page) -> Vec<u64> {
    let parsed = page
        .lines
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    parsed.map(|line| line["seq"].as_u64().unwrap()).collect()
}

fn query(limit: usize) -> Query {
    Query {
        limit,
        ..Query::default()
    }
}

/// The numbers of all records that fit, over as many pages as it takes.
fn all(files: &LogFiles, query: &Query) -> Vec<u64> {
    let (mut found, mut query) = (Vec::new(), query.clone());
    loop {
        let page = files.page(&query).unwrap();
        found.extend(numbers(&page));
        query.before = page.next;
        if page.next.is_none() {
            return found;
        }
    }
}

/// Small files, of which none is removed.
const SMALL: &str = "rotate_size = \"4KiB\"\nkeep = 1000\n";

#[test]
fn pages_have_every_record_once_newest_first_over_all_files() {
    for lines in ["", SMALL] {
        let (place, files) = written(lines, 300);
        let last = files.page(&query(1)).unwrap();
        let last = numbers(&last)[0];
        assert!(files.list().unwrap().len() > 5 || lines.is_empty());
        let expected: Vec<u64> = (1..=last).rev().collect();
        for limit in [1, 7, 50, 200] {
            assert_eq!(all(&files, &query(limit)), expected, "{limit}");
        }
        assert!(verify(place.path()).is_ok());
    }
}

#[test]
fn records_are_found_by_user_event_outcome_time_and_text() {
    let (_place, files) = written("", 40);
    let found = |change: fn(&mut Query)| {
        let mut query = query(200);
        change(&mut query);
        all(&files, &query)
    };
    let every = |step: usize, from: u64| {
        (from..=40)
            .rev()
            .filter(move |n| (n - from).is_multiple_of(step as u64))
    };
    assert_eq!(
        found(|q| q.user = Some("user 1".into())),
        every(3, 2).collect::<Vec<_>>()
    );
    assert_eq!(
        found(|q| q.event = Some("flows".into())),
        every(4, 2).collect::<Vec<_>>()
    );
    assert_eq!(
        found(|q| q.event = Some("flows.deploy".into())),
        every(4, 2).collect::<Vec<_>>()
    );
    assert_eq!(found(|q| q.event = Some("flow".into())), Vec::<u64>::new());
    assert_eq!(
        found(|q| q.failed = Some(true)),
        every(4, 4).collect::<Vec<_>>()
    );
    assert_eq!(found(|q| q.failed = Some(false)).len(), 30);
    assert_eq!(
        found(|q| (q.since, q.until) = (Some(NOW + 10), Some(NOW + 12))),
        [12, 11]
    );
    assert_eq!(found(|q| q.text = Some("\"NUMBER\":39".into())), [40]);
    assert_eq!(found(|q| (q.after, q.before) = (10, Some(13))), [12, 11]);
    assert_eq!(found(|q| q.after = 40), Vec::<u64>::new());
}

#[test]
fn a_page_of_a_large_log_ends_after_a_limited_number_of_bytes_and_the_next_one_goes_on() {
    let place = TempDir::new().unwrap();
    let line = |seq: u64| {
        let text = "x".repeat(1000);
        format!(
            "{{\"seq\":{seq},\"time\":\"2026-11-23T00:00:00Z\",\"event\":\"reload\",\"user\":\"\",\"text\":\"{text}\",\"prev\":\"\"}}\n"
        )
    };
    let last = 20_000;
    let text: String = (1..=last).map(line).collect();
    fs::write(place.path().join("audit.log"), text).unwrap();
    let files = LogFiles::new(place.path());
    let mut query = Query {
        text: Some("\"seq\":1,".into()),
        ..query(10)
    };
    let mut pages = 0;
    loop {
        let page = files.page(&query).unwrap();
        pages += 1;
        if let Some(next) = page.next {
            assert!(page.lines.is_empty() && query.before.is_none_or(|before| next < before));
            query.before = Some(next);
            continue;
        }
        assert_eq!(numbers(&page), [1]);
        break;
    }
    assert!((3..6).contains(&pages), "{pages} pages of 20 MB");
    // A number is found by bisection, wherever it is.
    for before in [1, 2, 9_999, last, last + 1, last + 1000] {
        let query = Query {
            before: Some(before),
            ..Query {
                limit: 1,
                ..Query::default()
            }
        };
        let found = numbers(&files.page(&query).unwrap());
        let expected = (before - 1).min(last);
        assert_eq!(
            found,
            if expected == 0 {
                vec![]
            } else {
                vec![expected]
            }
        );
    }
}

#[test]
fn half_a_line_at_the_end_and_lines_of_others_are_passed_over() {
    let (place, files) = written("", 5);
    let path = place.path().join("audit.log");
    let text = fs::read_to_string(&path).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    fs::write(
        &path,
        format!("{first}\nnot a record\n{rest}{{\"seq\":6,\"ti"),
    )
    .unwrap();
    assert_eq!(all(&files, &query(2)), [5, 4, 3, 2, 1]);
    let long = format!("{}\n", "x".repeat(1 << 20));
    fs::write(&path, format!("{first}\n{long}{rest}")).unwrap();
    assert!(files.page(&query(200)).is_err());
    fs::write(&path, "").unwrap();
    assert_eq!(files.page(&query(2)).unwrap(), Page::default());
    fs::remove_file(&path).unwrap();
    assert_eq!(files.page(&query(2)).unwrap(), Page::default());
}

/// Verifies all parts; the last one.
fn parts(files: &LogFiles) -> ChainPart {
    let mut from = 0;
    loop {
        let part = files.verify_part(from).unwrap();
        match part.next {
            Some(next) => from = next,
            None => return part,
        }
    }
}

/// The fault after a change of a log of ten records.
fn fault(change: impl Fn(&mut Vec<String>)) -> Option<ChainFault> {
    let (place, files) = written("", 10);
    let path = place.path().join("audit.log");
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
    change(&mut lines);
    fs::write(&path, lines.concat()).unwrap();
    parts(&files).fault
}

#[test]
fn the_chain_is_verified_over_all_files() {
    for lines in ["", SMALL] {
        let (_place, files) = written(lines, 200);
        let part = parts(&files);
        assert_eq!((part.from, part.fault), (1, None));
        assert!(part.to >= 200);
    }
    assert_eq!(fault(|_| {}), None);
}

#[test]
fn changed_moved_and_missing_records_are_faults_of_the_chain() {
    use ChainFault::{Changed, Missing, Unreadable};
    assert_eq!(
        fault(|lines| lines[4] = lines[4].replace("user", "other")),
        Some(Changed(6))
    );
    assert_eq!(
        fault(|lines| lines[9] = lines[9].replace("user", "other")),
        Some(Changed(10))
    );
    assert_eq!(fault(|lines| drop(lines.remove(4))), Some(Missing(5, 5)));
    assert_eq!(fault(|lines| drop(lines.drain(..2))), Some(Missing(1, 2)));
    assert_eq!(fault(|lines| lines.truncate(7)), Some(Missing(8, 10)));
    assert_eq!(fault(Vec::clear), Some(Missing(1, 10)));
    assert_eq!(
        fault(|lines| lines[4] = "garbage\n".into()),
        Some(Unreadable(4))
    );
    assert!(fault(|lines| lines.swap(3, 4)).is_some());
    let (place, files) = written("", 3);
    fs::remove_file(place.path().join("audit.head")).unwrap();
    assert_eq!(parts(&files).fault, Some(ChainFault::Head));
}

#[test]
fn records_that_rotation_has_removed_are_no_fault() {
    let lines = "rotate_size = \"1KiB\"\nkeep = 1\nkeep_for = \"1d\"\n";
    let place = TempDir::new().unwrap();
    write(&place, lines, 30);
    let audit = Audit::open(&config(lines), place.path(), Metrics::new(), NOW).unwrap();
    for _ in 0..30 {
        let later = NOW + 5 * 86_400;
        audit.record(Event::TokenCreate, &Actor::program(), later, json!({}));
    }
    drop(audit);
    let files = LogFiles::new(place.path());
    let part = parts(&files);
    assert!(
        part.removed > 0 && part.from == part.removed + 1,
        "{part:?}"
    );
    assert_eq!(part.fault, None);
    assert_eq!(all(&files, &query(5)).last(), Some(&part.from));
}

fn copied(files: &LogFiles, from: u64) -> String {
    let mut text = String::new();
    for section in files.copy(from).unwrap() {
        let length = section.length;
        section
            .open()
            .unwrap()
            .take(length)
            .read_to_string(&mut text)
            .unwrap();
    }
    text
}

#[test]
fn a_copy_has_the_lines_as_they_stand_in_the_files_from_a_number_on() {
    for lines in ["", SMALL] {
        let (place, files) = written(lines, 60);
        let mut paths = files::all(place.path()).unwrap();
        let whole: String = paths
            .drain(..)
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        assert_eq!(copied(&files, 0), whole);
        assert_eq!(copied(&files, 1), whole);
        for from in [2, 30, 60] {
            let rest: Vec<&str> = whole.split_inclusive('\n').skip(from - 1).collect();
            assert_eq!(copied(&files, from as u64), rest.concat(), "{from}");
        }
        assert_eq!(copied(&files, 100_000), "");
    }
}
