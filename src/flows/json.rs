//! JSON texts without trees: checked, compacted, taken apart into members; and where in them something is wrong.
//!
//! Knows JSON (RFC 8259); never what a flow set is.

use super::Malformed;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A body as text. A UTF-8 byte order mark at its start is skipped, as Node-RED does (facts admin API §3).
pub(super) fn text(json: &[u8]) -> Result<&str, Malformed> {
    let json = json.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(json);
    std::str::from_utf8(json)
        .map_err(|e| Malformed(format!("byte {} is not valid UTF-8", e.valid_up_to())))
}

/// Where in the whole text a part of it begins: lines and columns before it.
pub(super) fn place(part: &str, whole: &str) -> (usize, usize) {
    let offset = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    let before = whole.get(..offset).unwrap_or_default();
    let line = before.bytes().filter(|b| *b == b'\n').count();
    (line, before.len() - before.rfind('\n').map_or(0, |i| i + 1))
}

/// A syntax error, in words; `before` are the lines and columns in front of the text that was parsed.
pub(super) fn syntax(error: &serde_json::Error, before: (usize, usize)) -> Malformed {
    let line = error.line() + before.0;
    let column = if error.line() == 1 {
        error.column() + before.1
    } else {
        error.column()
    };
    let words = error.to_string();
    let words = words.split(" at line ").next().unwrap_or_default();
    Malformed(format!(
        "invalid JSON at line {line}, column {column}: {words}"
    ))
}

/// The text without white space between its tokens.
pub(super) fn compact(text: &str) -> Cow<'_, str> {
    let mut short: Option<String> = None;
    let mut kept = 0;
    let mut bytes = text.bytes().enumerate();
    while let Some((i, byte)) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b' ' | b'\t' | b'\n' | b'\r' => {
                let short = short.get_or_insert_with(|| String::with_capacity(text.len()));
                short.push_str(text.get(kept..i).unwrap_or_default());
                kept = i + 1;
            }
            _ => {}
        }
    }
    match short {
        Some(short) => Cow::Owned(short + text.get(kept..).unwrap_or_default()),
        None => Cow::Borrowed(text),
    }
}

fn skip_string(bytes: &mut impl Iterator<Item = (usize, u8)>) {
    while let Some((_, byte)) = bytes.next() {
        match byte {
            b'\\' => _ = bytes.next(),
            b'"' => return,
            _ => {}
        }
    }
}

/// A compact object's text without one of its members; the others stay letter for letter.
pub(super) fn without(object: &str, member: &str) -> Result<String, serde_json::Error> {
    let Members(members) = serde_json::from_str(object)?;
    let mut text = String::with_capacity(object.len());
    for (key, value) in members.iter().filter(|(key, _)| key != member) {
        text.push(if text.is_empty() { '{' } else { ',' });
        text.push_str(&serde_json::to_string(key)?);
        text.push(':');
        text.push_str(value.get());
    }
    text.push('}');
    Ok(text)
}

/// Walks a captured value, which capturing alone leaves unchecked in its depth, escapes and numbers.
pub(super) fn check(raw: &str) -> Result<(), serde_json::Error> {
    match raw.as_bytes() {
        [b'"', inside @ ..] if !inside.contains(&b'\\') => Ok(()),
        _ => Anything.deserialize(&mut serde_json::Deserializer::from_str(raw)),
    }
}

/// An object's members in the order received, their values as texts.
pub(super) struct Members<'de>(pub(super) Vec<(Cow<'de, str>, &'de RawValue)>);

impl<'de> serde::Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = map.next_key_seed(Key)? {
            members.push((key, map.next_value()?));
        }
        Ok(Members(members))
    }
}

/// A key, borrowed from the text where it has no escapes.
pub(super) struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.into()))
    }
}

/// Any value, walked to its leaves and forgotten. (`IgnoredAny` skips over what it ignores without checking it.)
pub(super) struct Anything;

impl<'de> DeserializeSeed<'de> for Anything {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Anything {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Anything)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(Anything)?.is_some() {
            map.next_value_seed(Anything)?;
        }
        Ok(())
    }
}
