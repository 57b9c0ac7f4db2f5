//! Parses the frames of an editor, each one of three JSON objects, completely before they are acted
//! on.
//!
//! An upstream of this kind dies of values that it does not expect
//! (docs/reference/node-red-admin-api.md §7; seen: `null` as data, data with a key `toString`), so
//! what is not surely harmless is never passed on.

use crypto::Secret;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value as Json;
use std::fmt;

/// Bytes of a topic. Our choice: the longest of Node-RED are a word and an id.
pub(super) const TOPIC: usize = 256;
/// The maximum nesting depth of data. Our choice; the stock editor's has two levels.
const DEPTH: usize = 32;

/// Names that every JavaScript object has: with one of them as data's key, reading the data may
/// throw (ECMA-262 §20.1.3, annex B.2.2).
const INHERITED: [&str; 12] = [
    "__proto__",
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// A frame of an editor.
#[derive(Debug)]
pub(super) enum Frame {
    /// `{"auth": token}`
    Auth(Secret),
    /// `{"subscribe": topic}`
    Subscribe(String),
    /// `{"topic": topic, "data": anything}`
    Publish {
        topic: String,
        /// The frame again, as we would write it.
        text: String,
    },
}

/// Why a text is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameError {
    /// It is not JSON. Node-RED ignores it.
    Malformed,
    /// It is JSON, but none of ours.
    Foreign,
}

impl Frame {
    /// Understands a text.
    pub(super) fn parse(text: &str) -> Result<Self, FrameError> {
        serde_json::from_str::<IgnoredAny>(text).map_err(|_| FrameError::Malformed)?;
        let Entries(entries) = serde_json::from_str(text).map_err(|_| FrameError::Foreign)?;
        let mut entries = entries.into_iter();
        match (entries.next(), entries.next(), entries.next()) {
            (Some((key, value)), None, None) => single(&key, value),
            (Some((a, topic)), Some((b, data)), None) if a == "topic" && b == "data" => {
                publish(topic, &data)
            }
            (Some((a, data)), Some((b, topic)), None) if a == "data" && b == "topic" => {
                publish(topic, &data)
            }
            _ => Err(FrameError::Foreign),
        }
    }
}

fn single(key: &str, value: Json) -> Result<Frame, FrameError> {
    match (key, value) {
        ("auth", Json::String(token)) => Ok(Frame::Auth(Secret::new(token))),
        ("subscribe", Json::String(topic)) => Ok(Frame::Subscribe(topic)),
        _ => Err(FrameError::Foreign),
    }
}

fn publish(topic: Json, data: &Json) -> Result<Frame, FrameError> {
    match topic {
        Json::String(topic)
            if (1..=TOPIC).contains(&topic.len())
                && !data.is_null()
                && is_harmless(data, DEPTH) =>
        {
            let name = Json::from(topic.as_str());
            let text = format!("{{\"topic\":{name},\"data\":{data}}}");
            Ok(Frame::Publish { topic, text })
        }
        _ => Err(FrameError::Foreign),
    }
}

fn is_harmless(data: &Json, depth: usize) -> bool {
    match data {
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => true,
        Json::Array(_) | Json::Object(_) if depth == 0 => false,
        Json::Array(items) => items.iter().all(|item| is_harmless(item, depth - 1)),
        Json::Object(object) => object.iter().all(|(key, value)| {
            !INHERITED.contains(&key.as_str()) && is_harmless(value, depth - 1)
        }),
    }
}

/// An object's keys and values as they stand there, doubled ones too.
struct Entries(Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;

    fn published(text: &str) -> String {
        match Frame::parse(text) {
            Ok(Frame::Publish { text, .. }) => text,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn the_three_kinds_of_frames_are_parsed() {
        assert!(matches!(Frame::parse(r#"{"auth":"t"}"#), Ok(Frame::Auth(t)) if t.reveal() == "t"));
        assert!(
            matches!(Frame::parse(r#" {"subscribe" : "status/#"} "#), Ok(Frame::Subscribe(t)) if t == "status/#")
        );
        for (text, passed_on) in [
            (
                r#"{"topic":"multiplayer/connect","data":{"session":"s1"}}"#,
                r#"{"topic":"multiplayer/connect","data":{"session":"s1"}}"#,
            ),
            (
                r#"{ "data" : [1.50, "\u00e9"], "t\u006fpic":"x" }"#,
                r#"{"topic":"x","data":[1.5,"é"]}"#,
            ),
            (
                r#"{"topic":"x","data":false}"#,
                r#"{"topic":"x","data":false}"#,
            ),
        ] {
            assert_eq!(published(text), passed_on);
        }
    }

    #[test]
    fn invalid_json_is_distinguished_from_json_that_is_no_frame() {
        for text in ["", "{bad", "[1,}", "{\"auth\":\"a\"} x", "nul", "{'a':1}"] {
            assert_eq!(
                Frame::parse(text).unwrap_err(),
                FrameError::Malformed,
                "{text}"
            );
        }
        let deep = "[".repeat(60_000) + &"]".repeat(60_000);
        assert_eq!(Frame::parse(&deep).unwrap_err(), FrameError::Foreign);
        for text in [
            "null",
            "1",
            "\"auth\"",
            "[]",
            r#"[{"auth":"a"}]"#,
            "{}",
            r#"{"auth":1}"#,
            r#"{"auth":null}"#,
            r#"{"auth":["a"]}"#,
            r#"{"auth":"a","auth":"b"}"#,
            r#"{"auth":"a","subscribe":"b"}"#,
            r#"{"subscribe":{"toString":1}}"#,
            r#"{"subscribe":["a"]}"#,
            r#"{"subscribe":"a","x":1}"#,
            r#"{"topic":"a"}"#,
            r#"{"data":{}}"#,
            r#"{"topic":1,"data":{}}"#,
            r#"{"topic":"","data":{}}"#,
            r#"{"topic":"a","data":{},"x":1}"#,
            r#"{"topic":"a","topic":"b"}"#,
            r#"{"topic":"a","data":null}"#,
            r#"{"topic":"a","data":{"toString":1}}"#,
            r#"{"topic":"a","data":[{"x":{"__proto__":{}}}]}"#,
            r#"{"Auth":"a"}"#,
            r#"{"__proto__":"a"}"#,
        ] {
            assert_eq!(
                Frame::parse(text).unwrap_err(),
                FrameError::Foreign,
                "{text}"
            );
        }
    }

    #[test]
    fn the_nesting_depth_of_data_is_limited() {
        let nested = |depth: usize| {
            let data = "[".repeat(depth) + &"]".repeat(depth);
            Frame::parse(&format!(r#"{{"topic":"a","data":{data}}}"#))
        };
        assert!(nested(DEPTH).is_ok());
        assert_eq!(nested(DEPTH + 1).unwrap_err(), FrameError::Foreign);
        assert_eq!(nested(20_000).unwrap_err(), FrameError::Foreign);
    }

    #[test]
    fn a_token_is_never_printed() {
        let frame = Frame::parse(r#"{"auth":"very-secret"}"#).unwrap();
        assert!(!format!("{frame:?}").contains("very-secret"));
    }
}
