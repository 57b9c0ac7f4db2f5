//! Whether two JSON texts mean the same: key order and the spelling of numbers do not matter.

use crate::json::Members;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Returns whether two objects hold equal values under those keys that count. Only values whose
/// texts differ are parsed.
pub(super) fn texts(a: &str, b: &str, counts: impl Fn(&str) -> bool) -> bool {
    let (a, b) = (sorted(a, &counts), sorted(b, &counts));
    a.len() == b.len()
        && a.iter()
            .zip(&b)
            .all(|((key, value), (other, its))| key == other && raw(value.get(), its.get()))
}

fn sorted(object: &str, counts: impl Fn(&str) -> bool) -> Vec<(Cow<'_, str>, &RawValue)> {
    let mut members =
        serde_json::from_str(object).map_or_else(|_| Vec::new(), |Members(members)| members);
    members.retain(|(key, _)| counts(key));
    members.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    members
}

fn raw(a: &str, b: &str) -> bool {
    a == b
        || serde_json::from_str(a)
            .ok()
            .zip(serde_json::from_str(b).ok())
            .is_some_and(|(a, b)| values(&a, &b))
}

/// Returns whether two values are equal. Numbers are compared as JavaScript has them: `1` and `1.0`
/// are one number.
pub(super) fn values(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| values(a, b))
        }
        (Value::Object(a), Value::Object(b)) => objects(a, b),
        (a, b) => a == b,
    }
}

fn objects(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    a.len() == b.len()
        && a.iter()
            .all(|(key, value)| b.get(key).is_some_and(|other| values(value, other)))
}
