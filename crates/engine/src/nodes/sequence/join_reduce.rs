//! Reduces a sequence to one value: an expression for each message, in the order of their places,
//! and one at the end.

use crate::expression::jsonata::Jsonata;
use crate::expression::typed::Typed;
use crate::node_context::NodeContext;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::HashMap;
use value::{Failure, Message, Value, coerce, property};

/// The expressions that reduce sequences, and the incomplete sequences.
pub(super) struct Reduce {
    pub each: Jsonata,
    /// A start value that cannot be parsed fails when it is needed (observed).
    pub start: Result<Typed, Failure>,
    pub end: Option<Jsonata>,
    pub backwards: bool,
    sequences: HashMap<SmolStr, Sequence>,
    /// Messages in all of them.
    pending: usize,
}

#[derive(Default)]
struct Sequence {
    messages: Vec<Message>,
    count: Option<f64>,
}

/// The result of adding a message.
pub(super) enum Step {
    /// It is of no sequence.
    Single(Message),
    /// Its sequence is not complete.
    Waiting,
    /// The messages of a sequence that is, in order, and where among them the one stands that came
    /// last.
    Complete(Vec<Message>, usize),
    /// More wait than may: all are dropped.
    TooMany(Message),
}

impl Reduce {
    /// Parses the expressions.
    pub(super) fn parse(
        each: &str,
        start_type: &str,
        start: &Json,
        end: &str,
    ) -> Result<Self, Failure> {
        let compile = |text: &str| Jsonata::compile(text).map_err(|f| Failure::text(invalid(&f)));
        let end = match end.trim() {
            "" => None,
            end => Some(compile(end)?),
        };
        Ok(Self {
            each: compile(each)?,
            start: Typed::parse(start_type, start),
            end,
            backwards: false,
            sequences: HashMap::new(),
            pending: 0,
        })
    }

    /// Adds a message; `most`: the maximum of waiting messages, 0 for no limit.
    pub(super) fn add(&mut self, message: Message, most: usize) -> Step {
        let parts = message.get("parts");
        if parts.is_undefined() {
            return Step::Single(message);
        }
        let id = coerce::to_text(&property(parts, "id"));
        let count = property(parts, "count").as_number();
        let sequence = self.sequences.entry(id.clone()).or_default();
        sequence.count = sequence.count.or(count);
        sequence.messages.push(message);
        self.pending += 1;
        if sequence.count != Some(sequence.messages.len() as f64) {
            if most > 0 && self.pending > most {
                let last = sequence.messages.pop().unwrap_or_default();
                self.sequences.clear();
                self.pending = 0;
                return Step::TooMany(last);
            }
            return Step::Waiting;
        }
        let sequence = self.sequences.remove(&id).unwrap_or_default();
        self.pending -= sequence.messages.len();
        let newest = sequence.messages.len().saturating_sub(1);
        let mut arrived: Vec<(usize, Message)> =
            sequence.messages.into_iter().enumerate().collect();
        arrived.sort_by(|(_, a), (_, b)| place(a).total_cmp(&place(b)));
        if self.backwards {
            arrived.reverse();
        }
        let latest = arrived.iter().position(|(turn, _)| *turn == newest);
        let messages = arrived.into_iter().map(|(_, message)| message).collect();
        Step::Complete(messages, latest.unwrap_or_default())
    }

    /// The value of a complete sequence.
    pub(super) fn value(&self, messages: &[Message], eval: &NodeContext) -> Result<Value, Failure> {
        // The start value is evaluated without a message (observed).
        let nothing = Message::default();
        let start = self
            .start
            .as_ref()
            .map_err(|f| Failure::error(invalid(f)))?;
        let mut value = start.evaluate(eval, &nothing)?;
        let count = Value::Number(messages.len() as f64);
        for message in messages {
            let index = property(message.get("parts"), "index");
            let variables = [("A", value), ("I", index), ("N", count.clone())];
            let made = self.each.evaluate_with(eval, message, &variables);
            value = made.map_err(code_only)?;
        }
        match &self.end {
            Some(end) => end
                .evaluate_with(eval, &nothing, &[("A", value), ("N", count)])
                .map_err(code_only),
            None => Ok(value),
        }
    }

    /// Forgets all that waits and gives it away.
    pub(super) fn clear(&mut self) -> Vec<Message> {
        self.pending = 0;
        let sequences = self.sequences.drain();
        sequences.flat_map(|(_, s)| s.messages).collect()
    }
}

/// The error of an expression that does not parse.
fn invalid(failure: &Failure) -> String {
    format!("Invalid JSONata expression: {}", failure.message)
}

/// The error of an expression that fails: only its code is reported (observed).
fn code_only(failure: Failure) -> Failure {
    Failure {
        code: failure.code,
        ..Failure::text("[object Object]")
    }
}

/// The position of a message in its sequence; those without one come last.
fn place(message: &Message) -> f64 {
    property(message.get("parts"), "index")
        .as_number()
        .unwrap_or(f64::INFINITY)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;
    use value::json;

    fn part(payload: &str, index: u32, count: u32) -> Message {
        let text = format!(
            r#"{{"payload":{payload},"parts":{{"id":"s","index":{index},"count":{count}}}}}"#
        );
        Message::from_value(json::parse(&text).unwrap()).unwrap()
    }

    fn reduced(mut reduce: Reduce, messages: &[(&str, u32)]) -> String {
        let count = u32::try_from(messages.len()).unwrap();
        for (payload, index) in messages {
            if let Step::Complete(all, _) = reduce.add(part(payload, *index, count), 0) {
                return format!(
                    "{:?}",
                    reduce.value(&all, &NodeContext::for_tests()).unwrap()
                );
            }
        }
        panic!("not complete");
    }

    #[test]
    fn messages_are_reduced_by_index_forwards_or_backwards() {
        let text = Json::from("x");
        let concat = || Reduce::parse("$A & payload & $I", "str", &text, "").unwrap();
        assert_eq!(
            reduced(concat(), &[("1", 2), ("2", 0), ("3", 1)]),
            "\"x203112\""
        );
        let mut backwards = concat();
        backwards.backwards = true;
        assert_eq!(
            reduced(backwards, &[("1", 0), ("2", 1), ("3", 2)]),
            "\"x322110\""
        );
    }

    #[test]
    fn the_final_expression_has_the_value_and_the_count() {
        let zero = Json::from("0");
        let reduce = Reduce::parse("$A+payload", "num", &zero, "$A*$N").unwrap();
        assert_eq!(reduced(reduce, &[("1", 0), ("2", 1), ("3", 2)]), "18");
    }

    #[test]
    fn too_many_pending_messages_are_dropped_together() {
        let zero = Json::from("0");
        let mut reduce = Reduce::parse("$A+payload", "num", &zero, "").unwrap();
        assert!(matches!(reduce.add(part("1", 0, 9), 1), Step::Waiting));
        assert!(matches!(reduce.add(part("2", 1, 9), 1), Step::TooMany(_)));
        assert!(reduce.clear().is_empty());
        let single = reduce.add(Message::with_payload(1.0), 1);
        assert!(matches!(single, Step::Single(_)));
    }
}
