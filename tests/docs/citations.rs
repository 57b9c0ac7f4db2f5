//! The references that comments cite are in the repository, and have the sections that are cited.

use super::repository;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The directory of the references, as comments write it.
const REFERENCE: &str = "docs/reference/";

/// Words for documents that are not in the repository.
const ELSEWHERE: [&str; 4] = ["facts", "specification", "spec", "design"];

/// Directories that hold no text of ours.
const SKIPPED: [&str; 5] = ["node_modules", ".cache", "target", "corpus", "data"];

/// The sources in a directory.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let named = |names: &[&str], part: Option<&std::ffi::OsStr>| {
            part.is_some_and(|part| names.iter().any(|name| part == *name))
        };
        if path.is_dir() {
            if !named(&SKIPPED, path.file_name()) {
                sources(&path, found);
            }
        } else if named(&["rs", "js", "mjs"], path.extension()) {
            found.push(path);
        }
    }
}

/// Each source as one line, so that a citation may go over the end of a comment's line.
fn texts() -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    for directory in ["src", "crates", "tests", "fuzz"] {
        sources(&repository().join(directory), &mut paths);
    }
    assert!(paths.len() > 300, "only {} sources were found", paths.len());
    let text = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        let lines = text
            .lines()
            .map(|line| line.trim().trim_start_matches(['/', '!']).trim());
        lines.collect::<Vec<_>>().join(" ")
    };
    paths
        .into_iter()
        .map(|path| (path.clone(), text(&path)))
        .collect()
}

/// The number at the beginning of a text: `4.3` of `4.3, and so on.`.
fn number(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    text[..end.unwrap_or(text.len())].trim_end_matches('.')
}

/// The sections after the name of a reference: `2.1` and `4.2` of ` §2.1, §4.2; more`.
fn sections(mut text: &str) -> Vec<&str> {
    let mut sections = Vec::new();
    while let Some(rest) = [" §", ", §"].iter().find_map(|s| text.strip_prefix(s)) {
        sections.push(number(rest));
        text = &rest[number(rest).len()..];
    }
    sections
}

/// The numbers of a reference's headings.
fn headings(name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(repository().join(REFERENCE).join(name))
        .unwrap_or_else(|_| panic!("there is no {REFERENCE}{name}"));
    let headings = text.lines().filter(|line| line.starts_with("##"));
    headings
        .map(|line| number(line.trim_start_matches(['#', ' '])).to_owned())
        .collect()
}

#[test]
fn a_section_of_the_reference_that_a_comment_cites_is_there() {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut cited = 0;
    for (path, text) in texts() {
        for after in text.split(REFERENCE).skip(1) {
            let Some((name, rest)) = after.split_once(".md") else {
                continue;
            };
            if !name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') {
                continue;
            }
            let name = format!("{name}.md");
            let headings = known.entry(name.clone()).or_insert_with(|| headings(&name));
            for section in sections(rest) {
                let path = path.display();
                assert!(headings.contains(section), "{path}: {name} §{section}");
                cited += 1;
            }
        }
    }
    assert!(cited > 100, "only {cited} citations were found");
}

#[test]
fn no_comment_cites_a_document_that_is_not_in_the_repository() {
    for (path, text) in texts() {
        for (at, _) in text.match_indices('§') {
            let words = text[..at].split([' ', '(']).rev().filter(|w| !w.is_empty());
            let elsewhere = words.take(3).find(|word| ELSEWHERE.contains(word));
            assert_eq!(elsewhere, None, "{}: {}", path.display(), &text[at..]);
        }
    }
}
