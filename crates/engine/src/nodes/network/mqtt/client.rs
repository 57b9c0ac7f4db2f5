//! What `mqtt in` and `mqtt out` have in common: their broker, their badge, and messages that connect and disconnect.

use super::mqtt_broker::{Broker, BrokerEvent, Phase, Ticket, badge};
use crate::node::{Closing, Host};
use serde_json::{Map, Value as Json};
use std::any::Any;
use std::collections::HashMap;
use std::rc::Rc;
use value::{Failure, Message, Value, coerce, json};

/// A node that uses a broker, and its messages that are not done yet.
pub(super) struct User {
    pub(super) broker: Rc<Broker>,
    waiting: HashMap<u64, Message>,
    next: u64,
}

/// The connection has ended as this message wanted; perhaps it is to begin again with other settings.
struct Left {
    number: u64,
    again: Option<Map<String, Json>>,
}

impl User {
    /// The broker of this id begins to be used; or the log says that there is none.
    pub(super) fn of(id: &str, host: &mut Host<'_>) -> Option<Self> {
        let Some(broker) = host.offered::<Broker>(id) else {
            host.error(Failure::text("missing broker configuration"), None);
            return None;
        };
        host.status(badge(Phase::Disconnected));
        Some(Self {
            broker,
            waiting: HashMap::new(),
            next: 0,
        })
    }

    /// Keeps a message until its ticket is completed.
    pub(super) fn ticket(&mut self, message: Message, host: &Host<'_>) -> Ticket {
        let number = self.number(message);
        Ticket {
            post: host.post(),
            number,
        }
    }

    fn number(&mut self, message: Message) -> u64 {
        self.next += 1;
        self.waiting.insert(self.next, message);
        self.next
    }

    /// A message says `connect`.
    pub(super) fn connect(&mut self, message: Message, host: &mut Host<'_>) {
        let changes = changes(&message);
        if self.broker.can_connect() {
            if let Some(changes) = &changes {
                self.broker.set(changes);
            }
            let ticket = self.ticket(message, host);
            return self.broker.connect(host, Some(ticket));
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

    /// A message says `disconnect`.
    pub(super) fn disconnect(&mut self, message: Message, host: &mut Host<'_>) {
        self.leave(message, None, host);
    }

    fn leave(&mut self, message: Message, again: Option<Map<String, Json>>, host: &mut Host<'_>) {
        let number = self.number(message);
        let closing = self.broker.disconnect();
        host.spawn(async move {
            closing.await;
            Left { number, again }
        });
    }

    /// Handles the notifications that both nodes have in common; returns the others.
    pub(super) fn hear(
        &mut self,
        output: Box<dyn Any>,
        host: &mut Host<'_>,
    ) -> Option<BrokerEvent> {
        let output = match output.downcast::<Left>() {
            Ok(left) => {
                self.left(*left, host);
                return None;
            }
            Err(output) => output,
        };
        match *output.downcast::<BrokerEvent>().ok()? {
            BrokerEvent::Phase(phase) => {
                host.status(badge(phase));
                None
            }
            BrokerEvent::Done { number, result } => {
                if let Some(message) = self.waiting.remove(&number) {
                    match result {
                        Ok(()) => host.done(message),
                        Err(failure) => host.error(failure, Some(message)),
                    }
                }
                None
            }
            other @ BrokerEvent::Received { .. } => Some(other),
        }
    }

    fn left(&mut self, Left { number, again }: Left, host: &mut Host<'_>) {
        let Some(message) = self.waiting.remove(&number) else {
            return;
        };
        match again {
            None => host.done(message),
            Some(changes) => {
                self.broker.set(&changes);
                let ticket = self.ticket(message, host);
                self.broker.connect(host, Some(ticket));
            }
        }
    }

    /// The node stops.
    pub(super) fn close(&self, removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        host.status(badge(Phase::Disconnected));
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
