//! A client of a broker, as `mqtt in` and `mqtt out` are: its status, its requests that are not
//! completed yet, and messages that connect and disconnect.

use super::application_message::Received;
use super::broker::{Broker, BrokerEvent, Phase, Ticket, status};
use super::connection;
use crate::node::{Closing, Host};
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::collections::HashMap;
use std::rc::Rc;
use value::{Failure, Message, Value, coerce, json};

/// A node that uses a broker, and its messages that are not done yet.
pub(super) struct User {
    pub(super) broker: Rc<Broker>,
    waiting: HashMap<u64, Message>,
    next: u64,
}

impl User {
    /// Begins to use the broker of this id; it is an error if there is none.
    pub(super) fn of(id: &str, host: &mut Host<'_, BrokerEvent>) -> Option<Self> {
        let Some(broker) = host.lookup::<Broker>(id) else {
            host.error(Failure::text("missing broker configuration"), None);
            return None;
        };
        host.status(status(Phase::Disconnected));
        Some(Self {
            broker,
            waiting: HashMap::new(),
            next: 0,
        })
    }

    /// Registers the node with the broker; the first one opens the connection.
    pub(super) fn register(&self, host: &Host<'_, BrokerEvent>) {
        if self.broker.register(host) {
            connection::open(&self.broker, host, None);
        }
    }

    /// Keeps a message until its ticket is completed.
    pub(super) fn ticket(&mut self, message: Message, host: &Host<'_, BrokerEvent>) -> Ticket {
        let number = self.number(message);
        Ticket {
            mailbox: host.mailbox(),
            number,
        }
    }

    fn number(&mut self, message: Message) -> u64 {
        self.next += 1;
        self.waiting.insert(self.next, message);
        self.next
    }

    /// Handles a `connect` message.
    pub(super) fn connect(&mut self, message: Message, host: &mut Host<'_, BrokerEvent>) {
        let changes = changes(&message);
        if self.broker.can_connect() {
            if let Some(changes) = &changes {
                self.broker.set(changes);
            }
            let ticket = self.ticket(message, host);
            return connection::open(&self.broker, host, Some(ticket));
        }
        match changes {
            None => host.done(message),
            Some(changes) if changes.get("force").is_some_and(is_true) => {
                self.leave(message, Some(changes), host);
            }
            Some(_) => {
                let words = "Disconnect from broker before connecting";
                host.error(Failure::error(words), Some(message));
            }
        }
    }

    /// Handles a `disconnect` message.
    pub(super) fn disconnect(&mut self, message: Message, host: &mut Host<'_, BrokerEvent>) {
        self.leave(message, None, host);
    }

    fn leave(
        &mut self,
        message: Message,
        reconnect: Option<Map<String, Json>>,
        host: &mut Host<'_, BrokerEvent>,
    ) {
        let number = self.number(message);
        let closing = self.broker.disconnect();
        host.spawn(async move {
            closing.await;
            BrokerEvent::Disconnected { number, reconnect }
        });
    }

    /// Handles a notification, unless it is a received message: then it is returned.
    pub(super) fn handle(
        &mut self,
        event: BrokerEvent,
        host: &mut Host<'_, BrokerEvent>,
    ) -> Option<(Rc<Received>, SmolStr)> {
        match event {
            BrokerEvent::Received { received, datatype } => return Some((received, datatype)),
            BrokerEvent::Phase(phase) => host.status(status(phase)),
            BrokerEvent::Done { number, result } => {
                if let Some(message) = self.waiting.remove(&number) {
                    match result {
                        Ok(()) => host.done(message),
                        Err(failure) => host.error(failure, Some(message)),
                    }
                }
            }
            BrokerEvent::Disconnected { number, reconnect } => {
                self.disconnected(number, reconnect, host);
            }
        }
        None
    }

    fn disconnected(
        &mut self,
        number: u64,
        reconnect: Option<Map<String, Json>>,
        host: &mut Host<'_, BrokerEvent>,
    ) {
        let Some(message) = self.waiting.remove(&number) else {
            return;
        };
        match reconnect {
            None => host.done(message),
            Some(changes) => {
                self.broker.set(&changes);
                let ticket = self.ticket(message, host);
                connection::open(&self.broker, host, Some(ticket));
            }
        }
    }

    /// The node stops.
    pub(super) fn close(&self, removed: bool, host: &mut Host<'_, BrokerEvent>) -> Option<Closing> {
        host.status(status(Phase::Disconnected));
        self.broker.deregister(&host.info().id, removed)
    }
}

/// The `broker` object of a message.
fn changes(message: &Message) -> Option<Map<String, Json>> {
    match message.get("broker") {
        Value::Object(_) => match json::to_tree(message.get("broker")) {
            Json::Object(map) => Some(map),
            _ => None,
        },
        _ => None,
    }
}

fn is_true(value: &Json) -> bool {
    coerce::truthy(&json::from_tree(value))
}
