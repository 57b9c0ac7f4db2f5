//! Values on their way to the node host and back: JSON, and an object with the key `$` for each
//! kind of value that JSON lacks. `host/values.js` lists the kinds.

use super::handles::Handles;
use bytes::Bytes;
use smol_str::SmolStr;
use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::Arc;
use value::{Failure, Object, Value, json};

/// Values of a message of the process, at most: each takes up to 200 bytes, so that a frame of 64
/// MiB would become many times as much. Our choice: some hundred megabytes.
const MAX_VALUES: usize = 2_000_000;

/// The key that marks a value that JSON lacks.
const KIND: &str = "$";

/// A value as JSON, with the bytes of its buffers.
pub(super) struct Encoded<'a> {
    /// The text; more may be added to it.
    pub json: String,
    /// The bytes of its buffers.
    pub attachments: Vec<u8>,
    /// True if there are values that JSON lacks.
    pub escaped: bool,
    handles: &'a Handles,
}

impl<'a> Encoded<'a> {
    /// An empty text.
    pub(super) fn new(handles: &'a Handles) -> Self {
        Self {
            json: String::with_capacity(256),
            attachments: Vec::new(),
            escaped: false,
            handles,
        }
    }

    /// Adds a text of JSON as it is.
    pub(super) fn push(&mut self, json: &str) {
        self.json.push_str(json);
    }

    /// Adds a string.
    pub(super) fn text(&mut self, text: &str) {
        self.json.push('"');
        json::escape(text, &mut self.json);
        self.json.push('"');
    }

    /// Adds a value. Fails if the engine keeps as many values for the host as it may.
    pub(super) fn value(&mut self, value: &Value) -> Result<(), Failure> {
        match value {
            Value::Undefined => self.special("undefined"),
            Value::Null => self.push("null"),
            Value::Bool(b) => self.push(if *b { "true" } else { "false" }),
            Value::Number(n) => self.number(*n),
            Value::String(text) => self.text(text),
            Value::Array(elements) => return self.array(elements.iter()),
            Value::Object(object) => return self.object(object),
            Value::Buffer(bytes) => {
                let (at, length) = (self.attachments.len(), bytes.len());
                self.attachments.extend_from_slice(bytes);
                self.open("buffer");
                let _ = write!(self.json, ",\"at\":{at},\"length\":{length}}}");
            }
            Value::Date(ms) => {
                self.open("date");
                let ms = json::stringify(&Value::Number(*ms)).unwrap_or_default();
                let _ = write!(self.json, ",\"value\":{ms}}}");
            }
            Value::Error(failure) => return self.error(failure),
            Value::RegExp(parts) => {
                self.open("regexp");
                self.field("source", &parts.0);
                self.field("flags", &parts.1);
                self.push("}");
            }
            Value::Handle(handle) => match self.handles.lend(handle)? {
                Some((kind, id)) => {
                    self.open(kind);
                    let _ = write!(self.json, ",\"id\":{id}}}");
                }
                None => self.special("undefined"),
            },
        }
        Ok(())
    }

    fn number(&mut self, n: f64) {
        if n.is_finite() && !(n == 0.0 && n.is_sign_negative()) {
            self.json += &json::stringify(&Value::Number(n)).unwrap_or_default();
            return;
        }
        let name = match n {
            n if n.is_nan() => "NaN",
            f64::INFINITY => "Infinity",
            f64::NEG_INFINITY => "-Infinity",
            _ => "-0",
        };
        self.open("number");
        self.field("value", name);
        self.push("}");
    }

    fn array<'v>(&mut self, elements: impl Iterator<Item = &'v Value>) -> Result<(), Failure> {
        self.push("[");
        for (index, element) in elements.enumerate() {
            if index > 0 {
                self.push(",");
            }
            self.value(element)?;
        }
        self.push("]");
        Ok(())
    }

    fn object(&mut self, object: &Object) -> Result<(), Failure> {
        if object.contains_key(KIND) {
            return self.entries(object);
        }
        self.push("{");
        for (index, (key, value)) in object.iter().enumerate() {
            if index > 0 {
                self.push(",");
            }
            self.text(key);
            self.push(":");
            self.value(value)?;
        }
        self.push("}");
        Ok(())
    }

    /// An object that has the key `$` itself.
    fn entries(&mut self, object: &Object) -> Result<(), Failure> {
        self.open("object");
        self.push(",\"entries\":[");
        for (index, (key, value)) in object.iter().enumerate() {
            self.push(if index > 0 { ",[" } else { "[" });
            self.text(key);
            self.push(",");
            self.value(value)?;
            self.push("]");
        }
        self.push("]}");
        Ok(())
    }

    fn error(&mut self, failure: &Failure) -> Result<(), Failure> {
        self.open("error");
        self.field("name", &failure.name);
        self.field("message", &failure.message);
        for (key, text) in [("stack", &failure.stack), ("code", &failure.code)] {
            if !text.is_empty() {
                self.field(key, text);
            }
        }
        if let Some(cause) = &failure.cause {
            self.push(",\"cause\":");
            self.value(cause)?;
        }
        self.push("}");
        Ok(())
    }

    fn special(&mut self, kind: &str) {
        self.open(kind);
        self.push("}");
    }

    fn open(&mut self, kind: &str) {
        self.escaped = true;
        let _ = write!(self.json, "{{\"{KIND}\":\"{kind}\"");
    }

    fn field(&mut self, key: &str, text: &str) {
        let _ = write!(self.json, ",\"{key}\":");
        self.text(text);
    }
}

/// The value of a JSON text. Fails if the text is none, or one of the values in it is unknown.
pub(super) fn decode(
    text: &str,
    escaped: bool,
    attachments: &Bytes,
    handles: &Handles,
) -> Result<Value, Failure> {
    if count(text) > MAX_VALUES {
        let text = format!("the message has more than {MAX_VALUES} values");
        return Err(Failure::error(text));
    }
    let value = json::parse(text)?;
    if !escaped {
        return Ok(value);
    }
    let decoder = Decoder {
        attachments,
        handles,
        left: Cell::new(attachments.len()),
    };
    decoder.value(&value)
}

/// An upper bound of the values in a JSON text, without reading it: commas and opening brackets
/// outside of strings.
fn count(text: &str) -> usize {
    let (mut is_inside, mut is_escaped, mut values) = (false, false, 1);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_inside,
            b'"' => is_inside = !is_inside,
            b',' | b'[' | b'{' if !is_inside => values += 1,
            _ => {}
        }
    }
    values
}

struct Decoder<'a> {
    attachments: &'a Bytes,
    handles: &'a Handles,
    /// Bytes of the attachments that no buffer has taken: each belongs to one buffer, so that a
    /// value is not larger than its frame.
    left: Cell<usize>,
}

impl Decoder<'_> {
    fn value(&self, value: &Value) -> Result<Value, Failure> {
        match value {
            Value::Array(elements) => {
                let elements: Result<_, _> = elements.iter().map(|e| self.value(e)).collect();
                Ok(Value::array(elements?))
            }
            Value::Object(object) => match object.get(KIND).and_then(Value::as_str) {
                Some(kind) => self
                    .special(kind, object)
                    .unwrap_or_else(|| Err(Failure::error("invalid value of the node host"))),
                None => self.record(object.iter()),
            },
            plain => Ok(plain.clone()),
        }
    }

    fn record<'v>(
        &self,
        entries: impl Iterator<Item = (&'v SmolStr, &'v Value)>,
    ) -> Result<Value, Failure> {
        let entries: Result<Object, Failure> = entries
            .map(|(key, value)| Ok((key.clone(), self.value(value)?)))
            .collect();
        entries.map(Value::object)
    }

    /// A value that JSON lacks; `None` if it is not as it should be.
    fn special(&self, kind: &str, object: &Object) -> Option<Result<Value, Failure>> {
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let number = |key: &str| object.get(key).and_then(Value::as_number);
        Some(Ok(match kind {
            "undefined" => Value::Undefined,
            "number" => Value::Number(match text("value")? {
                "NaN" => f64::NAN,
                "Infinity" => f64::INFINITY,
                "-Infinity" => f64::NEG_INFINITY,
                "-0" => -0.0,
                _ => return None,
            }),
            "date" => Value::Date(number("value").unwrap_or(f64::NAN)),
            "regexp" => Value::RegExp(Arc::new((text("source")?.into(), text("flags")?.into()))),
            "error" => return Some(self.error(object)),
            "buffer" => {
                let (at, length) = (index(number("at")?)?, index(number("length")?)?);
                let end = at.checked_add(length)?;
                if end > self.attachments.len() {
                    return None;
                }
                self.left.set(self.left.get().checked_sub(length)?);
                Value::buffer(self.attachments.slice(at..end))
            }
            "object" => return self.entries(object.get("entries")?.as_array()?),
            "host" => Value::Handle(self.handles.of_host(id(number("id")?)?)),
            "engine" => Value::Handle(self.handles.lent(id(number("id")?)?)?),
            _ => return None,
        }))
    }

    fn entries(&self, entries: &[Value]) -> Option<Result<Value, Failure>> {
        let mut pairs = Vec::with_capacity(entries.len());
        for entry in entries {
            let [Value::String(key), value] = entry.as_array()? else {
                return None;
            };
            pairs.push((key, value));
        }
        Some(self.record(pairs.into_iter()))
    }

    fn error(&self, object: &Object) -> Result<Value, Failure> {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let cause = object.get("cause").map(|cause| self.value(cause));
        Ok(Value::Error(Arc::new(Failure {
            name: text("name").into(),
            message: text("message").into(),
            code: text("code").into(),
            stack: text("stack").into(),
            cause: cause.transpose()?.map(Box::new),
        })))
    }
}

/// A place in the attachments.
fn index(n: f64) -> Option<usize> {
    usize::try_from(id(n)?).ok()
}

/// A whole number of 32 bits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked: whole and in range"
)]
fn id(n: f64) -> Option<u32> {
    (n.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&n)).then_some(n as u32)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use value::Handle;

    fn there_and_back(value: &Value) -> (String, Value) {
        let handles = Handles::default();
        let mut encoded = Encoded::new(&handles);
        encoded.value(value).unwrap();
        let attachments = Bytes::from(std::mem::take(&mut encoded.attachments));
        let back = decode(&encoded.json, encoded.escaped, &attachments, &handles).unwrap();
        (encoded.json, back)
    }

    #[test]
    fn every_kind_of_value_comes_back_as_it_was() {
        let error = Failure {
            code: "E1".into(),
            stack: "TypeError: x\n at y".into(),
            cause: Some(Box::new(Value::Number(f64::NAN))),
            ..Failure::error("x")
        };
        let special: Object = [("$", "undefined"), ("a", "b")]
            .map(|(k, v)| (k.into(), v.into()))
            .into_iter()
            .collect();
        let values = [
            Value::Undefined,
            Value::Null,
            Value::Number(f64::NAN),
            Value::Number(f64::INFINITY),
            Value::Number(f64::NEG_INFINITY),
            Value::Number(-0.0),
            Value::Number(1.5e300),
            Value::from("a\u{2028}\"\\\u{1}é"),
            Value::Date(1234.0),
            Value::Date(f64::NAN),
            Value::buffer(&b"\0\xff"[..]),
            Value::RegExp(Arc::new(("a\"b".into(), "gi".into()))),
            Value::Error(Arc::new(error)),
            Value::object(special),
            Value::array(vec![Value::buffer(&b"x"[..]), Value::Undefined]),
        ];
        for value in values {
            let (json, back) = there_and_back(&value);
            assert_eq!(format!("{back:?}"), format!("{value:?}"), "{json}");
        }
        let Value::Number(zero) = there_and_back(&Value::Number(-0.0)).1 else {
            unreachable!("a number");
        };
        assert!(zero.is_sign_negative());
    }

    #[test]
    fn plain_json_needs_no_escapes() {
        let handles = Handles::default();
        let mut encoded = Encoded::new(&handles);
        let plain = Value::record([("a", 1.0.into()), ("b", Value::array(vec!["x".into()]))]);
        encoded.value(&plain).unwrap();
        assert_eq!(encoded.json, r#"{"a":1,"b":["x"]}"#);
        assert!(!encoded.escaped);
    }

    #[test]
    fn a_value_of_the_engine_comes_back_as_the_same() {
        let handle = Handle(Arc::new("res"));
        let Value::Handle(back) = there_and_back(&Value::Handle(handle.clone())).1 else {
            unreachable!("a handle");
        };
        assert!(Arc::ptr_eq(&back.0, &handle.0));
    }

    #[test]
    fn the_values_of_a_message_are_bounded_whatever_its_texts_contain() {
        let handles = Handles::default();
        let decoded = |text: &str| decode(text, false, &Bytes::new(), &handles);
        let many = format!("[{}0]", "{},".repeat(MAX_VALUES));
        assert!(decoded(&many).is_err());
        let text = format!(r#"["\"{}\\", 1]"#, ",[{".repeat(MAX_VALUES));
        assert!(decoded(&text).is_ok());
        assert_eq!(count(r#"{"a\"":[1,2,{"b":","}],"c":"\\"}"#), 7);
    }

    #[test]
    fn malformed_values_are_refused() {
        let handles = Handles::default();
        let bytes = Bytes::from_static(b"abc");
        for text in [
            r#"{"$":"other"}"#,
            r#"{"$":"buffer","at":2,"length":2}"#,
            r#"{"$":"buffer","at":-1,"length":2}"#,
            // Of one buffer made twice, a frame of a megabyte could make many gigabytes.
            r#"[{"$":"buffer","at":0,"length":3},{"$":"buffer","at":0,"length":3}]"#,
            r#"{"$":"buffer","at":4294967295,"length":4294967295}"#,
            r#"{"$":"number","value":"1"}"#,
            r#"{"$":"engine","id":7}"#,
            r#"{"$":"object","entries":[["a"]]}"#,
            r#"{"$":"host","id":0.5}"#,
            "[",
        ] {
            assert!(decode(text, true, &bytes, &handles).is_err(), "{text}");
        }
    }
}
