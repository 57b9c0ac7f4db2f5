//! A node's element as its constructor reads it: ids of a subflow's inside remapped, environment variables substituted.

use super::graph::{Role, Running};
use crate::node_info::NodeInfo;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::borrow::Cow;
use value::json;

/// The element's JSON text for the node that runs.
pub(super) fn of<'a>(running: &'a Running, info: &NodeInfo) -> Cow<'a, str> {
    let text = remapped(running);
    if !text.contains("\"${") && !text.contains("\"$(") {
        return text;
    }
    let Ok(Json::Object(mut element)) = serde_json::from_str(&text) else {
        return text;
    };
    for (key, value) in &mut element {
        if !matches!(key.as_str(), "id" | "type" | "z" | "wires" | "env") {
            substitute(value, info);
        }
    }
    written(&element, text)
}

/// The element's JSON text with running ids in place of template ids (docs/reference/node-red-engine.md §2.6).
pub(super) fn remapped(running: &Running) -> Cow<'_, str> {
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

/// Every text that is wholly `${X}` or `$(X)` becomes the variable (docs/reference/node-red-engine.md §2.5).
fn substitute(value: &mut Json, info: &NodeInfo) {
    match value {
        Json::String(text) => {
            if let Some(found) = info.env.substitute(text) {
                *value = json::to_tree(&found);
            }
        }
        Json::Array(elements) => elements.iter_mut().for_each(|e| substitute(e, info)),
        Json::Object(properties) => properties.values_mut().for_each(|e| substitute(e, info)),
        _ => {}
    }
}
