//! The documents as text: which there are, their blocks, headings and links.

use super::repository;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// One fenced block.
#[cfg_attr(
    not(feature = "engine"),
    allow(dead_code, reason = "only the engine's chapters are run")
)]
pub(super) struct Block {
    /// The paragraph between it and the block before it, if there is one.
    pub(super) paragraph: String,
    /// The first word behind the fence.
    pub(super) language: String,
    /// True if its commands are not run: `sh not-run`.
    pub(super) not_run: bool,
    pub(super) text: String,
}

/// The text of a document, by its path from the top of the repository.
pub(super) fn read(document: &str) -> String {
    fs::read_to_string(repository().join(document)).unwrap_or_else(|_| panic!("no {document}"))
}

/// Every chapter of the book but its table of contents.
pub(super) fn chapters() -> Vec<String> {
    let mut chapters = markdown("docs");
    chapters.retain(|chapter| chapter != "docs/SUMMARY.md");
    chapters
}

/// Every document that this test knows.
pub(super) fn documents() -> Vec<String> {
    let single = [
        "README.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "deploy/README.md",
        "deploy/monitoring/README.md",
    ];
    let mut documents: Vec<String> = single.map(str::to_owned).into();
    documents.extend(markdown("docs"));
    documents.extend(markdown("examples"));
    documents
}

/// The documents below a directory, sorted.
fn markdown(directory: &str) -> Vec<String> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("node_modules") {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&repository().join(directory), &mut found);
    let mut names: Vec<String> = found
        .iter()
        .map(|path| path.strip_prefix(repository()).unwrap())
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// The fenced blocks of a text, those in lists without the indentation of their fence.
pub(super) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut paragraph, mut lines) = (String::new(), Vec::new());
    let mut open: Option<(Block, usize)> = None;
    for line in text.lines() {
        let indentation = line.len() - line.trim_start().len();
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                let mut words = language.split_whitespace();
                if !lines.is_empty() {
                    paragraph = lines.join(" ");
                    lines.clear();
                }
                let block = Block {
                    paragraph: std::mem::take(&mut paragraph),
                    language: words.next().unwrap_or_default().to_owned(),
                    not_run: words.next() == Some("not-run"),
                    text: String::new(),
                };
                open = Some((block, indentation));
            }
            (Some(_), Some(_)) => blocks.extend(open.take().map(|(block, _)| block)),
            (None, Some((block, fence))) => {
                let line = &line[indentation.min(*fence)..];
                block.text.extend([line, "\n"]);
            }
            (None, None) => {
                if line.is_empty() && !lines.is_empty() {
                    paragraph = lines.join(" ");
                    lines.clear();
                } else if !line.is_empty() {
                    lines.push(line);
                }
            }
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

/// The lines of a text that are in no block.
pub(super) fn prose(text: &str) -> Vec<&str> {
    let mut within = false;
    let outside = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        within ^= fence;
        !within && !fence
    });
    outside.collect()
}

/// The anchors of a text, as GitHub makes them of headings.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for line in prose(text).iter().filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
        let anchor: String = heading.chars().filter(kept).collect();
        let anchor = anchor.replace(' ', "-");
        let again = anchors.iter().filter(|other| **other == anchor).count();
        anchors.push(if again == 0 {
            anchor
        } else {
            format!("{anchor}-{again}")
        });
    }
    anchors
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut checked = 0;
    for document in documents() {
        let text = read(&document);
        let folder = Path::new(&document).parent().unwrap();
        for link in prose(&text).join("\n").split("](").skip(1) {
            let target = link.split(')').next().unwrap();
            if target.starts_with("https://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() {
                repository().join(&document)
            } else {
                repository().join(folder).join(file)
            };
            assert!(path.exists(), "{document}: {target}");
            if !anchor.is_empty() {
                let there = anchors(&fs::read_to_string(path).unwrap());
                let found = there.iter().any(|heading| heading == anchor);
                assert!(found, "{document}: {target} of {there:?}");
            }
            checked += 1;
        }
    }
    assert!(checked > 100, "only {checked} links were found");
}

#[test]
fn the_summary_lists_every_chapter_once() {
    let text = read("docs/SUMMARY.md");
    let listed = text
        .split("](")
        .skip(1)
        .map(|link| format!("docs/{}", link.split(')').next().unwrap()));
    let mut listed: Vec<String> = listed.collect();
    listed.sort();
    assert_eq!(listed, chapters());
}

#[test]
fn the_readme_is_short_and_begins_with_how_to_start_and_how_to_test() {
    let text = read("README.md");
    assert!(text.lines().count() <= 200);
    assert!(text.starts_with("# flowgate\n\n```sh"));
    let blocks = blocks(&text);
    let commands: Vec<&str> = blocks[0]
        .text
        .lines()
        .map(|line| line.split('#').next().unwrap().trim())
        .collect();
    assert_eq!(commands, ["cargo run --release", "tests/run"]);
}

/// Programs that only a block that is not run may start: they build, or need a network or a service
/// of the machine.
const NOT_RUN: [&str; 9] = [
    "FLOWGATE_WRITE_DOCS=1",
    "cargo",
    "docker",
    "export",
    "pg_dump",
    "pg_restore",
    "prometheus",
    "tests/quick",
    "tests/run",
];

/// Commands that need a network or a server; `tests/e2e/editor_install.rs` and `cluster_store.rs`
/// run them with theirs.
const RUN_ELSEWHERE: [&str; 2] = [
    "flowgate editor install",
    "flowgate store migrate --from sqlite --to postgres",
];

#[test]
fn every_shell_block_is_bash_and_few_are_not_run() {
    for document in documents() {
        let shell = blocks(&read(&document));
        for block in shell.iter().filter(|block| block.language == "sh") {
            let status = std::process::Command::new("bash")
                .args(["-nc", &block.text])
                .status()
                .unwrap();
            assert!(status.success(), "{document}: {}", block.text);
            for line in block.text.lines().filter(|_| block.not_run) {
                let program = line.split(' ').next().unwrap();
                let is_named = NOT_RUN.contains(&program) || RUN_ELSEWHERE.contains(&line);
                assert!(is_named, "{document}: {line}");
            }
        }
    }
}

#[test]
fn the_prose_says_who_does_what() {
    let mut documents = documents();
    // The first is made from gateway.toml, the others have tests or owners of their own.
    documents.retain(|document| {
        let other = ["docs/configuration.md", "SECURITY.md", "CHANGELOG.md"];
        !other.contains(&document.as_str()) && !document.starts_with("docs/reference/")
    });
    for document in documents {
        for line in prose(&read(&document)) {
            let mut words = line.split(|c: char| !c.is_alphabetic());
            let vague = ["told", "whoever", "somebody", "nobody"];
            let found = words.find(|word| vague.contains(&word.to_lowercase().as_str()));
            assert_eq!(found, None, "{document}: {line}");
        }
    }
}

#[test]
fn the_paths_that_contributing_names_are_there() {
    let text = read("CONTRIBUTING.md");
    let quoted = prose(&text).join("\n");
    let quoted = quoted.split('`').skip(1).step_by(2);
    let ours = ["src/", "crates/", "tests/", "docs/", "fuzz/"];
    let mut paths = quoted.filter(|path| ours.iter().any(|top| path.starts_with(top)));
    // `npm` makes this one.
    let missing =
        paths.find(|path| !path.contains("node_modules") && !repository().join(path).exists());
    assert_eq!(missing, None);
}

/// The source file of a path below a folder: `a/b.rs`, or `a/b/mod.rs`.
fn source_of(folder: &Path, module: &str) -> Option<PathBuf> {
    let files = [format!("{module}.rs"), format!("{module}/mod.rs")];
    files
        .iter()
        .map(|file| folder.join(file))
        .find(|file| file.exists())
}

/// Returns whether a path of Rust, such as `auth::auth_watch` or `node::Host::send`, is one of the
/// source: its modules are files, and the last of them has the rest as words.
fn is_in_the_source(path: &str) -> bool {
    let segments: Vec<&str> = path.split("::").collect();
    let crates = repository().join("crates").join(segments[0]).join("src");
    let tops = [
        (repository().join("src"), 0),
        (repository().join("crates/engine/src"), 0),
        (crates, 1),
    ];
    tops.iter().any(|(top, skipped)| {
        let mut folder = top.clone();
        let mut file = (*skipped == 1).then(|| top.join("lib.rs"));
        let mut rest = segments.iter().skip(*skipped).peekable();
        while let Some(next) = rest.peek().and_then(|module| source_of(&folder, module)) {
            folder.push(rest.next().unwrap());
            file = Some(next);
        }
        let text = file.and_then(|file| fs::read_to_string(file).ok());
        text.is_some_and(|text| {
            let words: HashSet<&str> = text
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .collect();
            rest.all(|word| words.contains(word))
        })
    })
}

#[test]
fn the_files_and_functions_that_the_architecture_names_are_there() {
    let text = read("docs/architecture.md");
    let quoted: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    let tops = ["", "src", "src/http", "crates/engine/src"];
    let is_file = |path: &str| {
        let mut tops = tops.iter();
        tops.any(|top| repository().join(top).join(path).exists())
    };
    let names = quoted.into_iter().filter(|name| {
        let is_path = name.contains('/') && !name.starts_with('/') && !name.contains(' ');
        is_path || name.contains("::")
    });
    let (found, missing): (Vec<_>, Vec<_>) = names.partition(|name| {
        if name.contains("::") {
            is_in_the_source(name)
        } else {
            is_file(name)
        }
    });
    assert_eq!(missing, Vec::<&str>::new());
    assert!(found.len() > 50, "only {} names were found", found.len());
    assert!(!is_in_the_source("auth::nothing_of_this_name"));
}
