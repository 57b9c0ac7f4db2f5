//! CSV text into rows of fields, as Node-RED's two parsers read it: RFC 4180 with forgiveness, and the older one.
//!
//! Knows no messages and never fails: broken quoting gives the fields that Node-RED makes of it.

use crate::engine::expression::coerce;
use crate::engine::value::{Failure, Object, Value};
use smol_str::SmolStr;

/// Which of the two parsers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spec {
    /// RFC 4180: quotes count at the begin of a field only.
    Rfc,
    /// The older: quotes toggle anywhere.
    Legacy,
}

/// A field of a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Field {
    pub(super) text: String,
    /// Whether it had quotes: `""` is an empty text, nothing at all is no value.
    pub(super) quoted: bool,
}

/// The rows of a text, and whether a quote was left open.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Rows {
    pub(super) rows: Vec<Vec<Field>>,
    pub(super) open: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Bare,
    Quoted,
    /// RFC only: text followed a closing quote. Pairs of quotes still are one.
    Broken,
}

/// Splits a text. Lines without any text are left out. A separator that is not one character separates nothing.
pub(super) fn rows(text: &str, separator: Option<char>, spec: Spec) -> Rows {
    let mut out = Rows::default();
    let mut row: Vec<Field> = Vec::new();
    let mut field = Field::default();
    let mut state = State::Bare;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let next = characters.peek().copied();
        let ends = state != State::Quoted;
        match c {
            '"' => match (state, spec) {
                (State::Bare, Spec::Rfc) if !field.text.is_empty() || field.quoted => {
                    field.text.push('"');
                }
                (State::Bare, _) => {
                    field.quoted = true;
                    state = State::Quoted;
                }
                (State::Quoted | State::Broken, _) if next == Some('"') => {
                    characters.next();
                    field.text.push('"');
                }
                (State::Quoted, Spec::Legacy) => state = State::Bare,
                _ if next.is_none_or(|n| Some(n) == separator || n == '\n' || n == '\r') => {
                    state = State::Bare;
                }
                _ => {
                    field.text.push('"');
                    state = State::Broken;
                }
            },
            _ if ends && Some(c) == separator => {
                row.push(std::mem::take(&mut field));
                state = State::Bare;
            }
            '\n' | '\r' if ends => {
                end_row(&mut out.rows, &mut row, &mut field);
                state = State::Bare;
            }
            _ => field.text.push(c),
        }
    }
    out.open = state == State::Quoted;
    end_row(&mut out.rows, &mut row, &mut field);
    out
}

fn end_row(rows: &mut Vec<Vec<Field>>, row: &mut Vec<Field>, field: &mut Field) {
    if row.is_empty() && field.text.is_empty() && !field.quoted {
        return;
    }
    row.push(std::mem::take(field));
    rows.push(std::mem::take(row));
}

/// The names of columns from a template or a header. An empty name leaves its column out.
pub(super) fn columns(
    text: &str,
    separator: Option<char>,
    spec: Spec,
) -> Result<Vec<SmolStr>, Failure> {
    let row = rows(text, separator, spec).rows.into_iter().next();
    row.map_or(Ok(Vec::new()), |row| names(row, spec))
}

/// The names in a header row.
pub(super) fn names(row: Vec<Field>, spec: Spec) -> Result<Vec<SmolStr>, Failure> {
    let names = row.into_iter().map(|field| match spec {
        Spec::Rfc if !field.quoted && field.text.contains('"') => Err(Failure {
            name: SmolStr::new_static("UnquotedQuoteError"),
            ..Failure::error("Quote found in the middle of an unquoted field")
        }),
        Spec::Rfc => Ok(field.text.into()),
        Spec::Legacy => Ok(field.text.trim_matches(blank).into()),
    });
    names.collect()
}

/// What JavaScript trims (ECMA-262 §22.1.3.32): the byte order mark too.
fn blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// How fields become values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conversion {
    pub(super) spec: Spec,
    /// Texts that look like numbers become numbers.
    pub(super) numbers: bool,
    /// `""` is an empty text, else left out.
    pub(super) empty_texts: bool,
    /// What is missing is `null`, else left out.
    pub(super) nulls: bool,
}

impl Conversion {
    /// A row as an object; `None` when nothing is left of it. Fields beyond the columns are left out.
    pub(super) fn object(self, row: &[Field], columns: &[SmolStr]) -> Option<Value> {
        let mut object = Object::default();
        for (at, name) in columns.iter().enumerate().filter(|(_, n)| !n.is_empty()) {
            let value = match row.get(at) {
                Some(field) if !field.text.is_empty() => self.value(&field.text),
                Some(field) if field.quoted && self.empty_texts => Value::from(""),
                Some(field) if !field.quoted && self.nulls => Value::Null,
                None if self.nulls && self.spec == Spec::Rfc => Value::Null,
                _ => continue,
            };
            object.insert(name.clone(), value);
        }
        (!object.is_empty()).then(|| Value::object(object))
    }

    fn value(self, text: &str) -> Value {
        let looks_right = match self.spec {
            Spec::Rfc => rfc_number(text),
            Spec::Legacy => legacy_number(text),
        };
        if self.numbers && looks_right {
            Value::Number(coerce::text_to_number(text))
        } else {
            Value::from(text)
        }
    }
}

/// Whatever JavaScript's `Number` reads, but no leading `+` and no leading zeros, which are mostly no numbers.
fn rfc_number(text: &str) -> bool {
    let text = text.trim_matches(blank);
    !text.starts_with('+') && !has_leading_zero(text) && !coerce::text_to_number(text).is_nan()
}

/// Digits with an optional point and exponent that end in a digit.
fn legacy_number(text: &str) -> bool {
    let text = text.trim_matches(blank);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let mantissa = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if has_leading_zero(text) || !digits(whole) || !digits(fraction) {
        return false;
    }
    match exponent {
        None => mantissa.ends_with(|c: char| c.is_ascii_digit()),
        Some(exponent) => {
            let exponent = exponent.strip_prefix('-').unwrap_or(exponent);
            let exponent = exponent.strip_prefix('+').unwrap_or(exponent);
            !mantissa.is_empty() && !exponent.is_empty() && digits(exponent)
        }
    }
}

fn has_leading_zero(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    text.strip_prefix('0')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn texts(text: &str, spec: Spec) -> Vec<Vec<String>> {
        let rows = rows(text, Some(','), spec).rows;
        rows.into_iter()
            .map(|row| row.into_iter().map(|f| f.text).collect())
            .collect()
    }

    /// Both columns are what Node-RED 4.1 made of the text.
    #[test]
    fn quotes_are_read_as_each_parser_reads_them() {
        for (text, rfc, legacy) in [
            (
                "\"a \"\"q\"\" b\",c",
                ["a \"q\" b", "c"],
                ["a \"q\" b", "c"],
            ),
            ("x\"y\"z,c", ["x\"y\"z", "c"], ["xyz", "c"]),
            ("\"ab\"cd,e", ["ab\"cd", "e"], ["abcd", "e"]),
            ("1,\"2\" ", ["1", "2\" "], ["1", "2 "]),
            ("\"a\"\"b\",\"\"c\"\"", ["a\"b", "\"c\""], ["a\"b", "c"]),
        ] {
            assert_eq!(texts(text, Spec::Rfc), [rfc], "{text}");
            assert_eq!(texts(text, Spec::Legacy), [legacy], "{text}");
        }
        assert_eq!(texts("\"\"\"\"x\",2", Spec::Rfc), [["\"\"x", "2"]]);
        assert_eq!(texts("\"\"\"\"x\",2", Spec::Legacy), [["\"x,2"]]);
    }

    #[test]
    fn rows_end_at_any_line_end_and_blank_ones_are_left_out() {
        for spec in [Spec::Rfc, Spec::Legacy] {
            assert_eq!(texts("1\r\n2\n\n3\r4", spec), [["1"], ["2"], ["3"], ["4"]]);
            assert_eq!(texts("\"l\nb\",z", spec), [["l\nb", "z"]]);
            let open = rows("\"open,c\nnext", Some(','), spec);
            assert!(open.open);
            assert_eq!(open.rows.len(), 1);
        }
    }

    /// What Node-RED 4.1 took for a number; `None`: it stayed text.
    #[test]
    fn numbers_are_told_from_texts() {
        for (text, rfc, legacy) in [
            ("1.5e-3", Some(0.0015), Some(0.0015)),
            ("00", None, None),
            (" 12 ", Some(12.0), Some(12.0)),
            ("1e", None, None),
            (".", None, None),
            ("-", None, None),
            ("1.2.3", None, None),
            ("Infinity", Some(f64::INFINITY), None),
            ("0b11", Some(3.0), None),
            ("0x10", Some(16.0), None),
            ("-.5", Some(-0.5), Some(-0.5)),
            ("1e+5", Some(1e5), Some(1e5)),
            ("01.5", None, None),
            ("-007", None, None),
            ("+7", None, None),
            ("   ", Some(0.0), None),
            ("NaN", None, None),
            ("e5", None, None),
            ("1.e5", Some(1e5), Some(1e5)),
            ("5.", Some(5.0), None),
            ("1_0", None, None),
        ] {
            for (spec, expected) in [(Spec::Rfc, rfc), (Spec::Legacy, legacy)] {
                let conversion = Conversion {
                    spec,
                    numbers: true,
                    empty_texts: false,
                    nulls: false,
                };
                assert_eq!(
                    conversion.value(text).as_number(),
                    expected,
                    "{text} {spec:?}"
                );
            }
        }
    }

    #[test]
    fn a_separator_of_several_characters_separates_nothing() {
        let one = rows("1ab2", None, Spec::Rfc).rows;
        assert_eq!(one[0][0].text, "1ab2");
    }
}
