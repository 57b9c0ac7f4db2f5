//! `websocket in`: frames received over a WebSocket become messages.

use super::hub::{Hub, HubEvent};
use crate::node::{BoxedNode, Build, Closing, Host, Level, Node, boxed};
use serde::Deserialize;
use smol_str::SmolStr;
use std::rc::Rc;
use value::{Failure, Message, Object, Value, coerce};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Properties {
    server: SmolStr,
    client: SmolStr,
}

struct WebSocketIn {
    properties: Properties,
    hub: Option<Rc<Hub>>,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    Ok(boxed(WebSocketIn {
        properties: build.properties()?,
        hub: None,
    }))
}

impl Properties {
    /// The listener or client that the node refers to; registers the node with it.
    pub(super) fn hub(&self, host: &mut Host<'_, HubEvent>, frames: bool) -> Option<Rc<Hub>> {
        let id = if self.client.is_empty() {
            &self.server
        } else {
            &self.client
        };
        let hub: Option<Rc<Hub>> = host.lookup(id);
        match &hub {
            Some(hub) => hub.register(host, frames),
            None => host.log(Level::Error, "Missing server configuration"),
        }
        hub
    }
}

impl Node<HubEvent> for WebSocketIn {
    fn start(&mut self, host: &mut Host<'_, HubEvent>) {
        self.hub = self.properties.hub(host, true);
    }

    fn receive(&mut self, _message: Message, _host: &mut Host<'_, HubEvent>) {}

    fn event(&mut self, event: HubEvent, host: &mut Host<'_, HubEvent>) {
        match event {
            HubEvent::Status(status) => host.status(status),
            HubEvent::Message(message, _permit) => host.send(0, message),
            HubEvent::List(list, _permit) => send_each(list, host),
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_, HubEvent>) -> Option<Closing> {
        self.hub.as_ref()?.deregister(&host.info().id);
        host.status(Value::object(Object::default()));
        None
    }
}

/// Sends the list's messages, one for each output; an entry that is no message is an error.
fn send_each(list: Vec<Value>, host: &mut Host<'_, HubEvent>) {
    let outputs = host.info().node.wires.len();
    let mut messages = Vec::new();
    for (output, value) in list.into_iter().enumerate().take(outputs) {
        let kind = coerce::type_of(&value);
        match Message::from_value(value) {
            Some(message) => messages.push((output, message)),
            None if matches!(kind, "object" | "undefined") => {}
            None => {
                let words = format!("Node tried to send a message of type {kind}");
                host.error(Failure::text(words), None);
            }
        }
    }
    host.send_all(messages);
}
