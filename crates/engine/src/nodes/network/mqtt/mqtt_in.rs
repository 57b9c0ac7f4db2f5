//! `mqtt in`: receives messages from a broker; with an input, messages set the subscriptions
//! (docs/reference/node-red-engine.md §4.2).

use super::application_message::SubscriptionOptions;
use super::broker::{BrokerEvent, Phase, status};
use super::client::User;
use super::payload;
use super::settings::level;
use super::topic;
use crate::expression::typed::text_of;
use crate::node::{BoxedNode, Build, Closing, Host, Level, Node, boxed};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::sync::Arc;
use value::{Failure, Message, Object, Value, json};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    topic: Json,
    qos: Json,
    datatype: SmolStr,
    broker: SmolStr,
    nl: Json,
    rap: Json,
    rh: Json,
    inputs: Json,
}

struct MqttIn {
    /// The fixed topic; `None`: set by messages.
    topic: Option<String>,
    options: SubscriptionOptions,
    datatype: SmolStr,
    broker: SmolStr,
    user: Option<User>,
    /// The subscriptions that messages requested, by topic, as they were given.
    dynamic: Vec<(String, Object)>,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let dynamic = text_of(&properties.inputs) == "1";
    Ok(boxed(MqttIn {
        topic: (!dynamic).then(|| text_of(&properties.topic).to_string()),
        options: SubscriptionOptions {
            qos: level(Some(&properties.qos)).unwrap_or(2),
            no_local: text_of(&properties.nl) == "true",
            as_published: text_of(&properties.rap) == "true",
            retained: level(Some(&properties.rh)).unwrap_or(0),
        },
        datatype: if properties.datatype.is_empty() {
            "utf8".into()
        } else {
            properties.datatype
        },
        broker: properties.broker,
        user: None,
        dynamic: Vec::new(),
    }))
}

impl Node<BrokerEvent> for MqttIn {
    fn start(&mut self, host: &mut Host<'_, BrokerEvent>) {
        let topic = self.topic.as_deref().unwrap_or_default();
        if !topic::may_subscribe(topic) {
            return host.log(Level::Warn, "Invalid topic specified");
        }
        let Some(user) = User::of(&self.broker, host) else {
            return;
        };
        match self.topic.as_deref() {
            Some("") => return host.error(Failure::text("topic not defined"), None),
            topic => {
                user.register(host);
                if let Some(topic) = topic {
                    let options = self.options.clone();
                    user.broker.subscribe(topic, options, &self.datatype, host);
                }
            }
        }
        if user.broker.phase() == Phase::Connected {
            host.status(status(Phase::Connected));
        }
        self.user = Some(user);
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_, BrokerEvent>) {
        let Some(user) = &mut self.user else { return };
        match message.get("action").as_str() {
            Some("connect") => user.connect(message, host),
            Some("disconnect") => user.disconnect(message, host),
            Some("subscribe") => self.change(message, host, true),
            Some("unsubscribe") => self.change(message, host, false),
            Some("getSubscriptions") => {
                let mut message = message;
                message.set("topic", "subscriptions");
                message.set("payload", self.subscriptions());
                host.pass(message);
            }
            _ => host.error(Failure::error("Invalid action specified"), Some(message)),
        }
    }

    fn event(&mut self, event: BrokerEvent, host: &mut Host<'_, BrokerEvent>) {
        let Some(user) = &mut self.user else { return };
        let local = user.broker.settings().local;
        if let Some((received, datatype)) = user.handle(event, host) {
            match payload::message(&received, &datatype, local) {
                Ok(message) => host.send(0, message),
                Err((words, message)) => host.error(Failure::text(words), Some(message)),
            }
        }
    }

    fn close(&mut self, removed: bool, host: &mut Host<'_, BrokerEvent>) -> Option<Closing> {
        let user = self.user.as_ref()?;
        let id = host.info().id.clone();
        let dynamic = self.dynamic.iter().map(|(topic, _)| topic);
        for topic in self.topic.iter().chain(dynamic) {
            user.broker.unsubscribe(topic, &id, removed);
        }
        user.close(removed, host)
    }
}

impl MqttIn {
    /// Handles a `subscribe` or `unsubscribe` message.
    fn change(&mut self, mut message: Message, host: &mut Host<'_, BrokerEvent>, subscribe: bool) {
        let wanted = match self.wanted(message.get("topic"), subscribe) {
            Ok(wanted) => wanted,
            Err(words) => return host.error(Failure::error(words), Some(message)),
        };
        let Some(user) = &self.user else { return };
        let id = host.info().id.clone();
        for (topic, wanted) in wanted {
            if let Some(at) = self.dynamic.iter().position(|(known, _)| *known == topic) {
                user.broker.unsubscribe(&topic, &id, true);
                self.dynamic.remove(at);
            } else if !subscribe {
                user.broker.unsubscribe(&topic, &id, true);
            }
            if subscribe {
                let (options, given) = options(wanted, user.broker.is_v5());
                let own = given.get("datatype").and_then(Value::as_str);
                let datatype = SmolStr::new(own.unwrap_or(&self.datatype));
                user.broker.subscribe(&topic, options, &datatype, host);
                self.dynamic.push((topic, given));
            }
        }
        message.set("subscriptions", self.subscriptions());
        host.done(message);
    }

    /// The topics that a message names: one or several, texts or objects; `true` is all there are.
    fn wanted(
        &self,
        topic: &Value,
        subscribe: bool,
    ) -> Result<Vec<(String, Object)>, &'static str> {
        let list = match topic {
            Value::Bool(true) if !subscribe => return Ok(self.dynamic.clone()),
            Value::Array(list) => list.to_vec(),
            Value::String(_) | Value::Object(_) => vec![topic.clone()],
            _ => return Err("msg.topic is missing or invalid"),
        };
        let mut wanted = Vec::new();
        for entry in list {
            let object = match entry {
                Value::Object(object) => Arc::unwrap_or_clone(object),
                other => {
                    let mut object = Object::default();
                    object.insert(SmolStr::new_static("topic"), other);
                    object
                }
            };
            let topic = object.get("topic").and_then(Value::as_str);
            let topic = topic.unwrap_or_default().to_owned();
            if topic.is_empty() || !topic::may_subscribe(&topic) {
                return Err("Invalid topic specified");
            }
            wanted.push((topic, object));
        }
        Ok(wanted)
    }

    fn subscriptions(&self) -> Value {
        let list = self.dynamic.iter();
        Value::array(
            list.map(|(_, given)| Value::object(given.clone()))
                .collect(),
        )
    }
}

/// The subscription options that a topic object asks for, and the object as `msg.subscriptions`
/// reports it.
fn options(mut given: Object, v5: bool) -> (SubscriptionOptions, Object) {
    let number = |given: &Object, name: &str, standard: u8| match given.get(name) {
        None => Some(standard),
        Some(value) => level(Some(&json::to_tree(value))),
    };
    let flag = |given: &Object, name: &str| match given.get(name) {
        Some(Value::Bool(flag)) => Some(*flag),
        Some(Value::String(text)) => text.parse().ok(),
        _ => None,
    };
    let qos = number(&given, "qos", 2);
    let retained = number(&given, "rh", 0);
    let as_published = match given.get("rap") {
        None | Some(Value::Null | Value::Undefined) => Some(true),
        Some(_) => flag(&given, "rap"),
    };
    let no_local = flag(&given, "nl");
    let mut put = |name: &'static str, value: Option<Value>| match value {
        Some(value) => _ = given.insert(SmolStr::new_static(name), value),
        None => _ = given.shift_remove(name),
    };
    let number = |n: Option<u8>| n.map(|n| Value::Number(f64::from(n)));
    put("qos", number(qos));
    if v5 {
        put("rh", number(retained));
        put("rap", as_published.map(Value::Bool));
        put("nl", no_local.map(Value::Bool));
    }
    let options = SubscriptionOptions {
        qos: qos.unwrap_or(0),
        no_local: no_local.unwrap_or(false),
        as_published: as_published.unwrap_or(false),
        retained: retained.unwrap_or(0),
    };
    (options, given)
}
