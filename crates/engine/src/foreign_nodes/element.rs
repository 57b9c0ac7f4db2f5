//! An element of the flow set: whether the node host runs it, and its text there.

use flows::Node;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value as Json, json};
use smol_str::SmolStr;
use std::sync::Arc;

/// The type of the stand-ins; `host/runtime.js` registers it.
pub(super) const STAND_IN: &str = "flowgate-native";

/// The element as it is.
pub(super) fn whole(node: &Arc<Node>) -> String {
    node.text.to_string()
}

/// A group as the runtime uses it: where it is drawn, how, and around which nodes is the editor's
/// alone.
pub(super) fn without_layout(group: &Arc<Node>) -> String {
    let mut element: Map<String, Json> = serde_json::from_str(&group.text).unwrap_or_default();
    element.retain(|key, _| !matches!(key.as_str(), "x" | "y" | "w" | "h" | "style" | "nodes"));
    Json::Object(element).to_string()
}

/// The element with its epoch as one more property, by which the host's runtime sees a change.
pub(super) fn with_epoch(node: &Arc<Node>, epochs: &FxHashMap<SmolStr, u32>) -> String {
    let epoch = epochs.get(&node.id).copied().unwrap_or(0);
    with_property(&node.text, "_epoch", &epoch.to_string())
}

/// The element with one more property.
pub(super) fn with_property(element: &str, key: &str, json: &str) -> String {
    let open = element.strip_suffix('}').unwrap_or(element);
    format!("{open},\"{key}\":{json}}}")
}

/// A disabled node in the place of a native one.
pub(super) fn stand_in(node: &Arc<Node>) -> String {
    let mut element = json!({
        "id": node.id.as_str(), "type": STAND_IN, "z": node.z.as_str(), "d": true,
        "wires": node.wires.iter().map(|w| w.iter().map(SmolStr::as_str).collect()).collect::<Vec<Vec<_>>>(),
    });
    if node.placed {
        (element["x"], element["y"]) = (0.into(), 0.into());
    }
    if !node.group.is_empty() {
        element["g"] = node.group.as_str().into();
    }
    element.to_string()
}
