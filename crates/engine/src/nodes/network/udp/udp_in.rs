//! `udp in`: datagrams to a port of this machine become messages.

use super::sockets::{self as ports, Datagram, Port, Ports};
use crate::expression::typed::text_of;
use crate::node::{BoxedNode, Build, Closing, Host, Level, Node, boxed};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::rc::Rc;
use value::{Failure, Message, Object, Value};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    iface: SmolStr,
    port: Json,
    ipv: SmolStr,
    multicast: Json,
    group: SmolStr,
    datatype: SmolStr,
}

struct UdpIn {
    properties: Properties,
    port: Option<Rc<Port>>,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    Ok(boxed(UdpIn {
        properties: build.properties()?,
        port: None,
    }))
}

impl Node<Datagram> for UdpIn {
    fn start(&mut self, host: &mut Host<'_, Datagram>) {
        match self.open(host) {
            Ok(port) => {
                port.listen(host);
                self.port = Some(port);
            }
            Err(failure) => host.error(failure, None),
        }
    }

    fn receive(&mut self, _message: Message, _host: &mut Host<'_, Datagram>) {}

    fn event(&mut self, datagram: Datagram, host: &mut Host<'_, Datagram>) {
        let message = self.message(datagram);
        host.send(0, message);
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_, Datagram>) -> Option<Closing> {
        host.status(Value::object(Object::default()));
        self.port.take()?.leave(&host.info().id)
    }
}

impl UdpIn {
    fn open(&self, host: &mut Host<'_, Datagram>) -> Result<Rc<Port>, Failure> {
        let own = &self.properties;
        let number = text_of(&own.port).trim().parse().unwrap_or(0);
        let shared = host.shared::<Ports>();
        let interface = ports::named(&own.iface, host);
        let port = if let Some(port) = shared.open(number) {
            host.log(Level::Info, format!("udp: port {number} already in use"));
            ports::show(&own.iface, interface.as_ref(), host);
            port
        } else {
            let bound = shared.bind(number, own.ipv == "udp6");
            bound.map_err(|failure| {
                Failure::text(if failure.code == "EACCES" && number < 1024 {
                    "UDP access error, you may need root access for ports below 1024".into()
                } else {
                    format!("error: {}", failure.code)
                })
            })?
        };
        if text_of(&own.multicast) == "true" {
            let joined = ports::broadcast(&port.socket)
                .and_then(|()| ports::join(&port.socket, &own.group, interface.as_ref()));
            match joined {
                Ok(()) => {
                    ports::show(&own.iface, interface.as_ref(), host);
                    host.log(Level::Info, format!("udp multicast group {}", own.group));
                }
                Err(error) => host.error(ports::not_joined(&error), None),
            }
        }
        if let Ok(address) = port.socket.local_addr() {
            host.log(Level::Info, format!("udp listener at {address}"));
        }
        Ok(port)
    }

    fn message(&self, Datagram(bytes, from): Datagram) -> Message {
        let payload = match self.properties.datatype.as_str() {
            "base64" => Value::from(BASE64_STANDARD.encode(&bytes)),
            "utf8" => Value::from(String::from_utf8_lossy(&bytes).into_owned()),
            _ => Value::buffer(bytes),
        };
        let mut message = Message::with_payload(payload);
        message.set("fromip", format!("{}:{}", from.ip(), from.port()));
        message.set("ip", from.ip().to_string());
        message.set("port", f64::from(from.port()));
        message
    }
}
