//! `json`: turns JSON text into values and values into JSON text.

use super::converted_property;
use crate::node::{BoxedNode, Build, Host, Level, Node, Worked, boxed, size};
use crate::script::regexp;
use formats::json_schema::Schema;
use serde::Deserialize;
use smol_str::SmolStr;
use value::{Failure, Message, Path, Value, coerce, json};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    property: Option<SmolStr>,
    action: SmolStr,
    pretty: bool,
}

struct JsonNode {
    property: Path,
    /// The property as it is written.
    name: SmolStr,
    action: Action,
    pretty: bool,
    /// The schema of the last message that had one.
    schema: Option<Schema>,
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

/// The result for the property.
#[derive(Debug)]
enum Outcome {
    Stays,
    Becomes(Value),
    /// The message goes no further, with a warning.
    Dropped(&'static str),
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let name = converted_property(properties.property);
    let action = match properties.action.as_str() {
        "obj" => Action::Parse,
        "str" => Action::Stringify,
        _ => Action::Both,
    };
    Ok(boxed(JsonNode {
        property: Path::parse_message(&name)?,
        name,
        action,
        pretty: properties.pretty,
        schema: None,
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

impl JsonNode {
    /// The property of a message, if the schema that it may have can be used.
    fn value(&mut self, message: &Message) -> Result<Value, Failure> {
        if coerce::truthy(message.get("schema")) {
            self.compile(message.get("schema"))?;
        }
        self.property.try_read_message(message)
    }

    /// Puts the result into the message, and checks it if the message has a schema; false if the
    /// message goes no further.
    fn place(
        &self,
        message: &mut Message,
        outcome: Outcome,
        host: &mut Host<'_, Worked<Outcome>>,
    ) -> Result<bool, Failure> {
        let checks = coerce::truthy(message.get("schema"));
        let value = self.property.try_read_message(message)?;
        if let Outcome::Dropped(warning) = outcome {
            host.log(Level::Warn, Value::from(warning));
            return Ok(false);
        }
        let parsed = matches!(value, Value::String(_) | Value::Buffer(_));
        if let Outcome::Becomes(new) = &outcome
            && parsed
        {
            self.property.write_message(message, new.clone())?;
        }
        if checks && !value.is_undefined() {
            // It is the property of this very name that is looked at (observed).
            let checked = match (parsed, self.action) {
                (true, Action::Stringify) => {
                    json::parse(&coerce::to_text(message.get(&self.name)))?
                }
                (true, _) => message.get(&self.name).clone(),
                (false, _) => value,
            };
            if let Some(Err(misfit)) = self.schema.as_ref().map(|schema| schema.check(&checked)) {
                message.set("schemaError", misfit.errors);
                return Err(Failure::text(format!("JSON Schema error: {}", misfit.text)));
            }
            message.take("schema");
        }
        if let Outcome::Becomes(new) = outcome
            && !parsed
        {
            self.property.write_message(message, new)?;
        }
        Ok(true)
    }

    fn compile(&mut self, schema: &Value) -> Result<(), Failure> {
        if self.schema.as_ref().is_none_or(|known| !known.is(schema)) {
            self.schema = Schema::compile(schema, regexp::SEARCH);
        }
        match self.schema {
            Some(_) => Ok(()),
            None => Err(Failure::text("JSON Schema error: failed to compile schema")),
        }
    }
}

impl Node<Worked<Outcome>> for JsonNode {
    fn receive(&mut self, message: Message, host: &mut Host<'_, Worked<Outcome>>) {
        let value = match self.value(&message) {
            Ok(value) => value,
            Err(failure) => return host.error(failure, Some(message)),
        };
        let (action, pretty) = (self.action, self.pretty);
        let work = host.work(
            message,
            size(&value),
            |worked| worked,
            move || convert(&value, action, pretty),
        );
        if let Some(worked) = work {
            self.event(worked, host);
        }
    }

    fn event(&mut self, worked: Worked<Outcome>, host: &mut Host<'_, Worked<Outcome>>) {
        let mut message = worked.message;
        let placed = worked
            .result
            .and_then(|outcome| self.place(&mut message, outcome, host));
        match placed {
            Ok(true) => host.pass(message),
            Ok(false) => host.done(message),
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
    fn each_action_converts_only_matching_values() {
        let object = json::parse(r#"{"a":[1]}"#).unwrap();
        let text = Value::from(r#"{"a":[1]}"#);
        assert_eq!(shown(&text, Action::Both), r#"Becomes({"a": [1]})"#);
        assert_eq!(shown(&object, Action::Both), r#"Becomes("{\"a\":[1]}")"#);
        assert_eq!(shown(&text, Action::Stringify), "Stays");
        assert_eq!(shown(&object, Action::Parse), "Stays");
        let bytes = Value::buffer(b"x".to_vec());
        assert!(shown(&bytes, Action::Stringify).starts_with("Stays"));
        assert_eq!(
            shown(&Value::buffer(b"[1]".to_vec()), Action::Both),
            "Becomes([1])"
        );
        assert_eq!(
            shown(&Value::Number(1.5), Action::Both),
            r#"Becomes("1.5")"#
        );
        assert_eq!(shown(&Value::Undefined, Action::Both), "Stays");
    }

    #[test]
    fn invalid_json_fails_with_v8s_message() {
        let failure = convert(&"abc".into(), Action::Both, false).unwrap_err();
        assert_eq!(
            failure.message,
            "Unexpected token 'a', \"abc\" is not valid JSON"
        );
    }
}
