//! JSON texts become nodes: every element is walked once and completely, so that nothing in it can
//! fail later.
//!
//! Takes texts that are known to be good JSON. Knows the fields that routing needs and what is
//! malformed (docs/reference/admin-api.md §2.3); never what a type does with its fields.

use super::{Credentials, Malformed, Node, env_secrets};
use crate::json::{Key, PROTO, compact, shown, with};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use smol_str::SmolStr;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The longest id or type, in bytes. Our choice: editors make ids of 16, and what runs inside an
/// instance of a subflow has the instance's id in its own.
const MAX_NAME: usize = 256;

/// Parses an array of elements, see [`elements`].
pub(super) fn array(
    array: &str,
    known: Vec<Arc<Node>>,
) -> Result<(Vec<Arc<Node>>, Credentials), Malformed> {
    let Ok(list) = serde_json::from_str(array) else {
        return Err(Malformed(
            "the flows must be an array of node objects".into(),
        ));
    };
    elements(list, known)
}

/// Parses elements; their numbers in messages count from 0. The credentials are taken out. While
/// there are elements that are [`known`](super::reuse), a number is that many of them.
pub(super) fn elements(
    list: Vec<&RawValue>,
    known: Vec<Arc<Node>>,
) -> Result<(Vec<Arc<Node>>, Credentials), Malformed> {
    let mut credentials = Credentials::default();
    let mut nodes = Vec::with_capacity(list.len() + known.len());
    let mut known = known.into_iter();
    for (i, element) in list.into_iter().enumerate() {
        if known.len() > 0
            && let Ok(run) = element.get().parse()
        {
            nodes.extend(known.by_ref().take(run));
            continue;
        }
        let node = node(&Place::Element(i), element.get(), &mut credentials)?;
        nodes.push(Arc::new(node));
    }
    Ok((nodes, credentials))
}

/// The position of an element, worded for the client.
pub(super) enum Place<'p> {
    /// In the array of a whole flow set.
    Element(usize),
    /// In a list of a single flow.
    In(&'p str, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Element(i) => write!(f, "element {i}"),
            Self::In(list, i) => write!(f, "{list}[{i}]"),
        }
    }
}

/// Parses one element.
pub(super) fn node(
    place: &Place<'_>,
    element: &str,
    credentials: &mut Credentials,
) -> Result<Node, Malformed> {
    let Ok(fields) = serde_json::Deserializer::from_str(element).deserialize_map(Element) else {
        return Err(Malformed(format!("{place} must be an object")));
    };
    let non_empty = "a non-empty string";
    let id = name(fields.id.and_then(string), "\"id\"", non_empty)
        .map_err(|what| Malformed(format!("{place}: {what}")))?;
    let wrong = |what: String| Malformed(format!("{place} ({}): {what}", shown(&id)));
    let kind = name(fields.kind.and_then(string), "\"type\"", non_empty).map_err(&wrong)?;
    let z = match fields.z {
        Some(r#""""#) | None => SmolStr::default(),
        Some(z) => name(string(z), "\"z\"", "a string").map_err(&wrong)?,
    };
    let wires = match fields.wires {
        Some(wires) => serde_json::from_str(wires)
            .map_err(|_| wrong("\"wires\" must be an array of arrays of strings".into()))?,
        None => Box::default(),
    };
    let mut text = compact(element);
    if let Some(sent) = fields.credentials {
        let rest = with(&text, "credentials", None);
        text = Cow::Owned(rest.map_err(|_| wrong("it must be an object".into()))?);
        if sent != "null" {
            let sent = serde_json::from_str(sent)
                .map_err(|_| wrong("\"credentials\" must be an object".into()))?;
            credentials.nodes.insert(id.clone(), sent);
        }
    }
    if let Some((rest, secrets)) = env_secrets::taken(&kind, fields.env)
        && let Ok(rest) = with(&text, "env", Some(&rest))
    {
        text = Cow::Owned(rest);
        env_secrets::join(credentials, &id, &kind, secrets);
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

/// The fields of an element, as JSON texts.
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
    env: Option<&'de str>,
    x: bool,
    y: bool,
}

struct Element;

impl<'de> Visitor<'de> for Element {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a node object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::default();
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
                "env" => &mut fields.env,
                other => {
                    fields.x |= other == "x";
                    fields.y |= other == "y";
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *field = Some(map.next_value::<&RawValue>()?.get());
        }
        Ok(fields)
    }
}

/// A JSON text that is a string: its content.
pub(super) fn string(raw: &str) -> Option<SmolStr> {
    let inside = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inside.contains('\\') {
        serde_json::from_str(raw).ok()
    } else {
        Some(inside.into())
    }
}

/// A name, or what is wrong with it.
fn name(name: Option<SmolStr>, field: &str, must_be: &str) -> Result<SmolStr, String> {
    match name {
        Some(name) if name.len() > MAX_NAME => {
            Err(format!("{field} is longer than {MAX_NAME} bytes"))
        }
        Some(name) if name == PROTO => Err(format!("{field} must not be {PROTO:?}")),
        Some(name) if !name.is_empty() => Ok(name),
        Some(_) | None => Err(format!("{field} must be {must_be}")),
    }
}
