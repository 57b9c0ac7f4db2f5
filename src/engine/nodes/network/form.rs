//! Forms and query strings with brackets: `a=1&b[]=2&c[d]=3` becomes `{a:"1", b:["2"], c:{d:"3"}}`,
//! as the `qs` library of Express reads them.

use crate::engine::value::{Object, Value};
use smol_str::SmolStr;
use std::sync::Arc;

/// Pairs that are read at most (Express' `parameterLimit`).
const MOST_PAIRS: usize = 1000;

/// Brackets of one key that are read at most (`depth` of `qs`); what follows is one literal key.
const DEEPEST: usize = 5;

/// Parses `application/x-www-form-urlencoded` text.
pub(super) fn parse(text: &[u8]) -> Value {
    let mut root = Value::object(Object::default());
    let pairs = form_urlencoded::parse(text).take(MOST_PAIRS);
    for (key, value) in pairs.filter(|(key, _)| !key.is_empty()) {
        let (first, rest) = steps(&key);
        insert(&mut root, first, &rest, Value::from(&*value));
    }
    root
}

/// `a[b][]` as `a`, `b` and an empty step, which appends.
fn steps(key: &str) -> (&str, Vec<&str>) {
    let Some(open) = key.find('[').filter(|at| *at > 0) else {
        return (key, Vec::new());
    };
    let (first, mut rest) = key.split_at(open);
    let mut steps = Vec::new();
    while let Some((step, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
        if steps.len() == DEEPEST {
            steps.push(rest);
            break;
        }
        steps.push(step);
        rest = after;
    }
    (first, steps)
}

fn insert(target: &mut Value, step: &str, rest: &[&str], value: Value) {
    // Appending, or an index, to what is an array; anything else makes it an object.
    if let Value::Array(elements) = target {
        if step.is_empty() || step.bytes().all(|b| b.is_ascii_digit()) {
            let elements = Arc::make_mut(elements);
            let index = step.parse().unwrap_or(usize::MAX).min(elements.len());
            if rest.is_empty() {
                elements.push(value);
                return;
            }
            if index == elements.len() {
                elements.push(Value::Undefined);
            }
            if let Some(element) = elements.get_mut(index) {
                place(element, rest, value);
            }
            return;
        }
        let numbered = elements
            .iter()
            .enumerate()
            .map(|(i, v)| (SmolStr::from(i.to_string()), v.clone()));
        *target = Value::object(numbered.collect());
    }
    if let Value::Object(object) = target {
        place(
            Arc::make_mut(object).get_or_insert_with(step.into(), Value::default),
            rest,
            value,
        );
    }
}

/// Puts a value where the rest of the key leads; a second value for the same key makes an array.
fn place(slot: &mut Value, rest: &[&str], value: Value) {
    let Some((step, rest)) = rest.split_first() else {
        match slot {
            Value::Undefined => *slot = value,
            Value::Array(elements) => Arc::make_mut(elements).push(value),
            _ => *slot = Value::array(vec![std::mem::take(slot), value]),
        }
        return;
    };
    let indexed = step.is_empty() || step.bytes().all(|b| b.is_ascii_digit());
    match slot {
        Value::Array(_) | Value::Object(_) => {}
        Value::Undefined if indexed => *slot = Value::array(Vec::new()),
        Value::Undefined => *slot = Value::object(Object::default()),
        _ => *slot = Value::array(vec![std::mem::take(slot)]),
    }
    insert(slot, step, rest, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::expression::json;

    fn parsed(text: &str) -> String {
        json::stringify(&parse(text.as_bytes())).unwrap_or_default()
    }

    #[test]
    fn brackets_make_arrays_and_objects() {
        let table = [
            ("a=1&b[]=2", r#"{"a":"1","b":["2"]}"#),
            ("a=1&a=2&a=3", r#"{"a":["1","2","3"]}"#),
            ("a[b][c]=1&a[b][d]=2", r#"{"a":{"b":{"c":"1","d":"2"}}}"#),
            ("a[0]=x&a[1]=y", r#"{"a":["x","y"]}"#),
            ("a[0][n]=x&a[0][m]=y", r#"{"a":[{"n":"x","m":"y"}]}"#),
            ("a[]=1&a[b]=2", r#"{"a":{"0":"1","b":"2"}}"#),
            ("a+b=c%20d&e", r#"{"a b":"c d","e":""}"#),
            ("[x]=1", r#"{"[x]":"1"}"#),
            ("", "{}"),
        ];
        for (text, expected) in table {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn depth_and_number_of_pairs_are_limited() {
        assert_eq!(
            parsed("a[b][c][d][e][f][g][h]=1"),
            r#"{"a":{"b":{"c":{"d":{"e":{"f":{"[g][h]":"1"}}}}}}}"#
        );
        let many: Vec<String> = (0..2000).map(|i| format!("k{i}=v")).collect();
        assert_eq!(
            parse(many.join("&").as_bytes())
                .as_object()
                .map(Object::len),
            Some(1000)
        );
        assert_eq!(parsed("a[4000000000]=x"), r#"{"a":["x"]}"#);
    }
}
