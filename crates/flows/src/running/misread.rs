//! Refuses what Node-RED's runtime reads in another way than it is written, or what stops it: rights and approval are
//! decided on what is resolved here, so it must be what runs there.
//!
//! Observed on Node-RED 4.1: editors send none of it.

use crate::json::shown;
use crate::{ElementKind, FlowSet, Malformed, Node};
use serde_json::Value as Json;

/// What every JavaScript object has: the runtime finds them where it looks for an element of that id (ECMA-262, §20.1.3 and
/// annex B.2.2).
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
    let has_variables = matches!(
        node.part(),
        ElementKind::Tab | ElementKind::Subflow | ElementKind::Group
    ) || node.kind == "global-config"
        || node.instance_of().is_some();
    if !has_variables {
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
        let is_around = |outer: &&std::sync::Arc<Node>| {
            outer.part() == ElementKind::Group && outer.z == inner.z
        };
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
