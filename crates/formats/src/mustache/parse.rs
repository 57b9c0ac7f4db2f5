//! Reads the text of a mustache template into its parts.
//!
//! A line with nothing but section, comment or delimiter tags leaves no trace in the output.

use super::{Fallback, Name, Part};
use smol_str::SmolStr;
use value::{Failure, Path};

/// Sections inside sections, at most; ours. They are rendered by a function that calls itself, and
/// the stack has an end.
const DEPTH: usize = 100;

/// Parses a template into its parts and the texts that they refer to.
pub(super) fn parse(text: &str) -> Result<(Vec<Part>, Vec<String>), Failure> {
    let mut parser = Parser {
        text,
        at: 0,
        open: "{{".to_owned(),
        close: "}}".to_owned(),
        sections: vec![Section {
            name: "",
            inverted: false,
            parts: Vec::new(),
        }],
        texts: Vec::new(),
        line: Line::default(),
    };
    parser.run()?;
    let parts = parser.sections.pop().map(|s| s.parts).unwrap_or_default();
    Ok((parts, parser.texts))
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    open: String,
    close: String,
    /// The template itself, then every section that is open.
    sections: Vec<Section<'t>>,
    texts: Vec<String>,
    line: Line,
}

struct Section<'t> {
    name: &'t str,
    inverted: bool,
    parts: Vec<Part>,
}

/// The state of the line being read.
#[derive(Default)]
struct Line {
    has_tag: bool,
    has_content: bool,
    /// Its texts that are white space only.
    blanks: Vec<usize>,
}

impl<'t> Parser<'t> {
    fn run(&mut self) -> Result<(), Failure> {
        while self.at < self.text.len() {
            let rest = self.rest();
            let next = rest.find(self.open.as_str()).unwrap_or(rest.len());
            let (before, _) = rest.split_at(next);
            for segment in before.split_inclusive('\n') {
                self.segment(segment);
            }
            self.at += next;
            if self.at < self.text.len() {
                self.tag()?;
            }
        }
        self.end_line();
        match self.sections.as_slice() {
            [_, .., open] => {
                Err(self.failure(format_args!("Unclosed section \"{}\"", open.name), self.at))
            }
            _ => Ok(()),
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn failure(&self, what: impl std::fmt::Display, at: usize) -> Failure {
        let position = self
            .text
            .get(..at)
            .unwrap_or_default()
            .encode_utf16()
            .count();
        Failure::error(format!("{what} at {position}"))
    }

    /// Text that lies within one line.
    fn segment(&mut self, segment: &str) {
        if segment.chars().all(char::is_whitespace) {
            self.line.blanks.push(self.texts.len());
        } else {
            self.line.has_content = true;
        }
        self.push(Part::Text(self.texts.len()));
        self.texts.push(segment.to_owned());
        if segment.ends_with('\n') {
            self.end_line();
        }
    }

    fn push(&mut self, part: Part) {
        if let Some(section) = self.sections.last_mut() {
            section.parts.push(part);
        }
    }

    /// Removes the white space of a line that had tags and nothing else.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.has_tag && !line.has_content {
            for blank in line.blanks {
                if let Some(text) = self.texts.get_mut(blank) {
                    text.clear();
                }
            }
        }
    }

    fn tag(&mut self) -> Result<(), Failure> {
        let start = self.at;
        self.at += self.open.len();
        self.line.has_tag = true;
        self.skip_space();
        let kind = self
            .rest()
            .chars()
            .next()
            .filter(|c| "#^/>{&=!".contains(*c));
        self.at += kind.map_or(0, char::len_utf8);
        self.skip_space();
        let end = match kind {
            Some('{') => format!("}}{}", self.close),
            Some('=') => format!("={}", self.close),
            _ => self.close.clone(),
        };
        let Some((value, _)) = self.rest().split_once(end.as_str()) else {
            return Err(self.failure("Unclosed tag", self.text.len()));
        };
        self.at += value.len() + end.len();
        let value = value.trim_end();
        match kind {
            Some('#' | '^') if self.sections.len() > DEPTH => {
                return Err(self.failure("Sections are nested too deeply", start));
            }
            Some('#' | '^') => {
                let inverted = kind == Some('^');
                self.sections.push(Section {
                    name: value,
                    inverted,
                    parts: Vec::new(),
                });
            }
            Some('/') => self.close_section(value, start)?,
            Some('=') => self.set_delimiters(value)?,
            Some('!' | '>') => {}
            kind => {
                self.line.has_content = true;
                self.push(Part::Variable {
                    name: name(value),
                    escaped: kind.is_none(),
                });
            }
        }
        Ok(())
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn close_section(&mut self, value: &str, start: usize) -> Result<(), Failure> {
        let section = match self.sections.as_slice() {
            [_, .., open] if open.name != value => {
                return Err(self.failure(format_args!("Unclosed section \"{}\"", open.name), start));
            }
            [_, .., _] => self.sections.pop(),
            _ => None,
        };
        let Some(section) = section else {
            return Err(self.failure(format_args!("Unopened section \"{value}\""), start));
        };
        let (inverted, parts) = (section.inverted, section.parts);
        self.push(Part::Section {
            name: name(section.name),
            inverted,
            parts,
        });
        Ok(())
    }

    fn set_delimiters(&mut self, value: &str) -> Result<(), Failure> {
        let mut words = value.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(open), Some(close), None) => {
                open.clone_into(&mut self.open);
                close.clone_into(&mut self.close);
                Ok(())
            }
            _ => Err(Failure::error(format!("Invalid tags: {value}"))),
        }
    }
}

fn name(text: &str) -> Name {
    if text == "." {
        return Name::Here;
    }
    let dotted = text.find('.').is_some_and(|at| at > 0);
    let keys = if dotted {
        text.split('.').map(SmolStr::from).collect()
    } else {
        vec![text.into()]
    };
    Name::Keys(keys, elsewhere(text))
}

fn elsewhere(text: &str) -> Fallback {
    if let Some(name) = text.strip_prefix("env.") {
        return Fallback::Env(name.into());
    }
    let (scope, rest): (fn(Path) -> Fallback, _) =
        match (text.strip_prefix("flow"), text.strip_prefix("global")) {
            (Some(rest), _) => (Fallback::Flow, rest),
            (_, Some(rest)) => (Fallback::Global, rest),
            _ => return Fallback::None,
        };
    let (store, key) = match rest.strip_prefix('[').and_then(|r| r.split_once("].")) {
        Some((store, key)) => (Some(store), Some(key)),
        None => (None, rest.strip_prefix('.')),
    };
    match key.map(Path::parse) {
        Some(Ok(path)) => scope(path.in_store(store)),
        _ => Fallback::None,
    }
}
