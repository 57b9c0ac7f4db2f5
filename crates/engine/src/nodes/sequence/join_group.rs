//! One sequence that a join node puts together: the pieces received, and their result. Pure.

use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use std::sync::Arc;
use value::{Failure, Message, Object, Path, Value, coerce, property};

/// The form of a joined sequence.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// An array; `flat`: of the elements of arrays.
    Array { flat: bool },
    /// A text with this between its pieces; `None`: the parts have no `ch`, which is an error.
    Text(Option<SmolStr>),
    /// A buffer with this between its pieces.
    Buffer(Box<[u8]>),
    /// An object with a property for each message.
    Object,
    /// The objects of all messages in one.
    Merged,
}

/// An incomplete sequence.
pub(super) struct Group {
    shape: Shape,
    /// The property that receives the result.
    property: Path,
    /// The number of messages that complete it; `None`: not known yet.
    pub target: Option<f64>,
    /// The number of pieces with a value.
    count: usize,
    /// Array, text, buffer: the pieces in the order of arrival, with their place if they have one.
    pieces: Vec<(Option<f64>, Value)>,
    /// Place to position in `pieces`.
    places: FxHashMap<u64, usize>,
    object: Object,
    /// All messages so far in one: later ones overwrite the properties of earlier ones (observed).
    merged: Message,
    /// Messages that are not done yet; kept only while a complete node listens.
    pub held: Vec<Message>,
}

impl Group {
    pub(super) fn new(shape: Shape, property: Path, target: Option<f64>) -> Self {
        Self {
            shape,
            property,
            target,
            count: 0,
            pieces: Vec::new(),
            places: FxHashMap::default(),
            object: Object::default(),
            merged: Message::default(),
            held: Vec::new(),
        }
    }

    /// Returns whether the properties of messages go into one object.
    pub(super) fn is_merged(&self) -> bool {
        self.shape == Shape::Merged
    }

    /// Adds a piece. One for a place that is taken replaces what was there; nothing without a place
    /// is none.
    pub(super) fn add_piece(&mut self, place: Option<f64>, value: Value) -> Result<(), Failure> {
        if let Shape::Buffer(_) = self.shape {
            match value {
                Value::Buffer(_) | Value::String(_) | Value::Array(_) | Value::Undefined => {}
                other => {
                    let kind = coerce::type_of(&other);
                    return Err(Failure::text(format!("Cannot join {kind} to buffer")));
                }
            }
        }
        let Some(place) = place else {
            if !value.is_undefined() {
                self.count += 1;
                self.pieces.push((None, value));
            }
            return Ok(());
        };
        if let Some(at) = self.places.get(&place.to_bits()) {
            if let Some(piece) = self.pieces.get_mut(*at) {
                self.count += usize::from(piece.1.is_nullish());
                piece.1 = value;
            }
            return Ok(());
        }
        self.places.insert(place.to_bits(), self.pieces.len());
        self.count += 1;
        self.pieces.push((Some(place), value));
        Ok(())
    }

    /// Adds a property.
    pub(super) fn add_property(&mut self, key: SmolStr, value: Value) {
        self.object.insert(key, value);
    }

    /// Adds all properties of an object but the message's id; false if the value is none.
    pub(super) fn merge(&mut self, value: &Value) -> bool {
        let object = match value {
            Value::Object(object) => object,
            other => return matches!(other, Value::Null),
        };
        for (key, value) in object.iter().filter(|(key, _)| *key != "_msgid") {
            self.object.insert(key.clone(), value.clone());
        }
        true
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self, complete: Value) {
        self.merged.set("complete", complete);
    }

    /// Returns whether a message has ended the sequence with `complete`.
    pub(super) fn is_finished(&self) -> bool {
        self.merged.properties().contains_key("complete")
    }

    /// Takes over the properties of a message that belongs here.
    pub(super) fn absorb(&mut self, message: &Message) {
        if self.merged.properties().is_empty() {
            self.merged = message.clone();
            return;
        }
        let merged = self.merged.properties_mut();
        for (key, value) in message.properties() {
            merged.insert(key.clone(), value.clone());
        }
    }

    /// Returns whether all have arrived.
    pub(super) fn is_full(&self) -> bool {
        let have = match self.shape {
            Shape::Object | Shape::Merged => self.object.len(),
            _ => self.count,
        };
        self.target
            .is_some_and(|target| target > 0.0 && have as f64 >= target)
    }

    /// The message that the sequence becomes. Its parts are those around it, if there were any; a
    /// sequence that goes on does so without its own (observed).
    pub(super) fn message(&mut self) -> Result<Message, Failure> {
        let value = self.value()?;
        match property(self.merged.get("parts"), "parts") {
            Value::Undefined => drop(self.merged.take("parts")),
            outer => self.merged.set("parts", outer),
        }
        let mut message = self.merged.clone();
        message.take("complete");
        self.property.write_message(&mut message, value)?;
        Ok(message)
    }

    fn value(&self) -> Result<Value, Failure> {
        Ok(match &self.shape {
            Shape::Object | Shape::Merged => Value::object(self.object.clone()),
            Shape::Array { flat: false } => Value::array(self.placed()),
            Shape::Array { flat: true } => {
                let mut all = Vec::new();
                for piece in self.placed() {
                    match piece {
                        Value::Array(elements) => {
                            all.extend(Arc::unwrap_or_clone(elements).into_vec());
                        }
                        other => all.push(other),
                    }
                }
                Value::array(all)
            }
            Shape::Text(None) => {
                return Err(Failure {
                    name: SmolStr::new_static("TypeError"),
                    ..Failure::error("Cannot read properties of undefined (reading 'toString')")
                });
            }
            Shape::Text(Some(between)) => {
                let mut out = String::new();
                for (at, piece) in self.placed().iter().enumerate() {
                    if at > 0 {
                        out.push_str(between);
                    }
                    if !piece.is_nullish() {
                        out.push_str(&coerce::to_text(piece));
                    }
                }
                Value::from(out)
            }
            Shape::Buffer(between) => {
                let mut out = Vec::new();
                for (at, piece) in self.placed().iter().enumerate() {
                    if at > 0 {
                        out.extend_from_slice(between);
                    }
                    match piece {
                        Value::Buffer(bytes) => out.extend_from_slice(bytes),
                        Value::String(text) => out.extend_from_slice(text.as_bytes()),
                        Value::Array(bytes) => out.extend(bytes.iter().map(coerce::to_uint8)),
                        _ => {}
                    }
                }
                Value::buffer(out)
            }
        })
    }

    /// The pieces in order: by place, then those that have none. Empty places are `undefined`, as
    /// long as there are no more of them than pieces: a message cannot make the engine hold
    /// gigabytes of holes.
    fn placed(&self) -> Vec<Value> {
        let mut pieces: Vec<&(Option<f64>, Value)> = self.pieces.iter().collect();
        let place = |piece: &(Option<f64>, Value)| piece.0.unwrap_or(f64::INFINITY);
        pieces.sort_by(|a, b| place(a).total_cmp(&place(b)));
        let mut out = Vec::with_capacity(pieces.len());
        for piece in pieces {
            if let Some(place) = piece.0 {
                while (out.len() as f64) < place && out.len() < 2 * self.pieces.len() {
                    out.push(Value::Undefined);
                }
            }
            out.push(piece.1.clone());
        }
        out
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use value::json;

    fn made(shape: Shape, pieces: &[(f64, Value)]) -> String {
        let mut group = Group::new(shape, Path::name("payload"), None);
        for (place, value) in pieces {
            group.add_piece(Some(*place), value.clone()).unwrap();
        }
        format!("{:?}", group.value().unwrap())
    }

    #[test]
    fn pieces_are_joined_in_order_of_their_index() {
        let pieces = [(1.0, "b".into()), (0.0, "a".into()), (0.0, "A".into())];
        assert_eq!(made(Shape::Array { flat: false }, &pieces), r#"["A", "b"]"#);
        assert_eq!(made(Shape::Text(Some("-".into())), &pieces), r#""A-b""#);
        assert_eq!(
            made(Shape::Buffer(Box::from(&b","[..])), &pieces),
            r#"Buffer(b"A,b")"#
        );
    }

    #[test]
    fn missing_pieces_are_undefined_and_limited_in_number() {
        let pieces = [(0.0, 1.0.into()), (2.0, 2.0.into())];
        let array = Shape::Array { flat: false };
        assert_eq!(made(array.clone(), &pieces), "[1, undefined, 2]");
        assert_eq!(
            made(Shape::Text(Some("-".into())), &[(1.0, "x".into())]),
            "\"-x\""
        );
        assert_eq!(
            made(array, &[(4e9, 1.0.into())]),
            "[undefined, undefined, 1]"
        );
    }

    #[test]
    fn only_texts_and_buffers_join_to_a_buffer() {
        let mut group = Group::new(Shape::Buffer(Box::default()), Path::name("payload"), None);
        let failure = group.add_piece(None, 5.0.into()).unwrap_err();
        assert_eq!(failure.message, "Cannot join number to buffer");
    }

    #[test]
    fn the_result_merges_all_properties_and_has_the_outer_parts() {
        let mut group = Group::new(Shape::Object, Path::name("payload"), None);
        for text in [
            r#"{"payload":1,"q":1,"parts":{"id":"s","parts":{"id":"o"}}}"#,
            r#"{"payload":2,"r":2,"complete":true,"parts":{"id":"s","parts":{"id":"o"}}}"#,
        ] {
            group.absorb(&Message::from_value(json::parse(text).unwrap()).unwrap());
        }
        group.add_property("k".into(), 1.0.into());
        assert_eq!(
            json::stringify(&group.message().unwrap().to_value()).unwrap(),
            r#"{"payload":{"k":1},"q":1,"parts":{"id":"o"},"r":2}"#
        );
    }
}
