//! docs/errors.md has every code with which the gateway answers, and its status.

use super::{book, repository};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const FILE: &str = "docs/errors.md";

/// Texts in the source that have the form of a code and are something else.
const OTHERS: [&str; 7] = [
    "close",
    "code",
    "error",
    "error_description",
    "message",
    "upgrade",
    "websocket",
];

/// The documented statuses of each code.
fn documented() -> BTreeMap<String, BTreeSet<u16>> {
    let mut codes: BTreeMap<String, BTreeSet<u16>> = BTreeMap::new();
    for row in book::read(FILE).lines() {
        let cells: Vec<&str> = row.split(" | ").collect();
        let code = cells[0]
            .strip_prefix("| `")
            .and_then(|c| c.strip_suffix('`'));
        let Some((code, status)) = code.zip(cells.get(1).and_then(|c| c.parse().ok())) else {
            continue;
        };
        assert_eq!(cells.len(), 4, "a cause and a remedy: {row}");
        codes.entry(code.to_owned()).or_default().insert(status);
    }
    codes
}

/// The one place that makes error responses: the file of `fn coded`, and the files of its
/// submodules.
fn source() -> String {
    fn walk(path: &Path, found: &mut Vec<PathBuf>) {
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                walk(&entry.unwrap().path(), found);
            }
        } else if !path.ends_with("tests.rs") {
            found.push(path.to_owned());
        }
    }
    let mut files = Vec::new();
    walk(&repository().join("src/http"), &mut files);
    let is_place = |path: &&PathBuf| fs::read_to_string(path).unwrap().contains("\nfn coded(");
    let place = files.iter().find(is_place).expect("fn coded has moved");
    let folder = place.parent().unwrap();
    let ours = files.iter().filter(|file| file.starts_with(folder));
    let texts = ours.map(|file| fs::read_to_string(file).unwrap());
    texts.collect::<Vec<_>>().concat()
}

/// The string literals of a source, each with the text before it.
fn literals(source: &str) -> Vec<(&str, &str)> {
    let mut literals = Vec::new();
    let mut at = 0;
    while let Some(start) = source[at..].find('"').map(|start| at + start) {
        let mut end = start + 1;
        while source.as_bytes()[end] != b'"' {
            end += 1 + usize::from(source.as_bytes()[end] == b'\\');
        }
        literals.push((&source[..start], &source[start + 1..end]));
        at = end + 1;
    }
    literals
}

fn is_code(text: &str) -> bool {
    let word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    text.split('_').all(word) && !OTHERS.contains(&text)
}

/// The status that stands before a code: `S::CONFLICT, ` or `StatusCode::CONFLICT,`.
fn status(before: &str) -> Option<u16> {
    let before = before.trim_end().strip_suffix(',')?;
    let at = before.rfind("::")?;
    let name = &before[at + 2..];
    let statuses = 100..600_u16;
    let mut statuses = statuses.filter_map(|code| hyper::StatusCode::from_u16(code).ok());
    let spelled = |status: &hyper::StatusCode| {
        let reason = status.canonical_reason()?.to_uppercase();
        Some(reason.replace([' ', '-'], "_"))
    };
    let found = statuses.find(|status| spelled(status).as_deref() == Some(name))?;
    Some(found.as_u16())
}

#[test]
fn every_code_of_the_source_is_documented_and_no_other() {
    let source = source();
    let lines: Vec<&str> = source
        .lines()
        .filter(|line| {
            !["//", "#["]
                .iter()
                .any(|other| line.trim_start().starts_with(other))
        })
        .collect();
    let source = lines.join("\n");
    let documented = documented();
    let mut found = BTreeSet::new();
    let mut with_status = 0;
    for (before, code) in literals(&source) {
        if !is_code(code) {
            continue;
        }
        found.insert(code.to_owned());
        if let Some(status) = status(before) {
            let statuses = documented.get(code);
            assert!(
                statuses.is_some_and(|statuses| statuses.contains(&status)),
                "{code} with {status}: {statuses:?}"
            );
            with_status += 1;
        }
    }
    assert_eq!(found, documented.into_keys().collect());
    assert!(with_status > 30, "only {with_status} statuses were found");
}

#[test]
fn every_reason_in_www_authenticate_is_documented() {
    let source = source();
    let text = book::read(FILE);
    let (_, table) = text.split_once("\n| in `WWW-Authenticate` |").unwrap();
    let table = table.split("\n\n").next().unwrap();
    let reasons = source.split("error=\\\"").skip(1);
    let reasons: BTreeSet<&str> = reasons.filter_map(|rest| rest.split('\\').next()).collect();
    assert!(reasons.len() >= 3);
    for reason in reasons {
        assert!(table.contains(&format!("\n| `{reason}` |")), "{reason}");
    }
}
