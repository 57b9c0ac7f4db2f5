//! Secrets that stand in an `env` property, as values of entries of type `cred`: they become
//! credentials.
//!
//! Editors send such values as credentials. A client that does not would show them to everyone who
//! may read flows.

use super::Credentials;
use super::credentials::UNCHANGED;
use serde_json::{Map, Value};
use smol_str::SmolStr;

/// The type whose credentials are below `map`.
const GLOBAL: &str = "global-config";

/// The `env` of a node without the secrets that stand in it, and these by name. Entries without a
/// value have [`UNCHANGED`]: credentials that are sent replace all of such a node. `None`: there is
/// no secret in it.
pub(super) fn taken(kind: &str, env: Option<&str>) -> Option<(String, Map<String, Value>)> {
    let env = env.filter(|_| has_env(kind))?;
    // Most environments have none; a backslash may hide the word.
    if !env.contains("\"cred\"") && !env.contains('\\') {
        return None;
    }
    let mut entries: Vec<Value> = serde_json::from_str(env).ok()?;
    let mut secrets = Map::new();
    let mut found = false;
    for entry in &mut entries {
        let Some(entry) = entry.as_object_mut().filter(|entry| is_secret(entry)) else {
            continue;
        };
        let Some(name) = entry.get("name").and_then(Value::as_str) else {
            continue;
        };
        let name = name.to_owned();
        let secret = match entry.get("value") {
            Some(Value::String(text)) if text.is_empty() || text == UNCHANGED => None,
            Some(Value::Null) | None => None,
            Some(_) => entry.shift_remove("value"),
        };
        found |= secret.is_some();
        secrets.insert(name, secret.unwrap_or_else(|| UNCHANGED.into()));
    }
    found.then(|| (Value::Array(entries).to_string(), secrets))
}

/// Adds them to the credentials that were sent with the node. Those count more.
pub(super) fn join(sent: &mut Credentials, id: &SmolStr, kind: &str, secrets: Map<String, Value>) {
    let explicit = sent.nodes.contains_key(id);
    let mut fields = sent.nodes.entry(id.clone()).or_default();
    if kind == GLOBAL {
        let map = fields.entry("map").or_insert_with(|| Map::new().into());
        let Value::Object(map) = map else { return };
        fields = map;
    }
    for (name, secret) in secrets {
        if !(explicit && secret == UNCHANGED) {
            fields.entry(name).or_insert(secret);
        }
    }
}

fn has_env(kind: &str) -> bool {
    matches!(kind, "tab" | "group" | "subflow" | GLOBAL) || kind.starts_with("subflow:")
}

fn is_secret(entry: &Map<String, Value>) -> bool {
    entry.get("type").is_some_and(|kind| kind == "cred")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::{Credentials, FlowSet};

    /// The flow set of one node, and the credentials sent with it.
    fn parsed(node: &str) -> (String, String) {
        let (flows, sent) =
            FlowSet::parse_with_credentials(format!("[{node}]").as_bytes()).unwrap();
        (flows.to_json(), sent.to_json())
    }

    #[test]
    fn a_secret_is_removed_from_the_environment_and_nothing_else() {
        let env = r#"[{"name":"A","type":"cred","value":"x"},{"name":"B","type":"str","value":"y"},{"name":"C","type":"cred"}]"#;
        let without = env.replace(r#","value":"x""#, "");
        for kind in ["tab", "group", "subflow", "subflow:s"] {
            let node = |env: &str| format!(r#"{{"id":"n","type":"{kind}","env":{env}}}"#);
            let (flows, sent) = parsed(&node(env));
            assert_eq!(flows, format!("[{}]", node(&without)));
            assert_eq!(sent, r#"{"n":{"A":"x","C":"__PWRD__"}}"#);
        }
        let (flows, sent) = parsed(&format!(
            r#"{{"id":"n","type":"global-config","env":{env}}}"#
        ));
        assert!(!flows.contains("\"x\""));
        assert_eq!(sent, r#"{"n":{"map":{"A":"x","C":"__PWRD__"}}}"#);
        // However the word is written.
        let (flows, _) = parsed(&format!(
            r#"{{"id":"n","type":"tab","env":{}}}"#,
            env.replace("cred", r"c\u0072ed")
        ));
        assert!(!flows.contains("\"x\""), "{flows}");
    }

    #[test]
    fn an_environment_without_a_secret_stays_byte_for_byte() {
        for node in [
            r#"{"id":"n","type":"tab","env":[{"name":"A","type":"cred","value":""},{"name":"N","type":"num","value":1.50}]}"#,
            r#"{"id":"n","type":"tab","env":[{"name":"A","type":"cred","value":"__PWRD__"}]}"#,
            r#"{"id":"n","type":"tab","env":{"type":"cred","value":"x"}}"#,
            r#"{"id":"n","type":"function","env":[{"name":"A","type":"cred","value":"x"}]}"#,
        ] {
            assert_eq!(parsed(node), (format!("[{node}]"), "{}".to_owned()));
        }
    }

    #[test]
    fn sent_credentials_override_env_values_and_stored_ones_remain() {
        let node = r#"{"id":"n","type":"tab","env":[{"name":"A","type":"cred","value":"x"},{"name":"B","type":"cred"},{"name":"C","type":"cred","value":"y"}],"credentials":{"A":"sent"}}"#;
        assert_eq!(parsed(node).1, r#"{"n":{"A":"sent","C":"y"}}"#);
        let node = node.replace(r#","credentials":{"A":"sent"}"#, "");
        let (flows, sent) =
            FlowSet::parse_with_credentials(format!("[{node}]").as_bytes()).unwrap();
        let kept = Credentials::from_json(br#"{"n":{"A":"old","B":"kept","D":"gone"}}"#).unwrap();
        assert_eq!(
            kept.merge(&sent, &flows).to_json(),
            r#"{"n":{"A":"x","B":"kept","C":"y"}}"#
        );
    }
}
