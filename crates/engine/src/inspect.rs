//! Values as Node.js' `util.inspect` shows them: for statuses and the console of debug nodes.
//!
//! It follows what Node.js 20 was seen to print with its defaults; texts keep their own characters.

use std::fmt::Write as _;
use value::{Object, Value, coerce, date};

/// Deeper objects are only named, as with the default of `util.inspect`.
pub(super) const DEPTH: usize = 2;

/// A line is broken where it would be longer (`breakLength`).
const WIDTH: usize = 80;

/// So many levels, counted from within, stand on one line (`compact`).
const COMPACT: usize = 3;

/// More elements than this are laid out in columns.
const IN_A_ROW: usize = 6;

/// So many elements and bytes are shown (`maxArrayLength`; 50 bytes of a buffer).
const MAX_LENGTH: usize = 100;
const BYTES: usize = 50;

/// A value as text; `depth` levels of it.
pub(super) fn inspect(value: &Value, depth: usize) -> String {
    shown(value, 0, depth).0
}

/// The text, and how many levels are below it.
fn shown(value: &Value, level: usize, depth: usize) -> (String, usize) {
    let text = match value {
        Value::String(text) => quoted(text),
        Value::Number(n) if *n == 0.0 && n.is_sign_negative() => "-0".to_owned(),
        Value::Date(ms) => date::iso(*ms).unwrap_or_else(|| "Invalid Date".to_owned()),
        Value::Buffer(bytes) => {
            let hex = bytes.iter().take(BYTES).map(|b| format!("{b:02x}"));
            let hex: Vec<String> = hex.collect();
            let more = bytes.len().saturating_sub(BYTES);
            let more = match more {
                0 => String::new(),
                n => format!(" ... {n} more byte{}", if n == 1 { "" } else { "s" }),
            };
            format!("<Buffer {}{more}>", hex.join(" "))
        }
        Value::Error(failure) => failure.stack().to_string(),
        Value::Array(elements) if level > depth && !elements.is_empty() => "[Array]".to_owned(),
        Value::Object(object) if level > depth && !object.is_empty() => "[Object]".to_owned(),
        Value::Array(elements) => return array(elements, level, depth),
        Value::Object(object) => return properties(object, level, depth),
        plain => coerce::to_text(plain).to_string(),
    };
    (text, 0)
}

fn array(elements: &[Value], level: usize, depth: usize) -> (String, usize) {
    let mut below = 0;
    let mut parts = Vec::new();
    for element in elements.iter().take(MAX_LENGTH) {
        let (text, levels) = shown(element, level + 1, depth);
        below = below.max(levels + usize::from(level < depth && is_nested(element)));
        parts.push(text);
    }
    let more = elements.len().saturating_sub(MAX_LENGTH);
    let entries = parts.len();
    if entries > IN_A_ROW {
        parts = columns(parts, elements);
    }
    if more > 0 {
        parts.push(format!(
            "... {more} more item{}",
            if more == 1 { "" } else { "s" }
        ));
    }
    let one_line = parts.len() == entries;
    (
        joined(&parts, '[', ']', level, one_line && below < COMPACT),
        below,
    )
}

fn properties(object: &Object, level: usize, depth: usize) -> (String, usize) {
    let mut below = 0;
    let mut parts = Vec::new();
    for (key, value) in object {
        let (text, levels) = shown(value, level + 1, depth);
        below = below.max(levels + usize::from(level < depth && is_nested(value)));
        let mut plain = key.chars();
        let is_name = plain
            .next()
            .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && plain.all(|c| c.is_ascii_alphanumeric() || c == '_');
        let key = if is_name {
            key.to_string()
        } else {
            quoted(key)
        };
        parts.push(format!("{key}: {text}"));
    }
    (joined(&parts, '{', '}', level, below < COMPACT), below)
}

fn is_nested(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

fn joined(parts: &[String], open: char, close: char, level: usize, compact: bool) -> String {
    if parts.is_empty() {
        return format!("{open}{close}");
    }
    let indentation = " ".repeat(level * 2);
    let length: usize = parts.iter().map(|part| part.chars().count()).sum();
    // As Node.js reckons: the parts, their separators, the braces and ten more.
    let total = length + 2 * parts.len() + indentation.len() + 11;
    if compact && total <= WIDTH && !parts.iter().any(|part| part.contains('\n')) {
        return format!("{open} {} {close}", parts.join(", "));
    }
    let between = format!(",\n{indentation}  ");
    format!(
        "{open}\n{indentation}  {}\n{indentation}{close}",
        parts.join(&between)
    )
}

/// Short elements side by side, about as wide as high (`groupArrayElements` of Node.js 20).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of columns, at most fifteen"
)]
fn columns(parts: Vec<String>, elements: &[Value]) -> Vec<String> {
    let lengths: Vec<usize> = parts.iter().map(|p| p.chars().count() + 2).collect();
    let total: usize = lengths.iter().sum();
    let longest = lengths.iter().copied().max().unwrap_or_default();
    let entries = parts.len() as f64;
    let wide = total as f64 / longest as f64 > 5.0 || longest - 2 <= 6;
    if longest * 3 >= WIDTH || !wide {
        return parts;
    }
    let bias = (longest as f64 - total as f64 / entries).max(0.0).sqrt();
    let biased = (longest as f64 - 2.0 - bias).max(1.0);
    let count = ((2.5 * biased * entries).sqrt() / biased)
        .round()
        .min((WIDTH as f64 / longest as f64).floor())
        .min(COMPACT as f64 * 4.0)
        .min(15.0) as usize;
    if count <= 1 {
        return parts;
    }
    let widths: Vec<usize> = (0..count)
        .map(|column| {
            lengths
                .iter()
                .skip(column)
                .step_by(count)
                .copied()
                .max()
                .unwrap_or_default()
        })
        .collect();
    let numbers = elements.iter().all(|e| matches!(e, Value::Number(_)));
    let rows = parts.chunks(count).map(|row| {
        let last = row.len() - 1;
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(n, (text, width))| {
                let comma = if n == last { "" } else { ", " };
                let width = width - 2 + comma.len();
                match (numbers, n == last) {
                    (true, _) => format!("{:>width$}", format!("{text}{comma}")),
                    (false, true) => text.clone(),
                    (false, false) => format!("{:<width$}", format!("{text}{comma}")),
                }
            });
        cells.collect::<String>()
    });
    rows.collect()
}

/// In the first kind of quotes that the text does not have.
fn quoted(text: &str) -> String {
    let quote = ['\'', '"', '`'].into_iter().find(|q| !text.contains(*q));
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote.unwrap_or('\''));
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            '\'' if quote.is_none() => out.push_str("\\'"),
            c if c < ' ' => {
                let _ = write!(out, "\\x{:02X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push(quote.unwrap_or('\''));
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use value::json;

    #[test]
    fn values_look_as_node_prints_them() {
        let table = [
            ("{}", "{}"),
            (r#"{"a":1,"b":[1,2]}"#, "{ a: 1, b: [ 1, 2 ] }"),
            (r#"{"a b":"it's"}"#, r#"{ 'a b': "it's" }"#),
            (
                r#"{"a":{"b":{"c":{"d":1}}}}"#,
                "{ a: { b: { c: [Object] } } }",
            ),
            ("[1,2,3,4,5,6,7]", "[\n  1, 2, 3, 4,\n  5, 6, 7\n]"),
            (r#"["x",null,true]"#, "[ 'x', null, true ]"),
        ];
        for (text, expected) in table {
            assert_eq!(inspect(&json::parse(text).unwrap(), DEPTH), expected);
        }
        assert_eq!(
            inspect(&Value::buffer(vec![1, 255]), DEPTH),
            "<Buffer 01 ff>"
        );
    }
}
