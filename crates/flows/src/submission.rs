//! Parses a submission: flow set, optional revision, credentials.
//!
//! Knows the two shapes of a body (docs/reference/admin-api.md §2.4, §9); never whether the
//! revision is the active one.

use super::parse::elements;
use super::reuse::reading;
use super::{Credentials, FlowSet, Malformed, Node};
use crate::json::{self, Key};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use smol_str::SmolStr;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// A parsed and checked body of `POST /flows`.
#[derive(Debug)]
pub struct Submission {
    /// The flow set, credentials taken out.
    pub flows: FlowSet,
    /// The credentials sent inside nodes: merged with those that are kept.
    pub credentials: Credentials,
    /// The credentials sent beside the flows (v2): they replace those of their nodes
    /// (docs/reference/node-red-admin-api.md §3).
    pub replacing: Credentials,
    /// `rev`, if the body carries one.
    pub rev: Option<String>,
}

impl Submission {
    /// Parses a v1 body: a JSON array of node objects. Elements that are unchanged from `before`
    /// are read quickly.
    pub fn v1(before: &FlowSet, body: &[u8]) -> Result<Self, Malformed> {
        let read = |body: &[u8], known| FlowSet::parse_after(before, body, known);
        let (flows, credentials) = reading(before, body, read)?;
        Ok(Self {
            flows,
            credentials,
            replacing: Credentials::default(),
            rev: None,
        })
    }

    /// Parses a v2 body: an object with `flows`, and optionally `rev` and `credentials`. Other keys
    /// are ignored. Elements that are unchanged from `before` are read quickly, if `flows` comes
    /// first.
    pub fn v2(before: &FlowSet, body: &[u8]) -> Result<Self, Malformed> {
        reading(before, body, |body, known| {
            Self::object(before, body, known)
        })
    }

    fn object(before: &FlowSet, body: &[u8], known: Vec<Arc<Node>>) -> Result<Self, Malformed> {
        let text = json::text(body)?;
        let Ok(body) = serde_json::Deserializer::from_str(text).deserialize_map(Body) else {
            return Err(wrong(if text.trim_start().starts_with('{') {
                "\"flows\" must be an array of node objects"
            } else {
                "the body of version v2 must be an object with \"flows\""
            }));
        };
        let rev = body.rev.map(|rev| revision(rev.get())).transpose()?;
        let replacing = body
            .credentials
            .map(|sent| beside(sent.get()))
            .transpose()?;
        let list = body.flows.ok_or_else(|| wrong("\"flows\" is missing"))?;
        let (nodes, credentials) = elements(list, known)?;
        Ok(Self {
            flows: FlowSet::after(before, nodes)?,
            credentials,
            replacing: replacing.unwrap_or_default(),
            rev,
        })
    }

    /// The body of version v2 that is this submission, credentials inside.
    pub fn to_json(&self) -> String {
        let rev = self.rev.as_deref();
        submission_json(&self.flows, &self.credentials, &self.replacing, rev)
    }

    /// All credentials after this submission, of those kept before it.
    pub fn merged(&self, kept: &Credentials) -> Credentials {
        let mut kept = kept.clone();
        for id in self.replacing.nodes.keys() {
            kept.nodes.remove(id);
        }
        kept.merge(&self.replacing, &self.flows)
            .merge(&self.credentials, &self.flows)
    }

    /// The nodes whose credentials were sent: they count as changed.
    pub fn credential_ids(&self) -> HashSet<SmolStr> {
        self.credentials
            .nodes
            .keys()
            .chain(self.replacing.nodes.keys())
            .cloned()
            .collect()
    }
}

/// The keys of a v2 body that count, as they are.
#[derive(Default)]
struct Members<'de> {
    flows: Option<Vec<&'de RawValue>>,
    rev: Option<&'de RawValue>,
    credentials: Option<&'de RawValue>,
}

/// Reads them at once: a flow set is long. `flows` that is no array is the only thing that can go
/// wrong.
struct Body;

impl<'de> Visitor<'de> for Body {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members::default();
        while let Some(key) = map.next_key_seed(Key)? {
            match key.as_ref() {
                "flows" => members.flows = Some(map.next_value()?),
                "rev" => members.rev = Some(map.next_value()?),
                "credentials" => members.credentials = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(members)
    }
}

fn revision(raw: &str) -> Result<String, Malformed> {
    serde_json::from_str(raw).map_err(|_| {
        wrong("\"rev\" must be a string: the one of GET /flows, or none at all to overwrite")
    })
}

fn beside(raw: &str) -> Result<Credentials, Malformed> {
    let credentials = Credentials::from_json(raw.as_bytes())?;
    if credentials.nodes.contains_key("$") {
        return Err(wrong(
            "encrypted \"credentials\" are not supported: send them in clear",
        ));
    }
    Ok(credentials)
}

fn wrong(what: &str) -> Malformed {
    Malformed(what.into())
}

/// The body of version v2 with this flow set, with credentials inside its elements, and beside it.
pub fn submission_json(
    flows: &FlowSet,
    inside: &Credentials,
    beside: &Credentials,
    rev: Option<&str>,
) -> String {
    let element = |node: &Arc<Node>| match inside.nodes.get(&node.id) {
        None => node.text.to_string(),
        Some(fields) => {
            // An element has an id at least, so something comes before the comma.
            let open = node.text.strip_suffix('}').unwrap_or_default();
            let fields = Value::Object(fields.clone());
            format!("{open},\"credentials\":{fields}}}")
        }
    };
    let elements: Vec<String> = flows.nodes().iter().map(element).collect();
    let rev = rev.map(|rev| format!(",\"rev\":{}", Value::from(rev)));
    let beside = if beside.nodes.is_empty() {
        String::new()
    } else {
        format!(",\"credentials\":{}", beside.to_json())
    };
    let (elements, rev) = (elements.join(","), rev.unwrap_or_default());
    format!("{{\"flows\":[{elements}]{rev}{beside}}}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::Node;
    use std::sync::Arc;

    fn v1(body: &str) -> String {
        Submission::v1(&FlowSet::default(), body.as_bytes())
            .unwrap_err()
            .to_string()
    }

    fn v2(body: &str) -> String {
        Submission::v2(&FlowSet::default(), body.as_bytes())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_submission_is_the_same_when_it_is_sent_on() {
        let body = concat!(
            r#"{"flows":[{"id":"a","type":"x","credentials":{"k":"\"v"}},{"id":"b","type":"x"}],"#,
            r#""rev":"r\"1","credentials":{"b":{"k":"w"}}}"#
        );
        let sent = Submission::v2(&FlowSet::default(), body.as_bytes()).unwrap();
        assert_eq!(sent.to_json(), body);
        let empty = r#"{"flows":[]}"#;
        let sent = Submission::v2(&FlowSet::default(), empty.as_bytes()).unwrap();
        assert_eq!(sent.to_json(), empty);
    }

    #[test]
    fn a_malformed_element_is_named() {
        let node = |fields: &str| v1(&format!(r#"[{{"id":"ok","type":"x"}},{{{fields}}}]"#));
        assert_eq!(
            v1(r#"[{"id":"a","type":"x"},null]"#),
            "element 1 must be an object"
        );
        assert_eq!(
            node(r#""type":"x""#),
            r#"element 1: "id" must be a non-empty string"#
        );
        assert_eq!(
            node(r#""id":"","type":"x""#),
            r#"element 1: "id" must be a non-empty string"#
        );
        assert_eq!(
            node(r#""id":7,"type":"x""#),
            r#"element 1: "id" must be a non-empty string"#
        );
        assert_eq!(
            node(r#""id":"b""#),
            r#"element 1 ("b"): "type" must be a non-empty string"#
        );
        assert_eq!(
            node(r#""id":"b","type":"""#),
            r#"element 1 ("b"): "type" must be a non-empty string"#
        );
        assert_eq!(
            node(r#""id":"b","type":"x","z":null"#),
            r#"element 1 ("b"): "z" must be a string"#
        );
        for wires in ["null", "[null]", r#"["a"]"#, "[[1]]", "{}", "5"] {
            let message = node(&format!(r#""id":"b","type":"x","wires":{wires}"#));
            assert_eq!(
                message,
                r#"element 1 ("b"): "wires" must be an array of arrays of strings"#
            );
        }
        assert_eq!(
            node(r#""id":"b","type":"x","name":1,"name":2"#),
            "invalid JSON at line 1, column 60: the key \"name\" is there twice"
        );
        assert_eq!(
            node(r#""id":"b","type":"x","id":"c""#),
            "invalid JSON at line 1, column 49: the key \"id\" is there twice"
        );
        assert_eq!(
            node(r#""id":"ok","type":"x""#),
            r#"elements 0 and 1 have the same id, "ok""#
        );
        assert_eq!(
            node(r#""id":"b","type":"x","credentials":1"#),
            r#"element 1 ("b"): "credentials" must be an object"#
        );
    }

    #[test]
    fn an_unchanged_element_reuses_the_previous_node() {
        let element = |id: &str| format!(r#"{{"id":"{id}","type":"x"}}"#);
        let parse = |before: &FlowSet, list: &[String]| {
            let body = format!(r#"{{"flows":[{}]}}"#, list.join(","));
            Submission::v2(before, body.as_bytes()).unwrap().flows
        };
        let before = parse(&FlowSet::default(), &["a", "b", "c", "d"].map(element));
        let shared = |after: &FlowSet| -> String {
            let is_of_before = |node: &&Arc<Node>| {
                before
                    .get(&node.id)
                    .is_some_and(|was| Arc::ptr_eq(was, node))
            };
            let nodes = after.nodes().iter().filter(is_of_before);
            nodes.map(|node| node.id.as_str()).collect()
        };
        let mut list = ["a", "b", "new", "c", "d"].map(element);
        list[1] = list[1].replace('x', "y");
        let after = parse(&before, &list);
        assert_eq!(shared(&after), "acd");
        assert_eq!(after.get("b").unwrap().kind, "y");
        // After a removed element, elements are found again from the second on.
        assert_eq!(shared(&parse(&before, &["b", "c", "d"].map(element))), "cd");
    }

    #[test]
    fn an_empty_z_counts_as_no_z() {
        let s = Submission::v1(&FlowSet::default(), br#"[{"id":"a","type":"x","z":""}]"#).unwrap();
        assert!(s.flows.get("a").unwrap().z.is_empty());
    }

    #[test]
    fn invalid_json_is_reported_with_line_and_column() {
        assert_eq!(
            v1("[{\"id\":\"a\",\n \"type\":}]"),
            "invalid JSON at line 2, column 9: expected value"
        );
        assert!(v1("").starts_with("invalid JSON at line 1, column 0"));
        assert!(v1("[]x").contains("trailing characters"));
        assert_eq!(v1("{}"), "the flows must be an array of node objects");
        assert_eq!(
            v1("[\"\u{1}\"]").split(':').next(),
            Some("invalid JSON at line 1, column 3")
        );
        assert_eq!(
            Submission::v1(&FlowSet::default(), b"[\"\xff\"]")
                .unwrap_err()
                .to_string(),
            "invalid JSON at line 1, column 3: it is not UTF-8"
        );
    }

    #[test]
    fn values_that_would_fail_at_node_start_are_refused() {
        let name = |value: &str| {
            v1(&format!(
                "[\n  {{\"id\":\"a\",\"type\":\"x\",\n   \"name\":{value}}}]"
            ))
        };
        assert!(
            name("1e999").starts_with("invalid JSON at line 3, column "),
            "{}",
            name("1e999")
        );
        assert!(name("\"\\ud800\"").contains("hex escape"));
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(name(&deep).contains("nested more than"));
        assert!(
            v1(&format!(r#"[{{"id":"a","type":"x","g":{deep}}}]"#)).contains("nested more than")
        );
    }

    #[test]
    fn a_rev_is_a_string_or_absent() {
        let rev = |body: &str| {
            Submission::v2(&FlowSet::default(), body.as_bytes())
                .unwrap()
                .rev
        };
        assert_eq!(rev(r#"{"flows":[]}"#), None);
        assert_eq!(rev(r#"{"rev":"","flows":[]}"#), Some(String::new()));
        assert_eq!(rev(r#"{"flows":[],"rev":"a","more":{}}"#), Some("a".into()));
        for other in ["null", "1", "[]"] {
            assert!(
                v2(&format!(r#"{{"flows":[],"rev":{other}}}"#))
                    .starts_with("\"rev\" must be a string")
            );
        }
    }

    #[test]
    fn a_v2_body_is_an_object_with_an_array_of_flows() {
        assert_eq!(
            v2("[]"),
            "the body of version v2 must be an object with \"flows\""
        );
        assert_eq!(v2("{}"), "\"flows\" is missing");
        assert_eq!(
            v2(r#"{"flows":null}"#),
            "\"flows\" must be an array of node objects"
        );
        assert!(v2(r#"{"flows":[],"flows":[]}"#).ends_with("the key \"flows\" is there twice"));
        assert_eq!(
            v2(r#"{"flows":[],"credentials":{"$":"abc"}}"#),
            "encrypted \"credentials\" are not supported: send them in clear"
        );
        assert_eq!(
            v2("{\"flows\":[\n{\"id\":\"a\",\"type\":1e999}]}"),
            "invalid JSON at line 2, column 22: number out of range"
        );
    }

    #[test]
    fn credentials_are_removed_and_the_rest_stays_byte_for_byte() {
        let s = Submission::v1(&FlowSet::default(), br#"[{"id":"a","credentials":{"user":"u"},"n":1.50,"type":"x"},{"id":"b","type":"x","credentials":null}]"#).unwrap();
        assert_eq!(
            s.flows.to_json(),
            r#"[{"id":"a","n":1.50,"type":"x"},{"id":"b","type":"x"}]"#
        );
        assert_eq!(s.credential_ids(), HashSet::from(["a".into()]));
        assert!(!format!("{s:?}").contains("\"u\""));
    }

    #[test]
    fn credentials_beside_the_flows_replace_and_those_inside_merge() {
        let kept =
            Credentials::from_json(br#"{"a":{"one":"1","two":"2"},"b":{"one":"1"}}"#).unwrap();
        let s = Submission::v2(
            &FlowSet::default(),
            br#"{"flows":[{"id":"a","type":"x"},{"id":"b","type":"x","credentials":{"two":"2"}}],"credentials":{"a":{"two":"3"}}}"#,
        );
        let expected =
            Credentials::from_json(br#"{"a":{"two":"3"},"b":{"one":"1","two":"2"}}"#).unwrap();
        assert!(s.unwrap().merged(&kept) == expected);
    }
}
