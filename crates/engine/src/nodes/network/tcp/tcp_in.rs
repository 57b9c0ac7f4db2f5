//! `tcp in`: receives data over TCP, as a server or from a server
//! (docs/reference/node-red-engine.md §4.2).

use super::connection::{
    self as socket, Acceptor, ConnectionEvent, Event, Owner, Sessions, Socket, Target,
};
use super::receive_buffer::{ReceiveBuffer, ReceiveBuffers};
use crate::node::{BoxedNode, Build, Closing, Host, Level, Node, Task, TimerId, Wake, boxed};
use crate::nodes::status;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use value::{Failure, Message, Value, coerce};

/// The delay before a client reconnects to a server that has sent its data. 20 ms, as in Node-RED.
const SOON: Duration = Duration::from_millis(20);
/// The address to which the buffers of servers count: the flow chose them.
const SERVERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    server: Json,
    host: SmolStr,
    port: Json,
    datamode: SmolStr,
    datatype: SmolStr,
    newline: SmolStr,
    topic: Json,
    trim: Json,
    tls: SmolStr,
}

struct TcpIn {
    server: bool,
    host: SmolStr,
    port: u16,
    topic: Value,
    form: Form,
    tls: SmolStr,
    listener: Option<Task>,
    acceptor: Acceptor,
    connections: IndexMap<SmolStr, Connection>,
    reconnect: Option<TimerId>,
}

/// The conversion of bytes to payloads.
struct Form {
    /// Each piece as it comes; else all that came until the end.
    stream: bool,
    datatype: Datatype,
    newline: String,
    /// True if payloads keep the newline (that is what `trim` means here, as in Node-RED).
    keep: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Datatype {
    Buffer,
    Text,
    Base64,
}

/// An open connection.
struct Connection {
    socket: Socket,
    /// Bytes received that are not a payload yet.
    held: ReceiveBuffer,
    open: bool,
    /// True if it has sent anything in the end.
    served: bool,
    /// Waits for a message that resets it.
    _cut: Task,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    Ok(boxed(TcpIn {
        server: properties.server == true || properties.server == "server",
        host: properties.host,
        port: socket::port(&properties.port),
        topic: value::json::from_tree(&properties.topic),
        form: Form {
            stream: matches!(properties.datamode.as_str(), "" | "stream"),
            datatype: match properties.datatype.as_str() {
                "utf8" => Datatype::Text,
                "base64" => Datatype::Base64,
                _ => Datatype::Buffer,
            },
            newline: socket::newline(&properties.newline),
            keep: coerce::truthy(&value::json::from_tree(&properties.trim)),
        },
        tls: properties.tls,
        listener: None,
        acceptor: Acceptor::default(),
        connections: IndexMap::new(),
        reconnect: None,
    }))
}

impl Node<Event> for TcpIn {
    fn start(&mut self, host: &mut Host<'_, Event>) {
        if self.server {
            self.listen(host);
        } else {
            self.connect(host);
        }
    }

    fn receive(&mut self, _message: Message, _host: &mut Host<'_, Event>) {}

    fn wake(&mut self, wake: Wake, host: &mut Host<'_, Event>) {
        if matches!(wake, Wake::Timer(_)) {
            self.connect(host);
        }
    }

    fn event(&mut self, event: Event, host: &mut Host<'_, Event>) {
        match event {
            Event::Connection(id, event) => self.happened(&id, event, host),
            Event::Accepted(stream, peer) => {
                let id = host.fresh_id();
                let acceptor = self.acceptor.clone();
                let owner = Owner::source(host, self.form.separator(true));
                let socket = Socket::accepted(id.clone(), stream, peer, acceptor, owner);
                self.add(id, socket, host);
            }
            Event::Reset(id) => self.closed(&id, host),
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_, Event>) -> Option<Closing> {
        let sessions = host.shared::<Sessions>();
        let mut closings: Vec<Closing> = Vec::new();
        closings.extend(self.listener.take().map(Task::end));
        for (id, connection) in self.connections.drain(..) {
            sessions.remove(&id);
            closings.push(connection.socket.end());
        }
        Some(Box::pin(async move {
            for closing in closings {
                closing.await;
            }
        }))
    }
}

impl TcpIn {
    fn listen(&mut self, host: &mut Host<'_, Event>) {
        if let Some((listener, acceptor)) = socket::serve(host, self.port, &self.tls) {
            (self.listener, self.acceptor) = (Some(listener), acceptor);
        }
    }

    fn connect(&mut self, host: &mut Host<'_, Event>) {
        self.reconnect = None;
        let target = Target {
            host: self.host.clone(),
            port: self.port,
            tls: host.lookup(&self.tls),
        };
        let owner = Owner::source(host, self.form.separator(false));
        let (id, socket) = Socket::open(host, target, owner);
        self.add(id, socket, host);
    }

    fn add(&mut self, id: SmolStr, socket: Socket, host: &mut Host<'_, Event>) {
        let cut = host.shared::<Sessions>().add(&id, &socket);
        let (mailbox, reset) = (host.mailbox(), Event::Reset(id.clone()));
        let watch = Task::run(async move {
            cut.notified().await;
            mailbox.send(reset);
        });
        let buffers = host.shared::<ReceiveBuffers>();
        let peer = socket.peer.map_or(SERVERS, |peer| peer.ip());
        let connection = Connection {
            socket,
            held: buffers.buffer(host.config().tcp_buffers, peer),
            open: false,
            served: false,
            _cut: watch,
        };
        self.connections.insert(id, connection);
    }

    fn happened(&mut self, id: &SmolStr, event: ConnectionEvent, host: &mut Host<'_, Event>) {
        match event {
            ConnectionEvent::Open => self.opened(id, host),
            ConnectionEvent::Data(bytes, _claim) => self.data(id, bytes, host),
            ConnectionEvent::Idle => host.log(
                Level::Info,
                format!("timeout closed socket port {}", self.port),
            ),
            ConnectionEvent::End => self.ended(id, host),
            ConnectionEvent::Failed(failure) => host.log(Level::Info, failure.to_string()),
            ConnectionEvent::Closed => self.closed(id, host),
        }
    }

    fn opened(&mut self, id: &SmolStr, host: &mut Host<'_, Event>) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.open = true;
        }
        if self.server {
            return self.count(id, "connect", host);
        }
        host.log(
            Level::Info,
            format!("connected to {}:{}", self.host, self.port),
        );
        host.status(with_session(
            status("green", "dot", "common.status.connected"),
            id,
        ));
    }

    fn data(&mut self, id: &SmolStr, bytes: Bytes, host: &mut Host<'_, Event>) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let payloads = self.form.payloads(&mut connection.held, bytes, self.server);
        let fits = connection.held.fits();
        for payload in payloads {
            let message = self.message(id, payload);
            host.send(0, message);
        }
        if !fits {
            host.log(
                Level::Error,
                "connection closed: too many bytes without a newline or an end",
            );
            self.closed(id, host);
        }
    }

    fn ended(&mut self, id: &SmolStr, host: &mut Host<'_, Event>) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let held = connection.held.take();
        if held.is_empty() {
            return;
        }
        connection.served = true;
        let payload = self.form.payload(held);
        let mut message = self.message(id, payload);
        if self.server && self.form.stream {
            // Node-RED notes who it is only where it gathers whole connections.
            message.set("ip", Value::Undefined);
            message.set("port", Value::Undefined);
        }
        host.send(0, message);
    }

    fn closed(&mut self, id: &SmolStr, host: &mut Host<'_, Event>) {
        host.shared::<Sessions>().remove(id);
        // Removed only after `count` has reported its address.
        let connection = self.connections.get(id).map(|c| (c.open, c.served));
        let Some((open, served)) = connection else {
            return;
        };
        if self.server {
            if open {
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.open = false;
                }
                self.count(id, "disconnect", host);
            }
            self.connections.swap_remove(id);
            return;
        }
        self.connections.swap_remove(id);
        host.status(with_session(
            status("red", "ring", "common.status.disconnected"),
            id,
        ));
        let delay = if served {
            SOON
        } else {
            host.log(
                Level::Info,
                format!("connection lost to {}:{}", self.host, self.port),
            );
            host.config().socket_reconnect
        };
        self.reconnect = Some(host.after(delay));
    }

    /// Shows how many are connected, and who came or went.
    fn count(&self, id: &SmolStr, event: &'static str, host: &mut Host<'_, Event>) {
        let count = self.connections.values().filter(|c| c.open).count();
        let peer = self.connections.get(id).and_then(|c| c.socket.peer);
        let status = Value::record([
            ("text", socket::connections(count).into()),
            ("event", event.into()),
            (
                "ip",
                peer.map_or(Value::Undefined, |p| p.ip().to_string().into()),
            ),
            (
                "port",
                peer.map_or(Value::Undefined, |p| f64::from(p.port()).into()),
            ),
            ("_session", socket::session(id)),
        ]);
        host.status(status);
    }

    fn message(&self, id: &SmolStr, payload: Value) -> Message {
        let mut message = Message::default();
        message.set("topic", self.topic.clone());
        message.set("payload", payload);
        let peer = self.connections.get(id).and_then(|c| c.socket.peer);
        if let Some(peer) = peer.filter(|_| self.server) {
            message.set("ip", peer.ip().to_string());
            message.set("port", f64::from(peer.port()));
        }
        message.set("_session", socket::session(id));
        message
    }
}

impl Form {
    /// The text between two payloads; empty: they are not separated.
    fn separator(&self, server: bool) -> &str {
        match self.datatype {
            Datatype::Text => &self.newline,
            Datatype::Base64 if server => &self.newline,
            Datatype::Base64 | Datatype::Buffer => "",
        }
    }

    /// The payloads that have become whole.
    fn payloads(&self, held: &mut ReceiveBuffer, bytes: Bytes, server: bool) -> Vec<Value> {
        let lines = !self.separator(server).is_empty();
        // No line ends in base64: a server sends it in the end (observed).
        if !self.stream || lines && self.datatype == Datatype::Base64 {
            held.push(&bytes);
            return Vec::new();
        }
        if !lines {
            return vec![self.payload(bytes.into())];
        }
        let lines = held.lines(&bytes, self.newline.as_bytes(), self.keep);
        lines.into_iter().map(|line| self.payload(line)).collect()
    }

    fn payload(&self, bytes: Vec<u8>) -> Value {
        match self.datatype {
            Datatype::Buffer => Value::buffer(bytes),
            Datatype::Text => Value::from(String::from_utf8_lossy(&bytes).into_owned()),
            Datatype::Base64 => Value::from(BASE64_STANDARD.encode(&bytes)),
        }
    }
}

fn with_session(mut status: Value, id: &str) -> Value {
    if let Value::Object(object) = &mut status {
        std::sync::Arc::make_mut(object).insert("_session".into(), socket::session(id));
    }
    status
}
