//! Secrets in clear: in properties, in environment variables, and in the code of function nodes.
//! What is in the credentials is not in the flow set. A guess by names: a secret under another name
//! is not found.

use super::{Finding, Lint};
use crate::{FlowSet, Node};
use serde_json::{Map, Value};

/// The ends of the names of secrets, in lower case without `_` and `-`.
const NAMES: [&str; 8] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "privatekey",
    "accesskey",
];

/// The code of a function node.
const CODE: [&str; 3] = ["func", "initialize", "finalize"];

/// Shorter texts in code are no secrets. Our choice: placeholders are short.
const SHORTEST: usize = 4;

pub(super) fn in_clear(flows: &FlowSet) -> Vec<Finding> {
    let found = |node: &Node| {
        let mut names = Vec::new();
        if may_have(&node.text) {
            let object = node.object();
            in_object(&object, &mut names);
            if node.kind == "function" {
                let code = CODE.iter().filter_map(|key| object.get(*key)?.as_str());
                names.extend(code.flat_map(in_code));
            }
        }
        let (kind, id) = (&node.kind, &node.id);
        (!names.is_empty()).then(|| Finding {
            lint: Lint::ClearSecret,
            nodes: vec![id.clone()],
            message: format!("{kind} {id} has secrets in clear: {}", names.join(", ")),
        })
    };
    flows
        .nodes()
        .iter()
        .filter_map(|node| found(node))
        .collect()
}

/// Returns whether the text of an element has one of the names at all. An escaped letter can spell
/// anything.
fn may_have(text: &str) -> bool {
    let plain: String = text
        .chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    plain.contains("\\u") || NAMES.iter().any(|name| plain.contains(name))
}

fn is_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| !matches!(c, '_' | '-')).collect();
    let plain = plain.to_ascii_lowercase();
    NAMES.iter().any(|end| plain.ends_with(end))
}

/// A text that is one, and no variable.
fn is_literal(value: &Value) -> bool {
    let text = value.as_str();
    text.is_some_and(|text| !text.is_empty() && !text.starts_with("${"))
}

/// Adds the names of the secrets in an object: under a key of its own, or as a pair of `name` and
/// `value`.
fn in_object(object: &Map<String, Value>, names: &mut Vec<String>) {
    let direct = object
        .iter()
        .filter(|(key, value)| is_secret(key) && is_literal(value));
    names.extend(direct.map(|(key, _)| key.clone()));
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    if let Some(name) = text("name").filter(|name| is_secret(name))
        && matches!(text("type"), Some("str"))
        && object.get("value").is_some_and(is_literal)
    {
        names.push(name.to_owned());
    }
    for value in object.values() {
        in_value(value, names);
    }
}

fn in_value(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(object) => in_object(object, names),
        Value::Array(list) => list.iter().for_each(|value| in_value(value, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The names of variables and properties in code that get a text as their value.
fn in_code(code: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut names = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(is_name) {
        let from = rest.get(at..).unwrap_or_default();
        let end = from.find(|c| !is_name(c)).unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        if is_secret(name) && gets_text(after) {
            names.push(name.to_owned());
        }
        rest = after;
    }
    names
}

/// Returns whether the code goes on with `=` or `:` and a text.
fn gets_text(after: &str) -> bool {
    let after = after.trim_start_matches(['"', '\'', ']']).trim_start();
    let Some(value) = after.strip_prefix(['=', ':']).map(str::trim_start) else {
        return false;
    };
    let Some(quote) = value
        .chars()
        .next()
        .filter(|c| matches!(c, '"' | '\'' | '`'))
    else {
        return false;
    };
    let inside = value.get(1..).unwrap_or_default();
    let text = inside.split(quote).next().unwrap_or_default();
    text.len() >= SHORTEST && !text.starts_with("${")
}
