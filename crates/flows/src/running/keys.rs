//! The ids that a JSON value can be when a runtime uses it as one: JavaScript makes a text of any
//! key.

use serde_json::Value as Json;
use value::{Value, coerce, json};

/// Calls `see` with the text of each value in a JSON value, however deep, and with that of each
/// list and buffer.
pub fn each_key(value: &Json, see: &mut dyn FnMut(&str)) {
    match value {
        Json::String(text) => see(text),
        Json::Bool(truth) => see(if *truth { "true" } else { "false" }),
        Json::Number(_) => see(&coerce::to_text(&json::from_tree(value))),
        Json::Array(values) => {
            for value in values {
                each_key(value, see);
            }
            if values.len() > 1 {
                see(&coerce::to_text(&json::from_tree(value)));
            }
        }
        Json::Object(object) => {
            if let Some(bytes) = buffer(object) {
                see(&String::from_utf8_lossy(&bytes));
            }
            for value in object.values() {
                each_key(value, see);
            }
        }
        Json::Null => see("null"),
    }
}

/// Returns whether a text is what JavaScript makes of some value that is no text.
pub fn is_value_text(text: &str) -> bool {
    let is_number = || {
        let number = text.parse().ok();
        number.is_some_and(|number| coerce::to_text(&Value::Number(number)) == text)
    };
    matches!(text, "true" | "false" | "null") || text.contains(',') || is_number()
}

/// The bytes of a buffer, as JSON has it.
fn buffer(object: &serde_json::Map<String, Json>) -> Option<Vec<u8>> {
    if object.get("type").is_none_or(|kind| kind != "Buffer") {
        return None;
    }
    let bytes = object.get("data")?.as_array()?.iter();
    bytes
        .map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_the_keys_that_javascript_makes_of_them() {
        let keys = |value: &Json| {
            let mut keys = Vec::new();
            each_key(value, &mut |key| keys.push(key.to_owned()));
            keys.join(" ")
        };
        for (value, expected) in [
            (json!("wl"), "wl"),
            (json!(12), "12"),
            (json!(1e21), "1e+21"),
            (json!(0.5), "0.5"),
            (json!([["wl"]]), "wl"),
            (json!(["a", "b"]), "a b a,b"),
            (
                json!({ "type": "Buffer", "data": [119, 108] }),
                "wl Buffer 119 108 119,108",
            ),
            (json!({ "deep": [true, null] }), "true null true,"),
        ] {
            assert_eq!(keys(&value), expected, "{value}");
        }
    }
}
