//! The settings of an `mqtt-broker` node: its properties, and the changes of them by a `connect`
//! message.

use super::application_message::{Extras, Publish};
use crate::expression::typed::text_of;
use serde_json::{Map, Value as Json};
use url::Url;
use value::{coerce, json};

/// A broker and how we are known to it.
#[derive(Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of the node"
)]
pub(super) struct Settings {
    pub(super) address: Address,
    /// As it is shown in the log.
    pub(super) url: String,
    /// 3 is MQTT 3.1, 4 is 3.1.1, 5 is 5.
    pub(super) version: u8,
    pub(super) client_id: String,
    /// The client id that is set; empty: each start makes one up.
    pub(super) own_id: String,
    pub(super) keep_alive: u16,
    pub(super) clean: bool,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) will: Option<Publish>,
    pub(super) birth: Option<Publish>,
    pub(super) close: Option<Publish>,
    pub(super) user_properties: Vec<(String, String)>,
    pub(super) session_expiry: Option<u32>,
    pub(super) auto_connect: bool,
    /// True if nodes that stop but stay in the flow unsubscribe.
    pub(super) auto_unsubscribe: bool,
    /// True if the server's certificate is checked when there is no `tls-config`.
    pub(super) verify: bool,
    /// True if the broker is on this machine: its messages carry their topic twice, as in Node-RED.
    pub(super) local: bool,
}

/// The address of the broker.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) secure: bool,
    /// The whole URL, if MQTT is spoken over a WebSocket.
    pub(super) websocket: Option<Url>,
}

/// Properties of the node, overlaid with what messages set.
#[derive(Default)]
pub(super) struct Options {
    map: Map<String, Json>,
    id: String,
}

/// The properties that a message's `broker` object may change.
const CHANGEABLE: [&str; 17] = [
    "url",
    "broker",
    "port",
    "clientid",
    "autoConnect",
    "usetls",
    "verifyservercert",
    "compatmode",
    "protocolVersion",
    "keepalive",
    "cleansession",
    "autoUnsubscribe",
    "topicAliasMaximum",
    "maximumPacketSize",
    "receiveMaximum",
    "username",
    "password",
];

impl Options {
    /// Of the node; `id` makes up a client id.
    pub(super) fn new(
        mut properties: Map<String, Json>,
        credentials: Option<&Map<String, Json>>,
        id: String,
    ) -> Self {
        for (name, field) in [("username", "user"), ("password", "password")] {
            properties.remove(name);
            if let Some(value) = credentials.and_then(|c| c.get(field)) {
                properties.insert(name.into(), value.clone());
            }
        }
        Self {
            map: properties,
            id,
        }
    }

    /// Applies the changes of a message.
    pub(super) fn overlay(&mut self, changes: &Map<String, Json>) {
        for name in CHANGEABLE {
            if let Some(value) = changes.get(name) {
                self.map.insert(name.into(), value.clone());
            }
        }
        if changes.contains_key("broker") && !changes.contains_key("url") {
            self.map.remove("url");
        }
        for (names, own) in [
            (["userProperties", "userProps"], "userProps"),
            (["sessionExpiry", "sessionExpiryInterval"], "sessionExpiry"),
        ] {
            if let Some(value) = names.iter().find_map(|name| changes.get(*name)) {
                self.map.insert(own.into(), value.clone());
            }
        }
        for kind in ["birth", "close", "will"] {
            let Some(notice) = changes.get(kind) else {
                continue;
            };
            for (part, own) in [
                ("topic", "Topic"),
                ("payload", "Payload"),
                ("qos", "Qos"),
                ("retain", "Retain"),
                ("properties", "Msg"),
            ] {
                let value = notice.get(part).cloned().unwrap_or(Json::Null);
                self.map.insert(format!("{kind}{own}"), value);
            }
        }
    }

    /// The resulting settings.
    pub(super) fn settings(&self) -> Settings {
        let text = |name: &str| self.map.get(name).map(text_of).unwrap_or_default();
        let yes = |name: &str| text(name) == "true";
        let compatible = yes("compatmode");
        let version = match text("protocolVersion").as_str() {
            _ if compatible => 3,
            "3" => 3,
            "5" => 5,
            _ => 4,
        };
        let own_id = text("clientid").to_string();
        let (address, url) = self.address(&text("url"), &text("broker"), yes("usetls"));
        let secret = |name: &str| {
            let value = self.map.get(name).filter(|v| !v.is_null()).map(text_of);
            value.filter(|v| !v.is_empty()).map(|v| v.to_string())
        };
        let broker = text("broker");
        Settings {
            address,
            url,
            version,
            client_id: if own_id.is_empty() {
                format!("nodered{}", self.id)
            } else {
                own_id.clone()
            },
            keep_alive: integer(self.map.get("keepalive"))
                .map_or(60, |s| u16::try_from(s).unwrap_or(u16::MAX)),
            clean: self.map.get("cleansession") != Some(&Json::Bool(false)) || own_id.is_empty(),
            own_id,
            user: secret("username"),
            password: secret("password"),
            will: self.notice("will"),
            birth: self.notice("birth"),
            close: self.notice("close"),
            user_properties: user_properties(self.map.get("userProps")),
            session_expiry: integer(self.map.get("sessionExpiry")).filter(|s| *s > 0),
            auto_connect: text("autoConnect") != "false",
            auto_unsubscribe: self.map.get("autoUnsubscribe") != Some(&Json::Bool(false)),
            verify: yes("verifyservercert"),
            local: matches!(broker.as_str(), "localhost" | "127.0.0.1"),
        }
    }

    /// Returns whether the node wants a session that lasts, but has no name for it.
    pub(super) fn lacks_client_id(&self) -> bool {
        let id = self.map.get("clientid").map(text_of).unwrap_or_default();
        self.map.get("cleansession") == Some(&Json::Bool(false)) && id.is_empty()
    }

    fn address(&self, url: &str, broker: &str, tls: bool) -> (Address, String) {
        let port = integer(self.map.get("port")).filter(|p| *p > 0);
        let port = port.and_then(|p| u16::try_from(p).ok()).unwrap_or(1883);
        let whole = if !url.is_empty() {
            url.to_owned()
        } else if broker.contains("://") {
            broker.to_owned()
        } else {
            let scheme = if tls { "mqtts" } else { "mqtt" };
            match broker {
                "" => format!("{scheme}://localhost:1883"),
                v6 if v6.contains(':') && !v6.starts_with('[') => {
                    format!("{scheme}://[{v6}]:{port}")
                }
                host => format!("{scheme}://{host}:{port}"),
            }
        };
        let parsed = Url::parse(&whole).ok();
        let scheme = parsed.as_ref().map_or("mqtt", Url::scheme);
        let secure = matches!(scheme, "mqtts" | "ssl" | "tls" | "wss");
        let websocket = matches!(scheme, "ws" | "wss");
        let standard = match (websocket, secure) {
            (true, false) => 80,
            (true, true) => 443,
            (false, false) => 1883,
            (false, true) => 8883,
        };
        let host = parsed.as_ref().and_then(Url::host_str).unwrap_or_default();
        let address = Address {
            host: host.to_owned(),
            port: parsed.as_ref().and_then(Url::port).unwrap_or(standard),
            secure,
            websocket: parsed.filter(|_| websocket),
        };
        (address, whole)
    }

    /// The birth, close or will message, if it has a topic.
    fn notice(&self, kind: &str) -> Option<Publish> {
        let part = |name: &str| self.map.get(&format!("{kind}{name}"));
        let topic = part("Topic").map(text_of).filter(|t| !t.is_empty())?;
        let payload = match part("Payload") {
            None | Some(Json::Null) => String::new(),
            Some(Json::String(text)) => text.clone(),
            Some(other) => json::stringify(&json::from_tree(other)).unwrap_or_default(),
        };
        Some(Publish {
            topic: topic.to_string(),
            payload: payload.into(),
            qos: level(part("Qos")).unwrap_or(0),
            retain: part("Retain").is_some_and(|r| text_of(r) == "true"),
            extras: part("Msg").map(extras).unwrap_or_default(),
        })
    }
}

/// The properties of MQTT 5 of a birth, close or will message; they have short names and long ones.
fn extras(options: &Json) -> Extras {
    let either = |long: &str, short: &str| {
        let found = options.get(short).or_else(|| options.get(long));
        found.filter(|v| !v.is_null() && **v != "")
    };
    let text =
        |long: &str, short: &str| either(long, short).and_then(Json::as_str).map(String::from);
    Extras {
        response_topic: text("responseTopic", "respTopic"),
        correlation: text("correlationData", "correl").map(|text| text.into_bytes().into()),
        content_type: text("contentType", "contentType"),
        expiry: integer(either("messageExpiryInterval", "expiry")),
        delay: integer(either("willDelayInterval", "delay")),
        user: user_properties(either("userProperties", "userProps")),
        ..Extras::default()
    }
}

/// User properties: an object, or the JSON text of one; values other than text are written as JSON.
pub(super) fn user_properties(value: Option<&Json>) -> Vec<(String, String)> {
    let parsed;
    let object = match value {
        Some(Json::Object(object)) => object,
        Some(Json::String(text)) if text.trim_start_matches(' ').starts_with('{') => {
            parsed = serde_json::from_str(text).unwrap_or_default();
            &parsed
        }
        _ => return Vec::new(),
    };
    let pairs = object.iter().filter(|(_, value)| !value.is_null());
    pairs
        .map(|(key, value)| match value {
            Json::String(text) => (key.clone(), text.clone()),
            other => (key.clone(), other.to_string()),
        })
        .collect()
}

/// A whole number from 0 to 2: a quality of service, or how retained messages are handled.
pub(super) fn level(value: Option<&Json>) -> Option<u8> {
    let level = integer(value).and_then(|level| u8::try_from(level).ok())?;
    (level <= 2).then_some(level)
}

/// `parseInt` of a property, if that is not negative.
pub(super) fn integer(value: Option<&Json>) -> Option<u32> {
    let number = coerce::parse_float(&text_of(value?)).trunc();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked range"
    )]
    (0.0..=f64::from(u32::MAX))
        .contains(&number)
        .then_some(number as u32)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn options(json: &str) -> Options {
        Options::new(serde_json::from_str(json).unwrap(), None, "1".into())
    }

    #[test]
    fn the_address_is_a_host_or_a_url() {
        let table = [
            (
                r#"{"broker":"h","port":"1884"}"#,
                "mqtt://h:1884",
                ("h", 1884, false),
            ),
            (
                r#"{"broker":"","port":1}"#,
                "mqtt://localhost:1883",
                ("localhost", 1883, false),
            ),
            (
                r#"{"broker":"::1","usetls":true,"port":8883}"#,
                "mqtts://[::1]:8883",
                ("[::1]", 8883, true),
            ),
            (
                r#"{"broker":"wss://h/mqtt"}"#,
                "wss://h/mqtt",
                ("h", 443, true),
            ),
            (
                r#"{"broker":"x","url":"tcp://h"}"#,
                "tcp://h",
                ("h", 1883, false),
            ),
        ];
        for (text, url, address) in table {
            let settings = options(text).settings();
            let found = &settings.address;
            assert_eq!(settings.url, url);
            assert_eq!(
                (found.host.as_str(), found.port, found.secure),
                address,
                "{text}"
            );
        }
    }

    #[test]
    fn a_message_overrides_the_nodes_connection_settings() {
        let mut options = options(
            r#"{"broker":"h","birthTopic":"b","birthPayload":{"a":1},"cleansession":false}"#,
        );
        assert!(options.lacks_client_id() && options.settings().clean);
        assert_eq!(options.settings().birth.unwrap().payload, r#"{"a":1}"#);
        let changes = r#"{"clientid":"me","protocolVersion":5,"birth":{"topic":"n","qos":"1","properties":{"correl":"c"}},"username":"u","sessionExpiry":"9"}"#;
        options.overlay(&serde_json::from_str(changes).unwrap());
        let settings = options.settings();
        assert_eq!(
            (
                settings.version,
                settings.client_id.as_str(),
                settings.clean
            ),
            (5, "me", false)
        );
        assert_eq!(
            (settings.user.as_deref(), settings.session_expiry),
            (Some("u"), Some(9))
        );
        let birth = settings.birth.unwrap();
        assert_eq!((birth.topic.as_str(), birth.qos), ("n", 1));
        assert_eq!(birth.extras.correlation.unwrap(), "c");
    }
}
