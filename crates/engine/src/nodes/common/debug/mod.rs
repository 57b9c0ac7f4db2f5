//! `debug`: shows messages in the editor's sidebar, in the log, or as the node's status.

use crate::debug_encode::encode;
use crate::expression::jsonata::Jsonata;
use crate::expression::typed::text_of;
use crate::inspect::{DEPTH, inspect};
use crate::node::{BoxedNode, Build, Host, Level, Node, NodeInfo, TimerId, Wake, boxed};
use crate::node_context::NodeContext;
use crate::nodes;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::time::Duration;
use value::{Failure, Message, Path, Value, coerce, json};

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

/// A count that changes at shorter intervals than this, in milliseconds, is shown when it has
/// stopped changing.
const FAST: f64 = 100.0;

/// The time for which a fast count must stay the same.
const REST: Duration = Duration::from_millis(200);

/// Levels of an object in the log.
const LOG_DEPTH: usize = 10;

struct Debug {
    shown: Shown,
    active: bool,
    sidebar: bool,
    console: bool,
    status: Option<StatusSource>,
    longest: usize,
    status_state: StatusState,
}

/// The part of a message that is shown.
enum Shown {
    Whole,
    Property {
        name: SmolStr,
        path: Path,
    },
    Expression {
        text: SmolStr,
        compiled: Box<Jsonata>,
    },
}

/// The value that the status shows.
enum StatusSource {
    /// The same as the sidebar; of a whole message the payload.
    Auto,
    /// The number of messages received.
    Counter,
    /// Another property; `None` where it cannot be named.
    Property(Option<Path>),
    Expression(Box<Jsonata>),
}

/// The state of the status display.
#[derive(Default)]
struct StatusState {
    text: Option<Value>,
    count: f64,
    counted: f64,
    rest: Option<TimerId>,
}

pub(in crate::nodes) fn build(
    build: &Build<'_>,
    host: &mut Host<'_>,
) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let shown = shown(&properties)?;
    let status = if properties.tostatus {
        Some(status_source(&properties, &shown)?)
    } else {
        None
    };
    Ok(boxed(Debug {
        shown,
        active: properties.active.unwrap_or(true),
        sidebar: properties.tosidebar.unwrap_or(true),
        console: properties.console == true || properties.console == "true",
        status,
        longest: host.config().debug_length,
        status_state: StatusState::default(),
    }))
}

fn shown(properties: &Properties) -> Result<Shown, Failure> {
    let complete = match &properties.complete {
        Json::Bool(true) => "true",
        Json::String(text) if !text.is_empty() && text != "false" => text,
        _ => "payload",
    };
    if properties.target_type == "jsonata" {
        let compiled = Jsonata::compile(complete).map_err(|_| invalid_expression(complete))?;
        return Ok(Shown::Expression {
            text: complete.into(),
            compiled: Box::new(compiled),
        });
    }
    if complete == "true" || properties.target_type == "full" {
        return Ok(Shown::Whole);
    }
    Ok(Shown::Property {
        name: complete.into(),
        path: Path::parse_message(complete)?,
    })
}

/// Node-RED names the expression of the sidebar, whichever is wrong.
fn invalid_expression(text: &str) -> Failure {
    Failure::text(format!("Invalid JSONata expression: {text}"))
}

impl Shown {
    fn expression(&self) -> &str {
        match self {
            Self::Expression { text, .. } => text,
            _ => "",
        }
    }

    fn value(&self, message: &Message, eval: &NodeContext) -> Result<Value, Failure> {
        match self {
            Self::Whole => Ok(message.to_value()),
            Self::Property { path, .. } => Ok(path.read_message(message)),
            Self::Expression { text, compiled } => compiled
                .evaluate(eval, message)
                .map_err(|_| invalid_expression(text)),
        }
    }
}

fn status_source(properties: &Properties, shown: &Shown) -> Result<StatusSource, Failure> {
    let text = match properties.status_val.as_str() {
        "" => text_of(&properties.complete),
        text => text.into(),
    };
    Ok(match properties.status_type.as_str() {
        "" | "auto" => StatusSource::Auto,
        "counter" => StatusSource::Counter,
        "jsonata" => match Jsonata::compile(&properties.status_val) {
            Ok(expression) => StatusSource::Expression(Box::new(expression)),
            Err(_) => return Err(invalid_expression(shown.expression())),
        },
        _ => StatusSource::Property(Path::parse_message(&text).ok()),
    })
}

impl Node for Debug {
    fn start(&mut self, host: &mut Host<'_>) {
        self.status_state.counted = host.now();
        if self.status.is_some() {
            host.status(Value::record([
                ("fill", "grey".into()),
                ("shape", "ring".into()),
            ]));
        }
        host.status(match &self.status {
            Some(StatusSource::Counter) => short_status("blue", "ring", "0"),
            _ => Value::record([]),
        });
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        if is_own_status(&message, host.info()) {
            return host.done(message);
        }
        let eval = host.context();
        let shown = self.show_status(&message, &eval, host);
        let value = match self.shown.value(&message, &eval) {
            Ok(value) => value,
            Err(failure) => return host.error(failure, None),
        };
        if self.console {
            host.log(Level::Info, Value::from(logged(&value)));
        }
        if self.active && self.sidebar && host.wants_debug() {
            let data = self.frame(&value, &message, host.info());
            host.debug(data);
        }
        if let Err(failure) = shown {
            host.error(failure, None);
        }
        host.done(message);
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        match wake {
            Wake::Active(active) => self.active = active,
            Wake::Timer(_) => {
                self.status_state.rest = None;
                host.status(count(self.status_state.count));
            }
            _ => {}
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<crate::node::Closing> {
        if self.status.is_some() {
            host.status(Value::record([]));
        }
        None
    }
}

/// A value as a log line; one of several lines begins on a line of its own.
fn logged(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.to_string(),
        other => inspect(other, LOG_DEPTH),
    };
    let apart = text.contains('\n') || coerce::type_of(value) == "object";
    if apart { format!("\n{text}") } else { text }
}

impl Debug {
    /// The frame that the editor gets (docs/reference/node-red-admin-api.md §4).
    fn frame(&self, value: &Value, message: &Message, info: &NodeInfo) -> Json {
        let (text, format) = encode(value, self.longest);
        let mut frame = Map::new();
        let mut put = |key: &str, value: Json| frame.insert(key.to_owned(), value);
        put("id", info.id.as_str().into());
        put("z", info.container.z.as_str().into());
        if *info.alias() != info.id {
            put("_alias", info.alias().as_str().into());
        }
        put("path", info.container.path.as_str().into());
        if let Some(name) = &info.name {
            put("name", name.as_str().into());
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
        message: &Message,
        eval: &NodeContext,
        host: &mut Host<'_>,
    ) -> Result<(), Failure> {
        let status = match &self.status {
            None => return Ok(()),
            Some(StatusSource::Counter) => {
                self.count(host);
                return Ok(());
            }
            Some(StatusSource::Auto) => {
                let value = match &self.shown {
                    Shown::Whole => message.get("payload").clone(),
                    shown => shown.value(message, eval)?,
                };
                auto_status(&value, message)
            }
            Some(StatusSource::Property(path)) => {
                let value = path.as_ref().map(|path| path.read_message(message));
                status_of(&value.unwrap_or_default())
            }
            Some(StatusSource::Expression(expression)) => status_of(
                &expression
                    .evaluate(eval, message)
                    .map_err(|_| invalid_expression(self.shown.expression()))?,
            ),
        };
        let same = self.status_state.text.as_ref();
        if !same.is_some_and(|before| coerce::deep_equal(before, &status)) {
            host.status(status.clone());
            self.status_state.text = Some(status);
        }
        Ok(())
    }

    /// Counts a message; a fast count is shown when it rests.
    fn count(&mut self, host: &mut Host<'_>) {
        let since = host.now() - self.status_state.counted;
        self.status_state.counted = host.now();
        self.status_state.count += 1.0;
        if since > FAST {
            host.status(count(self.status_state.count));
            return;
        }
        if let Some(timer) = self.status_state.rest.take() {
            host.cancel(timer);
        }
        self.status_state.rest = Some(host.after(REST));
    }
}

fn count(count: f64) -> Value {
    short_status("blue", "ring", &coerce::number_text(count))
}

/// A status that this very node showed must not come back to it for ever.
fn is_own_status(message: &Message, info: &NodeInfo) -> bool {
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
        return short_status(&fill, &shape, &text("text").unwrap_or_default());
    }
    if let Some(error) = message.get("error").as_object() {
        let text = error
            .get("message")
            .map(coerce::to_text)
            .unwrap_or_default();
        return short_status("red", "dot", &text);
    }
    status_of(value)
}

/// A value as a status: `{fill, shape, text}` as it is, anything else as text.
fn status_of(value: &Value) -> Value {
    let object = value.as_object().filter(|o| {
        ["fill", "shape", "text"]
            .iter()
            .all(|key| o.get(key).is_some_and(coerce::truthy))
    });
    match object {
        Some(object) => {
            let text = |key: &str| object.get(key).map(coerce::to_text).unwrap_or_default();
            short_status(&text("fill"), &text("shape"), &text("text"))
        }
        None => match value {
            Value::String(text) => short_status("grey", "dot", text),
            other => short_status("grey", "dot", &inspect(other, DEPTH)),
        },
    }
}

/// A status whose text is not too long for the editor.
fn short_status(fill: &str, shape: &str, text: &str) -> Value {
    let text = match text.char_indices().nth(STATUS_LENGTH) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    };
    nodes::status(fill, shape, &text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
