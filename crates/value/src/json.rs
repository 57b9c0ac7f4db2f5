//! JSON as JavaScript reads and writes it: straight from text into a [`Value`] and back.
//!
//! Values are trees by construction, so nothing can be circular.

use super::{date, json_syntax, number};
use crate::{Failure, Object, Value};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::borrow::Cow;
use std::fmt;

/// `JSON.parse`. The failure is a `SyntaxError` in V8's words.
pub fn parse(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).or_else(|_| json_syntax::parse(text))
}

/// Room for the texts of most values, in bytes.
const ROOM: usize = 128;

/// `JSON.stringify(value)`; `None` for `undefined`.
pub fn stringify(value: &Value) -> Option<String> {
    let mut out = String::with_capacity(ROOM);
    Writer {
        out: &mut out,
        indent: None,
    }
    .value(value, 0)
    .then_some(out)
}

/// `JSON.stringify(value, null, indent)`; `None` for `undefined`.
pub fn stringify_pretty(value: &Value, indent: usize) -> Option<String> {
    let mut out = String::new();
    Writer {
        out: &mut out,
        indent: Some(indent),
    }
    .value(value, 0)
    .then_some(out)
}

/// A value from a JSON tree.
pub fn from_tree(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => Value::Number(n.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::text(text.as_str()),
        Json::Array(elements) => Value::array(elements.iter().map(from_tree).collect()),
        Json::Object(map) => {
            Value::object(map.iter().map(|(k, v)| (k.into(), from_tree(v))).collect())
        }
    }
}

/// A value as a JSON tree, with the same content as [`stringify()`]; `undefined` becomes `null`.
pub fn to_tree(value: &Value) -> Json {
    match value {
        Value::Undefined | Value::Null => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Number(n) => number_tree(*n),
        Value::String(text) => Json::String(text.to_string()),
        Value::Date(ms) => date::iso(*ms).map_or(Json::Null, Json::String),
        Value::Array(elements) => Json::Array(elements.iter().map(to_tree).collect()),
        Value::Object(object) => {
            let defined = entries(object).filter(|(_, v)| !v.is_undefined());
            Json::Object(defined.map(|(k, v)| (k.to_string(), to_tree(v))).collect())
        }
        Value::Buffer(bytes) => {
            serde_json::json!({"type": "Buffer", "data": bytes.iter().collect::<Vec<_>>()})
        }
        Value::Error(_) | Value::RegExp(_) | Value::Handle(_) => {
            Json::Object(serde_json::Map::new())
        }
    }
}

/// Whole numbers stay whole; numbers that JSON lacks become `null`.
fn number_tree(n: f64) -> Json {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked: whole and exactly representable"
    )]
    if n.fract() == 0.0 && n.abs() < 9_007_199_254_740_992.0 {
        return Json::from(n as i64);
    }
    serde_json::Number::from_f64(n).map_or(Json::Null, Json::Number)
}

/// The properties in JavaScript's order: keys that are array indices first, ascending, then the
/// others as they were set (ECMA-262 §10.1.11.1).
pub fn entries(object: &Object) -> impl Iterator<Item = (&SmolStr, &Value)> {
    let order = order(object);
    (0..object.len()).filter_map(move |n| object.get_index(order.get(n).copied().unwrap_or(n)))
}

/// The places of the properties in JavaScript's order; empty if they are in it.
fn order(object: &Object) -> Vec<usize> {
    let mut indices: Vec<(u32, usize)> = Vec::new();
    for (place, key) in object.keys().enumerate() {
        indices.extend(array_index(key).map(|index| (index, place)));
    }
    if indices.is_empty() {
        return Vec::new();
    }
    indices.sort_unstable();
    let keys = object.keys().enumerate();
    let others = keys.filter(|(_, key)| array_index(key).is_none());
    let first = indices.into_iter().map(|(_, place)| place);
    first.chain(others.map(|(place, _)| place)).collect()
}

fn array_index(key: &str) -> Option<u32> {
    let first = key.bytes().next()?;
    if !first.is_ascii_digit() || (first == b'0' && key.len() > 1) {
        return None;
    }
    key.parse().ok().filter(|index| *index != u32::MAX)
}

struct Writer<'a> {
    out: &'a mut String,
    indent: Option<usize>,
}

impl Writer<'_> {
    /// Writes a value; false, and nothing written, for `undefined`.
    fn value(&mut self, value: &Value, depth: usize) -> bool {
        match value {
            Value::Undefined => return false,
            Value::Bool(b) => self.out.push_str(if *b { "true" } else { "false" }),
            Value::Number(n) if n.is_finite() => number::write_number(*n, self.out),
            Value::Null | Value::Number(_) => self.out.push_str("null"),
            Value::String(text) => self.text(text),
            Value::Date(ms) => match date::iso(*ms) {
                Some(text) => self.text(&text),
                None => self.out.push_str("null"),
            },
            Value::Array(elements) => {
                self.list(elements.iter(), depth, '[', ']', |w, element| {
                    if !w.value(element, depth + 1) {
                        w.out.push_str("null");
                    }
                });
            }
            Value::Object(object) => self.object(object, depth),
            Value::Buffer(bytes) => {
                let data = bytes.iter().map(|b| Value::Number(f64::from(*b))).collect();
                let plain = [
                    ("type", Value::from("Buffer")),
                    ("data", Value::array(data)),
                ];
                return self.value(&Value::record(plain), depth);
            }
            Value::Error(_) | Value::RegExp(_) | Value::Handle(_) => self.out.push_str("{}"),
        }
        true
    }

    fn object(&mut self, object: &Object, depth: usize) {
        let defined = entries(object).filter(|(_, v)| !v.is_undefined());
        self.list(defined, depth, '{', '}', |w, (key, value)| {
            w.text(key);
            w.out.push(':');
            if w.indent.is_some() {
                w.out.push(' ');
            }
            w.value(value, depth + 1);
        });
    }

    fn list<T>(
        &mut self,
        items: impl Iterator<Item = T>,
        depth: usize,
        open: char,
        close: char,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.out.push(open);
        let mut empty = true;
        for item in items {
            if !empty {
                self.out.push(',');
            }
            empty = false;
            self.line(depth + 1);
            write(self, item);
        }
        if !empty {
            self.line(depth);
        }
        self.out.push(close);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        escape(text, self.out);
        self.out.push('"');
    }
}

/// True if each byte is escaped in a JSON string.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut byte = 0;
    while byte < 32 {
        escaped[byte] = true;
        byte += 1;
    }
    escaped[b'"' as usize] = true;
    escaped[b'\\' as usize] = true;
    escaped
};

/// Writes text as it stands between the quotes of a JSON string (ECMA-262 §25.5.2.3).
pub fn escape(text: &str, out: &mut String) {
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        if !ESCAPED[usize::from(byte)] {
            continue;
        }
        let code = match byte {
            b'"' => Cow::Borrowed("\\\""),
            b'\\' => Cow::Borrowed("\\\\"),
            b'\n' => Cow::Borrowed("\\n"),
            b'\r' => Cow::Borrowed("\\r"),
            b'\t' => Cow::Borrowed("\\t"),
            8 => Cow::Borrowed("\\b"),
            12 => Cow::Borrowed("\\f"),
            _ => Cow::Owned(format!("\\u{byte:04x}")),
        };
        out.push_str(text.get(plain..at).unwrap_or_default());
        out.push_str(&code);
        plain = at + 1;
    }
    out.push_str(text.get(plain..).unwrap_or_default());
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut open = Vec::with_capacity(OPEN);
        Tree { open: &mut open }.deserialize(deserializer)
    }
}

/// Room for elements and properties of what is not read to its end.
const OPEN: usize = 16;

/// Reads a value. Elements and properties are gathered where there is room already, so that each
/// array and object is made once, as large as it needs to be.
struct Tree<'a> {
    open: &'a mut Vec<(SmolStr, Value)>,
}

impl Tree<'_> {
    fn inner(&mut self) -> Tree<'_> {
        Tree { open: self.open }
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Number(n as f64))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(Value::Number(n as f64))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Value, E> {
        Ok(Value::Number(n))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Value, A::Error> {
        let start = self.open.len();
        while let Some(element) = seq.next_element_seed(self.inner())? {
            self.open.push((SmolStr::default(), element));
        }
        let elements = self.open.drain(start..).map(|(_, element)| element);
        Ok(Value::array(elements.collect()))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let start = self.open.len();
        while let Some(key) = map.next_key()? {
            let value = map.next_value_seed(self.inner())?;
            self.open.push((key, value));
        }
        Ok(Value::object(self.open.drain(start..).collect()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use testing::scaling::{assert_scales, pieces};

    fn again(text: &str) -> String {
        stringify(&parse(text).unwrap()).unwrap()
    }

    #[test]
    fn json_comes_back_as_javascript_would_write_it() {
        assert_eq!(
            again(r#"{"b":1.0,"a":[null,true,1e21,-0.5]}"#),
            r#"{"b":1,"a":[null,true,1e+21,-0.5]}"#
        );
        assert_eq!(again(r#""\u0001\n\"\\é""#), "\"\\u0001\\n\\\"\\\\é\"");
    }

    #[test]
    fn numbers_are_read_to_the_nearest_double() {
        for number in [
            "123456789012345680000",
            "5e-324",
            "1.7976931348623157e+308",
            "0.30000000000000004",
        ] {
            assert_eq!(again(number), number);
        }
    }

    #[test]
    fn keys_that_are_indices_come_first_in_order() {
        assert_eq!(
            again(r#"{"x":1,"10":2,"2":3,"01":4}"#),
            r#"{"2":3,"10":2,"x":1,"01":4}"#
        );
    }

    #[test]
    fn values_without_a_json_form_are_omitted_or_null() {
        let object = Value::record([
            ("gone", Value::Undefined),
            ("nan", Value::Number(f64::NAN)),
            ("list", Value::array(vec![Value::Undefined])),
            ("when", Value::Date(0.0)),
            ("bytes", Value::buffer(vec![1, 2])),
        ]);
        let expected = r#"{"nan":null,"list":[null],"when":"1970-01-01T00:00:00.000Z","bytes":{"type":"Buffer","data":[1,2]}}"#;
        assert_eq!(stringify(&object).unwrap(), expected);
        assert_eq!(to_tree(&object).to_string(), expected);
        assert_eq!(stringify(&Value::Undefined), None);
    }

    #[test]
    fn pretty_json_is_indented_and_empty_containers_stay_short() {
        let value = parse(r#"{"a":[1],"b":{},"c":[]}"#).unwrap();
        let expected = "{\n    \"a\": [\n        1\n    ],\n    \"b\": {},\n    \"c\": []\n}";
        assert_eq!(stringify_pretty(&value, 4).unwrap(), expected);
    }

    #[test]
    fn syntax_errors_have_the_wording_of_v8() {
        let long =
            r#"{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":x,"bbbbbbbbbbbbbbbbbbbbbbb":1}"#;
        let table = [
            ("abc", "Unexpected token 'a', \"abc\" is not valid JSON"),
            ("", "Unexpected end of JSON input"),
            ("[1,", "Unexpected end of JSON input"),
            ("{a", "Expected property name or '}' in JSON at position 1"),
            (
                r#"{"a":1}x"#,
                "Unexpected non-whitespace character after JSON at position 7",
            ),
            (
                "[1 2]",
                "Expected ',' or ']' after array element in JSON at position 3",
            ),
            (
                r#"{"a" 1}"#,
                "Expected ':' after property name in JSON at position 5",
            ),
            ("\"a", "Unterminated string in JSON at position 2"),
            (
                long,
                "Unexpected token 'x', ...\"aaaaaaaa\":x,\"bbbbbbb\"... is not valid JSON",
            ),
        ];
        for (text, message) in table {
            assert_eq!(parse(text).unwrap_err().message, message, "{text}");
        }
    }

    #[test]
    fn repeated_properties_are_read_in_linear_time() {
        let text = |n: usize| {
            let others = pieces(n, |k| format!("\"k{k}\":0,"));
            let again = "\"z\":[],\"z\":[0],\"z\":0,\"z\":[[0]],".repeat(n);
            format!("{{{others}{again}\"end\":0}}")
        };
        assert_scales(1000, text, |text| drop(parse(&text).unwrap()));
    }
}
