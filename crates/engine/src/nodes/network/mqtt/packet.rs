//! Packets of MQTT 3.1, 3.1.1 and 5, from and to application messages. The library encodes them.

use super::application_message::{Extras, Publish, Received, SubscriptionOptions};
use super::settings::Settings;
use bytes::Bytes;
use mqtt_protocol_core::mqtt::packet::{
    ContentType, CorrelationData, GenericPacketTrait, MessageExpiryInterval, Packet, PayloadFormat,
    PayloadFormatIndicator, Property, Qos, RequestProblemInformation, RequestResponseInformation,
    ResponseTopic, RetainHandling, SessionExpiryInterval, SubEntry, SubOpts,
    SubscriptionIdentifier, TopicAlias, UserProperty, WillDelayInterval, v3_1_1, v5_0,
};
use mqtt_protocol_core::mqtt::prelude::PropertyValueAccess;
use mqtt_protocol_core::mqtt::result_code::MqttError;

impl Extras {
    fn properties(&self) -> Result<Vec<Property>, MqttError> {
        let mut list: Vec<Property> = Vec::new();
        if let Some(text) = self.text {
            let format = if text {
                PayloadFormat::String
            } else {
                PayloadFormat::Binary
            };
            list.push(PayloadFormatIndicator::new(format)?.into());
        }
        if let Some(expiry) = self.expiry {
            list.push(MessageExpiryInterval::new(expiry)?.into());
        }
        if let Some(delay) = self.delay {
            list.push(WillDelayInterval::new(delay)?.into());
        }
        if let Some(alias) = self.alias {
            list.push(TopicAlias::new(alias)?.into());
        }
        if let Some(topic) = &self.response_topic {
            list.push(ResponseTopic::new(topic.as_str())?.into());
        }
        if let Some(data) = &self.correlation {
            list.push(CorrelationData::new(data.to_vec())?.into());
        }
        for (key, value) in &self.user {
            list.push(UserProperty::new(key.as_str(), value.as_str())?.into());
        }
        if let Some(kind) = &self.content_type {
            list.push(ContentType::new(kind.as_str())?.into());
        }
        Ok(list)
    }
}

fn quality(qos: u8) -> Qos {
    match qos {
        0 => Qos::AtMostOnce,
        1 => Qos::AtLeastOnce,
        _ => Qos::ExactlyOnce,
    }
}

/// CONNECT.
pub(super) fn connect(settings: &Settings) -> Result<Packet, MqttError> {
    let id = settings.client_id.as_str();
    let will = settings.will.as_ref();
    if settings.version != 5 {
        let mut builder = v3_1_1::Connect::builder()
            .client_id(id)?
            .clean_session(settings.clean)
            .keep_alive(settings.keep_alive);
        if let Some(will) = will {
            let (topic, payload) = (will.topic.as_str(), will.payload.to_vec());
            builder = builder.will_message(topic, payload, quality(will.qos), will.retain)?;
        }
        if let Some(user) = &settings.user {
            builder = builder.user_name(user.as_str())?;
            if let Some(password) = &settings.password {
                builder = builder.password(password.as_bytes().to_vec())?;
            }
        }
        return Ok(Packet::V3_1_1Connect(builder.build()?));
    }
    let mut properties: Vec<Property> = vec![
        RequestResponseInformation::new(1)?.into(),
        RequestProblemInformation::new(1)?.into(),
    ];
    if let Some(expiry) = settings.session_expiry {
        properties.push(SessionExpiryInterval::new(expiry)?.into());
    }
    for (key, value) in &settings.user_properties {
        properties.push(UserProperty::new(key.as_str(), value.as_str())?.into());
    }
    let mut builder = v5_0::Connect::builder()
        .client_id(id)?
        .clean_start(settings.clean)
        .keep_alive(settings.keep_alive)
        .props(properties);
    if let Some(will) = will {
        let (topic, payload) = (will.topic.as_str(), will.payload.to_vec());
        builder = builder
            .will_message(topic, payload, quality(will.qos), will.retain)?
            .will_props(will.extras.properties()?);
    }
    if let Some(user) = &settings.user {
        builder = builder.user_name(user.as_str())?;
    }
    if let Some(password) = &settings.password {
        builder = builder.password(password.as_bytes().to_vec())?;
    }
    Ok(Packet::V5_0Connect(builder.build()?))
}

/// The bytes of a packet. MQTT 3.1 differs from 3.1.1 in the name and number at the head of CONNECT
/// only.
pub(super) fn encode(packet: &Packet, version: u8) -> Vec<u8> {
    let bytes = packet.to_continuous_buffer();
    if version != 3 || !matches!(packet, Packet::V3_1_1Connect(_)) {
        return bytes;
    }
    let Some(name) = bytes.windows(4).position(|four| four == b"MQTT") else {
        return bytes;
    };
    let rest = bytes.get(name + 5..).unwrap_or_default();
    let mut length = rest.len() + 2 + 6 + 1;
    let mut out = vec![bytes[0]];
    while length > 0 {
        let more = if length > 127 { 0x80 } else { 0 };
        out.push(u8::try_from(length % 128).unwrap_or_default() | more);
        length /= 128;
    }
    out.extend_from_slice(b"\0\x06MQIsdp\x03");
    out.extend_from_slice(rest);
    out
}

/// PUBLISH; `id` is for what is acknowledged.
pub(super) fn publish(
    message: &Publish,
    version: u8,
    id: Option<u16>,
    dup: bool,
) -> Result<Packet, MqttError> {
    let topic = message.topic.as_str();
    if version != 5 {
        let mut builder = v3_1_1::Publish::builder()
            .topic_name(topic)?
            .qos(quality(message.qos))
            .retain(message.retain)
            .dup(dup)
            .payload(&message.payload[..]);
        if let Some(id) = id {
            builder = builder.packet_id(id);
        }
        return Ok(Packet::V3_1_1Publish(builder.build()?));
    }
    let mut builder = v5_0::Publish::builder()
        .topic_name(topic)?
        .qos(quality(message.qos))
        .retain(message.retain)
        .dup(dup)
        .payload(&message.payload[..])
        .props(message.extras.properties()?);
    if let Some(id) = id {
        builder = builder.packet_id(id);
    }
    Ok(Packet::V5_0Publish(builder.build()?))
}

/// A subscription to one topic filter.
pub(super) struct Subscription<'a> {
    pub topic: &'a str,
    pub options: &'a SubscriptionOptions,
    /// Identifies it in the messages that match it.
    pub number: Option<u32>,
}

/// SUBSCRIBE to one topic filter.
pub(super) fn subscribe(
    Subscription {
        topic,
        options,
        number,
    }: Subscription<'_>,
    version: u8,
    id: u16,
) -> Result<Packet, MqttError> {
    let mut flags = SubOpts::new().set_qos(quality(options.qos));
    if version != 5 {
        let entry = SubEntry::new(topic, flags)?;
        let builder = v3_1_1::Subscribe::builder().packet_id(id);
        return Ok(Packet::V3_1_1Subscribe(
            builder.entries(vec![entry]).build()?,
        ));
    }
    flags = flags
        .set_nl(options.no_local)
        .set_rap(options.as_published)
        .set_rh(match options.retained {
            0 => RetainHandling::SendRetained,
            1 => RetainHandling::SendRetainedIfNotExists,
            _ => RetainHandling::DoNotSendRetained,
        });
    let entry = SubEntry::new(topic, flags)?;
    let mut builder = v5_0::Subscribe::builder()
        .packet_id(id)
        .entries(vec![entry]);
    if let Some(number) = number {
        builder = builder.props(vec![SubscriptionIdentifier::new(number)?.into()]);
    }
    Ok(Packet::V5_0Subscribe(builder.build()?))
}

/// UNSUBSCRIBE from one topic filter.
pub(super) fn unsubscribe(topic: &str, version: u8, id: u16) -> Result<Packet, MqttError> {
    if version != 5 {
        let builder = v3_1_1::Unsubscribe::builder().packet_id(id);
        return Ok(Packet::V3_1_1Unsubscribe(
            builder.entries(vec![topic])?.build()?,
        ));
    }
    let builder = v5_0::Unsubscribe::builder().packet_id(id);
    Ok(Packet::V5_0Unsubscribe(
        builder.entries(vec![topic])?.build()?,
    ))
}

/// DISCONNECT.
pub(super) fn disconnect(version: u8) -> Result<Packet, MqttError> {
    if version == 5 {
        return Ok(Packet::V5_0Disconnect(v5_0::Disconnect::builder().build()?));
    }
    let packet = v3_1_1::Disconnect::builder().build()?;
    Ok(Packet::V3_1_1Disconnect(packet))
}

/// The application message of a PUBLISH packet.
pub(super) fn received(packet: &Packet) -> Option<Received> {
    match packet {
        Packet::V3_1_1Publish(publish) => Some(Received {
            topic: publish.topic_name().to_owned(),
            payload: Bytes::copy_from_slice(publish.payload().as_slice()),
            qos: publish.qos() as u8,
            retain: publish.retain(),
            extras: Extras::default(),
            subscriptions: Vec::new(),
            reason: None,
        }),
        Packet::V5_0Publish(publish) => {
            let mut received = Received {
                topic: publish.topic_name().to_owned(),
                payload: Bytes::copy_from_slice(publish.payload().as_slice()),
                qos: publish.qos() as u8,
                retain: publish.retain(),
                extras: Extras::default(),
                subscriptions: Vec::new(),
                reason: None,
            };
            for property in publish.props() {
                received.take(property);
            }
            Some(received)
        }
        _ => None,
    }
}

impl Received {
    fn take(&mut self, property: &Property) {
        let text = || property.as_str().map(String::from);
        let extras = &mut self.extras;
        match property {
            Property::ResponseTopic(_) => extras.response_topic = text(),
            Property::ContentType(_) => extras.content_type = text(),
            Property::ReasonString(_) => self.reason = text(),
            Property::CorrelationData(_) => {
                extras.correlation = property.as_bytes().map(Bytes::copy_from_slice);
            }
            Property::MessageExpiryInterval(_) => extras.expiry = property.as_u32(),
            Property::PayloadFormatIndicator(_) => extras.text = property.as_u8().map(|f| f == 1),
            Property::SubscriptionIdentifier(_) => self.subscriptions.extend(property.as_u32()),
            Property::UserProperty(_) => {
                if let Some((key, value)) = property.as_key_value() {
                    extras.user.push((key.to_owned(), value.to_owned()));
                }
            }
            _ => {}
        }
    }
}
