//! The payload of a message that came over MQTT, as the node's `datatype` wants it
//! (docs/reference/node-red-engine.md §4.2).

use super::application_message::Received;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use smol_str::SmolStr;
use value::{Message, Object, Value, json};

/// The message for the flow; or what is wrong, and the message for catch nodes.
pub(super) fn message(
    received: &Received,
    datatype: &str,
    local: bool,
) -> Result<Message, (&'static str, Message)> {
    match payload(received, datatype) {
        Ok(payload) => Ok(whole(received, payload, local)),
        Err(words) => {
            // If the content type declared the JSON, the payload is already a text at this point.
            let payload = if datatype == "json" {
                Value::buffer(received.payload.clone())
            } else {
                Value::from(String::from_utf8_lossy(&received.payload).into_owned())
            };
            let mut message = Message::with_payload(payload);
            message.set("topic", received.topic.as_str());
            message.set("qos", f64::from(received.qos));
            message.set("retain", received.retain);
            Err((words, message))
        }
    }
}

fn whole(received: &Received, payload: Value, local: bool) -> Message {
    let mut message = Message::default();
    message.set("topic", received.topic.as_str());
    message.set("payload", payload);
    message.set("qos", f64::from(received.qos));
    message.set("retain", received.retain);
    let extras = &received.extras;
    let full = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let Some(topic) = full(&extras.response_topic) {
        message.set("responseTopic", topic);
    }
    if let Some(data) = &extras.correlation {
        message.set("correlationData", Value::buffer(data.clone()));
    }
    if let Some(kind) = full(&extras.content_type) {
        message.set("contentType", kind);
    }
    if let Some(expiry) = extras.expiry {
        message.set("messageExpiryInterval", f64::from(expiry));
    }
    if let Some(is_text) = extras.text {
        message.set("payloadFormatIndicator", is_text);
    }
    if let Some(reason) = &received.reason {
        message.set("reasonString", reason.as_str());
    }
    if !extras.user.is_empty() {
        let properties: Object = extras
            .user
            .iter()
            .map(|(key, value)| (SmolStr::from(key), Value::from(value.as_str())))
            .collect();
        message.set("userProperties", Value::object(properties));
    }
    if local {
        message.set("_topic", received.topic.as_str());
    }
    message
}

const BROKEN_JSON: &str = "Failed to parse JSON string";

fn payload(received: &Received, datatype: &str) -> Result<Value, &'static str> {
    let bytes = &received.payload;
    let buffer = || Value::buffer(bytes.clone());
    let text = || String::from_utf8_lossy(bytes).into_owned();
    let is_text = received.extras.text == Some(true) || std::str::from_utf8(bytes).is_ok();
    let detect = datatype == "auto-detect";
    match datatype {
        "buffer" => return Ok(buffer()),
        "base64" => return Ok(Value::from(BASE64_STANDARD.encode(bytes))),
        "utf8" => return Ok(Value::from(text())),
        "json" if is_text => return json::parse(&text()).map_err(|_| BROKEN_JSON),
        "json" => return Err("Invalid JSON string"),
        _ => {}
    }
    let kind = received.extras.content_type.as_deref().map(known);
    match kind {
        Some(Kind::Text) => Ok(Value::from(text())),
        Some(Kind::Json) => {
            let parsed = json::parse(&text()).map_err(|_| BROKEN_JSON)?;
            Ok(if detect { parsed } else { Value::from(text()) })
        }
        Some(Kind::Unknown) | None if is_text => {
            let parsed = detect.then(|| json::parse(&text()).ok()).flatten();
            Ok(parsed.unwrap_or_else(|| Value::from(text())))
        }
        Some(Kind::Buffer | Kind::Unknown) | None => Ok(buffer()),
    }
}

enum Kind {
    Text,
    Json,
    Buffer,
    Unknown,
}

/// The kind of a media type, as Node-RED classifies it.
fn known(kind: &str) -> Kind {
    match kind.to_lowercase().as_str() {
        "text/css" | "text/html" | "text/plain" | "application/xml" => Kind::Text,
        "application/json" => Kind::Json,
        "application/octet-stream"
        | "application/pdf"
        | "application/x-gtar"
        | "application/x-gzip"
        | "application/x-tar"
        | "application/zip"
        | "audio/aac"
        | "audio/ac3"
        | "audio/basic"
        | "audio/mp4"
        | "audio/ogg"
        | "image/bmp"
        | "image/gif"
        | "image/jpeg"
        | "image/tiff"
        | "image/png" => Kind::Buffer,
        _ => Kind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::network::mqtt::application_message::Extras;

    fn seen(bytes: &'static [u8], kind: Option<&str>, datatype: &str) -> String {
        let received = Received {
            topic: "t".into(),
            payload: bytes.into(),
            qos: 1,
            retain: false,
            extras: Extras {
                content_type: kind.map(String::from),
                ..Extras::default()
            },
            subscriptions: Vec::new(),
            reason: None,
        };
        match payload(&received, datatype) {
            Ok(value) => format!("{value:?}"),
            Err(words) => words.into(),
        }
    }

    #[test]
    fn datatype_and_content_type_select_the_payload_type() {
        let json = Some("application/json");
        let table: [(&'static [u8], Option<&str>, &str, &str); 12] = [
            (b"{\"a\":1}", None, "auto-detect", "{\"a\": 1}"),
            (b"{\"a\":1}", None, "auto", "\"{\\\"a\\\":1}\""),
            (b"text", None, "auto-detect", "\"text\""),
            (b"\xff", None, "auto-detect", "Buffer(b\"\\xff\")"),
            (b"hi", None, "base64", "\"aGk=\""),
            (b"hi", None, "buffer", "Buffer(b\"hi\")"),
            (b"[1]", None, "json", "[1]"),
            (b"{x", None, "json", "Failed to parse JSON string"),
            (b"\xff", None, "json", "Invalid JSON string"),
            (b"{x", json, "auto-detect", "Failed to parse JSON string"),
            (b"5", Some("text/plain"), "auto-detect", "\"5\""),
            (b"5", Some("image/png"), "auto-detect", "Buffer(b\"5\")"),
        ];
        for (bytes, kind, datatype, expected) in table {
            assert_eq!(seen(bytes, kind, datatype), expected, "{datatype} {kind:?}");
        }
    }
}
