//! Credentials of nodes: kept beside the flow set, never in it.
//!
//! Knows how sent credentials join those that are kept (docs/reference/node-red-engine.md §2.7);
//! encryption is the store's. Never prints a value.

use super::{FlowSet, Malformed};
use serde_json::{Map, Value};
use smol_str::SmolStr;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// Credentials by node id.
#[derive(Default, Clone, PartialEq)]
pub struct Credentials {
    /// Node id to its fields.
    pub nodes: BTreeMap<SmolStr, Map<String, Value>>,
}

/// The client's placeholder for a password that it was never shown: the stored one is kept.
pub const UNCHANGED: &str = "__PWRD__";

/// The visibility of a credential field of a type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// In clear.
    Text,
    /// Only whether there is one.
    Password,
    /// Whether there is one, and [`UNCHANGED`] in its place: editors take the field for text, and
    /// send back what they got.
    Hidden,
    /// As the map of a `global-config`: whether there is one, for each name in it.
    Names,
}

/// The credential fields of a type (docs/reference/node-red-engine.md §4.2).
enum Fields {
    /// Exactly these.
    These(&'static [(&'static str, Shown)]),
    /// Whatever is sent: the environment of subflows, tabs and groups. A field that is not sent
    /// goes.
    Sent,
    /// The fields that are sent, for a type unknown to flowgate. A field that is not sent stays.
    Unknown,
}

fn fields(kind: &str) -> Fields {
    use Shown::{Hidden, Names, Password, Text};
    match kind {
        "tls-config" => Fields::These(&[
            ("certdata", Text),
            // The stock runtime shows it: its definition has the type text.
            ("keydata", Hidden),
            ("cadata", Text),
            ("passphrase", Password),
        ]),
        "http proxy" => Fields::These(&[("username", Text), ("password", Password)]),
        "mqtt-broker" | "http request" => Fields::These(&[("user", Text), ("password", Password)]),
        "global-config" => Fields::These(&[("map", Names)]),
        "subflow" | "tab" | "group" => Fields::Sent,
        _ if kind.starts_with("subflow:") => Fields::Sent,
        _ => Fields::Unknown,
    }
}

impl Credentials {
    /// The ids of the nodes whose credentials differ.
    pub fn differing(&self, other: &Self) -> HashSet<SmolStr> {
        let ids = self.nodes.keys().chain(other.nodes.keys());
        ids.filter(|id| self.nodes.get(*id) != other.nodes.get(*id))
            .cloned()
            .collect()
    }

    /// Reads the plain form: an object of node id to an object of fields.
    pub fn from_json(json: &[u8]) -> Result<Self, Malformed> {
        // serde's own messages quote values, which are secrets here: they are not passed on.
        let value: Value = serde_json::from_slice(json).map_err(|e| {
            Malformed(format!(
                "\"credentials\": invalid JSON at line {}, column {}",
                e.line(),
                e.column()
            ))
        })?;
        let Value::Object(map) = value else {
            return Err(Malformed(
                "\"credentials\" must be an object of objects by node id".into(),
            ));
        };
        let mut nodes = BTreeMap::new();
        for (id, fields) in map {
            match fields {
                Value::Object(fields) => _ = nodes.insert(id.into(), fields),
                Value::String(_) if id == "$" => _ = nodes.insert(id.into(), Map::new()),
                _ => {
                    return Err(Malformed(format!(
                        "\"credentials\" of {id:?} must be an object"
                    )));
                }
            }
        }
        Ok(Self { nodes })
    }

    /// The plain form, as compact JSON: for the store, which encrypts it.
    pub fn to_json(&self) -> String {
        let nodes: Map<String, Value> = self
            .nodes
            .iter()
            .map(|(id, fields)| (id.to_string(), Value::Object(fields.clone())))
            .collect();
        Value::Object(nodes).to_string()
    }

    /// These credentials after others were sent along with a flow set. Those of ids that it does
    /// not have are dropped.
    #[must_use]
    pub fn merge(&self, sent: &Self, flows: &FlowSet) -> Self {
        let mut nodes = self.nodes.clone();
        for (id, sent) in &sent.nodes {
            if let Some(node) = flows.get(id) {
                merge(
                    nodes.entry(id.clone()).or_default(),
                    sent,
                    &fields(&node.kind),
                );
            }
        }
        nodes.retain(|id, fields| !fields.is_empty() && flows.get(id).is_some());
        Self { nodes }
    }

    /// The response of `GET /credentials/:type/:id`: user names and certificates in clear, of a
    /// secret only `has_<field>`; `{}` for an unknown id.
    pub fn shown(&self, kind: &str, id: &str) -> Map<String, Value> {
        let Some(kept) = self.nodes.get(id) else {
            return Map::new();
        };
        let Fields::These(list) = fields(kind) else {
            return kept
                .keys()
                .map(|key| (format!("has_{key}"), true.into()))
                .collect();
        };
        let mut shown = Map::new();
        for (key, how) in list {
            match (how, kept.get(*key)) {
                (Shown::Password | Shown::Hidden, value) => {
                    if *how == Shown::Hidden && value.is_some() {
                        shown.insert((*key).into(), UNCHANGED.into());
                    }
                    shown.insert(format!("has_{key}"), value.is_some().into());
                }
                (Shown::Text, Some(value)) => _ = shown.insert((*key).into(), value.clone()),
                (Shown::Names, Some(Value::Object(map))) => {
                    let names = map.keys().map(|name| (format!("has_{name}"), true.into()));
                    shown.insert((*key).into(), Value::Object(names.collect()));
                }
                (Shown::Text | Shown::Names, _) => {}
            }
        }
        shown
    }
}

/// Ids and the names of fields, never a value.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                self.nodes
                    .iter()
                    .map(|(id, fields)| (id, fields.keys().collect::<Vec<_>>())),
            )
            .finish()
    }
}

fn merge(kept: &mut Map<String, Value>, sent: &Map<String, Value>, fields: &Fields) {
    match fields {
        Fields::These(list) => {
            for (key, how) in *list {
                match (how, sent.get(*key), kept.get_mut(*key)) {
                    (Shown::Names, Some(Value::Object(sent)), Some(Value::Object(kept))) => {
                        merge_names(kept, sent);
                    }
                    (Shown::Names, Some(Value::Object(sent)), _) => {
                        let mut names = Map::new();
                        merge_names(&mut names, sent);
                        kept.insert((*key).into(), Value::Object(names));
                    }
                    (Shown::Text | Shown::Password | Shown::Hidden, Some(value), _) => {
                        merge_field(kept, key, value, *how != Shown::Text);
                    }
                    (_, None, _) | (Shown::Names, _, _) => {}
                }
            }
        }
        Fields::Unknown => sent
            .iter()
            .for_each(|(key, value)| merge_field(kept, key, value, true)),
        Fields::Sent => merge_names(kept, sent),
    }
}

/// Removes names that are not sent; a client's mark for a value that exists (`has_<name>`) is not
/// stored as a value.
fn merge_names(kept: &mut Map<String, Value>, sent: &Map<String, Value>) {
    kept.retain(|key, _| sent.contains_key(key));
    for (key, value) in sent {
        let note = key
            .strip_prefix("has_")
            .is_some_and(|name| value.is_boolean() && sent.contains_key(name));
        if !note {
            merge_field(kept, key, value, true);
        }
    }
}

fn merge_field(kept: &mut Map<String, Value>, key: &str, value: &Value, password: bool) {
    match value {
        Value::String(text) if password && text == UNCHANGED => {}
        Value::String(text) if text.trim().is_empty() => _ = kept.shift_remove(key),
        Value::Null => _ = kept.shift_remove(key),
        value => _ = kept.insert(key.into(), value.clone()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn credentials(json: &str) -> Credentials {
        Credentials::from_json(json.as_bytes()).unwrap()
    }

    /// Sends `sent` for one node of the type, which has `kept`; returns what it has then.
    fn merged(kind: &str, kept: &str, sent: &str) -> String {
        let flows =
            FlowSet::parse(format!(r#"[{{"id":"n","type":"{kind}"}}]"#).as_bytes()).unwrap();
        let of_n = |fields: &str| credentials(&format!(r#"{{"n":{fields}}}"#));
        of_n(kept).merge(&of_n(sent), &flows).to_json()
    }

    #[test]
    fn only_fields_of_the_type_are_accepted_and_unsent_ones_remain() {
        let sent = r#"{"user":"v","other":"x"}"#;
        assert_eq!(
            merged("mqtt-broker", r#"{"user":"u","password":"p"}"#, sent),
            r#"{"n":{"user":"v","password":"p"}}"#
        );
        assert_eq!(merged("mqtt-broker", "{}", sent), r#"{"n":{"user":"v"}}"#);
    }

    #[test]
    fn an_unchanged_password_is_kept_and_a_blank_field_removed() {
        let kept = r#"{"user":"u","password":"p"}"#;
        assert_eq!(
            merged("http request", kept, r#"{"password":"__PWRD__"}"#),
            r#"{"n":{"user":"u","password":"p"}}"#
        );
        assert_eq!(
            merged("http request", kept, r#"{"user":"","password":"  "}"#),
            "{}"
        );
        assert_eq!(
            merged("http request", "{}", r#"{"password":"__PWRD__"}"#),
            "{}"
        );
    }

    #[test]
    fn a_subflow_loses_unsent_credentials_and_an_unknown_type_keeps_them() {
        let (kept, sent) = (r#"{"a":"1","b":"2"}"#, r#"{"b":"__PWRD__","c":"3"}"#);
        for kind in ["subflow:s", "subflow", "tab", "group"] {
            assert_eq!(merged(kind, kept, sent), r#"{"n":{"b":"2","c":"3"}}"#);
        }
        assert_eq!(
            merged("strange", kept, sent),
            r#"{"n":{"a":"1","b":"2","c":"3"}}"#
        );
    }

    #[test]
    fn the_names_of_a_global_config_merge_one_by_one() {
        let sent = r#"{"map":{"B":"__PWRD__","has_B":true,"C":"3"}}"#;
        assert_eq!(
            merged("global-config", r#"{"map":{"A":"1","B":"2"}}"#, sent),
            r#"{"n":{"map":{"B":"2","C":"3"}}}"#
        );
        assert_eq!(
            merged("global-config", "{}", sent),
            r#"{"n":{"map":{"C":"3"}}}"#
        );
        let shown = credentials(r#"{"n":{"map":{"A":"1"}}}"#).shown("global-config", "n");
        assert_eq!(
            Value::Object(shown).to_string(),
            r#"{"map":{"has_A":true}}"#
        );
    }

    #[test]
    fn credentials_of_removed_nodes_are_dropped() {
        let flows = FlowSet::parse(br#"[{"id":"n","type":"x"}]"#).unwrap();
        let merged = credentials(r#"{"n":{"a":"1"},"gone":{"a":"1"}}"#)
            .merge(&credentials(r#"{"never":{"a":"1"}}"#), &flows);
        assert_eq!(merged.to_json(), r#"{"n":{"a":"1"}}"#);
    }

    #[test]
    fn only_the_existence_of_a_password_is_shown() {
        let kept = credentials(r#"{"n":{"user":"u","password":"p"},"m":{"user":"u"}}"#);
        let shown = |kind, id| Value::Object(kept.shown(kind, id)).to_string();
        assert_eq!(
            shown("mqtt-broker", "n"),
            r#"{"user":"u","has_password":true}"#
        );
        assert_eq!(
            shown("mqtt-broker", "m"),
            r#"{"user":"u","has_password":false}"#
        );
        assert_eq!(
            shown("strange", "n"),
            r#"{"has_user":true,"has_password":true}"#
        );
        assert_eq!(shown("mqtt-broker", "?"), "{}");
    }

    #[test]
    fn a_private_key_is_masked_and_survives_a_round_trip() {
        let kept = r#"{"certdata":"c","keydata":"k"}"#;
        let shown = credentials(&format!(r#"{{"n":{kept}}}"#)).shown("tls-config", "n");
        let shown = Value::Object(shown).to_string();
        let expected =
            r#"{"certdata":"c","keydata":"__PWRD__","has_keydata":true,"has_passphrase":false}"#;
        assert_eq!(shown, expected);
        let back = merged("tls-config", kept, &shown);
        assert_eq!(back, format!(r#"{{"n":{kept}}}"#));
    }

    #[test]
    fn values_do_not_print() {
        let printed = format!("{:?}", credentials(r#"{"n":{"password":"hunter2"}}"#));
        assert!(printed.contains("password") && !printed.contains("hunter2"));
        let error = Credentials::from_json(br#"{"n":"hunter2"}"#)
            .unwrap_err()
            .to_string();
        assert_eq!(error, "\"credentials\" of \"n\" must be an object");
    }
}
