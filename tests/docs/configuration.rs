//! docs/configuration.md is made from `gateway.toml`, whose comments are the documentation of its
//! settings.

use super::{book, repository, setting};
use flowgate::config::DEFAULT;
use std::fmt::Write as _;
use std::fs;

const FILE: &str = "docs/configuration.md";

const HEAD: &str = "\
# Configuration reference

<!-- Made from gateway.toml by tests/docs/configuration.rs: do not edit it. After a change of gateway.toml run
     FLOWGATE_WRITE_DOCS=1 cargo test --locked --test docs configuration -->

";

/// Set it to write the file instead of comparing it.
const WRITE: &str = "FLOWGATE_WRITE_DOCS";

#[test]
fn the_configuration_reference_is_made_from_gateway_toml() {
    let made = page(DEFAULT);
    if std::env::var_os(WRITE).is_some() {
        fs::write(repository().join(FILE), &made).unwrap();
    }
    let found = book::read(FILE);
    assert!(
        found == made,
        "{FILE} is not what gateway.toml says: {WRITE}=1 cargo test --test docs configuration"
    );
}

/// The page of a configuration's text.
fn page(text: &str) -> String {
    let mut page = Page {
        text: HEAD.to_owned(),
        ..Page::default()
    };
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() {
            page.pause();
        } else if let Some(comment) = comment(line) {
            page.comment.push(comment);
        } else if let Some(block) = off(line) {
            let mut block = vec![block];
            while let Some(next) = lines.next_if(|next| off(next).is_some()) {
                block.extend(off(next));
            }
            page.example(&block);
        } else if line.starts_with('[') {
            page.table(line);
        } else {
            page.key(line);
        }
    }
    page.text.truncate(page.text.trim_end().len());
    page.text.push('\n');
    page.text
}

/// The prose of a line.
fn comment(line: &str) -> Option<&str> {
    let prose = line.strip_prefix('#')?;
    (prose.is_empty() || prose.starts_with(' '))
        .then(|| prose.strip_prefix(' ').unwrap_or_default())
}

/// A setting that is switched off.
fn off(line: &str) -> Option<&str> {
    line.starts_with('#').then(|| setting(line)).flatten()
}

#[derive(Default)]
struct Page<'t> {
    text: String,
    /// The table that is open, and the heading under which its settings stand.
    table: &'t str,
    heading: String,
    /// Comments that belong to the next setting.
    comment: Vec<&'t str>,
}

impl<'t> Page<'t> {
    /// An empty line: comments before it that no setting follows are the introduction.
    fn pause(&mut self) {
        if self.heading.is_empty() && self.table.is_empty() {
            self.prose(&[]);
            "introduction".clone_into(&mut self.heading);
        }
    }

    fn table(&mut self, line: &'t str) {
        self.table = line.trim_matches(['[', ']']);
        self.heading(2, line);
        self.prose(&[]);
    }

    fn key(&mut self, line: &str) {
        let (key, value) = line.split_once(" = ").unwrap();
        let name = self.name(key);
        self.heading(3, &name);
        self.prose(&[]);
        let _ = writeln!(self.text, "Default: `{value}`\n");
    }

    /// Settings that are switched off: their prose and how they are written.
    fn example(&mut self, block: &[&'t str]) {
        let keys: Vec<&str> = block
            .iter()
            .filter_map(|line| Some(line.split_once(" = ")?.0))
            .collect();
        let header = block.iter().find(|line| line.starts_with('['));
        let (level, name) = match header {
            Some(header) => {
                let table = header.trim_matches(['[', ']']).split('.').next();
                let own = block[0] != *header || table == self.table.split('.').next();
                (if own { 3 } else { 2 }, (*header).to_owned())
            }
            None => (3, self.name(keys.last().unwrap())),
        };
        if self.heading != name {
            self.heading(level, &name);
        }
        self.prose(&keys);
        let _ = writeln!(self.text, "```toml\n{}\n```\n", block.join("\n"));
    }

    /// A key with its table.
    fn name(&self, key: &str) -> String {
        if self.table.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.table)
        }
    }

    fn heading(&mut self, level: usize, name: &str) {
        let _ = writeln!(self.text, "{} `{name}`\n", "#".repeat(level));
        name.clone_into(&mut self.heading);
    }

    /// The comments so far: lines that begin with one of the keys are a list, indented ones a
    /// block.
    fn prose(&mut self, keys: &[&str]) {
        let (mut listed, mut code) = (false, false);
        for line in std::mem::take(&mut self.comment) {
            let is_code = line.starts_with("  ");
            if is_code != code {
                let separator = if self.text.ends_with("\n\n") {
                    ""
                } else {
                    "\n"
                };
                let fence = if is_code { "```text\n" } else { "```\n" };
                let separator = if is_code { separator } else { "" };
                self.text.extend([separator, fence]);
                code = is_code;
            }
            let before_colon = line.split_once(':').map(|(names, _)| names);
            let names_keys = before_colon
                .is_some_and(|names| names.split(", ").all(|name| keys.contains(&name)));
            if code {
                self.text.push_str(line.trim_start());
            } else if names_keys {
                let separator = if listed || self.text.ends_with("\n\n") {
                    ""
                } else {
                    "\n"
                };
                let (names, rest) = line.split_once(':').unwrap();
                let names = names.replace(", ", "`, `");
                let _ = write!(self.text, "{separator}- `{names}`:{}", escaped(rest));
                listed = true;
            } else {
                self.text.push_str(if listed { "  " } else { "" });
                self.text.push_str(&escaped(line));
            }
            self.text.push('\n');
        }
        if code {
            self.text.push_str("```\n");
        }
        if !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }
}

/// The text without meaning for Markdown outside of backticks.
fn escaped(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(at, part)| match at % 2 {
        0 => part.replace('*', "\\*").replace('<', "\\<"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
}

#[test]
fn every_setting_has_a_heading_or_an_example() {
    let text = book::read(FILE);
    for key in DEFAULT.lines().filter_map(setting) {
        let key = key.split(" = ").next().unwrap();
        let there = text.contains(&format!("{key}`\n")) || text.contains(&format!("\n{key} = "));
        assert!(there || text.contains(&format!("\n{key}\n")), "{key}");
    }
}
