//! Cuts a text or buffer at a separator or into lengths, whole or as a stream. Pure.

use crate::expression::typed::{Typed, text_of};
use bytes::Bytes;
use serde_json::Value as Json;
use smol_str::SmolStr;
use value::{Failure, Value, coerce, json};

/// The rule by which texts and buffers are cut.
pub(super) enum Cut {
    /// At each occurrence of some bytes; `shown` is the separator in parts (`ch`).
    Separator { bytes: Box<[u8]>, shown: Value },
    /// Into pieces of this number of bytes or UTF-16 units.
    Length(usize),
}

/// The pieces of one text or buffer, and how much of it is left over.
pub(super) struct Pieces {
    pub values: Vec<Value>,
    /// The number of pieces, for parts.
    pub count: usize,
    pub of_text: bool,
}

impl Cut {
    /// Reads the separator as the node's properties have it; an empty one is a line break
    /// (observed), and so is none.
    pub(super) fn parse(kind: &str, value: Option<&Json>) -> Result<Self, Failure> {
        let text = match (kind, value) {
            ("len" | "bin", None) => SmolStr::new_static("undefined"),
            _ => text_of(value.unwrap_or(&Json::Null)),
        };
        match kind {
            "len" => length(&text)
                .map(Self::Length)
                .ok_or_else(|| invalid("invalid split length", &text)),
            "bin" => {
                let shown = json::parse(&text).map_err(|f| broken(&f))?;
                match Typed::parse("bin", &text.as_str().into()) {
                    Ok(Typed::Constant(Value::Buffer(bytes))) if !bytes.is_empty() => {
                        Ok(Self::Separator {
                            bytes: bytes[..].into(),
                            shown,
                        })
                    }
                    _ => Err(broken(&Failure::error("not an array"))),
                }
            }
            _ => {
                let separator = unescape(&text);
                let separator = if separator.is_empty() {
                    "\n".to_owned()
                } else {
                    separator
                };
                Ok(Self::Separator {
                    bytes: separator.as_bytes().into(),
                    shown: Value::from(separator),
                })
            }
        }
    }

    /// Cuts a text or buffer; any other value has no pieces.
    pub(super) fn value(&self, value: &Value) -> Pieces {
        match value {
            Value::String(text) => Pieces {
                of_text: true,
                ..self.text(text)
            },
            Value::Buffer(bytes) => self.buffer(bytes),
            _ => Pieces::all(Vec::new()),
        }
    }

    /// Cuts a whole text.
    pub(super) fn text(&self, text: &str) -> Pieces {
        match self {
            Self::Separator { bytes, .. } => {
                let separator = String::from_utf8_lossy(bytes);
                let pieces = text.split(separator.as_ref()).map(Value::from);
                Pieces::all(pieces.collect())
            }
            Self::Length(length) => Pieces::of_length(text_chunks(text, *length), || "".into()),
        }
    }

    /// Cuts a whole buffer.
    pub(super) fn buffer(&self, bytes: &Bytes) -> Pieces {
        match self {
            Self::Separator {
                bytes: separator, ..
            } => {
                let mut values = split_bytes(bytes, separator);
                let count = values.len();
                // An empty rest is counted but not sent (observed).
                values.pop_if(|last| matches!(last, Value::Buffer(rest) if rest.is_empty()));
                Pieces {
                    values,
                    count,
                    of_text: false,
                }
            }
            Self::Length(length) => {
                let chunks = (0..bytes.len()).step_by(*length);
                let chunks = chunks
                    .map(|at| Value::buffer(bytes.slice(at..bytes.len().min(at + length))))
                    .collect();
                Pieces::of_length(chunks, || Value::buffer(Bytes::new()))
            }
        }
    }

    /// Cuts the next stretch of a stream of text; `rest` is what was left over before, and then
    /// after.
    pub(super) fn text_stream(&self, rest: &mut String, text: &str) -> Vec<Value> {
        rest.push_str(text);
        let mut values = self.text(rest).values;
        let whole = |v: &Value| match (self, v) {
            (Self::Length(length), Value::String(text)) => text.encode_utf16().count() == *length,
            _ => false,
        };
        if values.last().is_some_and(whole) {
            rest.clear();
        } else if let Some(Value::String(last)) = values.pop() {
            *rest = last.into();
        }
        values
    }

    /// Cuts the next stretch of a stream of bytes.
    pub(super) fn buffer_stream(&self, rest: &mut Vec<u8>, bytes: &Bytes) -> Vec<Value> {
        rest.extend_from_slice(bytes);
        let bytes = Bytes::from(std::mem::take(rest));
        let mut values = match self {
            Self::Separator {
                bytes: separator, ..
            } => split_bytes(&bytes, separator),
            Self::Length(_) => self.buffer(&bytes).values,
        };
        let whole =
            |v: &Value| matches!((self, v), (Self::Length(n), Value::Buffer(b)) if b.len() == *n);
        if !values.last().is_some_and(whole)
            && let Some(Value::Buffer(last)) = values.pop()
        {
            *rest = Vec::from(*last);
        }
        values
    }
}

impl Pieces {
    fn all(values: Vec<Value>) -> Self {
        Self {
            count: values.len(),
            values,
            of_text: false,
        }
    }

    /// Nothing at all is one empty piece of a count of 0 (observed).
    fn of_length(values: Vec<Value>, empty: impl Fn() -> Value) -> Self {
        if values.is_empty() {
            return Self {
                values: vec![empty()],
                count: 0,
                of_text: false,
            };
        }
        Self::all(values)
    }
}

/// A length of pieces: a whole number, 1 at least.
pub(super) fn length(text: &str) -> Option<usize> {
    let n = coerce::parse_float(text);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least 1, and more than any length is as good as the longest"
    )]
    (n >= 1.0).then_some(n as usize)
}

/// The failure that keeps the node from running, as Node-RED words it.
pub(super) fn invalid(what: &str, text: &str) -> Failure {
    broken(&Failure::error(format!("{what}: {text}")))
}

fn broken(why: &Failure) -> Failure {
    Failure::text(format!("Invalid split property: {why}"))
}

/// Replaces the escapes of the editor's field (docs/reference/node-red-engine.md §4.3).
pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = match (c, chars.peek()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('t')) => '\t',
            ('\\', Some('e')) => 'e',
            ('\\', Some('f')) => '\u{c}',
            ('\\', Some('0')) => '\0',
            _ => {
                out.push(c);
                continue;
            }
        };
        chars.next();
        out.push(escaped);
    }
    out
}

/// Pieces of `length` UTF-16 units, as JavaScript counts.
fn text_chunks(text: &str, length: usize) -> Vec<Value> {
    if text.is_ascii() {
        let chunks = (0..text.len()).step_by(length);
        return chunks
            .filter_map(|at| text.get(at..text.len().min(at.saturating_add(length))))
            .map(Value::from)
            .collect();
    }
    let units: Vec<u16> = text.encode_utf16().collect();
    units
        .chunks(length)
        .map(|chunk| Value::text(SmolStr::from(String::from_utf16_lossy(chunk))))
        .collect()
}

fn split_bytes(bytes: &Bytes, separator: &[u8]) -> Vec<Value> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(window) = bytes.get(at..at + separator.len()) {
        if window == separator {
            pieces.push(Value::buffer(bytes.slice(start..at)));
            at += separator.len();
            start = at;
        } else {
            at += 1;
        }
    }
    pieces.push(Value::buffer(bytes.slice(start..)));
    pieces
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn cut(kind: &str, text: &str) -> Cut {
        Cut::parse(kind, Some(&Json::from(text))).unwrap()
    }

    fn texts(cut: &Cut, text: &str) -> String {
        format!("{:?}", cut.text(text).values)
    }

    #[test]
    fn texts_are_cut_at_separators_and_into_lengths() {
        assert_eq!(
            texts(&cut("str", "\\n"), "a\nb\n\nc\n"),
            r#"["a", "b", "", "c", ""]"#
        );
        assert_eq!(texts(&cut("str", ""), "a\nb"), r#"["a", "b"]"#);
        assert_eq!(texts(&cut("bin", "[44,32]"), "a, b,c"), r#"["a", "b,c"]"#);
        assert_eq!(texts(&cut("len", "2"), "abcde"), r#"["ab", "cd", "e"]"#);
        assert_eq!(texts(&cut("len", "2"), "éàx"), r#"["éà", "x"]"#);
        assert_eq!(cut("len", "2").text("").count, 0);
    }

    #[test]
    fn buffers_are_cut_at_separators_and_into_lengths() {
        let bytes = Bytes::from_static(b"a,b,,c");
        assert_eq!(cut("str", ",").buffer(&bytes).count, 4);
        let pieces = cut("len", "4").buffer(&bytes).values;
        assert_eq!(format!("{pieces:?}"), r#"[Buffer(b"a,b,"), Buffer(b",c")]"#);
    }

    #[test]
    fn a_stream_keeps_the_incomplete_rest() {
        let mut rest = String::new();
        let lines = cut("str", "\\n");
        let mut next = |text: &str| format!("{:?}", lines.text_stream(&mut rest, text));
        assert_eq!(next("a\nb"), r#"["a"]"#);
        assert_eq!(next("c\nd"), r#"["bc"]"#);
        assert_eq!(next("e\n"), r#"["de"]"#);
        let mut rest = String::new();
        let threes = cut("len", "3");
        let mut next = |text: &str| format!("{:?}", threes.text_stream(&mut rest, text));
        assert_eq!(next("abcd"), r#"["abc"]"#);
        assert_eq!(next("efgh"), r#"["def"]"#);
        assert_eq!(next("i"), r#"["ghi"]"#);
        let mut rest = Vec::new();
        let mut next = |text: &'static str| {
            let bytes = Bytes::from_static(text.as_bytes());
            format!("{:?}", cut("str", ",").buffer_stream(&mut rest, &bytes))
        };
        assert_eq!(next("a,b"), r#"[Buffer(b"a")]"#);
        assert_eq!(next("c,d,"), r#"[Buffer(b"bc"), Buffer(b"d")]"#);
    }

    #[test]
    fn lengths_below_one_are_refused() {
        let failure = Cut::parse("len", Some(&Json::from("0"))).err().unwrap();
        assert_eq!(
            failure.message,
            "Invalid split property: Error: invalid split length: 0"
        );
    }
}
