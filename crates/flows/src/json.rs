//! JSON that comes from outside, read strictly and only once, and taken apart without trees.
//!
//! Reads JSON (RFC 8259) and, where it leaves a choice, refuses any text that two programs could
//! read differently. Independent of the purpose of a text; never quotes a value: it may be a
//! password.

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The maximum nesting depth of values: that of the library's own readers, so that none of them
/// fails later.
pub const DEPTH: usize = 127;

/// A name that every JavaScript object has already, with a meaning of its own (ECMA-262 annex
/// B.2.2): as a key it is read differently by each way of copying an object.
pub const PROTO: &str = "__proto__";

/// Invalid or ambiguous JSON: the position and the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON at line {line}, column {column}: {what}")]
pub struct Invalid {
    /// From 1.
    pub line: usize,
    /// From 1, in bytes; 0: before the first.
    pub column: usize,
    /// In words for the client.
    pub what: String,
}

/// A body as text, if it is one JSON value that all programs read alike: UTF-8 without a byte order
/// mark, no key twice in an object, no number that is infinite as a double, no half surrogate
/// pairs, nested at most [`DEPTH`] deep.
pub fn text(body: &[u8]) -> Result<&str, Invalid> {
    let at = |line, column, what: &str| Invalid {
        line,
        column,
        what: what.into(),
    };
    // A writer must not add one; a reader may refuse it (RFC 8259 §8.1).
    if body.starts_with(b"\xEF\xBB\xBF") {
        return Err(at(1, 1, "it begins with a byte order mark"));
    }
    let json = std::str::from_utf8(body).map_err(|error| {
        let (before, _) = body.split_at(error.valid_up_to());
        let line_end = |byte: &u8| *byte == b'\n';
        let column = before.rsplit(line_end).next().map_or(0, <[u8]>::len);
        let line = before.split(line_end).count();
        at(line, column + 1, "it is not UTF-8")
    })?;
    let mut reader = serde_json::Deserializer::from_str(json);
    let read = Strict.deserialize(&mut reader);
    match read.and_then(|()| reader.end()) {
        Ok(()) => Ok(json),
        Err(error) => Err(invalid(&error)),
    }
}

fn invalid(error: &serde_json::Error) -> Invalid {
    let (line, column) = (error.line(), error.column());
    let words = error.to_string();
    let place = format!(" at line {line} column {column}");
    let what = match words.strip_suffix(&place).unwrap_or(&words) {
        "recursion limit exceeded" => format!("values are nested more than {DEPTH} deep"),
        words => words.to_owned(),
    };
    Invalid { line, column, what }
}

/// A name from outside, short enough for a message.
pub fn shown(name: &str) -> String {
    const MAX_LENGTH: usize = 64;
    match name.char_indices().nth(MAX_LENGTH) {
        Some((end, _)) => format!("{:?}…", name.get(..end).unwrap_or_default()),
        None => format!("{name:?}"),
    }
}

/// The text without white space between its tokens.
pub fn compact(text: &str) -> Cow<'_, str> {
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

/// An object's text with a member set in its place or at the end, or taken out; the others stay
/// letter for letter.
pub fn with(object: &str, member: &str, value: Option<&str>) -> Result<String, serde_json::Error> {
    let Members(members) = serde_json::from_str(object)?;
    let added = value.filter(|_| members.iter().all(|(key, _)| key != member));
    let added = added.map(|value| (Cow::Borrowed(member), value));
    let mut text = String::with_capacity(object.len());
    let kept = members.into_iter().filter_map(|(key, own)| {
        let value = if key == member {
            value
        } else {
            Some(own.get())
        };
        Some((key, value?))
    });
    for (key, value) in kept.chain(added) {
        text.push(if text.is_empty() { '{' } else { ',' });
        text.push_str(&serde_json::to_string(&key)?);
        text.push(':');
        text.push_str(value);
    }
    if text.is_empty() {
        text.push('{');
    }
    text.push('}');
    Ok(text)
}

/// An object's members in the order received, their values as texts. For a text that is known to be
/// good: an error means only that it is no object.
pub struct Members<'de>(pub Vec<(Cow<'de, str>, &'de RawValue)>);

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
pub struct Key;

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

/// Any value, walked to its leaves and forgotten. (`IgnoredAny` skips over what it ignores without
/// checking it.)
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
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
        while list.next_element_seed(Strict)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys: Vec<Cow<'de, str>> = Vec::new();
        while let Some(key) = map.next_key_seed(Key)? {
            if key == PROTO {
                return Err(A::Error::custom(format_args!("{PROTO:?} is no key")));
            }
            if keys.len() < FEW && keys.contains(&key) {
                return Err(twice(&key));
            }
            keys.push(key);
            map.next_value_seed(Strict)?;
        }
        if keys.len() < FEW {
            return Ok(());
        }
        keys.sort_unstable();
        let mut neighbours = keys.iter().zip(keys.iter().skip(1));
        neighbours
            .find(|(one, next)| one == next)
            .map_or(Ok(()), |(key, _)| Err(twice(key)))
    }
}

/// Comparing each key with all before it is the fastest for the usual 10 to 20; a hostile object is
/// sorted.
const FEW: usize = 32;

fn twice<E: serde::de::Error>(key: &str) -> E {
    E::custom(format_args!("the key {} is there twice", shown(key)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn wrong(body: impl AsRef<[u8]>) -> String {
        text(body.as_ref()).unwrap_err().to_string()
    }

    #[test]
    fn unambiguous_json_is_accepted_byte_for_byte() {
        for body in [
            "null",
            " [ ] \r\n",
            r#"{"a":[1,-0,1E400e],"b":{"a":1}}"#.replace("1E400e", "1e-400").as_str(),
            "9007199254740993",
            r#""\ud83d\ude00 \u0000 \/""#,
            &("[".repeat(DEPTH) + &"]".repeat(DEPTH)),
        ] {
            assert_eq!(text(body.as_bytes()).unwrap(), body);
        }
    }

    #[test]
    fn ambiguous_json_is_refused_with_its_position() {
        for (body, message) in [
            (
                &b"\xEF\xBB\xBF{}"[..],
                "invalid JSON at line 1, column 1: it begins with a byte order mark",
            ),
            (
                b"{\n\"a\":\"\xC0\xAF\"}",
                "invalid JSON at line 2, column 6: it is not UTF-8",
            ),
            (
                b"{\"a\":1,\n \"\\u0061\":2}",
                "invalid JSON at line 2, column 9: the key \"a\" is there twice",
            ),
            (
                b"[{\"__proto__\":1}]",
                "invalid JSON at line 1, column 13: \"__proto__\" is no key",
            ),
            (
                b"[1e999]",
                "invalid JSON at line 1, column 6: number out of range",
            ),
            (
                b"[]]",
                "invalid JSON at line 1, column 3: trailing characters",
            ),
            (
                b"",
                "invalid JSON at line 1, column 0: EOF while parsing a value",
            ),
        ] {
            assert_eq!(wrong(body), message);
        }
        assert_eq!(
            wrong("[".repeat(DEPTH + 1)),
            "invalid JSON at line 1, column 128: values are nested more than 127 deep"
        );
        assert!(wrong(r#"["\ud800"]"#).contains("hex escape"));
    }

    #[test]
    fn a_duplicate_key_is_found_among_many_and_reported_briefly() {
        let keys = (0..100).fold(String::new(), |keys, i| keys + &format!(r#""k{i}":{i},"#));
        assert!(text(format!("{{{keys}\"k\":0}}").as_bytes()).is_ok());
        assert!(wrong(format!("{{{keys}\"k50\":0}}")).ends_with("the key \"k50\" is there twice"));
        let long = "x".repeat(1 << 20);
        assert!(wrong(format!(r#"{{"{long}":1,"{long}":2}}"#)).len() < 200);
    }

    #[test]
    fn a_member_is_replaced_in_position_appended_or_removed() {
        let set = |object, value| with(object, "z", value).unwrap();
        assert_eq!(
            set(r#"{"a":1.50, "z":2,"b":[ ]}"#, Some("3")),
            r#"{"a":1.50,"z":3,"b":[ ]}"#
        );
        assert_eq!(set(r#"{"a":1}"#, Some("3")), r#"{"a":1,"z":3}"#);
        assert_eq!(set("{}", Some("3")), r#"{"z":3}"#);
        assert_eq!(set(r#"{"z":1}"#, None), "{}");
        assert_eq!(set("{}", None), "{}");
    }
}
