//! `yaml`: turns YAML text into values and values into YAML text.

use super::{yaml_read, yaml_write};
use crate::engine::expression::Path;
use crate::engine::message::Message;
use crate::engine::node::{Build, Host, Level, Node};
use crate::engine::value::{Failure, Value};
use serde::Deserialize;
use smol_str::SmolStr;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    property: Option<SmolStr>,
}

struct Yaml {
    property: Path,
}

/// What becomes of the property.
#[derive(Debug)]
enum Outcome {
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
    Ok(Box::new(Yaml {
        property: Path::parse_message(&property)?,
    }))
}

fn convert(value: &Value) -> Result<Outcome, Failure> {
    match value {
        Value::String(text) => yaml_read::read(text).map(Outcome::Becomes),
        Value::Buffer(_) => Ok(Outcome::Dropped("Ignored non-object payload")),
        Value::Undefined | Value::Bool(_) | Value::Number(_) | Value::Handle(_) => {
            Ok(Outcome::Dropped("Ignored unsupported payload type"))
        }
        value => yaml_write::write(value).map(|text| Outcome::Becomes(Value::from(text))),
    }
}

impl Node for Yaml {
    fn receive(&mut self, mut message: Message, host: &mut Host<'_>) {
        let value = match self.property.try_read_message(&message) {
            Ok(Value::Undefined) => return host.pass(message),
            Ok(value) => value,
            Err(failure) => return host.error(failure, Some(message)),
        };
        match convert(&value) {
            Ok(Outcome::Becomes(value)) => match self.property.write_message(&mut message, value) {
                Ok(_) => host.pass(message),
                Err(failure) => host.error(failure, Some(message)),
            },
            Ok(Outcome::Dropped(warning)) => {
                host.log(Level::Warn, warning);
                host.done(message);
            }
            Err(failure) => host.error(failure, Some(message)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::yaml_read::read;
    use crate::engine::expression::json;
    use crate::engine::scaling::{assert_scales, pieces};

    fn shown(text: &str) -> String {
        json::stringify(&read(text).unwrap()).unwrap_or_default()
    }

    /// What Node-RED 4.1 read.
    #[test]
    fn texts_become_the_values_that_node_red_reads() {
        for (text, expected) in [
            (
                "a: 1\nb:\n  - x\n  - \"2\"\nc: {d: true, e: null, f: ~}\n",
                r#"{"a":1,"b":["x","2"],"c":{"d":true,"e":null,"f":null}}"#,
            ),
            ("5", "5"),
            ("abc", "\"abc\""),
            ("- 1\n- 2", "[1,2]"),
            ("a: yes", r#"{"a":"yes"}"#),
            ("a: 0x1F", r#"{"a":31}"#),
            ("a: |\n  l1\n  l2\n", r#"{"a":"l1\nl2\n"}"#),
            ("a: >\n  l1\n  l2\n", r#"{"a":"l1 l2\n"}"#),
            ("a: &x {q: 1}\nb: *x", r#"{"a":{"q":1},"b":{"q":1}}"#),
            ("a: '12:30'", r#"{"a":"12:30"}"#),
            ("a:", r#"{"a":null}"#),
            ("", ""),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn broken_documents_and_bombs_are_refused() {
        assert!(read("a: [1,").is_err());
        assert!(read("a: 1\na: 2").is_err());
        assert!(read("x: *nope").is_err());
        assert!(read(&"[".repeat(100_000)).is_err());
        let bomb: Vec<String> = (1..12)
            .map(|n| {
                format!(
                    "a{n}: &a{n} [{}]",
                    vec![format!("*a{}", n - 1); 10].join(",")
                )
            })
            .collect();
        let bomb = format!("a0: &a0 [x]\n{}", bomb.join("\n"));
        assert!(read(&bomb).is_err());
    }

    #[test]
    fn anchors_cost_no_look_at_those_before() {
        let text = |n| pieces(n, |k| format!("k{k}: &a{k} v\n"));
        assert_scales(1000, text, |text| drop(read(&text).unwrap()));
    }
}
