//! `http response`: answers the request that a message came from (facts engine §4.3).

use super::cookie;
use crate::engine::expression::typed::text_of;
use crate::engine::expression::{coerce, json};
use crate::engine::http::{Reply, Responder};
use crate::engine::message::Message;
use crate::engine::node::{Build, Host, Level, Node};
use crate::engine::value::{Failure, Value};
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{
    CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, SET_COOKIE, TRANSFER_ENCODING,
};
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use std::sync::Arc;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    status_code: Json,
    headers: Option<Map<String, Json>>,
}

struct HttpResponse {
    /// The node's own status; `None`: the message's.
    status: Option<f64>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Set by http request nodes on the headers they got: those are the other server's, not ours to send.
const FROM_REQUEST_NODE: &str = "x-node-red-request-node";

pub(in crate::engine::nodes) fn build(build: &Build<'_>) -> Result<Box<dyn Node>, Failure> {
    Ok(Box::new(HttpResponse::new(&build.properties()?)?))
}

impl HttpResponse {
    fn new(properties: &Properties) -> Result<Self, Failure> {
        let status = text_of(&properties.status_code);
        let fields = properties
            .headers
            .iter()
            .flatten()
            .filter(|(name, _)| !name.is_empty());
        let headers = fields.map(|(name, value)| field(name, &text_of(value)));
        Ok(Self {
            status: (!status.is_empty()).then(|| coerce::text_to_number(&status)),
            headers: headers.collect::<Result<_, _>>()?,
        })
    }

    fn reply(&self, message: &Message) -> Result<Reply, Failure> {
        let status = self.status(message)?;
        let mut headers = self.headers(message)?;
        let (body, content_type) = body(message.get("payload"));
        match headers.get(CONTENT_TYPE) {
            None => {
                if let Some(content_type) = content_type {
                    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
                }
            }
            // Texts are sent as UTF-8, so they say so.
            Some(own) if matches!(message.get("payload"), Value::String(_) | Value::Number(_)) => {
                if let Some(own) = with_charset(own) {
                    headers.insert(CONTENT_TYPE, own);
                }
            }
            Some(_) => {}
        }
        let empty = status == 204 || status == 304;
        Ok(Reply {
            status,
            headers,
            body: if empty { Bytes::new() } else { body },
        })
    }

    fn status(&self, message: &Message) -> Result<u16, Failure> {
        let own = message.get("statusCode");
        let status = self.status.unwrap_or_else(|| {
            if coerce::truthy(own) {
                coerce::to_number(own)
            } else {
                200.0
            }
        });
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

    /// The node's headers, then those of the message that the node does not set, then cookies.
    fn headers(&self, message: &Message) -> Result<HeaderMap, Failure> {
        let mut headers: HeaderMap = self.headers.iter().cloned().collect();
        let own = message
            .get("headers")
            .as_object()
            .filter(|o| !o.contains_key(FROM_REQUEST_NODE));
        for (name, value) in own.into_iter().flatten() {
            if headers.contains_key(name.as_str()) {
                continue;
            }
            let values = match value {
                Value::Array(values) => values.as_slice(),
                single => std::slice::from_ref(single),
            };
            for value in values.iter().filter(|v| !v.is_undefined()) {
                let (name, value) = field(name, &coerce::to_text(value))?;
                headers.append(name, value);
            }
        }
        // The server frames the body itself.
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        for (name, value) in message.get("cookies").as_object().into_iter().flatten() {
            let text =
                cookie::field(name, value).and_then(|text| HeaderValue::from_str(&text).ok());
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
        match self.reply(&message) {
            Ok(reply) => {
                if !responder.answer(reply) {
                    host.log(
                        Level::Debug,
                        Value::from("the request is answered already, or its client is gone"),
                    );
                }
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
        Value::Buffer(bytes) => (bytes.clone(), Some("application/octet-stream")),
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
        HttpResponse::new(&serde_json::from_str(node).unwrap())?.reply(&message)
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
            super::body(&Value::Buffer(vec![1].into())).1,
            Some("application/octet-stream")
        );
    }

    #[test]
    fn the_node_goes_before_the_message() {
        let node = r#"{"statusCode":"201","headers":{"x-a":"node"}}"#;
        let reply = replied(
            node,
            r#"{"statusCode":404,"headers":{"X-A":"msg","x-b":"msg","content-length":"9"}}"#,
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
    fn headers_of_another_server_are_not_sent_on() {
        let reply = replied(
            "{}",
            r#"{"headers":{"x-node-red-request-node":"abc","x-b":"1"}}"#,
        )
        .unwrap();
        assert_eq!(header(&reply, "x-b"), "");
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
    fn what_cannot_be_sent_is_a_failure() {
        assert_eq!(
            replied("{}", r#"{"statusCode":99}"#).unwrap_err().message,
            "Invalid status code: 99"
        );
        assert!(replied("{}", r#"{"headers":{"a b":"1"}}"#).is_err());
        assert!(replied("{}", "{\"headers\":{\"a\":\"1\\r\\nx: 2\"}}").is_err());
    }
}
