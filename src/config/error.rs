//! Errors of a config: position, key, the value found, the values allowed.
//!
//! Shows the file's own text, never the value of a variable, and nothing at all of a line that may
//! hold a secret.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use toml::de::{DeTable, DeValue};

/// Why there is no config.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It sets nothing: perhaps it was truncated, and without an `[auth]` table the gateway would
    /// be open.
    #[error(
        "{} has no settings, as after a full disk: write them again, remove the file to run with the defaults of flowgate, \
         or, for a gateway without sign-in, write auth = \"off\"",
        .0.display()
    )]
    Empty(PathBuf),
    /// Something in it is wrong.
    #[error(transparent)]
    Diagnostic(Box<Diagnostic>),
}

/// One mistake in a config file.
#[derive(Debug, thiserror::Error)]
pub struct Diagnostic {
    /// The file's name.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// The key with its tables, as in `auth.user.name`; empty when the file is no TOML.
    pub key: String,
    /// The mistake.
    pub problem: Problem,
    /// The line up to the mistake with a mark below; empty when it may show a secret.
    excerpt: String,
}

/// The kind of mistake.
#[derive(Debug)]
pub enum Problem {
    /// Not TOML; the parser's words, which quote nothing.
    Syntax(String),
    /// No such key.
    UnknownKey {
        /// The keys that may stand there.
        known: Vec<String>,
        /// One of them, if it looks like a slip of the pen.
        nearest: Option<String>,
    },
    /// A value of the wrong kind or out of its bounds.
    Value {
        /// The values allowed.
        expected: String,
        /// The value found, as written; `None` for secrets.
        found: Option<String>,
    },
    /// A value that does not go with another one, or with the system.
    Rule(String),
}

/// A mistake and its place in the text, in bytes.
#[derive(Debug)]
pub(super) struct SpannedError {
    pub(super) span: Range<usize>,
    pub(super) problem: Problem,
}

impl SpannedError {
    pub(super) fn unknown_key(span: Range<usize>, known: Vec<String>) -> Self {
        Self {
            span,
            problem: Problem::UnknownKey {
                known,
                nearest: None,
            },
        }
    }

    pub(super) fn value(span: Range<usize>, expected: impl Into<String>) -> Self {
        Self {
            span,
            problem: Problem::Value {
                expected: expected.into(),
                found: None,
            },
        }
    }

    pub(super) fn rule(span: Range<usize>, sentence: impl Into<String>) -> Self {
        Self {
            span,
            problem: Problem::Rule(sentence.into()),
        }
    }
}

/// Finds line, column and key of a fault, and what stands there.
pub(super) fn locate(fault: SpannedError, text: &str, file: &str) -> Diagnostic {
    let SpannedError { span, problem } = fault;
    let before = text.get(..span.start).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = text
        .get(start..span.start)
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    let (tree, _) = DeTable::parse_recoverable(text);
    let key = key_at(tree.get_ref(), &span, "").unwrap_or_default();
    let written = text.get(span.clone()).unwrap_or_default();
    let shown = text
        .get(start..span.end)
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default();
    let hidden = key.is_empty() || may_be_secret(&key) || may_be_secret(shown);
    // Another value on the same line is not ours to show: its key may be a misspelt
    // `password_hash`.
    let own = usize::from(!matches!(problem, Problem::UnknownKey { .. }));
    let crowded = shown.contains('{') || shown.matches('=').count() > own;
    let problem = match problem {
        Problem::UnknownKey { known, .. } => {
            let nearest = nearest(written.trim_matches(['"', '\'']), &known);
            Problem::UnknownKey { known, nearest }
        }
        Problem::Value { expected, .. } => Problem::Value {
            expected,
            found: (!hidden).then(|| shorten(written)),
        },
        other @ (Problem::Syntax(_) | Problem::Rule(_)) => other,
    };
    let excerpt = if hidden || crowded {
        String::new()
    } else {
        excerpt(line, column, shown)
    };
    Diagnostic {
        file: file.to_owned(),
        line,
        column,
        key,
        problem,
        excerpt,
    }
}

/// Returns whether a key or a line may belong to a secret. Whole users are secret too: someone may
/// write one as text.
fn may_be_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text == "auth.user"
        || ["password", "passwd", "_hash", "secret"]
            .iter()
            .any(|word| text.contains(word))
}

fn shorten(written: &str) -> String {
    let line = written.lines().next().unwrap_or_default();
    match line.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}

/// The line up to the end of the mistake, and a mark below; the rest of it may be a secret.
fn excerpt(line: usize, column: usize, shown: &str) -> String {
    let number = line.to_string();
    let marks = (shown.chars().count() + 1).saturating_sub(column).max(1);
    let (margin, indent, marks) = (
        " ".repeat(number.len()),
        " ".repeat(column - 1),
        "^".repeat(marks),
    );
    format!("\n{number} | {shown}\n{margin} | {indent}{marks}")
}

/// The dotted key of the key or value that stands exactly at `span`.
fn key_at(table: &DeTable<'_>, span: &Range<usize>, parent: &str) -> Option<String> {
    table.iter().find_map(|(name, value)| {
        let key = if parent.is_empty() {
            name.get_ref().to_string()
        } else {
            format!("{parent}.{}", name.get_ref())
        };
        if name.span() == *span || value.span() == *span {
            return Some(key);
        }
        match value.get_ref() {
            DeValue::Table(table) => key_at(table, span, &key),
            DeValue::Array(items) => items.iter().find_map(|item| match item.get_ref() {
                _ if item.span() == *span => Some(key.clone()),
                DeValue::Table(table) => key_at(table, span, &key),
                _ => None,
            }),
            _ => None,
        }
    })
}

/// The known key that is at most a third of its letters away.
pub(super) fn nearest(found: &str, known: &[String]) -> Option<String> {
    let (name, distance) = known
        .iter()
        .map(|name| (name, strsim::levenshtein(found, name)))
        .min_by_key(|(_, distance)| *distance)?;
    (distance <= name.len().div_ceil(3)).then(|| name.clone())
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}{}", self.problem, self.excerpt)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(message) => write!(f, "not valid TOML: {message}"),
            Self::UnknownKey { known, nearest } => {
                f.write_str("there is no such key")?;
                if let Some(nearest) = nearest {
                    write!(f, "; did you mean `{nearest}`?")?;
                }
                write!(f, " (known here: {})", known.join(", "))
            }
            Self::Value {
                expected,
                found: Some(found),
            } => write!(f, "expected {expected}, found {found}"),
            Self::Value {
                expected,
                found: None,
            } => write!(f, "expected {expected}"),
            Self::Rule(sentence) => f.write_str(sentence),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_inserted_removed_and_replaced_lead_to_the_nearest_key() {
        let known = ["listen".to_owned()];
        for found in ["lisen", "lissten", "lizten"] {
            assert_eq!(nearest(found, &known).as_deref(), Some("listen"));
        }
        assert_eq!(nearest("", &known), None);
    }

    #[test]
    fn only_a_small_typo_has_a_nearest_key() {
        let known = ["listen".to_owned(), "workers".to_owned()];
        assert_eq!(nearest("listne", &known).as_deref(), Some("listen"));
        assert_eq!(nearest("colour", &known), None);
    }
}
