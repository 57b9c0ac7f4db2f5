//! Encodes values for the editor's debug sidebar: a text and the name of the value's type.
//!
//! Long texts, arrays and buffers are cut; values that JSON cannot represent are wrapped with
//! `__enc__` (docs/reference/node-red-engine.md §4.3; observed on `@node-red/util` 4.1.15).

use serde_json::{Map, Value as Json, json as tree};
use std::fmt::Write;
use value::{Failure, Value, coerce, date, json};

/// The fields `msg` and `format` of a debug message; `longest` counts characters, elements and
/// bytes.
pub(crate) fn encode(value: &Value, longest: usize) -> (Json, String) {
    match value {
        Value::Undefined => ("(undefined)".into(), "undefined".to_owned()),
        Value::Null => ("(undefined)".into(), "null".to_owned()),
        Value::Bool(b) => (b.to_string().into(), "boolean".to_owned()),
        Value::Number(n) => (coerce::number_text(*n).as_str().into(), "number".to_owned()),
        Value::String(text) => (
            cut(text, longest).into(),
            format!("string[{}]", text.encode_utf16().count()),
        ),
        Value::Buffer(bytes) => {
            // Two digits a byte share the limit.
            let digits = bytes
                .iter()
                .take(longest / 2)
                .fold(String::new(), |mut text, byte| {
                    let _ = write!(text, "{byte:02x}");
                    text
                });
            (digits.into(), format!("buffer[{}]", bytes.len()))
        }
        Value::Date(_) => (coerce::to_text(value).as_str().into(), "Date".to_owned()),
        Value::RegExp(_) => (coerce::to_text(value).as_str().into(), "regexp".to_owned()),
        Value::Error(failure) => (
            error(failure, usize::MAX).to_string().into(),
            "error".to_owned(),
        ),
        Value::Array(elements) => (
            nested(value, longest).to_string().into(),
            format!("array[{}]", elements.len()),
        ),
        Value::Object(_) | Value::Handle(_) => (
            nested(value, longest).to_string().into(),
            "Object".to_owned(),
        ),
    }
}

fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A value within the encoded text.
fn nested(value: &Value, longest: usize) -> Json {
    match value {
        Value::Undefined => tree!({"__enc__": true, "type": "undefined"}),
        Value::Number(n) if !n.is_finite() => {
            tree!({"__enc__": true, "type": "number", "data": coerce::number_text(*n).as_str()})
        }
        Value::String(text) => cut(text, longest).into(),
        Value::Date(ms) => date::iso(*ms).map_or(Json::Null, |text| cut(&text, longest).into()),
        Value::RegExp(_) => {
            tree!({"__enc__": true, "type": "regexp", "data": coerce::to_text(value).as_str()})
        }
        Value::Error(failure) => error(failure, longest),
        Value::Array(elements) => {
            let shown: Vec<Json> = elements
                .iter()
                .take(longest)
                .map(|e| nested(e, longest))
                .collect();
            if elements.len() <= longest {
                return Json::Array(shown);
            }
            tree!({"__enc__": true, "type": "array", "data": shown, "length": elements.len()})
        }
        Value::Object(object) => {
            let properties =
                json::entries(object).map(|(key, value)| (key.to_string(), nested(value, longest)));
            Json::Object(properties.collect())
        }
        Value::Buffer(bytes) => {
            let shown: Vec<u8> = bytes.iter().take(longest).copied().collect();
            tree!({"type": "Buffer", "data": shown, "__enc__": true, "length": bytes.len()})
        }
        Value::Handle(_) => Json::Object(Map::new()),
        plain => json::to_tree(plain),
    }
}

fn error(failure: &Failure, longest: usize) -> Json {
    let mut data =
        tree!({"name": failure.name.as_str(), "message": cut(&failure.message, longest)});
    if !failure.code.is_empty() {
        data["code"] = failure.code.as_str().into();
    }
    if let Some(cause) = &failure.cause {
        data["cause"] = coerce::to_text(cause).as_str().into();
    }
    data["stack"] = cut(&failure.stack(), longest).into();
    tree!({"__enc__": true, "type": "error", "data": data})
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn encoded(value: &Value) -> (String, String) {
        let (text, format) = encode(value, 10);
        (text.as_str().unwrap().to_owned(), format)
    }

    #[test]
    fn plain_values_are_named_and_cut() {
        let table = [
            (Value::from("hello"), "hello", "string[5]"),
            (
                Value::from("hello world long"),
                "hello worl...",
                "string[16]",
            ),
            (Value::Number(f64::NAN), "NaN", "number"),
            (Value::Bool(true), "true", "boolean"),
            (Value::Null, "(undefined)", "null"),
            (Value::Undefined, "(undefined)", "undefined"),
            (Value::buffer(b"abc".to_vec()), "616263", "buffer[3]"),
            (Value::buffer(vec![0; 12]), "0000000000", "buffer[12]"),
            (
                Value::RegExp(Arc::new(("a".into(), "i".into()))),
                "/a/i",
                "regexp",
            ),
        ];
        for (value, text, format) in table {
            assert_eq!(encoded(&value), (text.to_owned(), format.to_owned()));
        }
    }

    #[test]
    fn values_without_a_json_form_are_wrapped() {
        let numbers = Value::array((1..=12).map(|n| Value::Number(f64::from(n))).collect());
        let value = Value::record([
            ("u", Value::Undefined),
            ("n", Value::Number(f64::NAN)),
            ("b", Value::buffer(b"abc".to_vec())),
            ("e", Value::Error(Arc::new(Failure::error("x")))),
            ("l", numbers),
        ]);
        let expected = concat!(
            r#"{"u":{"__enc__":true,"type":"undefined"},"n":{"__enc__":true,"type":"number","data":"NaN"},"#,
            r#""b":{"type":"Buffer","data":[97,98,99],"__enc__":true,"length":3},"#,
            r#""e":{"__enc__":true,"type":"error","data":{"name":"Error","message":"x","stack":"Error: x"}},"#,
            r#""l":{"__enc__":true,"type":"array","data":[1,2,3,4,5,6,7,8,9,10],"length":12}}"#,
        );
        assert_eq!(encoded(&value), (expected.to_owned(), "Object".to_owned()));
    }
}
