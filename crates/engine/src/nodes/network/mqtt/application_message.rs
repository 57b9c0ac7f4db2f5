//! Application messages as nodes publish and receive them, and the options of subscriptions.

use bytes::Bytes;

/// A message to publish.
#[derive(Clone, Debug, Default)]
pub(super) struct Publish {
    pub(super) topic: String,
    pub(super) payload: Bytes,
    pub(super) qos: u8,
    pub(super) retain: bool,
    pub(super) extras: Extras,
}

/// The MQTT 5 properties of a message (OASIS MQTT 5.0 §3.3.2.3).
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Extras {
    pub(super) response_topic: Option<String>,
    pub(super) correlation: Option<Bytes>,
    pub(super) content_type: Option<String>,
    pub(super) expiry: Option<u32>,
    pub(super) user: Vec<(String, String)>,
    pub(super) alias: Option<u16>,
    /// Whether the payload is text.
    pub(super) text: Option<bool>,
    /// The delay of a will.
    pub(super) delay: Option<u32>,
}

/// A message that the broker sent.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) topic: String,
    pub(super) payload: Bytes,
    pub(super) qos: u8,
    pub(super) retain: bool,
    pub(super) extras: Extras,
    /// The identifiers of the subscriptions that it matches, if the broker sends them.
    pub(super) subscriptions: Vec<u32>,
    pub(super) reason: Option<String>,
}

/// The options of a subscription (OASIS MQTT 5.0 §3.8.3.1).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SubscriptionOptions {
    pub(super) qos: u8,
    pub(super) no_local: bool,
    pub(super) as_published: bool,
    pub(super) retained: u8,
}
