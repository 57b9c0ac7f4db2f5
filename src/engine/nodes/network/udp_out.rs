//! `udp out`: sends each payload as one datagram.

use crate::engine::expression::coerce;
use crate::engine::expression::typed::text_of;
use crate::engine::message::Message;
use crate::engine::node::{Build, Host, Level, Node, Wake};
use crate::engine::value::{Failure, Value};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    addr: Json,
    port: Json,
    iface: SmolStr,
    outport: Json,
    ipv: SmolStr,
    base64: bool,
    multicast: Json,
}

struct UdpOut {
    /// Where to; an empty address or no port: the message says it.
    address: SmolStr,
    port: SmolStr,
    base64: bool,
    socket: UdpSocket,
}

/// A datagram whose host name is being looked up.
struct Resolved {
    message: Message,
    bytes: Bytes,
    address: io::Result<Option<SocketAddr>>,
}

pub(in crate::engine::nodes) fn build(build: &Build<'_>) -> Result<Box<dyn Node>, Failure> {
    let properties: Properties = build.properties()?;
    Ok(Box::new(UdpOut {
        address: text_of(&properties.addr),
        port: text_of(&properties.port),
        base64: properties.base64,
        socket: open(&properties).map_err(|e| failure(&e))?,
    }))
}

fn failure(error: &io::Error) -> Failure {
    Failure::error(format!("udp: {error}"))
}

fn open(properties: &Properties) -> io::Result<UdpSocket> {
    let any: IpAddr = if properties.ipv == "udp6" {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    };
    let local = properties.iface.parse().unwrap_or(any);
    let socket = UdpSocket::bind((local, text_of(&properties.outport).parse().unwrap_or(0)))?;
    socket.set_nonblocking(true)?;
    if text_of(&properties.multicast) == "board" {
        socket.set_broadcast(true)?;
    }
    Ok(socket)
}

impl UdpOut {
    /// The host and port of a message, or the warning that there is none.
    fn target(&self, message: &Message) -> Result<(SmolStr, u16), &'static str> {
        let or_own = |fixed: &SmolStr, own: &Value| {
            if !fixed.is_empty() {
                fixed.clone()
            } else if own.is_nullish() {
                SmolStr::default()
            } else {
                coerce::to_text(own)
            }
        };
        let host = or_own(&self.address, message.get("ip"));
        if host.is_empty() {
            return Err("udp: ip address not set");
        }
        let port = or_own(&self.port, message.get("port"));
        if port.is_empty() || port == "0" {
            return Err("udp: port not set");
        }
        port.parse()
            .map(|port| (host, port))
            .map_err(|_| "udp: port number not valid")
    }

    fn datagram(&self, payload: &Value) -> Result<Bytes, Failure> {
        match payload {
            Value::Buffer(bytes) if !self.base64 => Ok(bytes.clone()),
            other if self.base64 => {
                let decoded = BASE64_STANDARD.decode(coerce::to_text(other).as_bytes());
                decoded
                    .map(Bytes::from)
                    .map_err(|e| Failure::error(e.to_string()))
            }
            other => Ok(Bytes::copy_from_slice(coerce::to_text(other).as_bytes())),
        }
    }

    fn send(&self, bytes: &[u8], to: SocketAddr, message: Message, host: &mut Host<'_>) {
        match self.socket.send_to(bytes, to) {
            Ok(_) => host.done(message),
            Err(e) => host.error(failure(&e), Some(message)),
        }
    }
}

impl Node for UdpOut {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        if message.get("payload").is_nullish() {
            return host.done(message);
        }
        let (name, port) = match self.target(&message) {
            Ok(target) => target,
            Err(warning) => {
                host.log(Level::Warn, Value::from(warning));
                return host.done(message);
            }
        };
        let bytes = match self.datagram(message.get("payload")) {
            Ok(bytes) => bytes,
            Err(failure) => return host.error(failure, Some(message)),
        };
        match name.parse::<IpAddr>() {
            Ok(ip) => self.send(&bytes, SocketAddr::new(ip, port), message, host),
            // A name is looked up without holding up the engine.
            Err(_) => host.spawn(async move {
                let address = tokio::net::lookup_host((name.as_str(), port))
                    .await
                    .map(|mut found| found.next());
                Resolved {
                    message,
                    bytes,
                    address,
                }
            }),
        }
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        let Wake::Finished(output) = wake else { return };
        let Ok(resolved) = output.downcast::<Resolved>() else {
            return;
        };
        let Resolved {
            message,
            bytes,
            address,
        } = *resolved;
        match address {
            Ok(Some(address)) => self.send(&bytes, address, message, host),
            Ok(None) => host.error(Failure::error("udp: host not found"), Some(message)),
            Err(e) => host.error(failure(&e), Some(message)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn node(address: &str, port: &str) -> UdpOut {
        let socket = open(&Properties::default()).unwrap();
        UdpOut {
            address: address.into(),
            port: port.into(),
            base64: false,
            socket,
        }
    }

    #[test]
    fn the_target_is_the_nodes_or_the_messages() {
        let mut message = Message::with_payload("x");
        assert_eq!(
            node("", "").target(&message),
            Err("udp: ip address not set")
        );
        message.set("ip", "10.0.0.1");
        assert_eq!(node("", "").target(&message), Err("udp: port not set"));
        message.set("port", 99_999.0);
        assert_eq!(
            node("", "").target(&message),
            Err("udp: port number not valid")
        );
        assert_eq!(node("", "53").target(&message), Ok(("10.0.0.1".into(), 53)));
        assert_eq!(node("::1", "53").target(&message), Ok(("::1".into(), 53)));
    }

    #[test]
    fn datagrams_are_bytes_text_or_base64() {
        let plain = node("", "");
        assert_eq!(plain.datagram(&Value::Number(1.5)).unwrap(), "1.5");
        assert_eq!(
            plain.datagram(&Value::Buffer(vec![1].into())).unwrap(),
            vec![1]
        );
        let encoded = UdpOut {
            base64: true,
            ..node("", "")
        };
        assert_eq!(encoded.datagram(&"aGk=".into()).unwrap(), "hi");
        assert!(encoded.datagram(&"?".into()).is_err());
    }
}
