//! A node's element as its constructor reads it: ids of a subflow's inside remapped, environment
//! variables substituted.

use super::env::reference;
use super::graph::{Role, Running};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::borrow::Cow;
use value::{Value, json};

/// The element's JSON text for the node that runs.
pub fn of<'a>(running: &'a Running, lookup: &dyn Fn(&str) -> Value) -> Cow<'a, str> {
    let text = remapped(running);
    if !may_name_variables(&text) {
        return text;
    }
    let Ok(Json::Object(mut element)) = serde_json::from_str(&text) else {
        return text;
    };
    let mut name = element.get("name").map(json::from_tree);
    for (key, value) in &mut element {
        if !matches!(key.as_str(), "id" | "type" | "z" | "wires" | "env") {
            substitute(value, &|variable| match variable {
                "NR_NODE_NAME" => name.clone().unwrap_or_default(),
                _ => lookup(variable),
            });
        }
        // Properties before the name see it as it is written (observed on 4.1).
        if key == "name" {
            name = Some(json::from_tree(value));
        }
    }
    written(&element, text)
}

/// Returns whether any property in a JSON text may be a variable. An escaped letter can spell
/// anything.
pub fn may_name_variables(text: &str) -> bool {
    text.contains("\"${") || text.contains("\"$(") || text.contains("\\u00")
}

/// The element's JSON text with running ids in place of template ids
/// (docs/reference/node-red-engine.md §2.6).
pub fn remapped(running: &Running) -> Cow<'_, str> {
    let text: &str = &running.node.text;
    let Role::Inner(ids) = &running.role else {
        return Cow::Borrowed(text);
    };
    let Ok(Json::Object(mut element)) = serde_json::from_str(text) else {
        return Cow::Borrowed(text);
    };
    for (key, value) in &mut element {
        if key != "id" {
            remap(value, ids);
        }
    }
    written(&element, Cow::Borrowed(text))
}

fn written<'a>(element: &Map<String, Json>, original: Cow<'a, str>) -> Cow<'a, str> {
    serde_json::to_string(element).map_or(original, Cow::Owned)
}

/// A property, or an element of an array property, that is a template id becomes the running id.
fn remap(value: &mut Json, ids: &FxHashMap<SmolStr, SmolStr>) {
    match value {
        Json::String(text) => {
            if let Some(id) = ids.get(text.as_str()) {
                *text = id.to_string();
            }
        }
        Json::Array(elements) => elements.iter_mut().for_each(|e| remap(e, ids)),
        _ => {}
    }
}

/// A node's credentials with its environment variables in them (docs/reference/node-red-engine.md
/// §2.5).
pub fn credentials(given: &Map<String, Json>, lookup: &dyn Fn(&str) -> Value) -> Map<String, Json> {
    let mut credentials = given.clone();
    for value in credentials.values_mut() {
        substitute(value, lookup);
    }
    credentials
}

/// Every text that is wholly `${X}` or `$(X)` becomes the variable, if there is one
/// (docs/reference/node-red-engine.md §2.5).
fn substitute(value: &mut Json, lookup: &dyn Fn(&str) -> Value) {
    match value {
        Json::String(text) => match reference(text).map(lookup) {
            None | Some(Value::Undefined) => {}
            Some(found) => *value = json::to_tree(&found),
        },
        Json::Array(elements) => elements.iter_mut().for_each(|e| substitute(e, lookup)),
        Json::Object(properties) => properties.values_mut().for_each(|e| substitute(e, lookup)),
        _ => {}
    }
}
