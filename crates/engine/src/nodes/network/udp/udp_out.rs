//! `udp out`: sends each payload as one datagram.

use super::sockets::{self as ports, Port, Ports};
use crate::expression::typed::text_of;
use crate::node::{BoxedNode, Build, Closing, Host, Level, Node, boxed};
use crate::nodes::network::connect;
use crate::nodes::network::payload::bytes_of;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use socket2::{InterfaceIndexOrAddress as Interface, SockRef};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use value::{Failure, Message, Object, Value, coerce};

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
    properties: Properties,
    /// The target; an empty address or no port: taken from the message.
    address: SmolStr,
    port: SmolStr,
    /// Opened when the node starts if its local port is set, else with the first message: a udp in
    /// node of the same port may share its socket by then.
    socket: Option<Rc<Port>>,
    interface: Option<Interface>,
}

/// A datagram whose host name is being looked up.
struct Resolved {
    message: Message,
    bytes: Bytes,
    name: SmolStr,
    address: io::Result<Option<SocketAddr>>,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    Ok(boxed(UdpOut {
        address: text_of(&properties.addr),
        port: text_of(&properties.port),
        properties,
        socket: None,
        interface: None,
    }))
}

/// Adds the text that Node-RED writes before a system error.
fn prefixed(failure: &Failure) -> Failure {
    Failure::text(format!("udp : {failure}"))
}

impl UdpOut {
    /// The socket to send from.
    fn open(&mut self, host: &mut Host<'_, Resolved>) -> Result<Rc<Port>, Failure> {
        if let Some(socket) = &self.socket {
            return Ok(Rc::clone(socket));
        }
        let own = &self.properties;
        let outport: u16 = text_of(&own.outport).trim().parse().unwrap_or(0);
        let port = if outport == 0 {
            self.port.trim().parse().unwrap_or(0)
        } else {
            outport
        };
        let shared = host.shared::<Ports>();
        let interface = self.interface.as_ref();
        let socket = match shared.open(port) {
            Some(socket) => {
                ports::show(&own.iface, interface, host);
                socket
            }
            None => shared.bind(outport, own.ipv == "udp6")?,
        };
        let mode = text_of(&own.multicast);
        if mode != "false" {
            let ready = ports::broadcast(&socket.socket).and_then(|()| match mode.as_str() {
                "multi" => ports::join(&socket.socket, &self.address, interface),
                _ => Ok(()),
            });
            match ready {
                Ok(()) if mode == "multi" => ports::show(&own.iface, interface, host),
                Ok(()) => {}
                Err(error) => host.error(ports::not_joined(&error), None),
            }
        }
        self.socket = Some(Rc::clone(&socket));
        Ok(socket)
    }

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

    fn send(
        &mut self,
        bytes: &[u8],
        to: SocketAddr,
        message: Message,
        host: &mut Host<'_, Resolved>,
    ) {
        let sent = self.open(host).and_then(|port| {
            let sent = SockRef::from(&*port.socket).send_to(bytes, &to.into());
            sent.map_err(|error| connect::failure(&error, "send"))
        });
        if let Err(failure) = sent {
            host.error(prefixed(&failure), Some(message.clone()));
        }
        host.done(message);
    }
}

impl Node<Resolved> for UdpOut {
    fn start(&mut self, host: &mut Host<'_, Resolved>) {
        self.interface = ports::named(&self.properties.iface, host);
        let fixed = !text_of(&self.properties.outport).is_empty();
        if fixed && let Err(failure) = self.open(host) {
            host.error(prefixed(&failure), None);
        }
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_, Resolved>) {
        if !message.properties().contains_key("payload") {
            return;
        }
        let (name, port) = match self.target(&message) {
            Ok(target) => target,
            Err(warning) => {
                host.log(Level::Warn, Value::from(warning));
                return host.done(message);
            }
        };
        let bytes = bytes_of(message.get("payload"), self.properties.base64);
        if let Ok(ip) = name.parse::<IpAddr>() {
            return self.send(&bytes, SocketAddr::new(ip, port), message, host);
        }
        // A name is looked up without holding up the engine.
        let six = self.properties.ipv == "udp6";
        host.spawn(async move {
            let address = resolve(&name, port, six).await;
            Resolved {
                message,
                bytes,
                name,
                address,
            }
        });
    }

    fn event(&mut self, resolved: Resolved, host: &mut Host<'_, Resolved>) {
        let Resolved {
            message,
            bytes,
            name,
            address,
        } = resolved;
        if let Ok(Some(address)) = address {
            return self.send(&bytes, address, message, host);
        }
        let words = format!("getaddrinfo ENOTFOUND {name}");
        host.error(prefixed(&Failure::error(words)), Some(message.clone()));
        host.done(message);
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_, Resolved>) -> Option<Closing> {
        host.status(Value::object(Object::default()));
        None
    }
}

/// The first address of a host of the wanted family.
async fn resolve(name: &str, port: u16, six: bool) -> io::Result<Option<SocketAddr>> {
    let mut found = tokio::net::lookup_host((name, port)).await?;
    Ok(found.find(|address| address.is_ipv6() == six))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn node(address: &str, port: &str) -> UdpOut {
        UdpOut {
            properties: Properties::default(),
            address: address.into(),
            port: port.into(),
            socket: None,
            interface: None,
        }
    }

    #[test]
    fn the_target_comes_from_the_node_or_the_message() {
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
}
