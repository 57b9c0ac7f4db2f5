//! `tcp request`: sends each payload to a server and sends on what it answers
//! (docs/reference/node-red-engine.md §4.2).

use super::connection::{self as socket, ConnectionEvent, Event, Owner, Socket, Target};
use super::receive_buffer::ReceiveBuffer;
use crate::expression::typed::text_of;
use crate::node::{BoxedNode, Build, Closing, Host, Level, Node, TimerId, Wake, boxed};
use crate::nodes::network::payload::bytes_of;
use crate::nodes::status;
use bytes::Bytes;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::{SmolStr, format_smolstr};
use std::collections::VecDeque;
use std::time::Duration;
use value::{Failure, Message, Object, Value, coerce, json};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    server: SmolStr,
    port: Json,
    out: SmolStr,
    ret: SmolStr,
    splitc: Json,
    newline: SmolStr,
    trim: Json,
    tls: SmolStr,
}

struct TcpRequest {
    server: SmolStr,
    port: u16,
    until: Until,
    /// True if answers are text.
    text: bool,
    newline: String,
    /// True if texts keep the newline (that is what `trim` means here, as in Node-RED).
    keep: bool,
    tls: SmolStr,
    /// By `host:port`.
    clients: IndexMap<SmolStr, Client>,
    last: SmolStr,
}

/// When an answer is whole.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    /// So long after its first byte.
    Time(Duration),
    Char(u8),
    Count(usize),
    /// Never: each piece is one, and the connection stays.
    Sit,
    /// At once: the node does not wait for one.
    Never,
}

/// A connection and what waits for it.
#[derive(Default)]
struct Client {
    /// The id of the connection that counts, and the connection.
    socket: Option<(SmolStr, Socket)>,
    connected: bool,
    queue: VecDeque<Message>,
    last: Message,
    held: ReceiveBuffer,
    timer: Option<TimerId>,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    Ok(boxed(TcpRequest {
        server: properties.server.clone(),
        port: socket::port(&properties.port),
        until: until(&properties.out, &text_of(&properties.splitc)),
        text: properties.ret == "string",
        newline: socket::newline(&properties.newline),
        keep: coerce::truthy(&json::from_tree(&properties.trim)),
        tls: properties.tls,
        clients: IndexMap::new(),
        last: SmolStr::default(),
    }))
}

fn until(out: &str, split: &str) -> Until {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float becomes the nearest number of the type"
    )]
    match out {
        "immed" => Until::Never,
        "sit" => Until::Sit,
        "count" => Until::Count(coerce::text_to_number(split) as usize),
        "char" => Until::Char(character(split)),
        _ => {
            let ms = coerce::text_to_number(split);
            if ms < 0.0 {
                return Until::Never;
            }
            Until::Time(Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default())
        }
    }
}

/// A character, as itself, as an escape or as a number.
fn character(text: &str) -> u8 {
    match text {
        "\\n" => b'\n',
        "\\r" => b'\r',
        "\\t" => b'\t',
        "\\e" => 0x1b,
        "\\f" => 0x0c,
        "\\0" => 0,
        _ => match text.strip_prefix("0x") {
            Some(hex) => u8::from_str_radix(hex, 16).unwrap_or(0),
            None => text.bytes().next().unwrap_or(0),
        },
    }
}

impl Node<Event> for TcpRequest {
    fn receive(&mut self, message: Message, host: &mut Host<'_, Event>) {
        let mut message = message;
        match message.get("payload") {
            Value::Undefined | Value::Buffer(_) | Value::String(_) => {}
            Value::Null => {
                let failure = Failure {
                    name: "TypeError".into(),
                    ..Failure::error("Cannot read properties of null (reading 'toString')")
                };
                return host.error(failure, Some(message));
            }
            other => {
                let text = coerce::to_text(other);
                message.set("payload", text);
            }
        }
        if self.until == Until::Sit && coerce::truthy(message.get("reset")) {
            self.reset(message.get("reset"), host);
            if !message.properties().contains_key("payload") {
                return;
            }
        }
        self.request(message, host);
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_, Event>) {
        let Wake::Timer(timer) = wake else { return };
        let due = self.clients.iter().find(|(_, c)| c.timer == Some(timer));
        if let Some(key) = due.map(|(key, _)| key.clone()) {
            self.answer(&key, usize::MAX, host);
        }
    }

    fn event(&mut self, event: Event, host: &mut Host<'_, Event>) {
        if let Event::Connection(id, event) = event {
            self.happened(&id, event, host);
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_, Event>) -> Option<Closing> {
        host.status(Value::object(Object::default()));
        self.clients.clear();
        None
    }
}

impl TcpRequest {
    fn request(&mut self, message: Message, host: &mut Host<'_, Event>) {
        let of_message = |name: &str| match message.get(name) {
            value if coerce::truthy(value) => coerce::to_text(value),
            _ => SmolStr::default(),
        };
        let name = if self.server.is_empty() {
            of_message("host")
        } else {
            self.server.clone()
        };
        let port = if self.port == 0 {
            of_message("port").parse().unwrap_or(0)
        } else {
            self.port
        };
        let key = format_smolstr!("{name}:{port}");
        if key != self.last {
            host.status(Value::object(Object::default()));
            self.last = key.clone();
        }
        let limit = host.config().socket_queue;
        let client = self.clients.entry(key.clone()).or_default();
        client.last = message.clone();
        if let (Some((_, socket)), true) = (&client.socket, client.connected) {
            write(socket, &message);
            return host.done(message);
        }
        if client.queue.len() >= limit {
            client.queue.pop_front();
        }
        client.queue.push_back(message);
        if client.socket.is_some() {
            return;
        }
        if name.is_empty() || port == 0 {
            return host.log(Level::Warn, "Host and/or port not set");
        }
        let target = Target {
            host: name,
            port,
            tls: host.lookup(&self.tls),
        };
        let id = host.fresh_id();
        let newline = if self.until == Until::Sit && self.text {
            &self.newline
        } else {
            ""
        };
        let owner = Owner::source(host, newline);
        let socket = Socket::connect(id.clone(), target, owner);
        client.held.take();
        client.socket = Some((id, socket));
    }

    /// Ends all connections, or that to `host:port`.
    fn reset(&mut self, which: &Value, host: &mut Host<'_, Event>) {
        match which {
            Value::Bool(true) => self.clients.clear(),
            Value::String(key) if key.contains(':') => {
                self.clients.shift_remove(key);
            }
            _ => {}
        }
        let count = self.clients.len();
        let shape = if count == 0 { "ring" } else { "dot" };
        host.status(status("green", shape, &socket::connections(count)));
    }

    fn happened(&mut self, id: &str, event: ConnectionEvent, host: &mut Host<'_, Event>) {
        let of = |client: &Client| client.socket.as_ref().is_some_and(|(own, _)| own == id);
        let found = self.clients.iter().find(|(_, client)| of(client));
        let Some(key) = found.map(|(key, _)| key.clone()) else {
            return;
        };
        match event {
            ConnectionEvent::Open => self.opened(&key, host),
            ConnectionEvent::Data(bytes, _claim) => self.data(&key, &bytes, host),
            // Only connections that clients open have an idle time-out.
            ConnectionEvent::Idle => {}
            ConnectionEvent::End => {
                host.status(status("grey", "ring", "common.status.disconnected"));
                self.disconnected(&key);
            }
            ConnectionEvent::Failed(_) => {
                host.status(status("red", "ring", "common.status.error"));
                let failure = Failure::text(format!("connect failed {key}"));
                let client = self.clients.shift_remove(&key);
                host.error(failure, client.map(|client| client.last));
            }
            ConnectionEvent::Closed => self.disconnected(&key),
        }
    }

    /// Marks a connection as gone; messages that wait for its response, or for another connection,
    /// stay.
    fn disconnected(&mut self, key: &str) {
        if let Some(client) = self.clients.get_mut(key) {
            client.connected = false;
            client.socket = None;
        }
    }

    fn opened(&mut self, key: &SmolStr, host: &mut Host<'_, Event>) {
        let count = self.clients.len();
        host.status(status("green", "dot", &socket::connections(count)));
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        client.connected = true;
        let Some((_, socket)) = &client.socket else {
            return;
        };
        for message in client.queue.drain(..) {
            write(socket, &message);
            host.done(message);
        }
        if self.until == Until::Never {
            if let Some((_, socket)) = self.clients.shift_remove(key).and_then(|c| c.socket) {
                host.run(socket.end());
            }
            host.status(Value::object(Object::default()));
        }
    }

    fn data(&mut self, key: &SmolStr, bytes: &Bytes, host: &mut Host<'_, Event>) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        match self.until {
            Until::Sit => self.pieces(key, bytes, host),
            Until::Time(delay) => {
                client.held.push(bytes);
                if client.timer.is_none() {
                    client.timer = Some(host.after(delay));
                }
            }
            Until::Count(count) => {
                client.held.push(bytes);
                if client.held.as_slice().len() >= count {
                    // Even where no byte is asked for, the first one answers, as in Node-RED.
                    self.answer(key, count.max(1), host);
                }
            }
            Until::Char(end) => {
                let before = client.held.as_slice().len();
                client.held.push(bytes);
                if let Some(at) = memchr::memchr(end, bytes) {
                    self.answer(key, before + at + 1, host);
                }
            }
            Until::Never => {}
        }
    }

    /// Sends on what came while the connection stays.
    fn pieces(&mut self, key: &SmolStr, bytes: &Bytes, host: &mut Host<'_, Event>) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let mut payloads = Vec::new();
        if self.text && !self.newline.is_empty() {
            let lines = client.held.lines(bytes, self.newline.as_bytes(), self.keep);
            payloads.extend(lines.iter().map(|line| text(line)));
        } else if self.text {
            payloads.push(text(bytes));
        } else {
            payloads.push(Value::buffer(bytes.clone()));
        }
        let last = client.last.clone();
        for payload in payloads {
            let mut message = last.clone();
            message.set("payload", payload);
            host.send(0, message);
        }
    }

    /// Sends the complete response on, at most `most` bytes of it, and ends the connection.
    fn answer(&mut self, key: &SmolStr, most: usize, host: &mut Host<'_, Event>) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        client.timer = None;
        let mut held = client.held.take();
        held.truncate(most);
        let mut message = client.last.clone();
        let payload = if self.text {
            text(&held)
        } else {
            Value::buffer(held)
        };
        message.set("payload", payload);
        if client.socket.is_some() {
            self.clients.shift_remove(key);
            host.status(Value::object(Object::default()));
        }
        host.send(0, message);
    }
}

fn text(bytes: &[u8]) -> Value {
    Value::from(String::from_utf8_lossy(bytes).into_owned())
}

fn write(socket: &Socket, message: &Message) {
    let payload = message.get("payload");
    if !payload.is_undefined() {
        socket.writer().write(bytes_of(payload, false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_configures_the_end_of_a_response() {
        let seconds = |s| Until::Time(Duration::from_secs(s));
        let table = [
            ("time", "2000", seconds(2)),
            ("time", "", seconds(0)),
            ("immed", "0", Until::Never),
            ("sit", "0", Until::Sit),
            ("count", "7", Until::Count(7)),
            ("char", "\\n", Until::Char(10)),
            ("char", "0x41", Until::Char(65)),
            ("char", "0", Until::Char(48)),
            ("char", "\\0", Until::Char(0)),
        ];
        for (out, split, expected) in table {
            assert!(until(out, split) == expected, "{out} {split}");
        }
    }
}
