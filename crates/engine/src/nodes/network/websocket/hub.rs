//! The hub that a `websocket-listener` or `websocket-client` node publishes to `websocket in` and
//! `websocket out` nodes: its open connections, and their events.

use crate::node::Host;
use crate::node::Mailbox;
use crate::ordered_map::OrderedMap;
use crate::pressure::Source;
use crate::ws_endpoints::{Frame, InboundPermit, Outbox};
use indexmap::IndexMap;
use smol_str::SmolStr;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use value::{Message, Object, Value, json};

/// The connections and the nodes around them.
pub(super) struct Hub {
    /// True if frames are whole messages.
    pub(super) whole: bool,
    server: bool,
    clients: RefCell<IndexMap<SmolStr, Outbox>>,
    /// By the node's id.
    users: RefCell<OrderedMap<SmolStr, User>>,
    /// Whether a client is on its way to its server.
    pub(super) connecting: Cell<bool>,
}

struct User {
    mailbox: Mailbox<HubEvent>,
    /// A node that receives frames, not only the status.
    source: Option<Source>,
}

/// A notification to a node.
pub(super) enum HubEvent {
    /// A status to show.
    Status(Value),
    /// A message, with the permit that is released when the node has it.
    Message(Message, Permit),
    /// A list in place of a message: one for each output, as when a function node returns it.
    List(Vec<Value>, Permit),
}

/// The permit of an inbound frame, shared by the nodes that receive it; a `websocket-client` has
/// none.
pub(super) type Permit = Option<Rc<InboundPermit>>;

impl Hub {
    pub(super) fn new(whole: bool, server: bool) -> Self {
        Self {
            whole,
            server,
            clients: RefCell::default(),
            users: RefCell::default(),
            connecting: Cell::new(false),
        }
    }

    /// Registers a node for notifications; `frames`: for frames too.
    pub(super) fn register(&self, host: &mut Host<'_, HubEvent>, frames: bool) {
        let user = User {
            mailbox: host.mailbox(),
            source: frames.then(|| host.source()),
        };
        let id = host.info().id.clone();
        self.users.borrow_mut().insert(id, user);
    }

    /// Ends the registration of a node.
    pub(super) fn deregister(&self, id: &str) {
        self.users.borrow_mut().remove(id);
    }

    /// A connection is open.
    pub(super) fn opened(&self, id: &SmolStr, outbox: Outbox) {
        self.clients.borrow_mut().insert(id.clone(), outbox);
        self.connecting.set(false);
        self.show(id, "connect", Some(self.count()));
    }

    /// A connection is closed.
    pub(super) fn closed(&self, id: &SmolStr) {
        self.clients.borrow_mut().swap_remove(id);
        let left = !self.clients.borrow().is_empty();
        self.show(id, "disconnect", left.then(|| self.count()));
    }

    /// A connection failed.
    pub(super) fn failed(&self, id: &SmolStr) {
        let status = status("red", "ring", "common.status.error", "error", id);
        self.notify(|_| true, &|| HubEvent::Status(status.clone()));
    }

    /// All connections end.
    pub(super) fn close(&self) {
        self.clients.borrow_mut().clear();
    }

    /// The number of connections; empty for a client.
    fn count(&self) -> String {
        if self.server {
            self.clients.borrow().len().to_string()
        } else {
            String::new()
        }
    }

    fn show(&self, id: &SmolStr, event: &'static str, connected: Option<String>) {
        let status = match connected {
            Some(count) => status("green", "dot", &format!("connected {count}"), event, id),
            None => status("red", "ring", "common.status.disconnected", event, id),
        };
        self.notify(|_| true, &|| HubEvent::Status(status.clone()));
    }

    /// Returns whether the flow of a node that receives frames is full.
    pub(super) fn is_full(&self) -> bool {
        self.full().is_some()
    }

    fn full(&self) -> Option<Source> {
        let users = self.users.borrow();
        let mut sources = users.values().filter_map(|user| user.source.as_ref());
        sources.find(|source| source.is_full()).cloned()
    }

    /// Waits until no flow of a node that receives frames is full.
    pub(super) async fn room(&self) {
        while let Some(source) = self.full() {
            source.changed().await;
        }
    }

    fn notify(&self, meant: impl Fn(&User) -> bool, event: &dyn Fn() -> HubEvent) {
        for user in self.users.borrow().values().filter(|user| meant(user)) {
            user.mailbox.send(event());
        }
    }

    /// A frame was received: a message for each `websocket in` node.
    pub(super) fn received(&self, id: &SmolStr, frame: Frame, permit: &Permit) {
        let parsed = match &frame {
            _ if !self.whole => None,
            Frame::Text(text) => json::parse(text).ok(),
            Frame::Binary(bytes) => std::str::from_utf8(bytes)
                .ok()
                .and_then(|text| json::parse(text).ok()),
        };
        if let Some(Value::Array(list)) = parsed {
            return self.notify(|user| user.source.is_some(), &|| {
                HubEvent::List(list.to_vec(), permit.clone())
            });
        }
        let message = self.message(id, frame, parsed);
        self.notify(|user| user.source.is_some(), &|| {
            HubEvent::Message(message.clone(), permit.clone())
        });
    }

    fn message(&self, id: &SmolStr, frame: Frame, parsed: Option<Value>) -> Message {
        let payload = match parsed {
            Some(parsed) => parsed,
            None => match frame {
                Frame::Text(text) => Value::from(text.as_str()),
                Frame::Binary(bytes) => Value::buffer(bytes),
            },
        };
        let mut message = match payload {
            Value::Object(_) if self.whole => Message::from_value(payload).unwrap_or_default(),
            payload => Message::with_payload(payload),
        };
        message.set("_session", session(id));
        message
    }

    /// Sends a frame to one connection, or to all. A connection whose queue is full is closed.
    pub(super) fn send(&self, id: Option<&str>, frame: &Frame) {
        let mut clients = self.clients.borrow_mut();
        let Some(id) = id else {
            return clients.retain(|_, outbox| outbox.send(frame));
        };
        if clients.get(id).is_some_and(|outbox| !outbox.send(frame)) {
            clients.swap_remove(id);
        }
    }

    /// Returns whether messages with a `_session` are sent; a `websocket-client` drops them, as in
    /// Node-RED.
    pub(super) fn replies(&self) -> bool {
        self.server
    }
}

fn status(
    fill: &'static str,
    shape: &'static str,
    text: &str,
    event: &'static str,
    id: &SmolStr,
) -> Value {
    let mut object = Object::default();
    for (key, value) in [
        ("fill", fill.into()),
        ("shape", shape.into()),
        ("text", text.into()),
        ("event", event.into()),
        ("_session", session(id)),
    ] {
        object.insert(SmolStr::new_static(key), value);
    }
    Value::object(object)
}

/// `_session` of a message.
fn session(id: &SmolStr) -> Value {
    Value::record([
        ("type", "websocket".into()),
        ("id", Value::String(id.clone())),
    ])
}
