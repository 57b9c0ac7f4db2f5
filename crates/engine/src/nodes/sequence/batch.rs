//! `batch`: makes sequences of messages: by count, by time, or of the sequences of several topics
//! in a row.

use crate::expression::typed::text_of;
use crate::instance::timer_delay;
use crate::node::{BoxedNode, Build, Closing, Host, Node, TimerId, Wake, boxed};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::VecDeque;
use std::time::Duration;
use value::{Failure, Message, Object, Value, coerce, json, property};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    mode: SmolStr,
    count: Json,
    overlap: Json,
    interval: Json,
    allow_empty_sequence: bool,
    honour_parts: bool,
    topics: Vec<Topic>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Topic {
    topic: Json,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let number = |value: &Json, or: f64| match text_of(value).as_str() {
        "" | "false" => or,
        // The number 0 counts as unset, the text does not (observed).
        "0" if value.is_number() => or,
        text => coerce::text_to_number(text),
    };
    Ok(match properties.mode.as_str() {
        "interval" => boxed(ByTime {
            every: Some(number(&properties.interval, 0.0) * 1000.0)
                .filter(|ms| *ms > 0.0)
                .map(timer_delay),
            empty: properties.allow_empty_sequence,
            waiting: Vec::new(),
            timer: None,
        }),
        "concat" => boxed(ByTopic {
            topics: properties
                .topics
                .iter()
                .map(|t| (json::from_tree(&t.topic), VecDeque::new()))
                .collect(),
            pending: 0,
        }),
        "" | "count" => {
            let (count, overlap) = (
                number(&properties.count, 1.0),
                number(&properties.overlap, 0.0),
            );
            if overlap >= count {
                return Err(Failure::text("Invalid count and overlap"));
            }
            boxed(ByCount {
                count,
                overlap: whole(overlap),
                honour: properties.honour_parts,
                waiting: Vec::new(),
                counted: 0,
            })
        }
        _ => return Err(Failure::text("unexpected mode")),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and what is no count is 0"
)]
fn whole(n: f64) -> usize {
    n as usize
}

/// The messages as a sequence of their own, which has the id of the first message. Other parts
/// stay.
fn sequence(mut messages: Vec<Message>) -> Vec<Message> {
    let count = messages.len() as f64;
    let id = messages
        .first()
        .map_or(Value::Undefined, |first| first.get("_msgid").clone());
    for (index, message) in messages.iter_mut().enumerate() {
        let mut parts = match message.get("parts") {
            Value::Object(parts) => Object::clone(parts),
            _ => Object::default(),
        };
        parts.insert(SmolStr::new_static("id"), id.clone());
        parts.insert(SmolStr::new_static("index"), Value::Number(index as f64));
        parts.insert(SmolStr::new_static("count"), Value::Number(count));
        message.set(SmolStr::new_static("parts"), Value::object(parts));
    }
    messages
}

/// All are sent before the first is done with (observed).
fn pass_all(messages: Vec<Message>, host: &mut Host<'_>) {
    for message in &messages {
        host.send(0, message.clone());
    }
    for message in messages {
        host.done(message);
    }
}

fn too_many() -> Failure {
    Failure::text("too many pending messages in batch node")
}

/// Returns whether more messages wait than may.
fn is_too_much(pending: usize, host: &Host<'_>) -> bool {
    let most = host.config().message_buffer;
    most > 0 && pending > most
}

/// The last message was one too many: it fails, and the others are forgotten.
fn drop_all(waiting: &mut Vec<Message>, host: &mut Host<'_>) {
    let last = waiting.pop();
    host.error(too_many(), last);
    waiting.drain(..).for_each(|m| host.done(m));
}

/// So many messages each.
struct ByCount {
    count: f64,
    /// The number of last messages of a sequence that begin the next one.
    overlap: usize,
    /// The last message of a sequence ends this one too.
    honour: bool,
    waiting: Vec<Message>,
    /// The number of messages since the last sequence.
    counted: usize,
}

impl ByCount {
    fn send(&mut self, host: &mut Host<'_>) {
        self.counted = 0;
        if self.overlap == 0 {
            let messages = std::mem::take(&mut self.waiting);
            let messages = sequence(messages);
            return pass_all(messages, host);
        }
        for message in sequence(self.waiting.clone()) {
            host.send(0, message);
        }
        let finished = self.waiting.len().saturating_sub(self.overlap);
        self.waiting.drain(..finished).for_each(|m| host.done(m));
    }
}

impl Node for ByCount {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        if message.properties().contains_key("reset") {
            self.counted = 0;
            self.waiting.drain(..).for_each(|m| host.done(m));
            return host.done(message);
        }
        let parts = message.get("parts");
        let part = |name: &str| property(parts, name).as_number();
        let last = match (part("index"), part("count")) {
            (Some(index), Some(count)) => self.honour && (index + 1.0).total_cmp(&count).is_eq(),
            _ => false,
        };
        self.waiting.push(message);
        self.counted += 1;
        let full = (self.waiting.len() as f64).total_cmp(&self.count).is_eq();
        if full || last {
            self.send(host);
        } else if is_too_much(self.counted, host) {
            self.counted = 0;
            drop_all(&mut self.waiting, host);
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.waiting.drain(..).for_each(|m| host.done(m));
        None
    }
}

/// The messages of a time.
struct ByTime {
    /// `None`: never.
    every: Option<Duration>,
    /// A time without messages makes a sequence of one message with the payload `null`.
    empty: bool,
    waiting: Vec<Message>,
    timer: Option<TimerId>,
}

impl Node for ByTime {
    fn start(&mut self, host: &mut Host<'_>) {
        self.timer = self.every.map(|every| host.after(every));
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        if message.properties().contains_key("reset") {
            self.waiting.drain(..).for_each(|m| host.done(m));
            if let Some(timer) = self.timer.take() {
                host.cancel(timer);
            }
            self.start(host);
            return host.done(message);
        }
        self.waiting.push(message);
        if is_too_much(self.waiting.len(), host) {
            drop_all(&mut self.waiting, host);
        }
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        let Wake::Timer(_) = wake else { return };
        self.start(host);
        let messages = std::mem::take(&mut self.waiting);
        if messages.is_empty() && self.empty {
            let mut nothing = Message::with_payload(Value::Null);
            let parts = [
                ("id", host.fresh_id().into()),
                ("index", 0.0.into()),
                ("count", 1.0.into()),
            ];
            nothing.set(SmolStr::new_static("parts"), Value::record(parts));
            return host.send(0, nothing);
        }
        pass_all(sequence(messages), host);
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.waiting.drain(..).for_each(|m| host.done(m));
        None
    }
}

/// The sequences of several topics in a row.
struct ByTopic {
    /// Each topic and its sequences, the oldest first.
    topics: Vec<(Value, VecDeque<Group>)>,
    /// Messages in all of them.
    pending: usize,
}

/// An incomplete sequence of one topic.
struct Group {
    id: SmolStr,
    count: Value,
    messages: Vec<Message>,
}

impl Group {
    fn is_whole(&self) -> bool {
        let count = Value::Number(self.messages.len() as f64);
        coerce::strict_equal(&self.count, &count)
    }
}

impl ByTopic {
    /// Everything that waits; nothing waits afterwards.
    fn take(&mut self) -> Vec<Message> {
        self.pending = 0;
        let groups = self.topics.iter_mut().flat_map(|(_, g)| g.drain(..));
        groups.flat_map(|g| g.messages).collect()
    }

    /// Sends a sequence of every topic, if all have one that is whole.
    fn send(&mut self, host: &mut Host<'_>) {
        let whole = |groups: &VecDeque<Group>| groups.front().is_some_and(Group::is_whole);
        if !self.topics.iter().all(|(_, groups)| whole(groups)) {
            return;
        }
        let first = self.topics.iter_mut().filter_map(|(_, g)| g.pop_front());
        let messages: Vec<Message> = first.flat_map(|g| g.messages).collect();
        self.pending -= messages.len();
        for message in sequence(messages.clone()) {
            host.send(0, message);
        }
        for message in messages {
            host.done(message);
        }
    }
}

impl Node for ByTopic {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        if message.properties().contains_key("reset") {
            self.take().into_iter().for_each(|m| host.done(m));
            return host.done(message);
        }
        let topic = message.get("topic").clone();
        let is_it = |name: &Value| coerce::strict_equal(name, &topic);
        if !self.topics.iter().any(|(name, _)| is_it(name)) {
            // A message of another topic is ignored (observed).
            return;
        }
        let parts = message.get("parts");
        let part = |name: &str| parts.as_object().and_then(|parts| parts.get(name)).cloned();
        let (Some(id), Some(_), Some(count)) = (part("id"), part("index"), part("count")) else {
            let failure = Failure::text("no parts property in message");
            return host.error(failure, Some(message));
        };
        let id = coerce::to_text(&id);
        // A topic that is named twice gets its messages twice (observed).
        for (_, groups) in self.topics.iter_mut().filter(|(name, _)| is_it(name)) {
            self.pending += 1;
            match groups.iter_mut().find(|g| g.id == id && !g.is_whole()) {
                Some(group) => group.messages.push(message.clone()),
                None => groups.push_back(Group {
                    id: id.clone(),
                    count: count.clone(),
                    messages: vec![message.clone()],
                }),
            }
        }
        if is_too_much(self.pending, host) {
            for waiting in self.take() {
                host.error(too_many(), Some(waiting));
            }
        }
        self.send(host);
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.take().into_iter().for_each(|m| host.done(m));
        None
    }
}
