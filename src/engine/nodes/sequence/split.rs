//! `split`: sends the elements of an array, the pieces of a text or buffer, the properties of an object
//! one by one, each with `msg.parts` that says where it belongs.

use super::split_cut::{self, Cut};
use crate::engine::expression::typed::text_of;
use crate::engine::expression::{Path, json};
use crate::engine::message::Message;
use crate::engine::node::{Build, Host, Node};
use crate::engine::value::{Failure, Object, Value};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    splt: Json,
    splt_type: SmolStr,
    array_splt: Json,
    stream: bool,
    addname: SmolStr,
    property: SmolStr,
}

impl Default for Properties {
    fn default() -> Self {
        Self {
            splt: Json::from("\\n"),
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
    cut: Cut,
    /// Where an object's keys go.
    key: Option<Path>,
    stream: Option<Stream>,
}

/// What a stream has left over, and the number of its next piece.
#[derive(Default)]
struct Stream {
    text: String,
    bytes: Vec<u8>,
    index: f64,
}

pub(in crate::engine::nodes) fn build(build: &Build<'_>) -> Result<Box<dyn Node>, Failure> {
    let properties: Properties = build.properties()?;
    let length = text_of(&properties.array_splt);
    let name = match properties.property.as_str() {
        "" => SmolStr::new_static("payload"),
        _ => properties.property,
    };
    let key = match properties.addname.as_str() {
        "" => None,
        name => Some(Path::parse_message(name)?),
    };
    Ok(Box::new(Split {
        property: Path::parse_message(&name)?,
        named: (name != "payload").then_some(name),
        array: split_cut::length(&length)
            .ok_or_else(|| split_cut::invalid("invalid array split length", &length))?,
        cut: Cut::parse(&properties.splt_type, &properties.splt)?,
        key,
        stream: properties.stream.then(Stream::default),
    }))
}

/// One message on its way into pieces.
struct Sending<'a> {
    property: &'a Path,
    /// The message without its id: each part gets one of its own.
    base: Message,
    parts: Object,
}

impl Sending<'_> {
    fn note(&mut self, name: &'static str, value: impl Into<Value>) {
        self.parts.insert(SmolStr::new_static(name), value.into());
    }

    fn piece(&self, value: Value) -> Message {
        let mut message = self.base.clone();
        self.property.write_message(&mut message, value);
        message.set(
            SmolStr::new_static("parts"),
            Value::object(self.parts.clone()),
        );
        message
    }

    /// Sends pieces that are numbered from 0 and counted.
    fn all(&mut self, values: impl IntoIterator<Item = Value>, count: usize, host: &mut Host<'_>) {
        self.note("count", count as f64);
        for (index, value) in values.into_iter().enumerate() {
            self.note("index", index as f64);
            host.send(0, self.piece(value));
        }
    }

    /// Sends pieces of a stream, which nobody can count.
    fn stream(&mut self, values: Vec<Value>, index: &mut f64, host: &mut Host<'_>) {
        for value in values {
            self.note("index", *index);
            *index += 1.0;
            host.send(0, self.piece(value));
        }
    }
}

impl Split {
    /// What all parts of this message have in common; parts that are there already go inside.
    fn begin(&self, message: &Message, host: &mut Host<'_>) -> Sending<'_> {
        let mut base = message.clone();
        base.take("_msgid");
        let mut parts = Object::default();
        if let outer @ Value::Object(_) = base.get("parts") {
            parts.insert(SmolStr::new_static("parts"), outer.clone());
        }
        parts.insert(SmolStr::new_static("id"), host.fresh_id().into());
        if let Some(name) = &self.named {
            parts.insert(SmolStr::new_static("property"), name.clone().into());
        }
        Sending {
            property: &self.property,
            base,
            parts,
        }
    }

    fn note_cut(&self, sending: &mut Sending<'_>, text: bool) {
        sending.note("type", if text { "string" } else { "buffer" });
        match &self.cut {
            Cut::Separator { shown, .. } => sending.note("ch", shown.clone()),
            Cut::Length(length) => {
                if text {
                    sending.note("ch", "");
                }
                sending.note("len", *length as f64);
            }
        }
    }

    fn object(&self, object: &Object, sending: &mut Sending<'_>, host: &mut Host<'_>) {
        sending.note("type", "object");
        for (index, (key, value)) in json::entries(object).enumerate() {
            sending.note("key", key.clone());
            sending.note("index", index as f64);
            sending.note("count", object.len() as f64);
            let mut piece = sending.piece(value.clone());
            if let Some(path) = &self.key {
                path.write_message(&mut piece, key.clone().into());
            }
            host.send(0, piece);
        }
    }
}

impl Node for Split {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let value = match self.property.try_read_message(&message) {
            // Nothing to split, and nothing is said of it (observed).
            Ok(Value::Undefined) => return,
            Ok(value) => value,
            Err(failure) => return host.error(failure, Some(message)),
        };
        if matches!(value, Value::Null) {
            let failure = Failure {
                name: SmolStr::new_static("TypeError"),
                ..Failure::error("Cannot convert undefined or null to object")
            };
            return host.error(failure, Some(message));
        }
        let mut stream = self.stream.take();
        let mut sending = self.begin(&message, host);
        match &value {
            Value::Array(elements) => {
                sending.note("type", "array");
                sending.note("count", 0.0);
                sending.note("len", self.array as f64);
                let count = elements.len().div_ceil(self.array);
                if self.array == 1 {
                    sending.all(elements.iter().cloned(), count, host);
                } else {
                    let pieces = elements.chunks(self.array);
                    sending.all(pieces.map(|p| Value::array(p.to_vec())), count, host);
                }
            }
            Value::String(text) => {
                self.note_cut(&mut sending, true);
                if let Some(Stream {
                    text: rest, index, ..
                }) = &mut stream
                {
                    sending.stream(self.cut.text_stream(rest, text), index, host);
                } else {
                    let pieces = self.cut.text(text);
                    sending.all(pieces.values, pieces.count, host);
                }
            }
            Value::Buffer(bytes) => {
                self.note_cut(&mut sending, false);
                if let Some(Stream {
                    bytes: rest, index, ..
                }) = &mut stream
                {
                    sending.stream(self.cut.buffer_stream(rest, bytes), index, host);
                } else {
                    let pieces = self.cut.buffer(bytes);
                    sending.all(pieces.values, pieces.count, host);
                }
            }
            Value::Object(object) => self.object(object, &mut sending, host),
            _ => {}
        }
        self.stream = stream;
        host.done(message);
    }
}
