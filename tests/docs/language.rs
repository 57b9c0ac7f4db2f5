//! The words of comments and documents: `tests/data/language.txt` lists those to avoid.

use super::repository;
use std::fs;
use std::path::{Path, PathBuf};

/// The words to avoid, and what to write instead.
fn avoided() -> Vec<(String, String)> {
    let text = fs::read_to_string(repository().join("tests/data/language.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.split_once(" -> ").expect("words -> better ones"));
    pairs
        .map(|(words, better)| (words.into(), better.into()))
        .collect()
}

/// The sources and documents.
fn files() -> Vec<PathBuf> {
    fn walk(path: &Path, found: &mut Vec<PathBuf>) {
        if path.ends_with("node_modules") {
            return;
        }
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                walk(&entry.unwrap().path(), found);
            }
        } else if path.extension().is_some_and(|e| e == "rs" || e == "md") {
            found.push(path.to_owned());
        }
    }
    let mut found = vec![repository().join("gateway.toml")];
    for name in ["src", "crates", "tests", "docs", "deploy", "examples"] {
        walk(&repository().join(name), &mut found);
    }
    for name in [
        "README.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ] {
        found.push(repository().join(name));
    }
    found
}

/// The prose of a line, in small letters: a comment, or a line of a document, without what stands
/// in backticks.
fn prose(line: &str, is_source: bool) -> String {
    let text = match line.split_once("//") {
        Some((_, comment)) if is_source => comment,
        None if is_source => "",
        _ => line,
    };
    let outside = text.split('`').step_by(2);
    outside.collect::<Vec<_>>().join(" ").to_lowercase()
}

fn has(prose: &str, words: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    prose.match_indices(words).any(|(at, _)| {
        let (before, after) = (&prose[..at], &prose[at + words.len()..]);
        !is_word(before.chars().next_back()) && !is_word(after.chars().next())
    })
}

#[test]
fn comments_and_documents_say_who_does_what() {
    let avoided = avoided();
    let mut found = Vec::new();
    for path in files() {
        let is_source = path.extension().is_some_and(|e| e == "rs");
        for (number, line) in (1..).zip(fs::read_to_string(&path).unwrap().lines()) {
            let prose = prose(line, is_source);
            for (words, better) in &avoided {
                if has(&prose, words) {
                    found.push(format!(
                        "{}:{number}: {words:?}: write {better}",
                        path.display()
                    ));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_word_is_found_as_a_whole_one_only() {
    let comment = format!("let told = 1; {} Told: `somebody`, others.", "/".repeat(2));
    let prose = prose(&comment, true);
    assert!(has(&prose, "told"));
    assert!(!has(&prose, "somebody"));
    assert!(!has(&prose, "other"));
}
