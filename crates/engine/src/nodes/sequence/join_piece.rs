//! Reads from a message the data for a join node: the piece, its group and the form of the result.
//! Pure.

use super::join_group::Shape;
use super::split_cut::unescape;
use crate::expression::typed::{Typed, text_of};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::time::Duration;
use value::{Failure, Message, Path, Value, coerce, property};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Properties {
    pub mode: SmolStr,
    build: SmolStr,
    property: SmolStr,
    property_type: SmolStr,
    key: SmolStr,
    joiner: Json,
    joiner_type: SmolStr,
    useparts: Option<bool>,
    accumulate: Json,
    timeout: Json,
    count: Option<Json>,
    pub reduce_right: bool,
    pub reduce_exp: SmolStr,
    pub reduce_init: Json,
    pub reduce_init_type: SmolStr,
    pub reduce_fixup: SmolStr,
}

/// A message on its way into a group.
pub(super) struct Piece {
    /// The group's name.
    pub group: SmolStr,
    /// The form of the result.
    pub shape: Shape,
    /// The property that receives the result.
    pub property: Path,
    /// The number of pieces that complete the group, if known.
    pub target: Option<f64>,
    /// The position of the piece; `None`: after the existing ones.
    pub place: Option<f64>,
    pub value: Value,
}

/// Why a message is in no group.
pub(super) enum Refused {
    Warning(String),
    Failure(Failure),
    /// It was a word for the node; these are done with, and so is it.
    Done(Vec<Message>),
}

/// The node's settings for its groups.
pub(super) struct Custom {
    shape: Shape,
    /// `None`: the whole message.
    source: Option<Path>,
    source_name: SmolStr,
    pub key: Path,
    pub key_name: SmolStr,
    by_parts: bool,
    pub accumulate: bool,
    pub timeout: Option<Duration>,
    count: Option<f64>,
    /// The count's field is empty: parts set the count.
    counted_by_parts: bool,
}

impl Custom {
    pub(super) fn parse(properties: &Properties) -> Result<Self, Failure> {
        let or = |text: &SmolStr, default: &'static str| match text.as_str() {
            "" => SmolStr::new_static(default),
            _ => text.clone(),
        };
        let positive = |value: &Json| {
            let n = coerce::text_to_number(&text_of(value));
            (n > 0.0).then_some(n)
        };
        let source_name = or(&properties.property, "payload");
        let key_name = or(&properties.key, "topic");
        let timeout = positive(&properties.timeout)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(Self {
            shape: properties.shape()?,
            source: match properties.property_type.as_str() {
                "full" => None,
                _ => Some(Path::parse_message(&source_name)?),
            },
            source_name,
            key: Path::parse_message(&key_name)?,
            key_name,
            by_parts: properties.useparts.unwrap_or(true),
            // The text "true" is not enough (observed).
            accumulate: properties.accumulate == true,
            timeout,
            count: properties.count.as_ref().and_then(positive),
            counted_by_parts: properties.count.as_ref().is_some_and(|count| count == ""),
        })
    }

    /// The piece in a message. Unwanted parts are removed from the message.
    pub(super) fn piece(&self, message: &mut Message) -> Result<Piece, Refused> {
        if !self.by_parts && message.properties().contains_key("parts") {
            match property(&message.take("parts"), "parts") {
                Value::Undefined => {}
                outer => message.set("parts", Value::record([("parts", outer)])),
            }
        }
        let value = match &self.source {
            None => message.to_value(),
            Some(path) => path.try_read_message(message).map_err(|_| {
                Refused::Warning(format!("Message property {} not found", self.source_name))
            })?,
        };
        let parts = message.get("parts");
        let (mut group, mut target) = (SmolStr::new_static("_"), self.count);
        if self.counted_by_parts && !parts.is_undefined() {
            let count = coerce::to_number(&property(parts, "count"));
            target = (count > 0.0).then_some(count);
            group = match property(parts, "id") {
                Value::Undefined => group,
                id => coerce::to_text(&id),
            };
        }
        Ok(Piece {
            group,
            shape: self.shape.clone(),
            property: self.source.clone().unwrap_or(Path::name("payload")),
            target,
            place: None,
            value,
        })
    }
}

impl Properties {
    fn shape(&self) -> Result<Shape, Failure> {
        let joiner = match self.joiner_type.as_str() {
            "bin" if !text_of(&self.joiner).is_empty() => {
                match Typed::parse("bin", &self.joiner)? {
                    Typed::Constant(Value::Buffer(bytes)) => bytes.to_vec(),
                    _ => Vec::new(),
                }
            }
            _ => unescape(&text_of(&self.joiner)).into_bytes(),
        };
        Ok(match self.build.as_str() {
            "object" => Shape::Object,
            "merged" => Shape::Merged,
            "string" => Shape::Text(Some(String::from_utf8_lossy(&joiner).into())),
            "buffer" => Shape::Buffer(joiner.into()),
            _ => Shape::Array { flat: false },
        })
    }
}

/// The piece in a message of a sequence, described by its parts alone.
pub(super) fn auto_piece(message: &Message) -> Result<Piece, Refused> {
    let parts = message.get("parts");
    let path = match property(parts, "property") {
        Value::String(text) if !text.is_empty() => {
            Path::parse_message(&text).map_err(Refused::Failure)?
        }
        _ => Path::name("payload"),
    };
    let value = path.try_read_message(message).map_err(Refused::Failure)?;
    let count = property(parts, "count");
    let place = match property(parts, "index") {
        Value::Undefined => f64::NAN,
        index => coerce::to_number(&index),
    };
    Ok(Piece {
        group: coerce::to_text(&property(parts, "id")),
        shape: shape_of(parts),
        property: path,
        target: coerce::truthy(&count).then(|| coerce::to_number(&count)),
        place: (!place.is_nan()).then_some(place),
        value,
    })
}

/// The form of the sequence before it was split, according to the parts.
fn shape_of(parts: &Value) -> Shape {
    let between = match property(parts, "ch") {
        Value::Null | Value::Undefined => None,
        between => Some(between),
    };
    match property(parts, "type").as_str() {
        Some("object") => Shape::Object,
        Some("merged") => Shape::Merged,
        Some("string") => Shape::Text(between.map(|between| coerce::to_text(&between))),
        Some("buffer") => Shape::Buffer(match between {
            Some(Value::Buffer(bytes)) => bytes[..].into(),
            Some(Value::Array(bytes)) => bytes.iter().map(coerce::to_uint8).collect(),
            Some(other) => coerce::to_text(&other).as_bytes().into(),
            None => Box::default(),
        }),
        Some("array") => Shape::Array {
            flat: property(parts, "len").as_number().is_some_and(|n| n > 1.0),
        },
        _ => Shape::Array { flat: false },
    }
}
