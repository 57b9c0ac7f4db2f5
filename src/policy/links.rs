//! Links and wires from an element that a caller sees to others that the caller does not see: left
//! out when the element is shown, and put back when it is submitted.
//!
//! Only the properties in which Node-RED keeps ids of nodes of any flow. A text elsewhere belongs
//! to the element.

use flows::{FlowSet, Node};
use serde_json::Value as Json;
use std::sync::Arc;

/// Lists of ids: wires by output, the other ends of links, the nodes that catch, status and
/// complete nodes watch.
const LISTS: [&str; 3] = ["wires", "links", "scope"];

/// The element without the ids that are hidden; `None`: it has none of them.
pub(super) fn without(node: &Node, hides: impl Fn(&str) -> bool) -> Option<Arc<Node>> {
    let mut found = false;
    each(node, |id| found |= hides(id));
    if !found {
        return None;
    }
    let mut object = node.object();
    for list in LISTS {
        if let Some(list) = object.get_mut(list) {
            remove(list, &hides);
        }
    }
    made(Json::Object(object))
}

/// The submitted element with the hidden ids that the one before has.
pub(super) fn restored(
    submitted: &Arc<Node>,
    before: &Node,
    hides: impl Fn(&str) -> bool,
) -> Arc<Node> {
    let (mut now, was) = (submitted.object(), before.object());
    for list in LISTS {
        if let Some((now, was)) = now.get_mut(list).zip(was.get(list)) {
            put_back(now, was, &hides);
        }
    }
    made(Json::Object(now)).unwrap_or_else(|| Arc::clone(submitted))
}

/// Every id in these lists.
pub(super) fn each(node: &Node, mut see: impl FnMut(&str)) {
    for id in node.wires.iter().flatten() {
        see(id);
    }
    // An escaped letter can spell the keys, too.
    if !["\"links\"", "\"scope\"", "\\u"]
        .iter()
        .any(|key| node.text.contains(key))
    {
        return;
    }
    let object = node.object();
    for list in LISTS {
        walk(object.get(list), &mut see);
    }
}

fn walk(list: Option<&Json>, see: &mut impl FnMut(&str)) {
    match list {
        Some(Json::Array(items)) => {
            for item in items {
                walk(Some(item), see);
            }
        }
        Some(Json::String(id)) => see(id),
        _ => {}
    }
}

fn remove(list: &mut Json, hides: &impl Fn(&str) -> bool) {
    let Json::Array(items) = list else { return };
    items.retain(|item| !item.as_str().is_some_and(hides));
    for item in items {
        remove(item, hides);
    }
}

fn put_back(now: &mut Json, was: &Json, hides: &impl Fn(&str) -> bool) {
    let (Json::Array(now), Json::Array(was)) = (now, was) else {
        return;
    };
    for (now, was) in now.iter_mut().zip(was) {
        put_back(now, was, hides);
    }
    let hidden = was.iter().filter(|item| item.as_str().is_some_and(hides));
    now.extend(hidden.cloned());
}

/// The element of this object, which is one.
fn made(object: Json) -> Option<Arc<Node>> {
    let flows = FlowSet::parse(Json::Array(vec![object]).to_string().as_bytes()).ok()?;
    flows.nodes().first().cloned()
}
