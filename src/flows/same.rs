//! Whether two JSON values mean the same: key order and the spelling of numbers do not matter.

use serde_json::{Map, Value};

/// Whether two objects hold equal values under those keys that count.
pub(super) fn objects(
    a: &Map<String, Value>,
    b: &Map<String, Value>,
    counts: impl Fn(&str) -> bool,
) -> bool {
    let size = |map: &Map<String, Value>| map.keys().filter(|key| counts(key)).count();
    size(a) == size(b)
        && a.iter()
            .filter(|(key, _)| counts(key))
            .all(|(key, value)| b.get(key).is_some_and(|other| values(value, other)))
}

/// Whether two values are equal. Numbers are compared as JavaScript has them: `1` and `1.0` are one number.
pub(super) fn values(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| values(a, b))
        }
        (Value::Object(a), Value::Object(b)) => objects(a, b, |_| true),
        (a, b) => a == b,
    }
}
