//! `sort`: sorts the elements of an array, or the messages of a sequence.

use super::sort_order::Order;
use crate::expression::jsonata::Jsonata;
use crate::expression::typed::Typed;
use crate::node::{BoxedNode, Build, Closing, Host, Node, boxed};
use crate::node_context::NodeContext;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::sync::Arc;
use value::{Array, Failure, Message, Path, Value, coerce};

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

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let order = Order {
        descending: properties.order == "descending",
        as_number: properties.as_num,
    };
    if properties.target_type != "msg" {
        let kind = or(&properties.seq_key_type, "msg");
        let key = Json::from(or(&properties.seq_key, "payload").as_str());
        return Ok(boxed(SequenceSort {
            order,
            key: Typed::parse(&kind, &key).map_err(|_| broken())?,
            sequences: IndexMap::new(),
            pending: 0,
        }));
    }
    let target = or(&properties.target, "payload");
    Ok(boxed(ArraySort {
        order,
        key: match properties.msg_key_type.as_str() {
            "jsonata" => Some(Jsonata::compile(&properties.msg_key).map_err(|_| broken())?),
            _ => None,
        },
        target: Path::parse_message(&target)?,
    }))
}

fn or(text: &SmolStr, default: &'static str) -> SmolStr {
    if text.is_empty() {
        SmolStr::new_static(default)
    } else {
        text.clone()
    }
}

/// The error of an expression that does not parse, or fails: no more is reported of it (observed).
fn broken() -> Failure {
    Failure::text("Invalid JSONata expression in sort node: [object Object]")
}

/// Sorts an array.
struct ArraySort {
    order: Order,
    /// `None`: the elements themselves are compared.
    key: Option<Jsonata>,
    target: Path,
}

impl ArraySort {
    fn sorted(&self, elements: Arc<Array>, eval: &NodeContext) -> Result<Value, Failure> {
        let elements = Arc::unwrap_or_clone(elements).into_vec();
        let keyed = elements.into_iter().map(|element| {
            let key = match &self.key {
                Some(key) => key.evaluate_on(eval, &element).map_err(|_| broken())?,
                None => element.clone(),
            };
            Ok((key, element))
        });
        let mut keyed = keyed.collect::<Result<Vec<_>, Failure>>()?;
        self.order.sort(&mut keyed);
        Ok(Value::array(keyed.into_iter().map(|(_, e)| e).collect()))
    }

    /// Whether there was an array to sort.
    fn apply(&self, message: &mut Message, eval: &NodeContext) -> Result<bool, Failure> {
        let Value::Array(elements) = self.target.try_read_message(message)? else {
            return Ok(false);
        };
        let sorted = self.sorted(elements, eval)?;
        self.target.write_message(message, sorted)?;
        Ok(true)
    }
}

impl Node for ArraySort {
    fn receive(&mut self, mut message: Message, host: &mut Host<'_>) {
        match self.apply(&mut message, &host.context()) {
            Ok(true) => host.pass(message),
            // A value that is no array is not sent on (observed).
            Ok(false) => host.done(message),
            Err(failure) => host.error(failure, Some(message)),
        }
    }
}

/// Sorts the messages of sequences.
struct SequenceSort {
    order: Order,
    key: Typed,
    /// By id, the oldest first.
    sequences: IndexMap<SmolStr, Sequence>,
    /// Messages in all of them.
    pending: usize,
}

#[derive(Default)]
struct Sequence {
    messages: Vec<Message>,
    count: Value,
}

impl SequenceSort {
    fn clear(&mut self, host: &mut Host<'_>) {
        self.pending = 0;
        let messages = self.sequences.drain(..).flat_map(|(_, s)| s.messages);
        messages.for_each(|m| host.done(m));
    }

    /// Sends a whole sequence in order, numbered anew.
    fn send(&self, messages: Vec<Message>, host: &mut Host<'_>) {
        let eval = host.context();
        let keys: Result<Vec<Value>, Failure> = messages
            .iter()
            .map(|m| self.key.evaluate(&eval, m))
            .collect();
        let Ok(keys) = keys else {
            return fail(&broken(), messages, host);
        };
        let mut keyed: Vec<(Value, Message)> = keys.into_iter().zip(messages).collect();
        self.order.sort(&mut keyed);
        for (index, (_, mut message)) in keyed.into_iter().enumerate() {
            message.properties_mut().modify("parts", |parts| {
                if let Value::Object(parts) = parts {
                    Arc::make_mut(parts)
                        .insert(SmolStr::new_static("index"), Value::Number(index as f64));
                }
            });
            host.pass(message);
        }
    }
}

/// The last message fails, the others are done with.
fn fail(failure: &Failure, mut messages: Vec<Message>, host: &mut Host<'_>) {
    host.error(failure.clone(), messages.pop());
    for message in messages {
        host.done(message);
    }
}

impl Node for SequenceSort {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let parts = message.get("parts");
        let part = |name: &str| parts.as_object().and_then(|parts| parts.get(name));
        let (Some(id), Some(_)) = (part("id"), part("index")) else {
            return host.done(message);
        };
        let (id, count) = (coerce::to_text(id), part("count").cloned());
        let sequence = self.sequences.entry(id.clone()).or_default();
        sequence.count = count.unwrap_or(std::mem::take(&mut sequence.count));
        sequence.messages.push(message);
        self.pending += 1;
        let arrived = Value::Number(sequence.messages.len() as f64);
        if coerce::strict_equal(&sequence.count, &arrived) {
            let sequence = self.sequences.shift_remove(&id).unwrap_or_default();
            self.pending -= sequence.messages.len();
            self.send(sequence.messages, host);
            return;
        }
        let most = host.config().message_buffer;
        if most > 0
            && self.pending > most
            && let Some((_, oldest)) = self.sequences.shift_remove_index(0)
        {
            self.pending -= oldest.messages.len();
            let failure = Failure::text("Too many pending messages in sort node");
            fail(&failure, oldest.messages, host);
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.clear(host);
        None
    }
}
