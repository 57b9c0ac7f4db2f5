//! `debug`: shows messages in the editor's sidebar, in the log, or as the node's status.

use crate::engine::debug_encode::encode;
use crate::engine::expression::jsonata::Jsonata;
use crate::engine::expression::typed::{Scene, Typed};
use crate::engine::expression::{Path, coerce, json};
use crate::engine::message::Message;
use crate::engine::node::{Build, Host, Info, Level, Node, TimerId, Wake};
use crate::engine::value::{Failure, Value};
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::time::Duration;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    active: Option<bool>,
    tosidebar: Option<bool>,
    console: Json,
    tostatus: bool,
    complete: Json,
    target_type: SmolStr,
    status_val: SmolStr,
    status_type: SmolStr,
}

/// Longest status text, characters (observed on 4.1.15).
const STATUS_LENGTH: usize = 32;

/// Shortest time between two changes of the status (facts engine §4.3).
const STATUS_PAUSE: Duration = Duration::from_millis(100);

struct Debug {
    shown: Shown,
    active: bool,
    sidebar: bool,
    console: bool,
    status: Option<StatusSource>,
    longest: usize,
    badge: Badge,
}

/// What of a message is shown.
enum Shown {
    Whole,
    Property { name: SmolStr, path: Path },
    Expression(Box<Jsonata>),
}

/// What the status shows.
enum StatusSource {
    /// The same as the sidebar.
    Auto,
    /// How many messages came.
    Counter,
    /// Something else of the message.
    Typed(Typed),
}

/// The node's status, changed only so often.
#[derive(Default)]
struct Badge {
    count: u64,
    pending: Option<Value>,
    pause: Option<TimerId>,
}

pub(in crate::engine::nodes) fn build(
    build: &Build<'_>,
    host: &mut Host<'_>,
) -> Result<Box<dyn Node>, Failure> {
    let properties: Properties = build.properties()?;
    Ok(Box::new(Debug {
        shown: shown(&properties)?,
        active: properties.active.unwrap_or(true),
        sidebar: properties.tosidebar.unwrap_or(true),
        console: matches!(&properties.console, Json::Bool(true)) || properties.console == "true",
        status: if properties.tostatus {
            Some(status_source(&properties)?)
        } else {
            None
        },
        longest: host.config().debug_length,
        badge: Badge::default(),
    }))
}

fn shown(properties: &Properties) -> Result<Shown, Failure> {
    let complete = match &properties.complete {
        Json::Bool(true) => "true",
        Json::String(text) if !text.is_empty() && text != "false" => text,
        _ => "payload",
    };
    if properties.target_type == "jsonata" {
        return Ok(Shown::Expression(Box::new(
            Jsonata::compile(complete).map_err(invalid_expression)?,
        )));
    }
    if complete == "true" || properties.target_type == "full" {
        return Ok(Shown::Whole);
    }
    Ok(Shown::Property {
        name: complete.into(),
        path: Path::parse_message(complete)?,
    })
}

fn invalid_expression(failure: Failure) -> Failure {
    Failure {
        message: format!("Invalid JSONata expression: {}", failure.message).into(),
        ..failure
    }
}

fn status_source(properties: &Properties) -> Result<StatusSource, Failure> {
    Ok(match properties.status_type.as_str() {
        "" | "auto" => StatusSource::Auto,
        "counter" => StatusSource::Counter,
        kind => StatusSource::Typed(Typed::parse(
            kind,
            &Json::from(properties.status_val.as_str()),
        )?),
    })
}

impl Node for Debug {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        if is_own_status(&message, host.info()) {
            return host.done(message);
        }
        let scene = Scene::of(host);
        let value = match &self.shown {
            Shown::Whole => message.to_value(),
            Shown::Property { path, .. } => path.read_message(&message),
            Shown::Expression(expression) => match expression.evaluate(&scene, &message) {
                Ok(value) => value,
                Err(failure) => return host.error(invalid_expression(failure), Some(message)),
            },
        };
        if let Err(failure) = self.show_status(&value, &message, &scene, host) {
            return host.error(failure, Some(message));
        }
        if self.console {
            host.log(
                Level::Info,
                Value::from(coerce::to_output_text(&value).into_owned()),
            );
        }
        if self.active && self.sidebar && host.debug_heard() {
            let data = self.frame(&value, &message, host.info());
            host.debug(data);
        }
        host.done(message);
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        match wake {
            Wake::Active(active) => self.active = active,
            Wake::Timer(_) => {
                self.badge.pause = None;
                if let Some(status) = self.badge.pending.take() {
                    host.status(status);
                    self.badge.pause = Some(host.after(STATUS_PAUSE));
                }
            }
            _ => {}
        }
    }

    fn close(
        &mut self,
        _removed: bool,
        host: &mut Host<'_>,
    ) -> Option<crate::engine::node::Closing> {
        if self.status.is_some() {
            host.status(Value::record([]));
        }
        None
    }
}

impl Debug {
    /// The frame that the editor gets (facts admin API §4).
    fn frame(&self, value: &Value, message: &Message, info: &Info) -> Json {
        let (text, format) = encode(value, self.longest);
        let mut frame = Map::new();
        let mut put = |key: &str, value: Json| frame.insert(key.to_owned(), value);
        put("id", info.id.as_str().into());
        put("z", info.z.as_str().into());
        if info.alias != info.id {
            put("_alias", info.alias.as_str().into());
        }
        put("path", info.path.as_str().into());
        if info.named {
            put("name", info.name.as_str().into());
        }
        let topic = message.get("topic");
        if !topic.is_undefined() {
            put("topic", json::to_tree(topic));
        }
        if let Shown::Property { name, .. } = &self.shown {
            put("property", name.as_str().into());
        }
        put("msg", text);
        put("format", format.into());
        Json::Object(frame)
    }

    fn show_status(
        &mut self,
        value: &Value,
        message: &Message,
        scene: &Scene,
        host: &mut Host<'_>,
    ) -> Result<(), Failure> {
        let status = match &self.status {
            None => return Ok(()),
            Some(StatusSource::Auto) => auto_status(value, message),
            Some(StatusSource::Counter) => {
                self.badge.count += 1;
                badge("blue", "ring", &self.badge.count.to_string())
            }
            Some(StatusSource::Typed(typed)) => status_of(&typed.evaluate(scene, message)?),
        };
        if self.badge.pause.is_some() {
            self.badge.pending = Some(status);
        } else {
            host.status(status);
            self.badge.pause = Some(host.after(STATUS_PAUSE));
        }
        Ok(())
    }
}

/// A status that this very node showed must not come back to it for ever.
fn is_own_status(message: &Message, info: &Info) -> bool {
    let Some(status) = message.get("status").as_object() else {
        return false;
    };
    let source = status.get("source").and_then(Value::as_object);
    source.and_then(|s| s.get("id")).and_then(Value::as_str) == Some(info.id.as_str())
}

/// The status of a shown value; errors and statuses in the message come first.
fn auto_status(value: &Value, message: &Message) -> Value {
    if let Some(status) = message.get("status").as_object() {
        let text = |key: &str| {
            status
                .get(key)
                .map(coerce::to_text)
                .filter(|t| !t.is_empty())
        };
        let fill = text("fill").unwrap_or(SmolStr::new_static("grey"));
        let shape = text("shape").unwrap_or(SmolStr::new_static("ring"));
        return badge(&fill, &shape, &text("text").unwrap_or_default());
    }
    if let Some(error) = message.get("error").as_object() {
        let text = error
            .get("message")
            .map(coerce::to_text)
            .unwrap_or_default();
        return badge("red", "dot", &text);
    }
    status_of(value)
}

/// A value as a status: `{fill, shape, text}` as it is, anything else as text.
fn status_of(value: &Value) -> Value {
    let object = value.as_object().filter(|o| {
        ["fill", "shape", "text"]
            .iter()
            .all(|key| o.contains_key(*key))
    });
    match object {
        Some(object) => {
            let text = |key: &str| object.get(key).map(coerce::to_text).unwrap_or_default();
            badge(&text("fill"), &text("shape"), &text("text"))
        }
        None => badge("grey", "dot", &coerce::to_output_text(value)),
    }
}

fn badge(fill: &str, shape: &str, text: &str) -> Value {
    let text = match text.char_indices().nth(STATUS_LENGTH) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    };
    Value::record([
        ("fill", fill.into()),
        ("shape", shape.into()),
        ("text", text.into()),
    ])
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn text(status: &Value) -> String {
        json::stringify(status).unwrap()
    }

    #[test]
    fn the_shown_part_follows_complete_and_target_type() {
        let shown_by =
            |properties: &str| shown(&serde_json::from_str(properties).unwrap()).unwrap();
        assert!(
            matches!(shown_by(r#"{"complete":"false"}"#), Shown::Property { name, .. } if name == "payload")
        );
        assert!(matches!(shown_by("{}"), Shown::Property { name, .. } if name == "payload"));
        assert!(
            matches!(shown_by(r#"{"complete":"req.url"}"#), Shown::Property { name, .. } if name == "req.url")
        );
        assert!(matches!(
            shown_by(r#"{"complete":"true","targetType":"full"}"#),
            Shown::Whole
        ));
        assert!(matches!(
            shown_by(r#"{"complete":"1+1","targetType":"jsonata"}"#),
            Shown::Expression(_)
        ));
    }

    #[test]
    fn frames_have_the_fields_that_the_editor_knows() {
        let properties: Properties = serde_json::from_str("{}").unwrap();
        let debug = Debug {
            shown: shown(&properties).unwrap(),
            active: true,
            sidebar: true,
            console: false,
            status: None,
            longest: 1000,
            badge: Badge::default(),
        };
        let frame = debug.frame(
            &"hello".into(),
            &Message::default(),
            &Scene::for_tests().info,
        );
        let expected =
            r#"{"id":"","z":"","path":"","property":"payload","msg":"hello","format":"string[5]"}"#;
        assert_eq!(frame.to_string(), expected);
    }

    #[test]
    fn statuses_are_short_and_errors_red() {
        let long = Value::from("x".repeat(40));
        assert_eq!(
            text(&status_of(&long)),
            format!(
                r#"{{"fill":"grey","shape":"dot","text":"{}..."}}"#,
                "x".repeat(32)
            )
        );
        let mut message = Message::default();
        message.set("error", Value::record([("message", "boom".into())]));
        assert_eq!(
            text(&auto_status(&Value::Null, &message)),
            r#"{"fill":"red","shape":"dot","text":"boom"}"#
        );
    }
}
