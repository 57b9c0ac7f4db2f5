//! Single values: text with `${NAME}` in it, durations, sizes, numbers, addresses, paths, secrets.
//!
//! Knows bounds and how values are spelled; not which key has which.

use super::error::SpannedError;
use super::raw::{Entry, List};
use crypto::Secret;
use std::cell::RefCell;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::{Spanned, Value};

/// The units of durations, largest first, in milliseconds.
const TIMES: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];
/// The units of sizes, largest first, in bytes (IEC 80000-13).
const SIZES: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// The environment and files that values may refer to.
pub(super) struct Source<'a> {
    /// The directory that paths are relative to.
    pub(super) base: &'a Path,
    /// The environment.
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    /// The files of secrets that were read.
    pub(super) read: &'a RefCell<Vec<PathBuf>>,
    /// Variables whose values are secrets, or parts of them.
    pub(super) secret_variables: &'a RefCell<Vec<String>>,
}

/// The position of a value in the file.
pub(super) type Span = Range<usize>;

impl Source<'_> {
    /// Text, with every `${NAME}` replaced.
    pub(super) fn text(
        &self,
        entry: &Spanned<Value>,
        expected: &str,
    ) -> Result<String, SpannedError> {
        match entry.get_ref() {
            Value::String(text) => substitute(text, self.variable)
                .map_err(|sentence| SpannedError::rule(entry.span(), sentence)),
            _ => Err(SpannedError::value(entry.span(), expected)),
        }
    }

    /// Text that `parse` understands.
    pub(super) fn parsed<T>(
        &self,
        entry: &Spanned<Value>,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, SpannedError> {
        parse(&self.text(entry, expected)?)
            .ok_or_else(|| SpannedError::value(entry.span(), expected))
    }

    /// Every value of a list; `None` when the key is absent.
    pub(super) fn list<T>(
        &self,
        list: List,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<Vec<T>>, SpannedError> {
        list.map(|list| {
            list.get_ref()
                .iter()
                .map(|entry| self.parsed(entry, expected, &parse))
                .collect()
        })
        .transpose()
    }

    /// A duration such as `"30s"`.
    pub(super) fn duration(
        &self,
        entry: Entry,
        default: Duration,
        range: RangeInclusive<Duration>,
    ) -> Result<Duration, SpannedError> {
        let Some(entry) = entry else {
            return Ok(default);
        };
        let (low, high) = (show_duration(*range.start()), show_duration(*range.end()));
        let expected = format!(r#"a duration from "{low}" to "{high}" (units: ms, s, m, h, d)"#);
        self.parsed(&entry, &expected, |text| {
            parse_duration(text).filter(|value| range.contains(value))
        })
    }

    /// A size such as `"5MiB"`, or a number of bytes.
    pub(super) fn size<N>(
        &self,
        entry: Entry,
        default: N,
        range: RangeInclusive<u64>,
    ) -> Result<N, SpannedError>
    where
        N: TryFrom<u64>,
    {
        let Some(entry) = entry else {
            return Ok(default);
        };
        let (low, high) = (show_size(*range.start()), show_size(*range.end()));
        let expected = format!(
            r#"a size from "{low}" to "{high}" (units: B, KiB, MiB, GiB), or a number of bytes"#
        );
        let size = match entry.get_ref() {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            _ => self.parsed(&entry, &expected, |text| Some(parse_size(text)))?,
        };
        size.filter(|size| range.contains(size))
            .and_then(|size| N::try_from(size).ok())
            .ok_or_else(|| SpannedError::value(entry.span(), expected))
    }

    /// An address with its port.
    pub(super) fn address(&self, entry: &Spanned<Value>) -> Result<SocketAddr, SpannedError> {
        self.parsed(
            entry,
            r#"an IP address and a port, such as "127.0.0.1:8443" or "[::]:443""#,
            |text| text.parse().ok(),
        )
    }

    /// An address with its port, or none for `"off"`.
    pub(super) fn address_or_off(
        &self,
        entry: &Spanned<Value>,
    ) -> Result<Option<SocketAddr>, SpannedError> {
        if entry.get_ref().as_str() == Some("off") {
            Ok(None)
        } else {
            self.address(entry).map(Some)
        }
    }

    /// A path; relative ones start at the config file's directory.
    pub(super) fn path(&self, entry: &Spanned<Value>) -> Result<PathBuf, SpannedError> {
        self.parsed(entry, "a path", |text| {
            (!text.is_empty()).then(|| self.base.join(text))
        })
    }

    /// A program: a path, or a name without a slash, which is found in PATH.
    pub(super) fn program(
        &self,
        entry: Option<&Spanned<Value>>,
        default: &str,
    ) -> Result<PathBuf, SpannedError> {
        match entry {
            Some(entry) if entry.get_ref().as_str().is_some_and(|n| n.contains('/')) => {
                self.path(entry)
            }
            Some(entry) => self.parsed(entry, "a path, or the name of a program", |text| {
                (!text.is_empty()).then(|| text.into())
            }),
            None => Ok(default.into()),
        }
    }

    /// A directory; without one, this one beside the file.
    pub(super) fn directory(&self, entry: Entry, default: &str) -> Result<PathBuf, SpannedError> {
        entry.map_or_else(|| Ok(self.base.join(default)), |entry| self.path(&entry))
    }

    /// A secret, written here or in a file of its own (whose trailing newline is no part of it),
    /// and where it stands.
    pub(super) fn secret(
        &self,
        inline: Entry,
        file: Entry,
    ) -> Result<Option<(Secret, Span)>, SpannedError> {
        let (entry, secret) = match (inline, file) {
            (None, None) => return Ok(None),
            (Some(_), Some(file)) => {
                return Err(SpannedError::rule(
                    file.span(),
                    "give the secret itself or the file that holds it, not both",
                ));
            }
            (Some(entry), None) => {
                let noted = |name: &str| {
                    self.secret_variables.borrow_mut().push(name.to_owned());
                    (self.variable)(name)
                };
                let source = Source {
                    variable: &noted,
                    ..*self
                };
                let text = Secret::new(source.text(&entry, "text")?);
                (entry, text)
            }
            (None, Some(entry)) => {
                let path = self.path(&entry)?;
                self.read.borrow_mut().push(path.clone());
                let line = line_of(&path).map_err(|error| {
                    let sentence = format!("cannot read {}: {error}", path.display());
                    SpannedError::rule(entry.span(), sentence)
                })?;
                (entry, line)
            }
        };
        if secret.reveal().is_empty() {
            return Err(SpannedError::rule(entry.span(), "the secret is empty"));
        }
        Ok(Some((secret, entry.span())))
    }
}

/// The secret in a file, without the newline at its end.
pub(super) fn line_of(file: &Path) -> std::io::Result<Secret> {
    let text = Secret::new(std::fs::read_to_string(file)?);
    let line = text.reveal().strip_suffix('\n').unwrap_or(text.reveal());
    Ok(Secret::new(
        line.strip_suffix('\r').unwrap_or(line).to_owned(),
    ))
}

/// A whole number within its bounds.
pub(super) fn number<N>(
    entry: Entry,
    default: N,
    range: RangeInclusive<N>,
) -> Result<N, SpannedError>
where
    N: TryFrom<i64> + PartialOrd + Display,
{
    let Some(entry) = entry else {
        return Ok(default);
    };
    let value = entry
        .get_ref()
        .as_integer()
        .and_then(|value| N::try_from(value).ok());
    value.filter(|value| range.contains(value)).ok_or_else(|| {
        SpannedError::value(
            entry.span(),
            format!("a whole number from {} to {}", range.start(), range.end()),
        )
    })
}

/// `true` or `false`.
pub(super) fn flag(entry: Entry, default: bool) -> Result<bool, SpannedError> {
    let Some(entry) = entry else {
        return Ok(default);
    };
    entry
        .get_ref()
        .as_bool()
        .ok_or_else(|| SpannedError::value(entry.span(), "true or false"))
}

/// Replaces `${NAME}` by the variable's value, and `$${` by `${`.
fn substitute(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        let name = after.split_once('}').filter(|(name, _)| is_variable(name));
        let Some((name, after)) = name else {
            return Err("`${` begins the name of an environment variable, as in `${NAME}`; write `$${` for the two characters".into());
        };
        let value =
            variable(name).ok_or_else(|| format!("the environment variable {name} is not set"))?;
        out.push_str(before);
        out.push_str(&value);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Letters, digits and `_`, not beginning with a digit (POSIX.1-2024 XBD §8.1).
pub fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A duration such as `30s` or `7d`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    scaled(text, &TIMES).map(Duration::from_millis)
}

fn parse_size(text: &str) -> Option<u64> {
    scaled(text, &SIZES)
}

/// A whole number followed by one of the units.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn show_duration(value: Duration) -> String {
    show(u64::try_from(value.as_millis()).unwrap_or(u64::MAX), &TIMES)
}

fn show_size(value: u64) -> String {
    show(value, &SIZES)
}

/// A number in the largest unit that needs no fraction.
fn show(value: u64, units: &[(&str, u64)]) -> String {
    let fits = units
        .iter()
        .find(|(_, factor)| value >= *factor && value.is_multiple_of(*factor));
    fits.map_or_else(
        || value.to_string(),
        |(name, factor)| format!("{}{name}", value / factor),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_whole_number_and_a_unit() {
        let known = [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
        ];
        for (text, millis) in known {
            assert_eq!(
                parse_duration(text),
                Some(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in [
            "",
            "30",
            "s",
            "1.5h",
            "-1s",
            "30 s",
            "30S",
            "1h30m",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_a_whole_number_and_a_binary_unit() {
        for (text, bytes) in [
            ("12B", 12),
            ("64KiB", 65_536),
            ("5MiB", 5_242_880),
            ("1GiB", 1 << 30),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "5", "5MB", "5 MiB", "MiB", "5mib"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn values_are_shown_in_the_unit_that_needs_no_fraction() {
        assert_eq!(show_duration(Duration::from_secs(90)), "90s");
        assert_eq!(show_duration(Duration::from_hours(24)), "1d");
        assert_eq!(show_size(65_535), "65535B");
        assert_eq!(show_size(1 << 30), "1GiB");
    }

    #[test]
    fn variables_are_replaced_and_a_doubled_dollar_is_one() {
        let variable = |name: &str| (name == "HOST").then(|| "gate${X}".to_owned());
        assert_eq!(
            substitute("a ${HOST}:${HOST} $2b$ {}", &variable).unwrap(),
            "a gate${X}:gate${X} $2b$ {}"
        );
        assert_eq!(substitute("$${HOST} $$", &variable).unwrap(), "${HOST} $$");
    }

    #[test]
    fn an_unset_variable_is_named_in_the_error() {
        let none = |_: &str| None;
        assert_eq!(
            substitute("x${NOPE}", &none).unwrap_err(),
            "the environment variable NOPE is not set"
        );
        for text in ["${", "${}", "${1A}", "${A B}", "${A"] {
            assert!(
                substitute(text, &none)
                    .unwrap_err()
                    .contains("as in `${NAME}`"),
                "{text}"
            );
        }
    }
}
