//! The conversions and comparisons of JavaScript (ECMA-262 §7.1, §7.2) on our values.
//!
//! Pure; the only thing taken from outside is the time zone, for the text of a `Date`.

pub use super::number::{number_text, parse_float, text_to_number, write_number};

use super::{date, json};
use crate::Value;
use smol_str::{SmolStr, ToSmolStr};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

/// `ToBoolean` (§7.1.2).
pub fn truthy(value: &Value) -> bool {
    match value {
        Value::Undefined | Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => *n != 0.0 && !n.is_nan(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}

/// `ToNumber` (§7.1.4).
pub fn to_number(value: &Value) -> f64 {
    match value {
        Value::Undefined => f64::NAN,
        Value::Null => 0.0,
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::Number(n) | Value::Date(n) => *n,
        Value::String(text) => text_to_number(text),
        other => text_to_number(&to_text(other)),
    }
}

/// The low eight bits as a number, as a `Uint8Array` stores it (ECMA-262 §7.1.11).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "reduced to 0..256 before"
)]
pub fn to_uint8(value: &Value) -> u8 {
    let n = to_number(value);
    if n.is_finite() {
        n.trunc().rem_euclid(256.0) as u8
    } else {
        0
    }
}

/// `ToString` (§7.1.17), as `String(value)` gives it.
pub fn to_text(value: &Value) -> SmolStr {
    match value {
        Value::Undefined => SmolStr::new_static("undefined"),
        Value::Null => SmolStr::new_static("null"),
        Value::Bool(b) => b.to_smolstr(),
        Value::Number(n) => number_text(*n),
        Value::String(text) => text.clone(),
        Value::Array(elements) => join(elements),
        Value::Object(_) | Value::Handle(_) => SmolStr::new_static("[object Object]"),
        Value::Buffer(bytes) => String::from_utf8_lossy(bytes).into(),
        Value::Date(ms) => date::long_text(*ms).into(),
        Value::Error(failure) => failure.to_smolstr(),
        Value::RegExp(regex) => format!("/{}/{}", regex.0, regex.1).into(),
    }
}

/// `Array.prototype.join(",")`: undefined and null are empty.
fn join(elements: &[Value]) -> SmolStr {
    let text = |v: &Value| {
        if v.is_nullish() {
            SmolStr::default()
        } else {
            to_text(v)
        }
    };
    elements
        .iter()
        .map(text)
        .collect::<Vec<_>>()
        .join(",")
        .into()
}

/// The text that nodes write: objects and arrays as by JSON.stringify, all else by `to_text`.
pub fn to_output_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Object(_) | Value::Array(_) => {
            Cow::Owned(json::stringify(value).unwrap_or_default())
        }
        other => Cow::Owned(to_text(other).into()),
    }
}

/// The result of `typeof`.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Undefined => "undefined",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        _ => "object",
    }
}

/// `a === b` (§7.2.14): objects are equal to themselves only.
#[expect(clippy::float_cmp, reason = "as JavaScript compares them")]
pub fn strict_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Undefined, Value::Undefined) | (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => a == b,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Array(a), Value::Array(b)) => Arc::ptr_eq(a, b),
        (Value::Object(a), Value::Object(b)) => Arc::ptr_eq(a, b),
        (Value::Error(a), Value::Error(b)) => Arc::ptr_eq(a, b),
        (Value::RegExp(a), Value::RegExp(b)) => Arc::ptr_eq(a, b),
        (Value::Handle(a), Value::Handle(b)) => Arc::ptr_eq(&a.0, &b.0),
        (Value::Buffer(a), Value::Buffer(b)) => a.as_ptr() == b.as_ptr() && a.len() == b.len(),
        _ => false,
    }
}

/// `a == b` (§7.2.13).
#[expect(clippy::float_cmp, reason = "as JavaScript compares them")]
pub fn loose_equal(a: &Value, b: &Value) -> bool {
    if a.is_nullish() || b.is_nullish() {
        return a.is_nullish() && b.is_nullish();
    }
    if std::mem::discriminant(a) == std::mem::discriminant(b) {
        return strict_equal(a, b);
    }
    match (primitive(a), primitive(b)) {
        // Two objects of different kinds are never the same one.
        (None, None) => false,
        (Some(Value::String(a)), Some(Value::String(b))) => a == b,
        (a_primitive, b_primitive) => {
            let (a, b) = (
                a_primitive.unwrap_or_else(|| object_primitive(a)),
                b_primitive.unwrap_or_else(|| object_primitive(b)),
            );
            match (&a, &b) {
                (Value::String(a), Value::String(b)) => a == b,
                _ => to_number(&a) == to_number(&b),
            }
        }
    }
}

fn primitive(value: &Value) -> Option<Value> {
    matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_)).then(|| value.clone())
}

fn object_primitive(value: &Value) -> Value {
    Value::String(to_text(value))
}

/// The order of `a` and `b` under `<` and `>` (§7.2.12); `None` where both are false, as with NaN.
pub fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    let operand = |v: &Value| match v {
        Value::Undefined | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            v.clone()
        }
        Value::Date(ms) => Value::Number(*ms),
        other => object_primitive(other),
    };
    if let (Value::Number(a), Value::Number(b)) = (a, b) {
        return a.partial_cmp(b);
    }
    match (operand(a), operand(b)) {
        (Value::String(a), Value::String(b)) => Some(a.encode_utf16().cmp(b.encode_utf16())),
        (a, b) => to_number(&a).partial_cmp(&to_number(&b)),
    }
}

/// Returns whether two values have the same content, however deep.
#[expect(clippy::float_cmp, reason = "as JavaScript compares them")]
pub fn deep_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| deep_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same =
                |(key, value): (&SmolStr, &Value)| b.get(key).is_some_and(|v| deep_equal(value, v));
            a.len() == b.len() && a.iter().all(same)
        }
        (Value::Buffer(a), Value::Buffer(b)) => a == b,
        (Value::Date(a), Value::Date(b)) => a == b,
        (Value::Error(a), Value::Error(b)) => a == b,
        (Value::RegExp(a), Value::RegExp(b)) => a == b,
        _ => strict_equal(a, b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::from(text)
    }

    #[test]
    fn values_print_as_javascript_prints_them() {
        assert_eq!(to_text(&Value::Number(1e21)), "1e+21");
        assert_eq!(to_text(&Value::Number(-0.0)), "0");
        assert_eq!(to_text(&Value::Number(0.1 + 0.2)), "0.30000000000000004");
        assert_eq!(
            to_text(&Value::array(vec![1.0.into(), Value::Null, text("b")])),
            "1,,b"
        );
        assert_eq!(to_text(&Value::record([])), "[object Object]");
        assert_eq!(
            to_text(&Value::RegExp(Arc::new(("a+".into(), "i".into())))),
            "/a+/i"
        );
    }

    #[test]
    fn loose_equality_converts() {
        assert!(loose_equal(&text("1"), &Value::Number(1.0)));
        assert!(loose_equal(&Value::Bool(true), &text("1")));
        assert!(loose_equal(&Value::Undefined, &Value::Null));
        assert!(loose_equal(&Value::array(vec![text("a")]), &text("a")));
        assert!(loose_equal(&Value::array(vec![]), &Value::Bool(false)));
        assert!(!loose_equal(&Value::Null, &Value::Number(0.0)));
        assert!(!loose_equal(&text("01"), &text("1")));
        assert!(!loose_equal(&Value::record([]), &Value::record([])));
    }

    #[test]
    fn order_is_numeric_unless_both_are_texts() {
        assert_eq!(compare(&text("10"), &text("9")), Some(Ordering::Less));
        assert_eq!(
            compare(&text("10"), &Value::Number(9.0)),
            Some(Ordering::Greater)
        );
        assert_eq!(compare(&text("x"), &Value::Number(9.0)), None);
        assert_eq!(compare(&Value::Undefined, &Value::Number(9.0)), None);
        assert_eq!(
            compare(&Value::Null, &Value::Number(0.0)),
            Some(Ordering::Equal)
        );
    }

    #[test]
    fn deep_equality_ignores_the_order_of_keys() {
        let a = Value::record([("a", 1.0.into()), ("b", Value::array(vec![text("x")]))]);
        let b = Value::record([("b", Value::array(vec![text("x")])), ("a", 1.0.into())]);
        assert!(deep_equal(&a, &b));
        assert!(!deep_equal(&a, &Value::record([("a", 1.0.into())])));
    }
}
