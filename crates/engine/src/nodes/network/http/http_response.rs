//! `http response`: answers the request that a message came from (docs/reference/node-red-engine.md
//! §4.3).

use super::client_headers::{MARK, marked};
use super::cookie;
use super::etag;
use crate::expression::typed::text_of;
use crate::http::{Reply, Responder};
use crate::node::{BoxedNode, Build, Host, Level, Node, boxed};
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{
    CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, SET_COOKIE, TRANSFER_ENCODING,
    X_CONTENT_TYPE_OPTIONS,
};
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use value::{Failure, Message, Object, Value, coerce, json};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    status_code: Json,
    headers: Option<Map<String, Json>>,
}

struct HttpResponse {
    /// The node's own status; `None`: the message's.
    status: Option<f64>,
    /// The node's own headers, each with its name as it is spelled.
    headers: Vec<(String, HeaderName, HeaderValue)>,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    Ok(boxed(HttpResponse::new(&build.properties()?)?))
}

impl HttpResponse {
    fn new(properties: &Properties) -> Result<Self, Failure> {
        let status = text_of(&properties.status_code);
        let fields = properties
            .headers
            .iter()
            .flatten()
            .filter(|(name, _)| !name.is_empty());
        let headers = fields.map(|(spelled, value)| {
            let (name, value) = field(spelled, &text_of(value))?;
            Ok((spelled.clone(), name, value))
        });
        Ok(Self {
            status: Some(coerce::parse_float(&status).trunc()).filter(|status| usable(*status)),
            headers: headers.collect::<Result<_, _>>()?,
        })
    }

    fn reply(&self, message: &Message, now: f64, jsonp: bool) -> Result<Reply, Failure> {
        let mut status = self.status(message)?;
        let mut headers = self.headers(message, now)?;
        let payload = message.get("payload");
        let (mut body, content_type) = body(payload);
        let whole = !matches!(
            payload,
            Value::Undefined | Value::Buffer(_) | Value::String(_) | Value::Number(_)
        );
        if whole {
            body = as_jsonp(body, message, &mut headers, jsonp);
        }
        match headers.get(CONTENT_TYPE) {
            None => {
                if let Some(content_type) = content_type {
                    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
                }
            }
            // Texts are sent as UTF-8, so their content type gets the charset; text types get it in
            // any case.
            Some(own) => {
                let text = !matches!(payload, Value::Buffer(_) | Value::Undefined);
                if let Some(own) = with_charset(own).filter(|_| text || is_of_text(own)) {
                    headers.insert(CONTENT_TYPE, own);
                }
            }
        }
        if !payload.is_undefined() {
            etag::put(&body, &mut headers);
            if etag::is_known(status, message.get("req"), &headers) {
                status = 304;
            }
        }
        if status == 204 || status == 304 {
            headers.remove(CONTENT_TYPE);
            body = Bytes::new();
        }
        Ok(Reply {
            status,
            headers,
            body,
        })
    }

    fn status(&self, message: &Message) -> Result<u16, Failure> {
        let own = || coerce::parse_float(&coerce::to_text(message.get("statusCode"))).trunc();
        let status = self
            .status
            .unwrap_or_else(|| Some(own()).filter(|own| usable(*own)).unwrap_or(200.0));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked range"
        )]
        if (200.0..=999.0).contains(&status) && status.fract() == 0.0 {
            return Ok(status as u16);
        }
        Err(Failure {
            name: "RangeError".into(),
            ..Failure::text(format!(
                "Invalid status code: {}",
                coerce::number_text(status)
            ))
        })
    }

    /// The node's headers, then those of the message whose names the node does not spell the same,
    /// then cookies.
    fn headers(&self, message: &Message, now: f64) -> Result<HeaderMap, Failure> {
        let nodes = self.headers.iter();
        let mut headers: HeaderMap = nodes.map(|(_, n, v)| (n.clone(), v.clone())).collect();
        let own = own_headers(message.get("headers"));
        for (name, value) in own.iter().flat_map(|own| own.iter()) {
            if self.headers.iter().any(|(spelled, ..)| spelled == name) {
                continue;
            }
            let values = match value {
                Value::Array(values) => &values[..],
                single => std::slice::from_ref(single),
            };
            // The later field replaces the earlier one, in any letter case.
            let mut set = false;
            for value in values.iter().filter(|v| !v.is_undefined()) {
                let (name, value) = field(name, &coerce::to_text(value))?;
                if std::mem::replace(&mut set, true) {
                    headers.append(name, value);
                } else {
                    headers.insert(name, value);
                }
            }
        }
        // The server frames the body itself.
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        for (name, value) in message.get("cookies").as_object().into_iter().flatten() {
            let text =
                cookie::field(name, value, now).and_then(|text| HeaderValue::from_str(&text).ok());
            let text = text.ok_or_else(|| Failure::error(format!("Invalid cookie: {name}")))?;
            headers.append(SET_COOKIE, text);
        }
        Ok(headers)
    }
}

impl Node for HttpResponse {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let Some(responder) = responder(&message) else {
            host.log(Level::Warn, Value::from("No response object"));
            return host.done(message);
        };
        match self.reply(&message, host.now(), host.config().jsonp) {
            Ok(reply) => {
                if responder.is_answered() {
                    return host.error(answered_before(), Some(message));
                }
                // A client that is gone is not the node's error.
                responder.answer(reply);
                host.done(message);
            }
            // The client must not wait for what never comes.
            Err(failure) => {
                responder.answer(Reply {
                    status: 500,
                    headers: HeaderMap::new(),
                    body: Bytes::new(),
                });
                host.error(failure, Some(message));
            }
        }
    }
}

/// Returns whether a status is one that counts: not a number and 0 are none.
fn usable(status: f64) -> bool {
    !status.is_nan() && status != 0.0
}

/// The headers of a message, unless they are those that an http request node got, unchanged.
fn own_headers(headers: &Value) -> Option<Object> {
    let mut own = headers.as_object()?.clone();
    let mark = own.shift_remove(MARK);
    let theirs = mark.is_some_and(|mark| mark.as_str() == Some(marked(&own).as_str()));
    (!theirs).then_some(own)
}

fn answered_before() -> Failure {
    Failure {
        name: "Error [ERR_HTTP_HEADERS_SENT]".into(),
        code: "ERR_HTTP_HEADERS_SENT".into(),
        ..Failure::text("Cannot set headers after they are sent to the client")
    }
}

/// JSON as it is, or, where `allowed`, as a script that calls the function named in the query, as
/// Express' `res.jsonp`. Such a script is read by pages of any origin, with the cookies of their
/// visitors.
fn as_jsonp(body: Bytes, message: &Message, headers: &mut HeaderMap, allowed: bool) -> Bytes {
    let nosniff = HeaderValue::from_static("nosniff");
    if !headers.contains_key(CONTENT_TYPE) {
        headers.insert(X_CONTENT_TYPE_OPTIONS, nosniff.clone());
    }
    if !allowed {
        return body;
    }
    let part = |value: &Value, key: &str| value.as_object()?.get(key).cloned();
    let query = part(message.get("req"), "query").unwrap_or_default();
    let callback = match part(&query, "callback").unwrap_or_default() {
        Value::Array(names) => names.first().cloned().unwrap_or_default(),
        one => one,
    };
    let Some(callback) = callback.as_str().filter(|name| !name.is_empty()) else {
        return body;
    };
    let fits = |c: &char| c.is_ascii_alphanumeric() || "[]_$.".contains(*c);
    let callback: String = callback.chars().filter(fits).collect();
    headers.insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/javascript; charset=utf-8"),
    );
    let json = String::from_utf8_lossy(&body)
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    format!("/**/ typeof {callback} === 'function' && {callback}({json});").into()
}

fn responder(message: &Message) -> Option<Arc<Responder>> {
    match message.get("res") {
        Value::Handle(handle) => Arc::clone(&handle.0).downcast().ok(),
        _ => None,
    }
}

fn field(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Failure> {
    let wrong = |what: &str| Failure {
        name: "TypeError".into(),
        ..Failure::text(format!("Invalid {what} [\"{name}\"]"))
    };
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("header name"))?;
    let value = HeaderValue::from_str(value).map_err(|_| wrong("character in header content"))?;
    Ok((key, value))
}

/// The body and its default content type, as Express chooses them.
fn body(payload: &Value) -> (Bytes, Option<&'static str>) {
    const JSON: &str = "application/json; charset=utf-8";
    const HTML: &str = "text/html; charset=utf-8";
    match payload {
        Value::Undefined => (Bytes::new(), None),
        Value::Buffer(bytes) => (Bytes::clone(bytes), Some("application/octet-stream")),
        Value::String(text) => (Bytes::copy_from_slice(text.as_bytes()), Some(HTML)),
        Value::Number(n) => (
            Bytes::copy_from_slice(coerce::number_text(*n).as_bytes()),
            Some(HTML),
        ),
        other => (
            json::stringify(other).unwrap_or_default().into(),
            Some(JSON),
        ),
    }
}

/// Returns whether a content type is one of those that Express gives a character set.
fn is_of_text(kind: &HeaderValue) -> bool {
    let known = ["text/", "application/json", "application/javascript"];
    kind.to_str()
        .is_ok_and(|kind| known.iter().any(|known| kind.starts_with(known)))
}

/// A content type with its character set, if it has none.
fn with_charset(own: &HeaderValue) -> Option<HeaderValue> {
    let text = own.to_str().ok()?;
    if text.to_ascii_lowercase().contains("charset=") {
        return None;
    }
    HeaderValue::from_str(&format!("{text}; charset=utf-8")).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn replied(node: &str, message: &str) -> Result<Reply, Failure> {
        let message = Message::from_value(json::parse(message).unwrap()).unwrap();
        HttpResponse::new(&serde_json::from_str(node).unwrap())?.reply(&message, 0.0, true)
    }

    fn header<'r>(reply: &'r Reply, name: &str) -> &'r str {
        reply.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    #[test]
    fn the_payload_decides_the_content_type() {
        let table = [
            (
                r#"{"payload":{"a":1}}"#,
                "application/json; charset=utf-8",
                r#"{"a":1}"#,
            ),
            (
                r#"{"payload":[1]}"#,
                "application/json; charset=utf-8",
                "[1]",
            ),
            (
                r#"{"payload":true}"#,
                "application/json; charset=utf-8",
                "true",
            ),
            (r#"{"payload":"hi"}"#, "text/html; charset=utf-8", "hi"),
            (r#"{"payload":5}"#, "text/html; charset=utf-8", "5"),
            ("{}", "", ""),
            (
                r#"{"payload":"hi","headers":{"Content-Type":"text/css"}}"#,
                "text/css; charset=utf-8",
                "hi",
            ),
        ];
        for (message, content_type, body) in table {
            let reply = replied("{}", message).unwrap();
            assert_eq!(
                (header(&reply, "content-type"), &reply.body[..]),
                (content_type, body.as_bytes()),
                "{message}"
            );
        }
        assert_eq!(
            super::body(&Value::buffer(vec![1])).1,
            Some("application/octet-stream")
        );
    }

    #[test]
    fn the_nodes_settings_override_the_messages() {
        let node = r#"{"statusCode":"201","headers":{"x-a":"node"}}"#;
        let reply = replied(
            node,
            r#"{"statusCode":404,"headers":{"x-a":"msg","x-b":"msg","content-length":"9"}}"#,
        )
        .unwrap();
        assert_eq!(
            (reply.status, header(&reply, "x-a"), header(&reply, "x-b")),
            (201, "node", "msg")
        );
        assert_eq!(header(&reply, "content-length"), "");
        assert_eq!(
            replied(r#"{"statusCode":""}"#, r#"{"statusCode":"404"}"#)
                .unwrap()
                .status,
            404
        );
        assert_eq!(replied("{}", "{}").unwrap().status, 200);
    }

    #[test]
    fn headers_of_another_server_are_forwarded_only_if_changed() {
        let theirs = json::parse(r#"{"x-b":"1"}"#).unwrap();
        let mark = marked(theirs.as_object().unwrap());
        for (mark, sent) in [(mark.as_str(), ""), ("they were changed", "1")] {
            let message = format!(r#"{{"headers":{{"{MARK}":"{mark}","x-b":"1"}}}}"#);
            let reply = replied("{}", &message).unwrap();
            assert_eq!(
                (header(&reply, "x-b"), header(&reply, MARK)),
                (sent, ""),
                "{mark}"
            );
        }
    }

    #[test]
    fn cookies_are_set_and_cleared() {
        let reply = replied("{}", r#"{"cookies":{"a":"1","b":null}}"#).unwrap();
        let cookies: Vec<_> = reply
            .headers
            .get_all(SET_COOKIE)
            .iter()
            .map(|v| v.to_str().unwrap())
            .collect();
        assert_eq!(
            cookies,
            [
                "a=1; Path=/",
                "b=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
            ]
        );
    }

    #[test]
    fn an_invalid_status_or_header_is_a_failure() {
        assert_eq!(
            replied("{}", r#"{"statusCode":99}"#).unwrap_err().message,
            "Invalid status code: 99"
        );
        assert!(replied("{}", r#"{"headers":{"a b":"1"}}"#).is_err());
        assert!(replied("{}", "{\"headers\":{\"a\":\"1\\r\\nx: 2\"}}").is_err());
    }
}
