//! `batch`: makes sequences of messages: so many each, those of a time, or the sequences of several topics in a row.

use crate::engine::expression::typed::text_of;
use crate::engine::expression::{coerce, property};
use crate::engine::message::Message;
use crate::engine::node::{Build, Closing, Host, Node, TimerId, Wake};
use crate::engine::value::{Failure, Value};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::VecDeque;
use std::time::Duration;

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

pub(in crate::engine::nodes) fn build(build: &Build<'_>) -> Result<Box<dyn Node>, Failure> {
    let properties: Properties = build.properties()?;
    let number = |value: &Json| coerce::parse_float(&text_of(value));
    Ok(match properties.mode.as_str() {
        "interval" => Box::new(ByTime {
            every: Duration::try_from_secs_f64(number(&properties.interval))
                .unwrap_or_default()
                .max(Duration::from_millis(1)),
            empty: properties.allow_empty_sequence,
            waiting: Vec::new(),
            timer: None,
        }),
        "concat" => Box::new(ByTopic {
            topics: properties
                .topics
                .iter()
                .map(|t| (text_of(&t.topic), VecDeque::new()))
                .collect(),
            pending: 0,
        }),
        _ => {
            let (count, overlap) = (
                whole(number(&properties.count)),
                whole(number(&properties.overlap)),
            );
            let count = count.max(1);
            if overlap >= count {
                return Err(Failure::text("Invalid count and overlap"));
            }
            Box::new(ByCount {
                count,
                overlap,
                honour: properties.honour_parts,
                waiting: Vec::new(),
            })
        }
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

/// The messages as a sequence of their own.
fn sequence(messages: impl ExactSizeIterator<Item = Message>, host: &mut Host<'_>) -> Vec<Message> {
    let id = host.fresh_id();
    let count = messages.len() as f64;
    let numbered = messages.enumerate().map(|(index, mut message)| {
        let parts = Value::record([
            ("id", id.clone().into()),
            ("index", (index as f64).into()),
            ("count", count.into()),
        ]);
        message.set(SmolStr::new_static("parts"), parts);
        message
    });
    numbered.collect()
}

fn too_many() -> Failure {
    Failure::error("too many pending messages in batch node")
}

/// Whether one more message would be too many.
fn is_full(pending: usize, host: &Host<'_>) -> bool {
    let most = host.config().message_buffer;
    most > 0 && pending >= most
}

/// So many messages each.
struct ByCount {
    count: usize,
    /// The last so many of a sequence are the first of the next.
    overlap: usize,
    /// The last message of a sequence ends this one too.
    honour: bool,
    waiting: Vec<Message>,
}

impl Node for ByCount {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        if message.properties().contains_key("reset") {
            self.waiting.drain(..).for_each(|m| host.done(m));
            return host.done(message);
        }
        if is_full(self.waiting.len(), host) {
            host.error(too_many(), Some(message));
            return self.waiting.drain(..).for_each(|m| host.done(m));
        }
        let parts = message.get("parts");
        let part = |name: &str| property(parts, name).as_number();
        let last = match (part("index"), part("count")) {
            (Some(index), Some(count)) => self.honour && (index + 1.0).total_cmp(&count).is_eq(),
            _ => false,
        };
        self.waiting.push(message);
        if self.waiting.len() < self.count && !last {
            return;
        }
        for message in sequence(self.waiting.iter().cloned(), host) {
            host.send(0, message);
        }
        let finished = self.waiting.len().saturating_sub(self.overlap);
        self.waiting.drain(..finished).for_each(|m| host.done(m));
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.waiting.drain(..).for_each(|m| host.done(m));
        None
    }
}

/// The messages of a time.
struct ByTime {
    every: Duration,
    /// A time without messages makes a sequence of one that says `null`.
    empty: bool,
    waiting: Vec<Message>,
    timer: Option<TimerId>,
}

impl Node for ByTime {
    fn start(&mut self, host: &mut Host<'_>) {
        self.timer = Some(host.after(self.every));
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        if message.properties().contains_key("reset") {
            self.waiting.drain(..).for_each(|m| host.done(m));
            if let Some(timer) = self.timer.replace(host.after(self.every)) {
                host.cancel(timer);
            }
            return host.done(message);
        }
        if is_full(self.waiting.len(), host) {
            host.error(too_many(), Some(message));
            return self.waiting.drain(..).for_each(|m| host.done(m));
        }
        self.waiting.push(message);
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        let Wake::Timer(_) = wake else { return };
        self.timer = Some(host.after(self.every));
        let messages = std::mem::take(&mut self.waiting);
        if messages.is_empty() && self.empty {
            let nothing = Message::with_payload(Value::Null);
            for message in sequence([nothing].into_iter(), host) {
                host.send(0, message);
            }
        }
        for message in sequence(messages.into_iter(), host) {
            host.pass(message);
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.waiting.drain(..).for_each(|m| host.done(m));
        None
    }
}

/// The sequences of several topics in a row.
struct ByTopic {
    /// Each topic and its sequences, the oldest first.
    topics: Vec<(SmolStr, VecDeque<Group>)>,
    /// Messages in all of them.
    pending: usize,
}

/// A sequence of one topic under way.
struct Group {
    id: SmolStr,
    count: f64,
    messages: Vec<Message>,
}

impl Group {
    fn is_whole(&self) -> bool {
        self.messages.len() as f64 >= self.count
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
        for message in sequence(messages.into_iter(), host) {
            host.pass(message);
        }
    }
}

impl Node for ByTopic {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        if message.properties().contains_key("reset") {
            self.take().into_iter().for_each(|m| host.done(m));
            return host.done(message);
        }
        let topic = coerce::to_text(message.get("topic"));
        if !self.topics.iter().any(|(name, _)| *name == topic) {
            // Another topic's message is nobody's business (observed).
            return;
        }
        let parts = message.get("parts");
        let (id, count) = (property(parts, "id"), property(parts, "count"));
        let (Value::String(id), Value::Number(count)) = (id, count) else {
            let failure = Failure::error("no parts property in message");
            return host.error(failure, Some(message));
        };
        if is_full(self.pending, host) {
            for waiting in self.take() {
                host.error(too_many(), Some(waiting));
            }
            return host.error(too_many(), Some(message));
        }
        // A topic that is named twice gets its messages twice (observed).
        for (_, groups) in self.topics.iter_mut().filter(|(name, _)| *name == topic) {
            self.pending += 1;
            match groups.iter_mut().find(|g| g.id == id && !g.is_whole()) {
                Some(group) => group.messages.push(message.clone()),
                None => groups.push_back(Group {
                    id: id.clone(),
                    count,
                    messages: vec![message.clone()],
                }),
            }
        }
        self.send(host);
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.take().into_iter().for_each(|m| host.done(m));
        None
    }
}
