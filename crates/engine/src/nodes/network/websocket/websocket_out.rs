//! `websocket out`: sends payloads, or whole messages, over a WebSocket: to the sender of a
//! message, or to all.

use super::hub::{Hub, HubEvent};
use super::websocket_client::text_frame;
use super::websocket_in::Properties;
use crate::node::{BoxedNode, Build, Closing, Host, Level, Node, boxed};
use crate::ws_endpoints::Frame;
use std::rc::Rc;
use value::{Failure, Message, Object, Value, json};

struct WebSocketOut {
    properties: Properties,
    hub: Option<Rc<Hub>>,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    Ok(boxed(WebSocketOut {
        properties: build.properties()?,
        hub: None,
    }))
}

impl Node<HubEvent> for WebSocketOut {
    fn start(&mut self, host: &mut Host<'_, HubEvent>) {
        self.hub = self.properties.hub(host, false);
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_, HubEvent>) {
        let Some(hub) = &self.hub else { return };
        let frame = if hub.whole {
            let mut whole = message.clone();
            whole.take("_session");
            json::stringify(&whole.to_value()).map(|text| Frame::Text(text.into()))
        } else if message.properties().contains_key("payload") {
            text_frame(message.get("payload"))
        } else {
            None
        };
        if let Some(frame) = frame {
            match session(&message) {
                Some(id) if hub.replies() => hub.send(Some(id), &frame),
                Some(_) => {}
                None if hub.connecting.get() => {
                    let words = "An error occurred while sending:  Error: WebSocket is not open: readyState 0 (CONNECTING)";
                    host.log(Level::Warn, words);
                }
                None => hub.send(None, &frame),
            }
        }
        host.done(message);
    }

    fn event(&mut self, event: HubEvent, host: &mut Host<'_, HubEvent>) {
        if let HubEvent::Status(status) = event {
            host.status(status);
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_, HubEvent>) -> Option<Closing> {
        self.hub.as_ref()?.deregister(&host.info().id);
        host.status(Value::object(Object::default()));
        None
    }
}

/// The session of a message that came over a WebSocket.
fn session(message: &Message) -> Option<&str> {
    let session = message.get("_session").as_object()?;
    let part = |name: &str| session.get(name).and_then(Value::as_str);
    (part("type") == Some("websocket")).then(|| part("id").unwrap_or_default())
}
