//! JSON texts become nodes: every element is walked once and completely, so that nothing in it can fail later.
//!
//! Knows the fields that routing needs and what is malformed (design §5); never what a type does with its fields.

use super::json::{Anything, Key, check, compact, place, syntax, without};
use super::{Credentials, Malformed, Node};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use smol_str::SmolStr;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

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
