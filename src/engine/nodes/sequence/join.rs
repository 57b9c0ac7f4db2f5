//! `join`: makes one message of a sequence: by its `msg.parts` (auto), as the node says (custom), or by an
//! expression (reduce).

use super::join_group::{Group, Shape};
use super::join_reduce::{Reduce, Step};
use super::split_cut::unescape;
use crate::engine::expression::typed::{Scene, Typed, text_of};
use crate::engine::expression::{Path, coerce, property};
use crate::engine::message::Message;
use crate::engine::node::{Build, Closing, Host, Level, Node, TimerId, Wake};
use crate::engine::value::{Failure, Value};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::HashMap;
use std::time::Duration;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    mode: SmolStr,
    build: SmolStr,
    property: SmolStr,
    property_type: SmolStr,
    key: SmolStr,
    joiner: Json,
    joiner_type: SmolStr,
    useparts: bool,
    accumulate: Json,
    timeout: Json,
    count: Json,
    reduce_right: bool,
    reduce_exp: SmolStr,
    reduce_init: Json,
    reduce_init_type: SmolStr,
    reduce_fixup: SmolStr,
}

pub(in crate::engine::nodes) fn build(build: &Build<'_>) -> Result<Box<dyn Node>, Failure> {
    let properties: Properties = build.properties()?;
    if properties.mode == "reduce" {
        let start = (
            properties.reduce_init_type.as_str(),
            &properties.reduce_init,
        );
        let mut reduce = Reduce::parse(&properties.reduce_exp, start, &properties.reduce_fixup)?;
        reduce.backwards = properties.reduce_right;
        return Ok(Box::new(ReducingJoin(reduce)));
    }
    let custom = match properties.mode.as_str() {
        "custom" => Some(Custom::parse(&properties)?),
        _ => None,
    };
    Ok(Box::new(Join {
        custom,
        groups: HashMap::new(),
        timers: HashMap::new(),
    }))
}

/// Joins with an expression.
struct ReducingJoin(Reduce);

impl Node for ReducingJoin {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        match self.0.add(message, host.config().message_buffer) {
            Step::Waiting => {}
            Step::Single(message) => host.pass(message),
            Step::TooMany(message) => host.error(
                Failure::error("too many pending messages in join node"),
                Some(message),
            ),
            Step::Complete(mut messages) => {
                let value = self.0.value(&messages, &Scene::of(host));
                let last = messages.pop().unwrap_or_default();
                for message in messages {
                    host.done(message);
                }
                match value {
                    Ok(value) => {
                        let mut made = last;
                        made.set("payload", value);
                        host.pass(made);
                    }
                    Err(failure) => host.error(failure, Some(last)),
                }
            }
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.0.clear().into_iter().for_each(|m| host.done(m));
        None
    }
}

/// Joins by parts, or as the node says.
struct Join {
    /// `None`: by parts.
    custom: Option<Custom>,
    groups: HashMap<SmolStr, Group>,
    /// When each group is sent as it is; only custom ones.
    timers: HashMap<SmolStr, TimerId>,
}

/// What the node says.
struct Custom {
    shape: Shape,
    /// `None`: the whole message.
    source: Option<Path>,
    key: Path,
    by_parts: bool,
    accumulate: bool,
    timeout: Option<Duration>,
    count: Option<f64>,
}

impl Custom {
    fn parse(properties: &Properties) -> Result<Self, Failure> {
        let or = |text: &SmolStr, default: &'static str| match text.as_str() {
            "" => SmolStr::new_static(default),
            _ => text.clone(),
        };
        let positive = |value: &Json| {
            let n = coerce::text_to_number(&text_of(value));
            (n > 0.0).then_some(n)
        };
        let source = or(&properties.property, "payload");
        let timeout = positive(&properties.timeout)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(Self {
            shape: properties.shape()?,
            source: match properties.property_type.as_str() {
                "full" => None,
                _ => Some(Path::parse_message(&source)?),
            },
            key: Path::parse_message(&or(&properties.key, "topic"))?,
            by_parts: properties.useparts,
            accumulate: matches!(text_of(&properties.accumulate).as_str(), "true"),
            timeout,
            count: positive(&properties.count),
        })
    }
}

impl Properties {
    fn shape(&self) -> Result<Shape, Failure> {
        let joiner = text_of(&self.joiner);
        Ok(match self.build.as_str() {
            "array" => Shape::Array { flat: false },
            "merged" => Shape::Merged,
            "string" => Shape::Text(unescape(&joiner).into()),
            "buffer" if self.joiner_type == "bin" => match Typed::parse("bin", &self.joiner)? {
                Typed::Constant(Value::Buffer(bytes)) => Shape::Buffer(bytes.as_ref().into()),
                _ => Shape::Buffer(Box::default()),
            },
            "buffer" => Shape::Buffer(unescape(&joiner).as_bytes().into()),
            _ => Shape::Object,
        })
    }
}

/// The name of the one group of a node that does not look at parts.
const ONLY: SmolStr = SmolStr::new_static("_");

impl Join {
    /// The group that a message belongs to; `None`: it has no parts where they are needed.
    fn group_of(&self, message: &Message) -> Option<SmolStr> {
        let id = match property(message.get("parts"), "id") {
            Value::Undefined => None,
            id => Some(coerce::to_text(&id)),
        };
        match &self.custom {
            None => id,
            Some(custom) if custom.by_parts => Some(id.unwrap_or(ONLY)),
            Some(_) => Some(ONLY),
        }
    }

    /// Adds a message to its group; the text of a warning if it cannot.
    fn add(&mut self, name: &SmolStr, message: &Message) -> Result<(), Refused> {
        let parts = message.get("parts");
        let value = match &self.custom {
            Some(Custom { source: None, .. }) => message.to_value(),
            Some(Custom {
                source: Some(path), ..
            }) => path.try_read_message(message).map_err(|_| {
                let path = path.to_string();
                let path = path.strip_prefix("msg.").unwrap_or(&path);
                Refused::Warning(format!("Message property {path} not found"))
            })?,
            None if property(parts, "property").is_undefined() => message.get("payload").clone(),
            None => path_of(parts).read_message(message),
        };
        let completes = message.properties().contains_key("complete");
        let group = self.groups.entry(name.clone()).or_insert_with(|| {
            let (shape, target) = match &self.custom {
                None => (shape_of(parts), None),
                Some(custom) => (custom.shape.clone(), custom.count),
            };
            let property = match &self.custom {
                None => path_of(parts),
                Some(custom) => custom.source.clone().unwrap_or(Path::name("payload")),
            };
            let mut group = Group::new(shape, property);
            group.target = target;
            group
        });
        let counted = self.custom.as_ref().is_none_or(|c| c.by_parts);
        if counted && let Value::Number(count) = property(parts, "count") {
            group.target = Some(count);
        }
        // A message that only completes adds nothing.
        if !(completes && value.is_undefined()) {
            let key = self.custom.as_ref().map(|c| &c.key);
            insert(group, key, message, value)?;
        }
        group.absorb(message);
        Ok(())
    }

    /// Starts the time that a group has, or starts it again when the message asks for it.
    fn start_timer(&mut self, name: &SmolStr, message: &Message, host: &mut Host<'_>) {
        let Some(timeout) = self.custom.as_ref().and_then(|c| c.timeout) else {
            return;
        };
        if self.timers.contains_key(name) {
            if !message.properties().contains_key("restartTimeout") {
                return;
            }
            self.stop_timer(name, host);
        }
        self.timers.insert(name.clone(), host.after(timeout));
    }

    fn stop_timer(&mut self, name: &SmolStr, host: &mut Host<'_>) {
        if let Some(timer) = self.timers.remove(name) {
            host.cancel(timer);
        }
    }

    /// Sends what a group has become.
    fn send(&mut self, name: &SmolStr, host: &mut Host<'_>) {
        self.stop_timer(name, host);
        let kept = self.custom.as_ref().is_some_and(|c| c.accumulate);
        let (message, held) = if kept {
            let Some(group) = self.groups.get_mut(name) else {
                return;
            };
            (group.message(), std::mem::take(&mut group.held))
        } else {
            let Some(group) = self.groups.remove(name) else {
                return;
            };
            (group.message(), group.held)
        };
        host.send(0, message);
        for message in held {
            host.done(message);
        }
    }

    fn reset(&mut self, message: Message, host: &mut Host<'_>) {
        if let Some(name) = self.group_of(&message) {
            self.stop_timer(&name, host);
            let group = self.groups.remove(&name);
            let held = group.map(|g| g.held).unwrap_or_default();
            for message in held {
                host.done(message);
            }
        }
        host.done(message);
    }
}

/// Why a message is in no group.
enum Refused {
    Warning(String),
    Failure(Failure),
}

/// Puts a value where the group's shape has its place.
fn insert(
    group: &mut Group,
    key: Option<&Path>,
    message: &Message,
    value: Value,
) -> Result<(), Refused> {
    let parts = message.get("parts");
    if group.wants_key() {
        let name = match key {
            Some(path) => path.read_message(message),
            None => property(parts, "key"),
        };
        let missing = name.is_nullish() || name.as_str() == Some("");
        if missing {
            let shown = key.map_or("msg.parts.key".to_owned(), Path::to_string);
            return Err(Refused::Warning(format!(
                "Message missing key property '{shown}' - cannot add to object"
            )));
        }
        group.add_property(coerce::to_text(&name), value);
        return Ok(());
    }
    if group.is_merged() {
        if group.merge(&value) {
            return Ok(());
        }
        return Err(Refused::Warning("Cannot merge non-object types".to_owned()));
    }
    // Only what comes with parts of its own is put in order.
    let place = match key {
        None => property(parts, "index").as_number(),
        Some(_) => None,
    };
    group.add_piece(place, value).map_err(Refused::Failure)
}

/// Where a message of a split sequence has its value.
fn path_of(parts: &Value) -> Path {
    match property(parts, "property") {
        Value::String(text) => Path::parse_message(&text).unwrap_or(Path::name("payload")),
        _ => Path::name("payload"),
    }
}

/// What the parts say that the sequence was before it was split.
fn shape_of(parts: &Value) -> Shape {
    let between = || match property(parts, "ch") {
        Value::Undefined | Value::Null => Value::from(""),
        between => between,
    };
    match property(parts, "type").as_str() {
        Some("object") => Shape::Object,
        Some("merged") => Shape::Merged,
        Some("string") => Shape::Text(coerce::to_text(&between())),
        Some("buffer") => Shape::Buffer(match between() {
            Value::Buffer(bytes) => bytes.as_ref().into(),
            Value::Array(bytes) => bytes
                .iter()
                .map(crate::engine::expression::typed::byte)
                .collect(),
            other => coerce::to_text(&other).as_bytes().into(),
        }),
        _ => Shape::Array {
            flat: property(parts, "len").as_number().is_some_and(|n| n > 1.0),
        },
    }
}

impl Node for Join {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        if message.properties().contains_key("reset") {
            return self.reset(message, host);
        }
        let Some(name) = self.group_of(&message) else {
            let warning = "Message missing msg.parts property - cannot join in 'auto' mode";
            host.log(Level::Warn, warning);
            return host.done(message);
        };
        match self.add(&name, &message) {
            Ok(()) => {}
            Err(Refused::Warning(warning)) => {
                host.log(Level::Warn, warning);
                return host.done(message);
            }
            Err(Refused::Failure(failure)) => return host.error(failure, Some(message)),
        }
        self.start_timer(&name, &message, host);
        let completes = message.properties().contains_key("complete");
        if let Some(group) = self.groups.get_mut(&name) {
            if host.watched() {
                group.held.push(message);
            }
            if completes || group.is_full() {
                self.send(&name, host);
            }
        }
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        let Wake::Timer(timer) = wake else { return };
        let due = self.timers.iter().find(|(_, t)| **t == timer);
        if let Some(name) = due.map(|(name, _)| name.clone()) {
            self.send(&name, host);
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        let groups = self.groups.drain();
        let held = groups.flat_map(|(_, group)| group.held);
        held.for_each(|m| host.done(m));
        None
    }
}
