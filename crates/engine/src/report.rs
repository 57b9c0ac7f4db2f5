//! Reports of nodes and their recipients: errors, status, completed messages and log lines.

use super::debug_encode::encode;
use crate::log_level::Level;
use crate::log_lines::{MAX_TEXT, beginning};
use crate::node_info::NodeInfo;
use crate::state::EngineState;
use events::Event;
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::rc::Rc;
use value::{Failure, Message, Object, REPORT, Value, coerce, json};

/// The number of times that a message may come back to the node whose error it carries
/// (docs/reference/node-red-engine.md §3.2: the 10th is dropped).
const MAX_CATCHES: f64 = 10.0;

impl EngineState {
    /// An error of a node: to the catch nodes of its flow and of those around it, else to the log.
    pub(super) fn error(
        &mut self,
        info: &Rc<NodeInfo>,
        failure: &Failure,
        message: Option<Message>,
    ) {
        let message = message.map(Message::within_limits);
        if message.is_some_and(|m| self.caught(info, failure, m)) {
            self.count_error(info);
        } else {
            self.log(info, Level::Error, &failure.to_value());
        }
    }

    fn count_error(&self, info: &NodeInfo) {
        let counters = self.metrics.node_type(label(info.kind()));
        counters.errors.increment(1);
        let tab = info.container.path.split('/').next();
        self.metrics.error_on(tab.unwrap_or_default());
    }

    fn caught(&mut self, source: &Rc<NodeInfo>, failure: &Failure, mut message: Message) -> bool {
        let count = previous_catches(&message, &source.id) + 1.0;
        if count >= MAX_CATCHES {
            self.log(
                source,
                Level::Warn,
                &Value::text("Message exceeded maximum number of catches"),
            );
            return false;
        }
        let slots = self.catching(source);
        if slots.is_empty() {
            return false;
        }
        let previous = message.get("error").clone();
        if !previous.is_undefined() {
            message.set("_error", previous);
        }
        message.set("error", described(source, failure, count));
        for slot in slots {
            let mut copy = message.clone();
            self.ensure_msgid(&mut copy);
            self.call(slot, copy);
        }
        true
    }

    /// The catch nodes for an error: of the node's flow; else of the flow around the subflow, for
    /// its instance.
    fn catching(&self, source: &Rc<NodeInfo>) -> Vec<u32> {
        let mut reporter = Rc::clone(source);
        loop {
            let Some(flow) = self.listeners.flow(&reporter.container.z) else {
                return Vec::new();
            };
            let slots = flow.catching(&reporter);
            if !slots.is_empty() {
                return slots;
            }
            let Some((_, instance)) = &flow.parent else {
                return Vec::new();
            };
            let Some(info) = self.info_of(instance) else {
                return Vec::new();
            };
            reporter = info;
        }
    }

    /// The status of a node: to editors, to status nodes, and out of a subflow that has no status
    /// output.
    pub(super) fn status(&mut self, info: &Rc<NodeInfo>, status: &Value) {
        let status = normalised(status);
        let data = || {
            let cleared = status.as_object().is_some_and(Object::is_empty);
            (!cleared).then(|| json::to_tree(&status))
        };
        let hidden = self.sources.keep_status(&info.id, data);
        if !hidden && self.events.has_listeners() {
            self.events.publish(Event::Status {
                id: info.id.clone(),
                status: data(),
            });
        }
        let mut reporter = Rc::clone(info);
        loop {
            let Some(flow) = self.listeners.flow(&reporter.container.z) else {
                return;
            };
            let (slots, port) = (flow.status_listeners(&reporter), flow.status_port);
            let parent = flow.parent.clone();
            if !slots.is_empty() {
                let message = status_message(info, &status);
                for slot in slots {
                    let mut copy = message.clone();
                    self.ensure_msgid(&mut copy);
                    self.call(slot, copy);
                }
                return;
            }
            let Some((_, instance)) = parent.filter(|_| !port) else {
                return;
            };
            let Some(outer) = self.info_of(&instance) else {
                return;
            };
            reporter = outer;
        }
    }

    /// A node has finished with a message: to the complete nodes that watch it.
    pub(super) fn complete(&mut self, info: &Rc<NodeInfo>, message: &Message) {
        for slot in self.listeners.complete(info).to_vec() {
            let mut copy = message.clone().within_limits();
            copy.set("complete", Value::record([("source", source(info, None))]));
            self.ensure_msgid(&mut copy);
            self.call(slot, copy);
        }
    }

    /// A line of the log; warnings and errors also reach the editors' debug sidebar.
    pub(super) fn log(&self, info: &NodeInfo, level: Level, value: &Value) {
        let text: SmolStr = match value {
            Value::String(text) => text.clone(),
            Value::Error(failure) => failure.to_string().into(),
            other => json::stringify(other).unwrap_or_default().into(),
        };
        let text = beginning(&text, MAX_TEXT);
        let (id, kind, name) = (&info.id, info.kind(), info.name.as_deref().unwrap_or(""));
        if level == Level::Error {
            self.count_error(info);
        }
        match level {
            Level::Error => tracing::error!(target: "flow", node = %id, %kind, %name, "{text}"),
            Level::Warn => tracing::warn!(target: "flow", node = %id, %kind, %name, "{text}"),
            Level::Info => tracing::info!(target: "flow", node = %id, %kind, %name, "{text}"),
            Level::Debug => tracing::debug!(target: "flow", node = %id, %kind, %name, "{text}"),
            Level::Trace => tracing::trace!(target: "flow", node = %id, %kind, %name, "{text}"),
        }
        if matches!(level, Level::Error | Level::Warn) && self.events.wants_debug() {
            self.events
                .publish(Event::Debug(self.logged(info, level, value)));
        }
    }

    /// Sends editors a warning or an error that belongs to no node, as Node-RED's debug node does
    /// with all of its log.
    pub(super) fn show_log_line(&self, level: Level, value: &Value) {
        if matches!(level, Level::Error | Level::Warn) && self.events.wants_debug() {
            let (msg, format) = encode(value, self.config.debug_length);
            let timestamp = self.now.get();
            self.events.publish(Event::Debug(
                json!({ "level": level as u8, "msg": msg, "timestamp": timestamp, "format": format }),
            ));
        }
    }

    /// A line of the log as the debug sidebar shows it; properties that a node does not have are
    /// left out.
    fn logged(&self, info: &NodeInfo, level: Level, value: &Value) -> Json {
        let (msg, format) = encode(value, self.config.debug_length);
        let mut data =
            json!({ "level": level as u8, "id": info.id, "type": info.kind(), "msg": msg });
        if *info.alias() != info.id {
            data["_alias"] = info.alias().as_str().into();
        }
        for (key, text) in [("z", Some(&info.container.z)), ("name", info.name.as_ref())] {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                data[key] = text.as_str().into();
            }
        }
        data["path"] = info.container.path.as_str().into();
        data["timestamp"] = self.now.get().into();
        data["format"] = format.into();
        data
    }

    /// Gives a message an id if it has none.
    pub(super) fn ensure_msgid(&mut self, message: &mut Message) {
        if !message.properties().contains_key("_msgid") {
            let id = self.fresh_id();
            message.set(SmolStr::new_static("_msgid"), id);
        }
    }

    /// The data of a running node.
    pub(super) fn info_of(&self, id: &str) -> Option<Rc<NodeInfo>> {
        let slot = self.directory.get(id)?;
        self.directory.info(slot).cloned()
    }
}

fn previous_catches(message: &Message, id: &str) -> f64 {
    let source = message
        .get("error")
        .as_object()
        .and_then(|e| e.get("source"))
        .and_then(Value::as_object);
    match source {
        Some(source) if source.get("id").and_then(Value::as_str) == Some(id) => source
            .get("count")
            .and_then(Value::as_number)
            .unwrap_or(0.0),
        _ => 0.0,
    }
}

/// `msg.error` as catch nodes see it.
fn described(info: &NodeInfo, failure: &Failure, count: f64) -> Value {
    let mut error = Object::default();
    error.insert(
        SmolStr::new_static("message"),
        Value::from(failure.to_string()),
    );
    error.insert(SmolStr::new_static("source"), source(info, Some(count)));
    for (key, text) in [("code", &failure.code), ("stack", &failure.stack())] {
        if !text.is_empty() {
            error.insert(SmolStr::new_static(key), Value::String(text.clone()));
        }
    }
    let cause = failure.cause.as_ref();
    if let Some(cause) = cause.filter(|cause| cause.extent().check(REPORT).is_ok()) {
        error.insert(SmolStr::new_static("cause"), (**cause).clone());
    }
    Value::object(error)
}

fn source(info: &NodeInfo, count: Option<f64>) -> Value {
    let mut source = Object::default();
    for (key, text) in [("id", &info.id), ("type", info.kind())] {
        source.insert(SmolStr::new_static(key), Value::String(text.clone()));
    }
    source.insert(SmolStr::new_static("name"), Value::from(info.name.clone()));
    if let Some(count) = count {
        source.insert(SmolStr::new_static("count"), Value::Number(count));
    }
    Value::object(source)
}

/// A status as an object; a text, number or boolean is its text (docs/reference/node-red-engine.md
/// §3.2).
fn normalised(status: &Value) -> Value {
    match status {
        Value::Object(object) => {
            let mut object = (**object).clone();
            object.modify("text", |text| *text = Value::from(coerce::to_text(text)));
            Value::object(object)
        }
        Value::Undefined | Value::Null => Value::object(Object::default()),
        other => Value::record([("text", Value::from(coerce::to_text(other)))]),
    }
}

fn status_message(info: &NodeInfo, status: &Value) -> Message {
    let mut inner = status.as_object().cloned().unwrap_or_default();
    inner.insert(SmolStr::new_static("source"), source(info, None));
    let mut message = Message::default();
    message.set("status", Value::object(inner));
    message.within_limits()
}

/// A runtime-state notification, as editors expect it (docs/reference/node-red-engine.md §1.1,
/// §2.4).
pub(super) fn runtime_state(state: &str, deploy: bool) -> Event {
    let mut data = json!({ "state": state });
    if deploy {
        data["deploy"] = Json::Bool(true);
    }
    Event::RuntimeState(data)
}

/// A type as metrics label it: all subflows are one, so that their number stays bounded.
pub(super) fn label(kind: &str) -> &str {
    kind.split_once(':').map_or(kind, |(subflow, _)| subflow)
}
