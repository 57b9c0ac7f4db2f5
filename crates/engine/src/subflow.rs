//! The nodes that a subflow instance adds to those inside: its entrance and its status output
//! (docs/reference/node-red-engine.md §2.6).

use super::inspect::{DEPTH, inspect};
use super::node::{Host, Node};
use smol_str::SmolStr;
use value::{Message, Object, Value};

/// The longest text shown of a status that is neither text nor status object.
const MAX_TEXT: usize = 32;

/// The instance itself: passes messages on to what is wired to its input inside.
pub(super) struct Entrance;

impl Node for Entrance {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        // As in Node-RED, complete nodes see nothing of an instance.
        host.send(0, message);
    }
}

/// The status output: shows the payload as the instance's status.
pub(super) struct StatusPort {
    instance: SmolStr,
}

impl StatusPort {
    pub(super) fn new(instance: SmolStr) -> Self {
        Self { instance }
    }
}

impl Node for StatusPort {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        // A message with neither of the two changes no status, as observed.
        if !(message.get("payload").is_undefined() && message.get("status").is_undefined()) {
            host.status_of(&self.instance, &shown(&message));
        }
    }
}

fn shown(message: &Message) -> Value {
    match message.get("payload") {
        Value::String(text) => Value::record([("text", Value::String(text.clone()))]),
        Value::Object(o)
            if o.is_empty() || ["text", "fill", "shape"].iter().any(|k| o.contains_key(k)) =>
        {
            Value::Object(o.clone())
        }
        Value::Undefined => match message.get("status") {
            Value::Object(status) => Value::Object(status.clone()),
            _ => Value::object(Object::default()),
        },
        other => {
            let text = inspect(other, DEPTH);
            let text = match text.char_indices().nth(MAX_TEXT) {
                Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
                None => text,
            };
            Value::record([("text", Value::from(text))])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(message: &Message) -> Option<String> {
        shown(message)
            .as_object()?
            .get("text")?
            .as_str()
            .map(String::from)
    }

    #[test]
    fn a_text_payload_is_the_status_text() {
        assert_eq!(
            text(&Message::with_payload("busy")).as_deref(),
            Some("busy")
        );
    }

    #[test]
    fn a_status_object_is_used_unchanged() {
        let payload = Value::record([("fill", Value::from("red"))]);
        assert_eq!(
            shown(&Message::with_payload(payload))
                .as_object()
                .map(Object::len),
            Some(1)
        );
    }

    #[test]
    fn any_other_payload_is_inspected_as_in_nodejs_and_truncated() {
        let list = Value::array(vec![
            Value::from("a long text"),
            Value::from("b".repeat(40)),
        ]);
        assert_eq!(
            text(&Message::with_payload(list)).as_deref(),
            Some("[ 'a long text', 'bbbbbbbbbbbbbb...")
        );
    }

    #[test]
    fn without_a_payload_the_messages_status_is_used() {
        let mut message = Message::default();
        message.set("status", Value::record([("text", Value::from("inner"))]));
        assert_eq!(text(&message).as_deref(), Some("inner"));
    }
}
