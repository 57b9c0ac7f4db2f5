//! `mqtt out`: publishes messages to a broker (docs/reference/node-red-engine.md §4.2).

use super::application_message::{Extras, Publish};
use super::broker::{BrokerEvent, Phase, status};
use super::client::User;
use super::settings::{integer, user_properties};
use super::topic;
use crate::expression::typed::text_of;
use crate::node::{BoxedNode, Build, Closing, Host, Level, Node, boxed};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::sync::Arc;
use value::{Failure, Message, Value, coerce, json};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    topic: Json,
    qos: Json,
    retain: Json,
    resp_topic: Json,
    content_type: Json,
    user_props: Json,
    correl: Json,
    expiry: Json,
    broker: SmolStr,
}

struct MqttOut {
    properties: Properties,
    /// `None`: there is no such broker.
    user: Option<User>,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    Ok(boxed(MqttOut {
        properties: build.properties()?,
        user: None,
    }))
}

impl Node<BrokerEvent> for MqttOut {
    fn start(&mut self, host: &mut Host<'_, BrokerEvent>) {
        self.user = User::of(&self.properties.broker, host);
        if let Some(user) = &self.user {
            if user.broker.phase() == Phase::Connected {
                host.status(status(Phase::Connected));
            }
            user.register(host);
        }
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_, BrokerEvent>) {
        let Some(user) = &mut self.user else { return };
        let action = message.get("action");
        if !coerce::truthy(action) {
            return self.publish(message, host);
        }
        match action.as_str() {
            Some("connect") => user.connect(message, host),
            Some("disconnect") => user.disconnect(message, host),
            _ => host.error(Failure::error("Invalid action specified"), Some(message)),
        }
    }

    fn event(&mut self, event: BrokerEvent, host: &mut Host<'_, BrokerEvent>) {
        if let Some(user) = &mut self.user {
            user.handle(event, host);
        }
    }

    fn close(&mut self, removed: bool, host: &mut Host<'_, BrokerEvent>) -> Option<Closing> {
        self.user.as_ref()?.close(removed, host)
    }
}

impl MqttOut {
    fn publish(&mut self, mut message: Message, host: &mut Host<'_, BrokerEvent>) {
        let v5 = self.user.as_ref().is_some_and(|user| user.broker.is_v5());
        self.complete(&mut message, v5);
        if !message.properties().contains_key("payload") {
            return host.done(message);
        }
        let publish = publish(&mut message, v5);
        let Some(user) = &mut self.user else { return };
        if user.broker.phase() != Phase::Connected {
            return;
        }
        if !topic::may_publish(&publish.topic) {
            let words = Failure::error("Invalid topic specified");
            return host.log(Level::Warn, Value::Error(Arc::new(words)));
        }
        // The message has what was sent, as in Node-RED.
        if !matches!(message.get("payload"), Value::Buffer(_) | Value::String(_)) {
            let sent = String::from_utf8_lossy(&publish.payload).into_owned();
            message.set("payload", sent);
        }
        let ticket = user.ticket(message, host);
        user.broker.publish(publish, ticket);
    }

    /// The node's settings take precedence over those of the message, which shows the result, as in
    /// Node-RED.
    fn complete(&self, message: &mut Message, v5: bool) {
        let own = &self.properties;
        let set = |json: &Json| Some(text_of(json)).filter(|text| !text.is_empty());
        if let Some(topic) = set(&own.topic) {
            message.set("topic", topic);
        }
        let requested = coerce::to_number(message.get("qos"));
        let qos = match set(&own.qos) {
            Some(qos) => coerce::text_to_number(&qos),
            None if [1.0, 2.0].contains(&requested.trunc()) => requested.trunc(),
            None => 0.0,
        };
        message.set("qos", qos);
        let retain = match set(&own.retain) {
            Some(retain) => retain == "true",
            None => match message.get("retain") {
                Value::Bool(retain) => *retain,
                other => other.as_str() == Some("true"),
            },
        };
        message.set("retain", retain);
        if !v5 {
            return;
        }
        let properties = user_properties(Some(&own.user_props));
        if !properties.is_empty() {
            let pairs = properties.into_iter();
            let object = pairs.map(|(k, v)| (k.into(), Value::from(v))).collect();
            message.set("userProperties", Value::object(object));
        }
        for (name, value) in [
            ("responseTopic", &own.resp_topic),
            ("correlationData", &own.correl),
            ("contentType", &own.content_type),
            ("messageExpiryInterval", &own.expiry),
        ] {
            if let Some(value) = set(value) {
                message.set(name, value);
            }
        }
    }
}

/// The packet for a message. An MQTT 5 message without a topic goes to its response topic.
fn publish(message: &mut Message, v5: bool) -> Publish {
    let extras = if v5 {
        extras(message)
    } else {
        Extras::default()
    };
    let topic = message.get("topic").as_str().unwrap_or_default();
    let mut topic = topic.to_owned();
    if topic.is_empty()
        && let Some(response) = &extras.response_topic
    {
        topic.clone_from(response);
        message.take("responseTopic");
    }
    let payload = match message.get("payload") {
        Value::Undefined | Value::Null => Bytes::new(),
        Value::Buffer(bytes) => Bytes::clone(bytes),
        value @ (Value::Object(_) | Value::Array(_) | Value::Date(_) | Value::Error(_)) => {
            json::stringify(value).unwrap_or_default().into()
        }
        other => coerce::to_text(other).to_string().into(),
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float becomes the nearest number of the type"
    )]
    let qos = (coerce::to_number(message.get("qos")) as u8).min(2);
    Publish {
        topic,
        payload,
        qos,
        retain: matches!(message.get("retain"), Value::Bool(true)),
        extras,
    }
}

fn extras(message: &Message) -> Extras {
    let text = |name: &str| {
        let text = message.get(name).as_str().filter(|text| !text.is_empty());
        text.map(String::from)
    };
    let number = |name: &str| integer(Some(&json::to_tree(message.get(name))));
    let user = message.get("userProperties");
    Extras {
        response_topic: text("responseTopic"),
        correlation: match message.get("correlationData") {
            Value::Buffer(bytes) => Some(Bytes::clone(bytes)),
            Value::String(text) if !text.is_empty() => Some(text.to_string().into()),
            _ => None,
        },
        content_type: text("contentType"),
        expiry: number("messageExpiryInterval"),
        user: match user {
            Value::Object(_) => user_properties(Some(&json::to_tree(user))),
            _ => Vec::new(),
        },
        alias: number("topicAlias").and_then(|alias| u16::try_from(alias).ok()),
        text: match message.get("payloadFormatIndicator") {
            Value::Bool(text) => Some(*text),
            other => other.as_str().and_then(|text| text.parse().ok()),
        },
        delay: None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn packet(node: &str, message: &str, v5: bool) -> Publish {
        let node = MqttOut {
            properties: serde_json::from_str(node).unwrap(),
            user: None,
        };
        let mut message = Message::from_value(json::parse(message).unwrap()).unwrap();
        node.complete(&mut message, v5);
        publish(&mut message, v5)
    }

    #[test]
    fn the_nodes_settings_override_the_messages() {
        let table = [
            (
                r#"{"topic":"n","qos":"1","retain":"false"}"#,
                r#"{"topic":"m","qos":2,"retain":true,"payload":1}"#,
                ("n", 1, false, "1"),
            ),
            (
                r#"{"topic":"","qos":"","retain":""}"#,
                r#"{"topic":"m","qos":"2","retain":"true","payload":{"a":1}}"#,
                ("m", 2, true, r#"{"a":1}"#),
            ),
            (
                "{}",
                r#"{"topic":"m","qos":7,"payload":null}"#,
                ("m", 0, false, ""),
            ),
        ];
        for (node, message, expected) in table {
            let made = packet(node, message, false);
            let payload = std::str::from_utf8(&made.payload).unwrap();
            assert_eq!(
                (made.topic.as_str(), made.qos, made.retain, payload),
                expected,
                "{message}"
            );
        }
    }

    #[test]
    fn mqtt_5_properties_are_added_to_the_packet() {
        let node = r#"{"respTopic":"r","correl":"c","expiry":"9","userProps":"{\"a\":\"1\"}"}"#;
        let message = r#"{"payload":"x","contentType":"text/plain","topicAlias":"3","payloadFormatIndicator":true}"#;
        let made = packet(node, message, true);
        assert_eq!(made.topic, "r");
        let expected = Extras {
            response_topic: Some("r".into()),
            correlation: Some("c".into()),
            content_type: Some("text/plain".into()),
            expiry: Some(9),
            user: vec![("a".into(), "1".into())],
            alias: Some(3),
            text: Some(true),
            delay: None,
        };
        assert_eq!(made.extras, expected);
        assert_eq!(packet(node, message, false).extras, Extras::default());
    }
}
