//! Values into YAML text, in the style in which Node-RED writes it.

use crate::xml::MAX_DEPTH;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::fmt::Write;
use value::{Failure, Object, Value, coerce, date, json};

/// The maximum length of a line of text before it is folded.
const WIDTH: usize = 80;

/// The longest key without the mark `?` (YAML 1.2 §7.4).
const MAX_KEY: usize = 1024;

/// Writes one document.
pub fn write(value: &Value) -> Result<String, Failure> {
    let mut out = String::new();
    block(value, 0, &mut out)?;
    out.push('\n');
    Ok(out)
}

/// Writes a value whose first line goes on where the text ends.
fn block(value: &Value, depth: usize, out: &mut String) -> Result<(), Failure> {
    if depth > MAX_DEPTH {
        return Err(failure());
    }
    match value {
        Value::Array(elements) if !elements.is_empty() => {
            for (at, element) in elements.iter().enumerate() {
                if at > 0 {
                    line(out, depth);
                }
                out.push_str("- ");
                block(element, depth + 1, out)?;
            }
            Ok(())
        }
        Value::Object(object) if object.values().any(|v| !v.is_undefined()) => {
            mapping(object, depth, out)
        }
        value => {
            scalar(value, depth, out);
            Ok(())
        }
    }
}

fn mapping(object: &Object, depth: usize, out: &mut String) -> Result<(), Failure> {
    let entries = json::entries(object).filter(|(_, value)| !value.is_undefined());
    for (at, (key, value)) in entries.enumerate() {
        if at > 0 {
            line(out, depth);
        }
        // A key that is longer than YAML's limit has a mark of its own.
        let long = key.chars().count() > MAX_KEY;
        if long {
            out.push_str("? ");
        }
        text(key, depth, true, out);
        if long {
            line(out, depth);
        }
        out.push(':');
        let nested = match value {
            Value::Array(elements) => !elements.is_empty(),
            Value::Object(object) => object.values().any(|v| !v.is_undefined()),
            Value::Error(_) | Value::RegExp(_) | Value::Handle(_) => return Err(failure()),
            _ => false,
        };
        if nested {
            line(out, depth + 1);
        } else {
            out.push(' ');
        }
        block(value, depth + 1, out)?;
    }
    Ok(())
}

fn failure() -> Failure {
    Failure::text("Failed to convert payload")
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

fn scalar(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => number(*n, out),
        Value::String(content) => text(content, depth, false, out),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
        Value::Date(ms) => out.push_str(&date::iso(*ms).unwrap_or_else(|| "null".to_owned())),
        Value::Buffer(bytes) => {
            out.push_str("!!binary ");
            out.push_str(&BASE64_STANDARD.encode(&**bytes));
        }
        _ => out.push_str("null"),
    }
}

fn number(n: f64, out: &mut String) {
    if n.is_nan() {
        out.push_str(".nan");
    } else if n.is_infinite() {
        out.push_str(if n > 0.0 { ".inf" } else { "-.inf" });
    } else if n == 0.0 && n.is_sign_negative() {
        out.push_str("-0.0");
    } else {
        let digits = coerce::number_text(n);
        match digits.split_once('e') {
            // YAML wants a point in a number with a negative exponent.
            Some((whole, exponent)) if !whole.contains('.') && exponent.starts_with('-') => {
                // Writing to a string cannot fail.
                let _ = write!(out, "{whole}.e{exponent}");
            }
            _ => out.push_str(&digits),
        }
    }
}

/// Writes a text plain if it reads back as itself, else quoted, else as a block.
fn text(content: &str, depth: usize, is_key: bool, out: &mut String) {
    let hidden = |c: char| {
        (c.is_control() && (is_key || c != '\n'))
            || matches!(
                c,
                '\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
            )
    };
    let indent = 2 * depth.max(1);
    let width = WIDTH.saturating_sub(indent).max(40);
    let long = |line: &str| line.chars().count() > width && !line.starts_with(' ');
    let folds = !is_key && content.split('\n').any(long);
    if content.contains(hidden) {
        double_quoted(content, out);
    } else if folds {
        block_text('>', &folded(content, width), content, indent, out);
    } else if content.contains('\n') {
        block_text('|', content, content, indent, out);
    } else if is_plain(content) {
        out.push_str(content);
    } else {
        // Writing to a string cannot fail.
        let _ = write!(out, "'{}'", content.replace('\'', "''"));
    }
}

fn double_quoted(content: &str, out: &mut String) {
    out.push('"');
    for c in content.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            '"' => write!(out, "\\\""),
            '\\' => write!(out, "\\\\"),
            '\n' => write!(out, "\\n"),
            '\t' => write!(out, "\\t"),
            '\r' => write!(out, "\\r"),
            '\0' => write!(out, "\\0"),
            '\u{7}' => write!(out, "\\a"),
            '\u{8}' => write!(out, "\\b"),
            '\u{b}' => write!(out, "\\v"),
            '\u{c}' => write!(out, "\\f"),
            '\u{1b}' => write!(out, "\\e"),
            '\u{85}' => write!(out, "\\N"),
            '\u{a0}' => write!(out, "\\_"),
            '\u{2028}' => write!(out, "\\L"),
            '\u{2029}' => write!(out, "\\P"),
            c if u32::from(c) < 0x100 && c.is_control() => write!(out, "\\x{:02X}", u32::from(c)),
            '\u{feff}' | '\u{fffe}' | '\u{ffff}' => write!(out, "\\u{:04X}", u32::from(c)),
            c => write!(out, "{c}"),
        };
    }
    out.push('"');
}

/// Writes the header of a block: the indentation if it cannot be inferred, and the chomping.
fn header(mark: char, content: &str, out: &mut String) {
    out.push(mark);
    if content.trim_start_matches('\n').starts_with(' ') {
        out.push('2');
    }
    if !content.ends_with('\n') {
        out.push('-');
    } else if content.ends_with("\n\n") || content == "\n" {
        out.push('+');
    }
}

/// A block of lines. The end of the last one is left to what comes next.
fn block_text(mark: char, lines: &str, content: &str, indent: usize, out: &mut String) {
    header(mark, content, out);
    out.push('\n');
    let lines = lines.strip_suffix('\n').unwrap_or(lines);
    for (at, part) in lines.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        if !part.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(part);
        }
    }
}

/// The lines of a text, folded at single blanks. One line end of the text is two where it would be
/// read as a blank.
fn folded(content: &str, width: usize) -> String {
    let mut lines = content.split('\n');
    let first = lines.next().unwrap_or_default();
    let mut out = fold_line(first, width);
    // Lines that begin with a blank are read as they are.
    let mut apart = first.is_empty() || first.starts_with(' ');
    for part in lines {
        out.push('\n');
        if part.is_empty() {
            continue;
        }
        let indented = part.starts_with(' ');
        if !apart && !indented {
            out.push('\n');
        }
        out.push_str(&fold_line(part, width));
        apart = indented;
    }
    out
}

fn fold_line(line: &str, width: usize) -> String {
    if line.is_empty() || line.starts_with(' ') {
        return line.to_owned();
    }
    let line: Vec<char> = line.chars().collect();
    let text = |from: usize, to: usize| -> String {
        line.get(from..to).unwrap_or_default().iter().collect()
    };
    let (mut parts, mut start, mut last) = (Vec::new(), 0, 0);
    // A blank before a word: js-yaml looks at every second of two such that touch.
    let mut at = 0;
    while at + 1 < line.len() {
        if line.get(at) == Some(&' ') && line.get(at + 1) != Some(&' ') {
            if at - start > width {
                let end = if last > start { last } else { at };
                parts.push(text(start, end));
                start = end + 1;
            }
            last = at;
            at += 1;
        }
        at += 1;
    }
    if line.len() - start > width && last > start {
        parts.push(text(start, last));
        start = last + 1;
    }
    parts.push(text(start, line.len()));
    parts.join("\n")
}

/// Returns whether a text reads back as itself without quotes, in YAML 1.2 and for most words in
/// 1.1 too.
fn is_plain(content: &str) -> bool {
    let Some(first) = content.chars().next() else {
        return false;
    };
    let marks = "-?:,[]{}#&*!|>%@`'\"=";
    let dash = content.starts_with('-')
        && content != "-"
        && !content.starts_with("- ")
        && !content.starts_with("---");
    let safe_start = dash || !marks.contains(first) && !first.is_whitespace();
    safe_start
        && !content.ends_with([' ', ':'])
        && !content.contains(": ")
        && !content.contains(" #")
        && content != "<<"
        && !looks_like_number(content)
        && !looks_like_date(content)
        && !is_word(content)
}

/// The words that some YAML reads as `null` or a boolean.
fn is_word(content: &str) -> bool {
    let lower = content.to_ascii_lowercase();
    matches!(
        lower.as_str(),
        "~" | "null" | "true" | "false" | "y" | "n" | "yes" | "no" | "on" | "off"
    )
}

fn looks_like_number(content: &str) -> bool {
    let plain = content.trim_start_matches(['-', '+']);
    if matches!(plain.to_ascii_lowercase().as_str(), ".inf" | ".nan") {
        return true;
    }
    let starts = plain.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    starts && !coerce::text_to_number(plain).is_nan()
        // Base 60, which YAML 1.1 reads: `12:30`.
        || plain.contains(':') && plain.split(':').all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
}

/// `2020-01-02`, with or without a time.
fn looks_like_date(content: &str) -> bool {
    let mut parts = content.splitn(3, '-');
    let digits = |part: Option<&str>, most: usize| {
        part.is_some_and(|p| {
            !p.is_empty() && p.len() <= most && p.bytes().all(|b| b.is_ascii_digit())
        })
    };
    let year = parts.next();
    year.is_some_and(|y| y.len() == 4)
        && digits(year, 4)
        && digits(parts.next(), 2)
        && parts
            .next()
            .is_some_and(|p| p.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::yaml::read;

    /// The output of Node-RED 4.1.
    #[test]
    fn values_become_the_text_that_node_red_writes() {
        for (value, expected) in [
            (
                r#"{"a":1,"b":["x","2",true,null],"c":{},"d":[]}"#,
                "a: 1\nb:\n  - x\n  - '2'\n  - true\n  - null\nc: {}\nd: []\n",
            ),
            ("[]", "[]\n"),
            ("{}", "{}\n"),
            ("null", "null\n"),
            (
                r#"[1,[2,3],{"a":{"b":1}}]"#,
                "- 1\n- - 2\n  - 3\n- a:\n    b: 1\n",
            ),
            (
                r#"[{"a":1,"b":2},{"c":[1]}]"#,
                "- a: 1\n  b: 2\n- c:\n    - 1\n",
            ),
            (
                r#"{"a":"multi\nline\n","b":"x: y","c":"- x","d":" lead","e":"","f":"null","g":"yes"}"#,
                "a: |\n  multi\n  line\nb: 'x: y'\nc: '- x'\nd: ' lead'\ne: ''\nf: 'null'\ng: 'yes'\n",
            ),
            (
                r#"{"h":"1.5","i":"a#b","j":"a #b","k":"é","l":"tab\t","m":"'q'","n":"\"dq\"","o":"2020-01-01"}"#,
                "h: '1.5'\ni: a#b\nj: 'a #b'\nk: é\nl: \"tab\\t\"\nm: '''q'''\n'n': '\"dq\"'\no: '2020-01-01'\n",
            ),
            (
                r#"{"a":"l1\n\nl2\n\n","b":"l1\nl2"}"#,
                "a: |+\n  l1\n\n  l2\n\nb: |-\n  l1\n  l2\n",
            ),
            (r#"{"a":"  x\ny"}"#, "a: |2-\n    x\n  y\n"),
            (
                r#"{"1":2,"a b":3,"c:d":4,"":5,"true":6}"#,
                "'1': 2\na b: 3\nc:d: 4\n'': 5\n'true': 6\n",
            ),
            (
                r#"{"a":1.5,"b":1e21,"e":-0,"f":1e-7}"#,
                "a: 1.5\nb: 1e+21\ne: -0.0\nf: 1.e-7\n",
            ),
            (
                r#"{"l":"x:","p":"<<","q":"...","r":"---","s":"x,y","t":"12:30","x":"1_000","z":".5","v":"x]"}"#,
                "l: 'x:'\np: '<<'\nq: ...\nr: '---'\ns: x,y\nt: '12:30'\nx: 1_000\nz: '.5'\nv: x]\n",
            ),
        ] {
            assert_eq!(write(&json::parse(value).unwrap()).unwrap(), expected);
        }
    }

    #[test]
    fn written_texts_are_read_back_unchanged() {
        for text in [
            "-",
            "- a",
            "-a",
            "a: b",
            "# x",
            "@",
            "12:30:45",
            "0o7",
            "012",
            "\u{1}",
            "\u{fffe}",
            "\u{ffff}",
            "x\n ",
            " \n",
            "!a",
            "a\n\n\nb\n",
        ] {
            let written = write(&Value::record([("k", text.into())])).unwrap();
            let read = read(&written).unwrap();
            assert_eq!(
                format!("{read:?}"),
                format!("{{\"k\": {text:?}}}"),
                "{written}"
            );
        }
    }

    #[test]
    fn long_texts_are_folded_and_read_back() {
        let words = "word ".repeat(40);
        let written = write(&Value::record([("a", words.trim().into())])).unwrap();
        assert!(written.starts_with("a: >-\n  word word"));
        assert!(written.lines().all(|l| l.len() <= WIDTH));
        let read = read(&written).unwrap();
        assert_eq!(
            format!("{read:?}"),
            format!("{{\"a\": {:?}}}", words.trim())
        );
    }
}
