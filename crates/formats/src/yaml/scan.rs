//! The characters of a YAML text: the position of the reader, blanks and line breaks, and errors
//! with their position.

use super::error::{self, Mark};
use value::Failure;

/// A text and a position in it. Past the end, it reads as `'\0'`.
pub(super) struct Scan {
    text: Vec<char>,
    pub position: usize,
    pub line: usize,
    pub line_start: usize,
    /// The indentation of the line.
    pub indent: isize,
    /// The first tab among the blanks of the line.
    pub tab: Option<usize>,
}

/// A place to come back to.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub mark: Mark,
    pub indent: isize,
    pub tab: Option<usize>,
}

pub(super) fn is_eol(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// A blank, a line break or the end.
pub(super) fn is_gap(c: char) -> bool {
    is_eol(c) || is_blank(c)
}

pub(super) fn is_flow(c: char) -> bool {
    matches!(c, ',' | '[' | ']' | '{' | '}')
}

impl Scan {
    pub(super) fn new(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut text: Vec<char> = text.chars().collect();
        if !text.last().copied().is_none_or(is_eol) {
            text.push('\n');
        }
        Self {
            text,
            position: 0,
            line: 0,
            line_start: 0,
            indent: 0,
            tab: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// The character so far ahead.
    pub(super) fn ahead(&self, by: usize) -> char {
        self.text.get(self.position + by).copied().unwrap_or('\0')
    }

    pub(super) fn here(&self) -> char {
        self.ahead(0)
    }

    pub(super) fn before(&self) -> char {
        let at = self.position.checked_sub(1);
        at.and_then(|at| self.text.get(at)).copied().unwrap_or('\0')
    }

    /// A step forward.
    pub(super) fn next(&mut self) -> char {
        self.position += 1;
        self.here()
    }

    pub(super) fn slice(&self, start: usize, end: usize) -> String {
        self.text
            .get(start..end)
            .unwrap_or_default()
            .iter()
            .collect()
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            position: self.position,
            line: self.line,
            line_start: self.line_start,
        }
    }

    pub(super) fn place(&self) -> Place {
        Place {
            mark: self.mark(),
            indent: self.indent,
            tab: self.tab,
        }
    }

    pub(super) fn back_to(&mut self, place: Place) {
        self.position = place.mark.position;
        self.line = place.mark.line;
        self.line_start = place.mark.line_start;
        self.indent = place.indent;
        self.tab = place.tab;
    }

    pub(super) fn wrong(&self, reason: &str) -> Failure {
        self.wrong_at(reason, self.mark())
    }

    pub(super) fn wrong_at(&self, reason: &str, mark: Mark) -> Failure {
        error::failure(reason, &self.text, mark)
    }

    /// A tab stands where only blanks indent.
    pub(super) fn check_tab(&self) -> Result<(), Failure> {
        let Some(tab) = self.tab else { return Ok(()) };
        let mark = Mark {
            position: tab,
            ..self.mark()
        };
        Err(self.wrong_at("tab characters must not be used in indentation", mark))
    }

    pub(super) fn line_break(&mut self) -> Result<(), Failure> {
        match self.here() {
            '\r' if self.ahead(1) == '\n' => self.position += 2,
            '\n' | '\r' => self.position += 1,
            _ => return Err(self.wrong("a line break is expected")),
        }
        self.line += 1;
        self.line_start = self.position;
        self.tab = None;
        Ok(())
    }

    /// Skips blanks, line breaks and comments; returns the number of line breaks.
    pub(super) fn skip(&mut self, notes: bool) -> Result<usize, Failure> {
        let mut breaks = 0;
        while self.position < self.len() {
            while is_blank(self.here()) {
                if self.here() == '\t' && self.tab.is_none() {
                    self.tab = Some(self.position);
                }
                self.position += 1;
            }
            if notes && self.here() == '#' {
                self.skip_to_eol();
            }
            if !is_eol(self.here()) {
                break;
            }
            self.line_break()?;
            breaks += 1;
            self.indent = 0;
            while self.here() == ' ' {
                self.indent += 1;
                self.position += 1;
            }
        }
        Ok(breaks)
    }

    pub(super) fn skip_to_eol(&mut self) {
        while self.position < self.len() && !is_eol(self.here()) {
            self.position += 1;
        }
    }

    /// Skips a word; returns its start.
    pub(super) fn word(&mut self, ends: impl Fn(char) -> bool) -> usize {
        let start = self.position;
        while self.position < self.len() && !ends(self.here()) {
            self.position += 1;
        }
        start
    }

    /// Returns whether `---` or `...` stands here.
    pub(super) fn at_separator(&self) -> bool {
        let c = self.here();
        let end = self.ahead(3);
        matches!(c, '-' | '.')
            && self.ahead(1) == c
            && self.ahead(2) == c
            && (is_gap(end) || self.position + 3 >= self.len())
    }

    pub(super) fn begins_line(&self) -> bool {
        self.position == self.line_start
    }
}
