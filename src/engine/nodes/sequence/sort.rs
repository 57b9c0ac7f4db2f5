//! `sort`: sorts the elements of an array, or the messages of a sequence.

use super::sort_order::Order;
use crate::engine::context::Scope;
use crate::engine::expression::jsonata::Jsonata;
use crate::engine::expression::typed::{Scene, Typed};
use crate::engine::expression::{Path, property};
use crate::engine::message::Message;
use crate::engine::node::{Build, Closing, Host, Node};
use crate::engine::value::{Failure, Value};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    order: SmolStr,
    #[serde(rename = "as_num")]
    as_num: bool,
    target: SmolStr,
    target_type: SmolStr,
    msg_key: SmolStr,
    msg_key_type: SmolStr,
    seq_key: SmolStr,
    seq_key_type: SmolStr,
}

pub(in crate::engine::nodes) fn build(build: &Build<'_>) -> Result<Box<dyn Node>, Failure> {
    let properties: Properties = build.properties()?;
    let order = Order {
        descending: properties.order == "descending",
        as_number: properties.as_num,
    };
    if properties.target_type == "seq" {
        let kind = or(&properties.seq_key_type, "msg");
        let key = Json::from(or(&properties.seq_key, "payload").as_str());
        return Ok(Box::new(SequenceSort {
            order,
            key: Typed::parse(&kind, &key).map_err(|f| worded(&f))?,
            sequences: HashMap::new(),
            pending: 0,
        }));
    }
    let target = or(&properties.target, "payload");
    Ok(Box::new(ArraySort {
        order,
        key: match properties.msg_key_type.as_str() {
            "jsonata" => Some(Jsonata::compile(&properties.msg_key).map_err(|f| worded(&f))?),
            _ => None,
        },
        target: match properties.target_type.as_str() {
            "flow" => Target::Context(Scope::Flow, Path::parse(&target)?),
            "global" => Target::Context(Scope::Global, Path::parse(&target)?),
            _ => Target::Message(Path::parse_message(&target)?),
        },
    }))
}

fn or(text: &SmolStr, default: &'static str) -> SmolStr {
    if text.is_empty() {
        SmolStr::new_static(default)
    } else {
        text.clone()
    }
}

fn worded(failure: &Failure) -> Failure {
    Failure::text(format!(
        "Invalid JSONata expression in sort node: {}",
        failure.message
    ))
}

/// Sorts an array.
struct ArraySort {
    order: Order,
    /// `None`: the elements themselves are compared.
    key: Option<Jsonata>,
    target: Target,
}

enum Target {
    Message(Path),
    Context(Scope, Path),
}

impl ArraySort {
    fn sorted(&self, elements: Arc<Vec<Value>>, scene: &Scene) -> Result<Value, Failure> {
        let elements = Arc::unwrap_or_clone(elements);
        let keyed = elements.into_iter().map(|element| {
            let key = match &self.key {
                Some(key) => key.evaluate_on(scene, &element).map_err(|f| worded(&f))?,
                None => element.clone(),
            };
            Ok((key, element))
        });
        let mut keyed = keyed.collect::<Result<Vec<_>, Failure>>()?;
        self.order.sort(&mut keyed);
        Ok(Value::array(keyed.into_iter().map(|(_, e)| e).collect()))
    }

    /// Whether there was an array to sort.
    fn apply(&self, message: &mut Message, scene: &Scene) -> Result<bool, Failure> {
        let value = match &self.target {
            Target::Message(path) => path.try_read_message(message)?,
            Target::Context(scope, key) => scene.read(*scope, key, message)?,
        };
        let Value::Array(elements) = value else {
            return Ok(false);
        };
        let sorted = self.sorted(elements, scene)?;
        match &self.target {
            Target::Message(path) => {
                path.write_message(message, sorted);
            }
            Target::Context(scope, key) => scene.write(*scope, key, message, sorted)?,
        }
        Ok(true)
    }
}

impl Node for ArraySort {
    fn receive(&mut self, mut message: Message, host: &mut Host<'_>) {
        match self.apply(&mut message, &Scene::of(host)) {
            Ok(true) => host.pass(message),
            // What is no array goes nowhere (observed).
            Ok(false) => host.done(message),
            Err(failure) => host.error(failure, Some(message)),
        }
    }
}

/// Sorts the messages of sequences.
struct SequenceSort {
    order: Order,
    key: Typed,
    sequences: HashMap<SmolStr, Sequence>,
    /// Messages in all of them.
    pending: usize,
}

#[derive(Default)]
struct Sequence {
    messages: Vec<Message>,
    count: Option<f64>,
}

impl SequenceSort {
    fn clear(&mut self, host: &mut Host<'_>) {
        self.pending = 0;
        let messages = self.sequences.drain().flat_map(|(_, s)| s.messages);
        messages.for_each(|m| host.done(m));
    }

    /// Sends a whole sequence in order, numbered anew.
    fn send(&self, messages: Vec<Message>, host: &mut Host<'_>) {
        let scene = Scene::of(host);
        let keys: Result<Vec<Value>, Failure> = messages
            .iter()
            .map(|m| self.key.evaluate(&scene, m))
            .collect();
        let keys = match keys {
            Ok(keys) => keys,
            Err(failure) => return fail(&failure, messages, host),
        };
        let mut keyed: Vec<(Value, Message)> = keys.into_iter().zip(messages).collect();
        self.order.sort(&mut keyed);
        for (index, (_, mut message)) in keyed.into_iter().enumerate() {
            if let Some(Value::Object(parts)) = message.properties_mut().get_mut("parts") {
                Arc::make_mut(parts)
                    .insert(SmolStr::new_static("index"), Value::Number(index as f64));
            }
            host.pass(message);
        }
    }
}

/// The last message fails, the others are done with.
fn fail(failure: &Failure, mut messages: Vec<Message>, host: &mut Host<'_>) {
    host.error(worded(failure), messages.pop());
    for message in messages {
        host.done(message);
    }
}

impl Node for SequenceSort {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let parts = message.get("parts");
        let (id, index) = (property(parts, "id"), property(parts, "index"));
        let (Value::String(id), false) = (id, index.is_undefined()) else {
            return host.done(message);
        };
        let most = host.config().message_buffer;
        if most > 0 && self.pending >= most {
            let failure = Failure::error("Too many pending messages in sort node");
            host.error(failure, Some(message));
            return self.clear(host);
        }
        let count = property(parts, "count").as_number();
        let sequence = self.sequences.entry(id.clone()).or_default();
        sequence.count = count.or(sequence.count);
        sequence.messages.push(message);
        self.pending += 1;
        let full = |count: f64| sequence.messages.len() as f64 >= count;
        if sequence.count.is_some_and(full) {
            let sequence = self.sequences.remove(&id).unwrap_or_default();
            self.pending -= sequence.messages.len();
            self.send(sequence.messages, host);
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.clear(host);
        None
    }
}
