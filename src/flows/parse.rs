//! JSON texts become nodes: every element is walked once and completely, so that nothing in it can fail later.
//!
//! Knows the fields that routing needs and what is malformed (design §5); never what a type does with its fields.

use super::{Credentials, Malformed, Node};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use smol_str::SmolStr;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A body as text. A UTF-8 byte order mark at its start is skipped, as Node-RED does (facts admin API §3).
pub(super) fn text(json: &[u8]) -> Result<&str, Malformed> {
    let json = json.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(json);
    std::str::from_utf8(json)
        .map_err(|e| Malformed(format!("byte {} is not valid UTF-8", e.valid_up_to())))
}

/// Parses an array of elements, which is `json` or a part of it; the numbers of elements in messages count from 0.
/// The credentials are taken out.
pub(super) fn elements(
    array: &str,
    json: &str,
) -> Result<(Vec<Arc<Node>>, Credentials), Malformed> {
    let before = place(array, json);
    if !array.trim_start().starts_with('[') {
        serde_json::from_str::<&RawValue>(array).map_err(|e| syntax(&e, before))?;
        return Err(Malformed(
            "the flows must be an array of node objects".into(),
        ));
    }
    let list: Vec<&RawValue> = serde_json::from_str(array).map_err(|e| syntax(&e, before))?;
    let mut credentials = Credentials::default();
    let mut nodes = Vec::with_capacity(list.len());
    for (i, element) in list.iter().enumerate() {
        nodes.push(Arc::new(node(i, element.get(), json, &mut credentials)?));
    }
    Ok((nodes, credentials))
}

/// Parses one element, which is a part of the whole `json`.
fn node(
    i: usize,
    element: &str,
    json: &str,
    credentials: &mut Credentials,
) -> Result<Node, Malformed> {
    if !element.starts_with('{') {
        return Err(Malformed(format!("element {i} must be an object")));
    }
    let fields = walk(element).map_err(|e| syntax(&e, place(element, json)))?;
    for raw in fields.captured().into_iter().flatten() {
        check(raw).map_err(|e| syntax(&e, place(raw, json)))?;
    }
    let id = name(fields.id)
        .ok_or_else(|| Malformed(format!("element {i}: \"id\" must be a non-empty string")))?;
    let wrong = |what: String| Malformed(format!("element {i} ({:?}): {what}", id.as_str()));
    if let Some(key) = fields.twice {
        return Err(wrong(format!("{key:?} is there twice")));
    }
    let kind =
        name(fields.kind).ok_or_else(|| wrong("\"type\" must be a non-empty string".into()))?;
    let z = match fields.z {
        Some(z) => string(z).ok_or_else(|| wrong("\"z\" must be a string".into()))?,
        None => SmolStr::default(),
    };
    let wires = match fields.wires {
        Some(wires) => serde_json::from_str(wires)
            .map_err(|_| wrong("\"wires\" must be an array of arrays of strings".into()))?,
        None => Box::default(),
    };
    let mut text = compact(element);
    if let Some(sent) = fields.credentials {
        text = Cow::Owned(
            without(&text, "credentials").map_err(|e| syntax(&e, place(element, json)))?,
        );
        if sent != "null" {
            let sent = serde_json::from_str(sent)
                .map_err(|_| wrong("\"credentials\" must be an object".into()))?;
            credentials.nodes.insert(id.clone(), sent);
        }
    }
    let disabled = if kind == "tab" {
        fields.disabled
    } else {
        fields.d
    };
    Ok(Node {
        group: fields.g.and_then(string).unwrap_or_default(),
        disabled: disabled == Some("true"),
        placed: fields.x && fields.y,
        text: text.into(),
        id,
        kind,
        z,
        wires,
    })
}

/// What an element says about itself, as JSON texts.
#[derive(Default)]
struct Fields<'de> {
    id: Option<&'de str>,
    kind: Option<&'de str>,
    z: Option<&'de str>,
    g: Option<&'de str>,
    d: Option<&'de str>,
    disabled: Option<&'de str>,
    wires: Option<&'de str>,
    credentials: Option<&'de str>,
    x: bool,
    y: bool,
    /// A key that is there more than once.
    twice: Option<Box<str>>,
}

impl<'de> Fields<'de> {
    fn captured(&self) -> [Option<&'de str>; 8] {
        [
            self.id,
            self.kind,
            self.z,
            self.g,
            self.d,
            self.disabled,
            self.wires,
            self.credentials,
        ]
    }
}

fn walk(element: &str) -> Result<Fields<'_>, serde_json::Error> {
    let mut text = serde_json::Deserializer::from_str(element);
    let fields = text.deserialize_map(Element)?;
    text.end()?;
    Ok(fields)
}

struct Element;

impl<'de> Visitor<'de> for Element {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a node object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::default();
        let mut keys: Vec<Cow<'de, str>> = Vec::with_capacity(24);
        while let Some(key) = map.next_key_seed(Key)? {
            let field = match key.as_ref() {
                "id" => &mut fields.id,
                "type" => &mut fields.kind,
                "z" => &mut fields.z,
                "g" => &mut fields.g,
                "d" => &mut fields.d,
                "disabled" => &mut fields.disabled,
                "wires" => &mut fields.wires,
                "credentials" => &mut fields.credentials,
                other => {
                    fields.x |= other == "x";
                    fields.y |= other == "y";
                    map.next_value_seed(Anything)?;
                    keys.push(key);
                    continue;
                }
            };
            let raw: &RawValue = map.next_value()?;
            *field = Some(raw.get());
            keys.push(key);
        }
        fields.twice = twice(&mut keys);
        Ok(fields)
    }
}

/// Walks a captured value, which capturing alone leaves unchecked in its depth, escapes and numbers.
fn check(raw: &str) -> Result<(), serde_json::Error> {
    match raw.as_bytes() {
        [b'"', inside @ ..] if !inside.contains(&b'\\') => Ok(()),
        _ => Anything.deserialize(&mut serde_json::Deserializer::from_str(raw)),
    }
}

/// A key that is in the list more than once.
fn twice(keys: &mut [Cow<'_, str>]) -> Option<Box<str>> {
    // Comparing all pairs is the fastest for the usual 10 to 20 keys; sorting keeps a hostile element linear enough.
    if keys.len() <= 24 {
        let twice = keys
            .iter()
            .enumerate()
            .find(|(i, key)| keys.iter().skip(i + 1).any(|other| other == *key));
        return twice.map(|(_, key)| key.as_ref().into());
    }
    keys.sort_unstable();
    keys.windows(2).find_map(|pair| match pair {
        [a, b] if a == b => Some(a.as_ref().into()),
        _ => None,
    })
}

/// A key, borrowed from the text where it has no escapes.
struct Key;

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
struct Anything;

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

/// A JSON text that is a string: its content.
fn string(raw: &str) -> Option<SmolStr> {
    let inside = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inside.contains('\\') {
        serde_json::from_str(raw).ok()
    } else {
        Some(inside.into())
    }
}

/// A JSON text that is a non-empty string: its content.
fn name(raw: Option<&str>) -> Option<SmolStr> {
    raw.and_then(string).filter(|name| !name.is_empty())
}

/// The text without white space between its tokens.
fn compact(text: &str) -> Cow<'_, str> {
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
fn without(object: &str, member: &str) -> Result<String, serde_json::Error> {
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

/// Where in the whole text a part of it begins: lines and columns before it.
fn place(part: &str, whole: &str) -> (usize, usize) {
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
