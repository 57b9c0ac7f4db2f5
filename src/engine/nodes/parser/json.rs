//! `json`: turns JSON text into values and values into JSON text.

use crate::engine::expression::{Path, json};
use crate::engine::message::Message;
use crate::engine::node::{Build, Host, Level, Node};
use crate::engine::value::{Failure, Value};
use serde::Deserialize;
use smol_str::SmolStr;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    property: Option<SmolStr>,
    action: SmolStr,
    pretty: bool,
}

struct JsonNode {
    property: Path,
    action: Action,
    pretty: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Action {
    /// Whichever way the value asks for.
    Both,
    /// Always a value.
    Parse,
    /// Always text.
    Stringify,
}

/// What becomes of the property.
#[derive(Debug)]
enum Outcome {
    Stays,
    Becomes(Value),
    /// The message goes no further, with a warning.
    Dropped(&'static str),
}

pub(in crate::engine::nodes) fn build(build: &Build<'_>) -> Result<Box<dyn Node>, Failure> {
    let properties: Properties = build.properties()?;
    let property = properties
        .property
        .filter(|p| !p.is_empty())
        .unwrap_or(SmolStr::new_static("payload"));
    let action = match properties.action.as_str() {
        "obj" => Action::Parse,
        "str" => Action::Stringify,
        _ => Action::Both,
    };
    Ok(Box::new(JsonNode {
        property: Path::parse_message(&property)?,
        action,
        pretty: properties.pretty,
    }))
}

/// Four spaces, as Node-RED indents.
const INDENT: usize = 4;

fn convert(value: &Value, action: Action, pretty: bool) -> Result<Outcome, Failure> {
    let parsed = |text: &str| {
        json::parse(text)
            .map(Outcome::Becomes)
            .map_err(|f| Failure::text(f.message))
    };
    match value {
        Value::Undefined => Ok(Outcome::Stays),
        Value::String(_) | Value::Buffer(_) if action == Action::Stringify => Ok(Outcome::Stays),
        Value::String(text) => parsed(text),
        Value::Buffer(bytes) => parsed(&String::from_utf8_lossy(bytes)),
        Value::Handle(_) => Ok(Outcome::Dropped("Ignored unsupported payload type")),
        _ if action == Action::Parse => Ok(Outcome::Stays),
        _ => {
            let text = if pretty {
                json::stringify_pretty(value, INDENT)
            } else {
                json::stringify(value)
            };
            Ok(Outcome::Becomes(text.map_or(Value::Undefined, Value::from)))
        }
    }
}

impl Node for JsonNode {
    fn receive(&mut self, mut message: Message, host: &mut Host<'_>) {
        let converted = self
            .property
            .try_read_message(&message)
            .and_then(|value| convert(&value, self.action, self.pretty));
        match converted {
            Ok(Outcome::Stays) => host.pass(message),
            Ok(Outcome::Becomes(value)) => {
                self.property.write_message(&mut message, value);
                host.pass(message);
            }
            Ok(Outcome::Dropped(warning)) => {
                host.log(Level::Warn, Value::from(warning));
                host.done(message);
            }
            Err(failure) => host.error(failure, Some(message)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn shown(value: &Value, action: Action) -> String {
        format!("{:?}", convert(value, action, false).unwrap())
    }

    #[test]
    fn each_action_converts_what_it_can() {
        let object = json::parse(r#"{"a":[1]}"#).unwrap();
        let text = Value::from(r#"{"a":[1]}"#);
        assert_eq!(shown(&text, Action::Both), r#"Becomes({"a": [1]})"#);
        assert_eq!(shown(&object, Action::Both), r#"Becomes("{\"a\":[1]}")"#);
        assert_eq!(shown(&text, Action::Stringify), "Stays");
        assert_eq!(shown(&object, Action::Parse), "Stays");
        let bytes = Value::Buffer(b"x".to_vec().into());
        assert!(shown(&bytes, Action::Stringify).starts_with("Stays"));
        assert_eq!(
            shown(&Value::Buffer(b"[1]".to_vec().into()), Action::Both),
            "Becomes([1])"
        );
        assert_eq!(
            shown(&Value::Number(1.5), Action::Both),
            r#"Becomes("1.5")"#
        );
        assert_eq!(shown(&Value::Undefined, Action::Both), "Stays");
    }

    #[test]
    fn broken_json_fails_with_v8s_words() {
        let failure = convert(&"abc".into(), Action::Both, false).unwrap_err();
        assert_eq!(
            failure.message,
            "Unexpected token 'a', \"abc\" is not valid JSON"
        );
    }
}
