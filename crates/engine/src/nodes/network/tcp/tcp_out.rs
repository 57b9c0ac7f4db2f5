//! `tcp out`: writes payloads to a server, to all clients, or to the sender of a message
//! (docs/reference/node-red-engine.md §4.2).

use super::connection::{
    self as socket, Acceptor, ConnectionEvent, Event, Owner, Sessions, Socket, Target,
};
use crate::node::{BoxedNode, Build, Closing, Host, Level, Node, Task, Wake, boxed};
use crate::nodes::network::payload::bytes_of;
use crate::nodes::status;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::time::Duration;
use value::{Failure, Message, Object, Value};

/// The delay before a client reconnects after it has ended a connection itself. 20 ms, as in
/// Node-RED.
const SOON: Duration = Duration::from_millis(20);

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    host: SmolStr,
    port: Json,
    beserver: SmolStr,
    base64: bool,
    end: bool,
    tls: SmolStr,
}

struct TcpOut {
    role: Role,
    host: SmolStr,
    port: u16,
    base64: bool,
    /// True if each message ends the connection.
    end: bool,
    tls: SmolStr,
    listener: Option<Task>,
    acceptor: Acceptor,
    /// The connection that is or will be open; as a server all that are.
    sockets: IndexMap<SmolStr, (Socket, bool)>,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Client,
    Server,
    Reply,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    Ok(boxed(TcpOut {
        role: match properties.beserver.as_str() {
            "" | "client" => Role::Client,
            "reply" => Role::Reply,
            _ => Role::Server,
        },
        host: properties.host,
        port: socket::port(&properties.port),
        base64: properties.base64,
        end: properties.end,
        tls: properties.tls,
        listener: None,
        acceptor: Acceptor::default(),
        sockets: IndexMap::new(),
        ended: false,
    }))
}

impl Node<Event> for TcpOut {
    fn start(&mut self, host: &mut Host<'_, Event>) {
        match self.role {
            Role::Client => self.connect(host),
            Role::Server => self.listen(host),
            Role::Reply => {}
        }
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_, Event>) {
        match self.role {
            Role::Reply => self.reply(&message, host),
            _ if message.get("payload").is_nullish() => {}
            _ => self.write(&message, host),
        }
        host.done(message);
    }

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
                let owner = Owner::writer(host);
                let socket = Socket::accepted(id.clone(), stream, peer, acceptor, owner);
                self.sockets.insert(id, (socket, false));
            }
            Event::Reset(_) => {}
        }
    }

    fn close(&mut self, _removed: bool, _host: &mut Host<'_, Event>) -> Option<Closing> {
        let listener = self.listener.take().map(Task::end);
        let sockets: Vec<Closing> = self.sockets.drain(..).map(|(_, (s, _))| s.end()).collect();
        Some(Box::pin(async move {
            for closing in listener.into_iter().chain(sockets) {
                closing.await;
            }
        }))
    }
}

impl TcpOut {
    fn listen(&mut self, host: &mut Host<'_, Event>) {
        host.status(text(socket::connections(0)));
        if let Some((listener, acceptor)) = socket::serve(host, self.port, &self.tls) {
            (self.listener, self.acceptor) = (Some(listener), acceptor);
        }
    }

    fn connect(&mut self, host: &mut Host<'_, Event>) {
        let target = Target {
            host: self.host.clone(),
            port: self.port,
            tls: host.lookup(&self.tls),
        };
        let owner = Owner::writer(host);
        let (id, socket) = Socket::open(host, target, owner);
        self.sockets.insert(id, (socket, false));
    }

    fn write(&mut self, message: &Message, host: &mut Host<'_, Event>) {
        let bytes = bytes_of(message.get("payload"), self.base64);
        for (socket, _) in self.sockets.values().filter(|(_, open)| *open) {
            socket.writer().write(bytes.clone());
            if self.end {
                socket.writer().end();
                self.ended = true;
            }
        }
        if self.end && self.role == Role::Client {
            // Nothing more is written to it.
            for (_, open) in self.sockets.values_mut() {
                *open = false;
            }
            host.status(Value::object(Object::default()));
        }
    }

    fn reply(&self, message: &Message, host: &mut Host<'_, Event>) {
        let sessions = host.shared::<Sessions>();
        let session = message.get("_session").as_object();
        let part = |name: &str| session.and_then(|s| s.get(name)).and_then(Value::as_str);
        let id = match part("type") {
            Some("tcp") => Some(part("id").unwrap_or_default()),
            _ => None,
        };
        if matches!(message.get("reset"), Value::Bool(true)) {
            return sessions.cut(id);
        }
        sessions.write(id, &bytes_of(message.get("payload"), self.base64));
    }

    fn happened(&mut self, id: &str, event: ConnectionEvent, host: &mut Host<'_, Event>) {
        let server = self.role == Role::Server;
        match event {
            ConnectionEvent::Open => {
                if let Some((_, open)) = self.sockets.get_mut(id) {
                    *open = true;
                }
                if server {
                    return self.count(host);
                }
                host.log(
                    Level::Info,
                    format!("connected to {}:{}", self.host, self.port),
                );
                host.status(status("green", "dot", "common.status.connected"));
            }
            ConnectionEvent::Idle => host.log(
                Level::Info,
                format!("timeout closed socket port {}", self.port),
            ),
            ConnectionEvent::Failed(failure) if !server => {
                host.log(Level::Info, format!("error: {failure}"));
            }
            ConnectionEvent::End if !server => {
                if let Some((_, open)) = self.sockets.get_mut(id) {
                    *open = false;
                }
                host.status(Value::object(Object::default()));
            }
            ConnectionEvent::Closed => {
                self.sockets.swap_remove(id);
                if server {
                    return self.count(host);
                }
                host.status(status("red", "ring", "common.status.disconnected"));
                let delay = if std::mem::take(&mut self.ended) {
                    SOON
                } else {
                    host.log(
                        Level::Info,
                        format!("connection lost to {}:{}", self.host, self.port),
                    );
                    host.config().socket_reconnect
                };
                host.after(delay);
            }
            _ => {}
        }
    }

    fn count(&self, host: &mut Host<'_, Event>) {
        let count = self.sockets.values().filter(|(_, open)| *open).count();
        host.status(text(socket::connections(count)));
    }
}

fn text(text: String) -> Value {
    Value::record([("text", text.into())])
}
