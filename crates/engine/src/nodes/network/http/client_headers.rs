//! Header fields of an http request node: those of the message, then those of the node, spelled as
//! they were given.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use smol_str::{SmolStr, format_smolstr};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use value::{Failure, Message, Object, Path, Value, coerce, json};

/// One row of the node's header list: a fixed name or value, or where it comes from.
#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Header {
    key_type: SmolStr,
    key_value: SmolStr,
    value_type: SmolStr,
    value_value: SmolStr,
}

/// Fields in order, each name once; names differ by more than letter case.
#[derive(Default, Clone)]
pub(super) struct Headers(Vec<(SmolStr, Value)>);

/// The mark of an http request node on the headers of a response, by which another one recognises
/// them in a message.
pub(super) const MARK: &str = "x-node-red-request-node";

impl Headers {
    /// Takes the message's headers, unless they are an answer's unchanged, then the node's.
    pub(super) fn take(&mut self, message: &mut Message, rows: &[Header]) {
        let own = message.get("headers").clone();
        if let Value::Object(mut own) = own {
            let mark = Arc::make_mut(&mut own).shift_remove(MARK);
            if mark.is_some_and(|mark| mark.as_str() == Some(marked(&own).as_str())) {
                message.take("headers");
            } else {
                for (name, value) in own.iter() {
                    self.put(name, value.clone());
                }
                message.set("headers", Value::Object(own));
            }
        }
        for row in rows {
            let part = |kind: &SmolStr, value: &SmolStr| match kind.as_str() {
                "other" => Value::String(value.clone()),
                "msg" => Path::parse_message(value)
                    .map(|path| path.read_message(message))
                    .unwrap_or_default(),
                fixed => Value::from(fixed),
            };
            let name = part(&row.key_type, &row.key_value);
            if coerce::truthy(&name) {
                let value = part(&row.value_type, &row.value_value);
                self.put(&coerce::to_text(&name), value);
            }
        }
    }

    /// Sets a field in place of any of that name; an empty value removes it.
    pub(super) fn put(&mut self, name: &str, value: Value) {
        self.remove(name);
        if coerce::truthy(&value) {
            self.0.push((name.into(), value));
        }
    }

    /// The value of a field as text.
    pub(super) fn text(&self, name: &str) -> Option<SmolStr> {
        let found = self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| coerce::to_text(value))
    }

    /// Removes a field.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
    }

    /// The names as they are spelled.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The fields for the wire; arrays are several fields.
    pub(super) fn map(&self) -> Result<HeaderMap, Failure> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.0 {
            let key = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| wrong("ERR_INVALID_HTTP_TOKEN", name))?;
            let values = match value {
                Value::Array(values) => &values[..],
                single => std::slice::from_ref(single),
            };
            for value in values {
                let text = coerce::to_text(value);
                let value = HeaderValue::from_bytes(&latin1(&text))
                    .map_err(|_| wrong("ERR_INVALID_CHAR", name))?;
                map.append(key.clone(), value);
            }
        }
        Ok(map)
    }
}

/// A field that cannot be sent, in the words of Node.js.
fn wrong(code: &'static str, name: &str) -> Failure {
    let what = match code {
        "ERR_INVALID_CHAR" => "Invalid character in header content",
        _ => "Header name must be a valid HTTP token",
    };
    Failure {
        name: "RequestError".into(),
        code: code.into(),
        ..Failure::text(format!("{what} [\"{name}\"]"))
    }
}

/// Header values are Latin-1 in Node.js; other characters cannot be sent.
fn latin1(text: &str) -> Vec<u8> {
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).unwrap_or(0))
        .collect()
}

/// The mark of these headers.
pub(super) fn marked(headers: &Object) -> SmolStr {
    let mut hasher = rustc_hash::FxHasher::default();
    for (name, value) in headers {
        name.hash(&mut hasher);
        json::stringify(value).hash(&mut hasher);
    }
    let hash = hasher.finish();
    format_smolstr!("{:08x}", (hash ^ (hash >> 32)) & 0xffff_ffff)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn row(key_type: &str, key: &str, value_type: &str, value: &str) -> Header {
        Header {
            key_type: key_type.into(),
            key_value: key.into(),
            value_type: value_type.into(),
            value_value: value.into(),
        }
    }

    #[test]
    fn the_nodes_fields_replace_the_messages_whatever_their_case() {
        let text =
            r#"{"hk":"x-dyn","hv":"dyn","headers":{"x-foo":"msg","X-Own":1,"user-agent":"me"}}"#;
        let mut message = Message::from_value(json::parse(text).unwrap()).unwrap();
        let rows = [
            row("Accept", "", "application/json", ""),
            row("other", "X-Foo", "other", "bar"),
            row("msg", "hk", "msg", "hv"),
            row("User-Agent", "", "other", ""),
            row("other", "", "other", "nameless"),
        ];
        let mut headers = Headers::default();
        headers.take(&mut message, &rows);
        let names: Vec<&str> = headers.names().collect();
        assert_eq!(names, ["X-Own", "Accept", "X-Foo", "x-dyn"]);
        assert_eq!(headers.text("x-FOO").unwrap(), "bar");
        assert_eq!(headers.map().unwrap()["x-own"], "1");
    }

    #[test]
    fn response_headers_are_not_forwarded_unless_changed() {
        let mut own = json::parse(r#"{"a":"1","set-cookie":["x=1"]}"#)
            .unwrap()
            .as_object()
            .unwrap()
            .clone();
        let mark = marked(&own);
        own.insert(MARK.into(), Value::String(mark));
        let mut message = Message::default();
        message.set("headers", Value::object(own.clone()));
        let mut headers = Headers::default();
        headers.take(&mut message, &[]);
        assert_eq!(headers.names().count(), 0);
        assert!(message.get("headers").is_undefined());
        own.insert("a".into(), "2".into());
        message.set("headers", Value::object(own));
        headers.take(&mut message, &[]);
        assert_eq!(headers.names().collect::<Vec<_>>(), ["a", "set-cookie"]);
    }
}
