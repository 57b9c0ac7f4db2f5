//! `split`: sends the elements of an array, the pieces of a text or buffer, the properties of an
//! object one by one, each with its position in `msg.parts`.

use super::split_cut::{self, Cut, Pieces};
use crate::expression::typed::text_of;
use crate::node::{BoxedNode, Build, Done, Host, Node, Sequence, Worked, boxed, size};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::sync::Arc;
use value::{Array, Failure, Message, Object, Path, Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    splt: Option<Json>,
    splt_type: SmolStr,
    array_splt: Json,
    stream: bool,
    addname: SmolStr,
    property: SmolStr,
}

impl Default for Properties {
    fn default() -> Self {
        Self {
            splt: None,
            splt_type: SmolStr::new_static("str"),
            array_splt: Json::from(1),
            stream: false,
            addname: SmolStr::default(),
            property: SmolStr::default(),
        }
    }
}

struct Split {
    property: Path,
    /// The property's name for parts, unless it is `payload`.
    named: Option<SmolStr>,
    /// Elements in one piece of an array.
    array: usize,
    cut: Arc<Cut>,
    /// The property that receives an object's keys.
    key: Option<Path>,
    stream: Option<Stream>,
}

/// The rest of a stream, and the number of its next piece.
#[derive(Default)]
struct Stream {
    text: String,
    bytes: Vec<u8>,
    index: f64,
    /// Messages that are not done with.
    held: Vec<Message>,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    // If this and the length for arrays are both invalid, this one is reported (observed).
    let cut = Cut::parse(&properties.splt_type, properties.splt.as_ref())?;
    let length = text_of(&properties.array_splt);
    let name = match properties.property.as_str() {
        "" => SmolStr::new_static("payload"),
        _ => properties.property,
    };
    let key = match properties.addname.as_str() {
        "" => None,
        name => Some(Path::parse_message(name)?),
    };
    Ok(boxed(Split {
        property: Path::parse_message(&name)?,
        named: (name != "payload").then_some(name),
        array: split_cut::length(&length)
            .ok_or_else(|| split_cut::invalid("invalid array split length", &length))?,
        cut: Arc::new(cut),
        key,
        stream: properties.stream.then(Stream::default),
    }))
}

enum Event {
    Cut(Worked<Pieces>),
    Rest(Sequence),
}

/// One message on its way into pieces.
struct Sending {
    property: Path,
    /// The message without its id: each part gets one of its own.
    base: Message,
    parts: Object,
    /// The last piece of a stream; kept only while a complete node listens.
    last: Option<Message>,
}

impl Sending {
    fn note(&mut self, name: &'static str, value: impl Into<Value>) {
        self.parts.insert(SmolStr::new_static(name), value.into());
    }

    fn whole(&self) -> Message {
        let mut message = self.base.clone();
        message.set(
            SmolStr::new_static("parts"),
            Value::object(self.parts.clone()),
        );
        message
    }

    fn piece(&self, value: Value) -> Message {
        let mut message = self.whole();
        // A piece is no larger than what it was cut from.
        let _ = self.property.write_message(&mut message, value);
        message
    }

    fn send(&mut self, piece: Message, host: &mut Host<'_, Event>) {
        if host.watched() {
            self.last = Some(piece.clone());
        }
        host.send(0, piece);
    }

    /// Pieces that are numbered from 0 and counted. The message to report is the last piece
    /// (observed), or another one.
    fn all(
        mut self,
        values: impl Iterator<Item = Value> + 'static,
        count: usize,
        done: Option<Message>,
    ) -> Sequence {
        self.note("count", count as f64);
        let done = done.map_or_else(|| Done::Last(self.whole()), Done::Message);
        let messages = values.enumerate().map(move |(index, value)| {
            self.note("index", index as f64);
            Ok(self.piece(value))
        });
        Sequence {
            messages: Box::new(messages),
            done,
        }
    }

    /// Sends pieces of a stream, whose count is not known.
    fn stream(&mut self, values: Vec<Value>, index: &mut f64, host: &mut Host<'_, Event>) {
        for value in values {
            self.note("index", *index);
            *index += 1.0;
            self.send(self.piece(value), host);
        }
    }

    /// The message to report: its last piece, if there was one (observed).
    fn become_of(self) -> Message {
        let whole = self.whole();
        self.last.unwrap_or(whole)
    }
}

impl Split {
    /// The common content of all pieces of this message; existing parts are nested inside.
    fn begin(&self, message: &Message, host: &mut Host<'_, Event>) -> Sending {
        let mut base = message.clone();
        base.take("_msgid");
        let mut parts = Object::default();
        if let Some(outer) = base.properties().get("parts") {
            parts.insert(SmolStr::new_static("parts"), outer.clone());
        }
        parts.insert(SmolStr::new_static("id"), host.fresh_id().into());
        if let Some(name) = &self.named {
            parts.insert(SmolStr::new_static("property"), name.clone().into());
        }
        Sending {
            property: self.property.clone(),
            base,
            parts,
            last: None,
        }
    }

    fn note_cut(&self, sending: &mut Sending, text: bool) {
        sending.note("type", if text { "string" } else { "buffer" });
        match &*self.cut {
            Cut::Separator { shown, .. } => sending.note("ch", shown.clone()),
            Cut::Length(length) => {
                if text {
                    sending.note("ch", "");
                }
                sending.note("len", *length as f64);
            }
        }
    }

    fn array(&self, elements: Arc<Array>, mut sending: Sending) -> Sequence {
        sending.note("type", "array");
        sending.note("count", 0.0);
        sending.note("len", self.array as f64);
        let (length, whole) = (self.array, elements.len());
        let count = whole.div_ceil(length);
        sending.note("count", count as f64);
        // The message itself stays whole (observed).
        let message = sending.whole();
        let piece = move |n: usize| {
            let from = n * length;
            if length == 1 {
                return elements[from].clone();
            }
            Value::array(elements[from..whole.min(from + length)].to_vec())
        };
        sending.all((0..count).map(piece), count, Some(message))
    }

    fn object(&self, object: &Object, mut sending: Sending) -> Sequence {
        sending.note("type", "object");
        let entries = json::entries(object).map(|(key, value)| (key.clone(), value.clone()));
        let entries: Vec<_> = entries.collect();
        let (count, path) = (entries.len() as f64, self.key.clone());
        let whole = sending.whole();
        let messages = entries.into_iter().enumerate();
        let messages = messages.map(move |(index, (key, value))| {
            sending.note("key", key.clone());
            sending.note("index", index as f64);
            sending.note("count", count);
            let mut piece = sending.piece(value);
            if let Some(path) = &path {
                // A key is never too large.
                let _ = path.write_message(&mut piece, key.into());
            }
            Ok(piece)
        });
        Sequence {
            messages: Box::new(messages),
            done: Done::Last(whole),
        }
    }

    /// The pieces of a text or buffer that is whole: all of it is sent.
    fn have_cut(&self, worked: Worked<Pieces>, host: &mut Host<'_, Event>) {
        let message = worked.message;
        let pieces = match worked.result {
            Ok(pieces) => pieces,
            Err(failure) => return host.error(failure, Some(message)),
        };
        let mut sending = self.begin(&message, host);
        self.note_cut(&mut sending, pieces.of_text);
        let sequence = sending.all(pieces.values.into_iter(), pieces.count, None);
        host.send_sequence(sequence, Event::Rest);
    }

    /// A text or buffer of a stream. Messages whose rest waits for more are done with when that is
    /// sent (observed).
    fn cut_stream(&mut self, value: &Value, mut message: Message, host: &mut Host<'_, Event>) {
        let mut stream = self.stream.take().unwrap_or_default();
        let mut sending = self.begin(&message, host);
        self.note_cut(&mut sending, value.as_str().is_some());
        let by_length = matches!(*self.cut, Cut::Length(_));
        let (mut values, rest) = match value {
            Value::String(text) => {
                let values = self.cut.text_stream(&mut stream.text, text);
                (values, by_length && !stream.text.is_empty())
            }
            Value::Buffer(bytes) => {
                let values = self.cut.buffer_stream(&mut stream.bytes, bytes);
                (values, !stream.bytes.is_empty())
            }
            _ => (Vec::new(), false),
        };
        // A length that is met is sent by itself, after others are done with (observed).
        let met = values.pop_if(|_| by_length && !rest);
        let waits = if by_length { met.is_none() } else { rest };
        for values in [values, met.into_iter().collect()] {
            if !values.is_empty() {
                sending.stream(values, &mut stream.index, host);
                stream.held.drain(..).for_each(|m| host.done(m));
            }
        }
        if host.watched() {
            message = sending.become_of();
        }
        if !waits {
            host.done(message);
        } else if host.watched() {
            stream.held.push(message);
        }
        self.stream = Some(stream);
    }
}

impl Node<Event> for Split {
    fn receive(&mut self, message: Message, host: &mut Host<'_, Event>) {
        let value = match self.property.try_read_message(&message) {
            // Nothing to split, and nothing is reported (observed).
            Ok(Value::Undefined) => return,
            Ok(value) => value,
            Err(failure) => return host.error(failure, Some(message)),
        };
        let sequence = match value {
            Value::String(_) | Value::Buffer(_) if self.stream.is_some() => {
                return self.cut_stream(&value, message, host);
            }
            Value::String(_) | Value::Buffer(_) => {
                let (cut, bytes) = (Arc::clone(&self.cut), size(&value));
                let worked = host.work(message, bytes, Event::Cut, move || Ok(cut.value(&value)));
                if let Some(worked) = worked {
                    self.have_cut(worked, host);
                }
                return;
            }
            Value::Null => {
                let failure = Failure {
                    name: SmolStr::new_static("TypeError"),
                    ..Failure::error("Cannot convert undefined or null to object")
                };
                let message = self.begin(&message, host).become_of();
                return host.error(failure, Some(message));
            }
            Value::Array(elements) => self.array(elements, self.begin(&message, host)),
            Value::Object(object) => self.object(&object, self.begin(&message, host)),
            _ => {
                let message = self.begin(&message, host).become_of();
                return host.done(message);
            }
        };
        host.send_sequence(sequence, Event::Rest);
    }

    fn event(&mut self, event: Event, host: &mut Host<'_, Event>) {
        match event {
            Event::Cut(worked) => self.have_cut(worked, host),
            Event::Rest(rest) => host.send_sequence(rest, Event::Rest),
        }
    }
}
