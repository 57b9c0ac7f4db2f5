//! Refuses what Node-RED's runtime reads in another way than it is written, or what stops it:
//! rights and approval are decided on what is resolved here, so it must be what runs there.
//!
//! Observed on Node-RED 4.1: editors send none of it.

use crate::json::shown;
use crate::{Credentials, ElementKind, FlowSet, Malformed, Node};
use serde_json::{Map, Value as Json};
use std::sync::Arc;

/// What every JavaScript object has: the runtime finds them where it looks for an element of that
/// id (ECMA-262, §20.1.3 and annex B.2.2).
const OF_EVERY_OBJECT: [&str; 12] = [
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// The id whose credentials a node gets in place of those of its own.
const ALIAS: &str = "_alias";

/// Groups in one another, at most. Our choice: as deep as subflows.
const MAX_GROUPS: usize = crate::DEPTH;

/// Refuses an element that a runtime would misread.
pub(super) fn check(flows: &FlowSet) -> Result<(), Malformed> {
    for node in flows.nodes() {
        check_names(node)?;
        check_alias(node)?;
        check_env(node)?;
        if node.part() == ElementKind::Group {
            check_group(node, flows)?;
        }
    }
    Ok(())
}

/// Refuses what a user without all rights could make a runtime misread: of the elements that differ
/// from those before, each field that the runtime itself reads has the form in which editors write
/// it.
pub fn check_forms(
    flows: &FlowSet,
    before: &FlowSet,
    credentials: &Credentials,
) -> Result<(), Malformed> {
    let is_kept = |node: &&Arc<Node>| {
        let kept = before.get(&node.id);
        kept.is_some_and(|kept| Arc::ptr_eq(kept, node) || kept.same_content(node))
    };
    for node in flows.nodes().iter().filter(|node| !is_kept(node)) {
        check_form(node).map_err(|what| refused(node, &what))?;
    }
    for (id, sent) in &credentials.nodes {
        let nested = sent.values().filter_map(Json::as_object);
        let mut names = sent.keys().chain(nested.flat_map(Map::keys));
        if let Some(name) = names.find(|name| OF_EVERY_OBJECT.contains(&name.as_str())) {
            let id = shown(id);
            return Err(Malformed(format!(
                "the credentials of {id}: {name:?} is a name that every JavaScript object has"
            )));
        }
    }
    Ok(())
}

fn check_form(node: &Node) -> Result<(), String> {
    let object = node.object();
    let of_type: &[&str] = match node.kind.as_str() {
        "tab" | "subflow" | "group" => &["label", "info"],
        "http in" => &["url", "method"],
        _ => &[],
    };
    for field in ["name", "g"].iter().chain(of_type) {
        if object.get(*field).is_some_and(|value| !value.is_string()) {
            return Err(format!("{field:?} must be a string"));
        }
    }
    // The runtime takes a node with one for an instance of it, and looks for subflows in the other.
    for field in ["subflow", "subflows"] {
        if object.contains_key(field) {
            return Err(format!(
                "the property {field:?} is the runtime's own; leave it out"
            ));
        }
    }
    // JavaScript puts such keys before all others.
    let is_first = matches!(node.part(), ElementKind::Tab) || node.kind == "global-config";
    if is_first && is_index(&node.id) {
        return Err("\"id\" must not be a number".to_owned());
    }
    if let Some(Json::Array(links)) = object.get("links") {
        let mut links = links.iter().filter_map(Json::as_str);
        if links.any(|id| OF_EVERY_OBJECT.contains(&id)) {
            return Err("\"links\" has a name that every JavaScript object has".to_owned());
        }
    }
    if has_variables(node) {
        let entries = match object.get("env") {
            None => &[][..],
            Some(Json::Array(entries)) => entries,
            Some(_) => return Err("\"env\" must be an array".to_owned()),
        };
        entries.iter().try_for_each(check_entry)?;
    }
    if node.part() == ElementKind::Subflow {
        for field in ["in", "out"] {
            let ports = match object.get(field) {
                None => continue,
                Some(Json::Array(ports)) => ports,
                Some(_) => return Err(format!("{field:?} must be an array")),
            };
            ports.iter().try_for_each(check_port)?;
        }
        object.get("status").map_or(Ok(()), check_port)?;
    }
    Ok(())
}

/// A variable: its name is no key that JavaScript treats in its own way, its type and value are
/// plain.
fn check_entry(entry: &Json) -> Result<(), String> {
    let name = entry.get("name").and_then(Json::as_str).unwrap_or_default();
    if OF_EVERY_OBJECT.contains(&name) || is_index(name) {
        return Err(format!("a variable must not have the name {name:?}"));
    }
    if entry.get("type").is_some_and(|kind| !kind.is_string()) {
        return Err(format!(
            "the type of the variable {name:?} must be a string"
        ));
    }
    if entry
        .get("value")
        .is_some_and(|value| value.is_array() || value.is_object())
    {
        return Err(format!("the value of the variable {name:?} must be plain"));
    }
    Ok(())
}

/// An input or output of a subflow: an object whose wires have ids and numbers of outputs.
fn check_port(port: &Json) -> Result<(), String> {
    // JavaScript reads `0.0` as 0, too.
    let is_number = |port: &Json| {
        let number = port.as_f64();
        number.is_some_and(|number| number >= 0.0 && number.fract() == 0.0)
    };
    let is_wire = |wire: &Json| {
        wire.get("id").is_some_and(Json::is_string) && wire.get("port").is_none_or(is_number)
    };
    let is_port = match port.get("wires") {
        None => port.is_object(),
        Some(Json::Array(wires)) => wires.iter().all(is_wire),
        Some(_) => false,
    };
    if is_port {
        Ok(())
    } else {
        Err("inputs, outputs and status of a subflow must be objects with \"wires\", an array of objects with \"id\", a string, and \"port\", a number".to_owned())
    }
}

/// Returns whether JavaScript takes a key for an index (ECMA-262, §6.1.7): it comes before all
/// others.
fn is_index(key: &str) -> bool {
    key.parse::<u32>()
        .is_ok_and(|index| index.to_string() == key)
}

/// Returns whether an element has a list of variables.
fn has_variables(node: &Node) -> bool {
    let is_place = matches!(
        node.part(),
        ElementKind::Tab | ElementKind::Subflow | ElementKind::Group
    );
    is_place || node.kind == "global-config" || node.instance_of().is_some()
}

fn check_names(node: &Node) -> Result<(), Malformed> {
    let names = [
        ("id", node.id.as_str()),
        ("type", node.instance_of().unwrap_or(&node.kind)),
        ("z", &node.z),
        ("g", &node.group),
    ];
    let found = names
        .into_iter()
        .find(|(_, name)| OF_EVERY_OBJECT.contains(name));
    found.map_or(Ok(()), |(field, name)| {
        let what = format!(
            "{field:?} must not be {name:?}, which is a name that every JavaScript object has"
        );
        Err(refused(node, &what))
    })
}

fn check_alias(node: &Node) -> Result<(), Malformed> {
    // An escaped letter can spell the key, too.
    let may_have = node.text.contains(ALIAS) || node.text.contains("\\u");
    if may_have && node.object().contains_key(ALIAS) {
        let what = format!("the property {ALIAS:?} is the runtime's own; leave it out");
        return Err(refused(node, &what));
    }
    Ok(())
}

/// The runtime takes a list for anything with a length, and makes texts of names that are none.
fn check_env(node: &Node) -> Result<(), Malformed> {
    if !has_variables(node) {
        return Ok(());
    }
    let object = node.object();
    let is_entry = |entry: &Json| entry.get("name").is_some_and(Json::is_string);
    match object.get("env") {
        None | Some(Json::Null) => Ok(()),
        Some(Json::String(text)) if text.is_empty() => Ok(()),
        Some(Json::Array(entries)) if entries.iter().all(is_entry) => Ok(()),
        Some(_) => Err(refused(
            node,
            "\"env\" must be an array of objects whose \"name\" is a string",
        )),
    }
}

/// The runtime starts a group after the one around it, and waits for that without end.
fn check_group(group: &Node, flows: &FlowSet) -> Result<(), Malformed> {
    let object = group.object();
    if object
        .get("g")
        .is_some_and(|g| !g.is_string() && !g.is_null())
    {
        return Err(refused(group, "\"g\" must be a string"));
    }
    let mut inner = group;
    for _ in 0..MAX_GROUPS {
        if inner.group.is_empty() {
            return Ok(());
        }
        let is_around =
            |outer: &&Arc<Node>| outer.part() == ElementKind::Group && outer.z == inner.z;
        let Some(outer) = flows.get(&inner.group).filter(is_around) else {
            let what = format!(
                "its \"g\" must be a group on the same flow, and {} is none",
                shown(&inner.group)
            );
            return Err(refused(inner, &what));
        };
        inner = outer;
    }
    let what = format!("it is in itself, or in more than {MAX_GROUPS} groups");
    Err(refused(group, &what))
}

fn refused(node: &Node, what: &str) -> Malformed {
    Malformed(format!("the element {}: {what}", shown(&node.id)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn refusal(elements: &str) -> String {
        let tabs =
            r#"{"id":"t","type":"tab"},{"id":"u","type":"tab"},{"id":"o","type":"group","z":"u"},"#;
        let flows = FlowSet::parse(format!("[{tabs}{elements}]").as_bytes()).unwrap();
        check(&flows)
            .err()
            .map_or_else(String::new, |refused| refused.0)
    }

    #[test]
    fn a_name_of_every_object_is_no_id_type_or_flow() {
        for name in &OF_EVERY_OBJECT {
            if *name == "__proto__" {
                continue; // The parser refuses it.
            }
            for element in [
                format!(r#"{{"id":"{name}","type":"tab"}}"#),
                format!(r#"{{"id":"n","type":"{name}","z":"t"}}"#),
                format!(r#"{{"id":"n","type":"subflow:{name}","z":"t"}}"#),
                format!(r#"{{"id":"n","type":"x","z":"{name}"}}"#),
                format!(r#"{{"id":"n","type":"x","z":"t","g":"{name}"}}"#),
            ] {
                assert!(refusal(&element).contains(name), "{element}");
            }
        }
        assert_eq!(
            refusal(r#"{"id":"Constructor","type":"tostring","z":"t"}"#),
            ""
        );
    }

    #[test]
    fn the_alias_of_a_node_is_refused_however_it_is_spelt() {
        for key in ["_alias", "\\u005falias", "_\\u0061lias"] {
            let element = format!(r#"{{"id":"n","type":"x","z":"t","{key}":"${{B}}"}}"#);
            assert!(refusal(&element).contains("_alias"), "{element}");
        }
        assert_eq!(
            refusal(r#"{"id":"n","type":"x","z":"t","name":"_alias"}"#),
            ""
        );
    }

    #[test]
    fn variables_are_a_list_of_entries_with_names() {
        let entry = r#"{"name":"B","type":"str","value":"c"}"#;
        for wrong in [
            format!(r#"{{"length":1,"0":{entry}}}"#),
            r#"[{"name":["B"],"type":"str","value":"c"}]"#.to_owned(),
            r#"[{"type":"str","value":"c"}]"#.to_owned(),
            r#""B""#.to_owned(),
        ] {
            for of in [
                r#"{"id":"n","type":"tab""#,
                r#"{"id":"n","type":"group","z":"t""#,
                r#"{"id":"n","type":"global-config""#,
            ] {
                let element = format!(r#"{of},"env":{wrong}}}"#);
                assert!(refusal(&element).contains("env"), "{element}");
            }
        }
        for right in ["[]", "null", &format!("[{entry}]")] {
            let element = format!(r#"{{"id":"n","type":"group","z":"t","env":{right}}}"#);
            assert_eq!(refusal(&element), "");
        }
        // A node of any other type has properties of its own.
        assert_eq!(refusal(r#"{"id":"n","type":"x","z":"t","env":"B"}"#), "");
    }

    #[test]
    fn fields_that_the_runtime_reads_have_the_form_in_which_editors_write_them() {
        let refusal = |element: &str, credentials: &str| {
            let (flows, _) =
                FlowSet::parse_with_credentials(format!("[{element}]").as_bytes()).unwrap();
            let nodes = serde_json::from_str(credentials).unwrap();
            let found = check_forms(&flows, &FlowSet::default(), &Credentials { nodes });
            let kept = check_forms(&flows, &flows, &Credentials::default());
            assert!(kept.is_ok(), "what is there stays: {element}");
            found.err().map_or_else(String::new, |refused| refused.0)
        };
        let group = |more: &str| format!(r#"{{"id":"g","type":"group","z":"t",{more}}}"#);
        let subflow = |more: &str| format!(r#"{{"id":"s","type":"subflow",{more}}}"#);
        let entry = |entry: &str| group(&format!(r#""env":[{entry}]"#));
        for wrong in [
            group(r#""name":5"#),
            group(r#""name":null"#),
            group(r#""g":["g"]"#),
            group(r#""env":null"#),
            entry(r#"{"name":"hasOwnProperty","type":"str","value":"x"}"#),
            entry(r#"{"name":"1","type":"str","value":"x"}"#),
            entry(r#"{"name":"A","type":5}"#),
            entry(r#"{"name":"A","type":"str","value":["x"]}"#),
            subflow(r#""status":false"#),
            subflow(r#""status":{"wires":[{"id":"k","port":"0"}]}"#),
            subflow(r#""out":[{"wires":[{"id":5,"port":0}]}]"#),
            subflow(r#""out":null"#),
            subflow(r#""in":"""#),
            subflow(r#""subflows":{}"#),
            r#"{"id":"n","type":"comment","z":"t","subflow":"s"}"#.to_owned(),
            r#"{"id":"n","type":"link in","z":"t","links":["__proto__"]}"#.to_owned(),
            r#"{"id":"n","type":"link in","z":"t","name":["lib"]}"#.to_owned(),
            r#"{"id":"n","type":"http in","z":"t","url":["guard"]}"#.to_owned(),
            r#"{"id":"1","type":"tab"}"#.to_owned(),
        ] {
            assert!(refusal(&wrong, "{}").contains("the element"), "{wrong}");
        }
        for right in [
            group(
                r#""name":"a","env":[{"name":"A","type":"num","value":5},{"name":"B","value":""}]"#,
            ),
            subflow(
                r#""in":[{"x":1,"wires":[{"id":"k"}]}],"out":[{"wires":[{"id":"k","port":1}]}],"status":{"wires":[]}"#,
            ),
            r#"{"id":"01","type":"tab"}"#.to_owned(),
            r#"{"id":"n","type":"link in","z":"t","links":["a"]}"#.to_owned(),
        ] {
            assert_eq!(refusal(&right, "{}"), "");
        }
        let tab = r#"{"id":"t","type":"tab"}"#;
        assert!(refusal(tab, r#"{"t":{"map":{"hasOwnProperty":"x"}}}"#).contains("credentials"));
        assert_eq!(refusal(tab, r#"{"t":{"map":{"A":"x"}}}"#), "");
    }

    #[test]
    fn a_group_is_in_groups_of_its_flow_and_not_in_itself() {
        let group =
            |id: &str, g: &str| format!(r#"{{"id":"{id}","type":"group","z":"t","g":{g}}}"#);
        for wrong in [
            group("a", r#""missing""#),
            group("a", r#""a""#),
            group("a", r#"["a"]"#),
            group("a", r#""o""#),
            group("a", r#""t""#),
            [group("a", r#""b""#), group("b", r#""a""#)].join(","),
        ] {
            assert!(refusal(&wrong).contains("the element"), "{wrong}");
        }
        let right = [group("a", r#""b""#), group("b", "\"\""), group("c", "null")].join(",");
        assert_eq!(refusal(&right), "");
    }
}
