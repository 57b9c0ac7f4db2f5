//! Holds messages of a sequence until its length is known, for rules that count from the end and
//! for sequences that are numbered anew (`repair`).

use smol_str::SmolStr;
use std::collections::HashMap;
use value::{Key, Message, Path, Value, coerce, property};

/// The sequences that are not yet routed.
pub(super) struct Sequences {
    repair: bool,
    held: HashMap<SmolStr, Held>,
}

/// The part of a sequence that has arrived so far.
#[derive(Default)]
struct Held {
    messages: Vec<Message>,
    count: Option<f64>,
}

/// Returns whether the message is of a sequence.
pub(super) fn is_part(message: &Message) -> bool {
    let parts = message.get("parts").as_object();
    parts.is_some_and(|parts| parts.contains_key("id") && parts.contains_key("index"))
}

impl Sequences {
    pub(super) fn new(repair: bool) -> Self {
        Self {
            repair,
            held: HashMap::new(),
        }
    }

    /// Returns whether sequences are numbered anew.
    pub(super) fn repairs(&self) -> bool {
        self.repair
    }

    /// Takes a message of a sequence and gives the whole sequence when it is complete.
    pub(super) fn add(&mut self, message: Message) -> Vec<Message> {
        let parts = message.get("parts").clone();
        let id = coerce::to_text(&property(&parts, "id"));
        let held = self.held.entry(id.clone()).or_default();
        held.messages.push(message);
        if let Value::Number(count) = property(&parts, "count") {
            held.count = Some(count);
        }
        let arrived = held.messages.len() as f64;
        let Some(count) = held.count.filter(|n| n.total_cmp(&arrived).is_eq()) else {
            return Vec::new();
        };
        let mut ready = self.held.remove(&id).unwrap_or_default().messages;
        for message in &mut ready {
            set_part(message, "count", Value::Number(count));
        }
        ready
    }

    /// Gives the messages of each output an id, indices and a count of their own.
    pub(super) fn renumber(
        routed: Vec<(usize, Message)>,
        mut fresh_id: impl FnMut() -> SmolStr,
    ) -> Vec<(usize, Message)> {
        let mut counts: HashMap<usize, (SmolStr, f64, f64)> = HashMap::new();
        for (output, _) in &routed {
            counts
                .entry(*output)
                .or_insert_with(|| (fresh_id(), 0.0, 0.0))
                .2 += 1.0;
        }
        let renumbered = routed.into_iter().map(|(output, mut message)| {
            if let Some((id, index, count)) = counts.get_mut(&output) {
                set_part(&mut message, "id", Value::String(id.clone()));
                set_part(&mut message, "index", Value::Number(*index));
                set_part(&mut message, "count", Value::Number(*count));
                *index += 1.0;
            }
            (output, message)
        });
        renumbered.collect()
    }
}

fn set_part(message: &mut Message, name: &'static str, value: Value) {
    let keys = ["parts", name].map(|name| Key::Name(SmolStr::new_static(name)));
    let path = Path::new(keys, None);
    // A number or an id is never too large.
    let _ = path.write_message(message, value);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use value::json;

    fn part(index: u32, count: Option<u32>) -> Message {
        let count = count
            .map(|n| format!(r#","count":{n}"#))
            .unwrap_or_default();
        let text = format!(r#"{{"payload":{index},"parts":{{"id":"s","index":{index}{count}}}}}"#);
        Message::from_value(json::parse(&text).unwrap()).unwrap()
    }

    fn text(message: &Message) -> String {
        json::stringify(&message.to_value()).unwrap()
    }

    #[test]
    fn a_sequence_waits_until_its_length_is_known() {
        let mut sequences = Sequences::new(false);
        assert!(sequences.add(part(0, None)).is_empty());
        let ready = sequences.add(part(1, Some(2)));
        assert_eq!(
            text(&ready[0]),
            r#"{"payload":0,"parts":{"id":"s","index":0,"count":2}}"#
        );
        assert_eq!(ready.len(), 2);
    }

    #[test]
    fn repair_waits_for_the_whole_sequence_and_renumbers_each_output() {
        let mut sequences = Sequences::new(true);
        assert!(sequences.add(part(1, Some(3))).is_empty());
        assert!(sequences.add(part(0, Some(3))).is_empty());
        let ready = sequences.add(part(2, Some(3)));
        let routed = ready
            .into_iter()
            .zip([0, 1, 0])
            .map(|(message, output)| (output, message))
            .collect();
        let mut ids = ["x", "y"].into_iter();
        let renumbered = Sequences::renumber(routed, || ids.next().unwrap().into());
        let texts: Vec<String> = renumbered
            .iter()
            .map(|(_, message)| text(message))
            .collect();
        assert_eq!(
            texts[0],
            r#"{"payload":1,"parts":{"id":"x","index":0,"count":2}}"#
        );
        assert_eq!(
            texts[1],
            r#"{"payload":0,"parts":{"id":"y","index":0,"count":1}}"#
        );
        assert_eq!(
            texts[2],
            r#"{"payload":2,"parts":{"id":"x","index":1,"count":2}}"#
        );
    }
}
