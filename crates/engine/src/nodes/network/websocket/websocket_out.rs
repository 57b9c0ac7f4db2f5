//! `websocket out`: says payloads, or whole messages, over a WebSocket: to whom a message came from, or to all.

use super::hub::{Hub, HubEvent};
use super::websocket_client::text_frame;
use super::websocket_in::Properties;
use crate::node::{Build, Closing, Host, Level, Node, Wake};
use crate::ws_endpoints::Frame;
use std::rc::Rc;
use value::{Failure, Message, Object, Value, json};

struct WebSocketOut {
    properties: Properties,
    hub: Option<Rc<Hub>>,
}

pub(in crate::nodes) fn build(
    build: &Build<'_>,
    _: &mut Host<'_>,
) -> Result<Box<dyn Node>, Failure> {
    Ok(Box::new(WebSocketOut {
        properties: build.properties()?,
        hub: None,
    }))
}

impl Node for WebSocketOut {
    fn start(&mut self, host: &mut Host<'_>) {
        self.hub = self.properties.hub(host, false);
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
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
                Some(id) if hub.replies() => hub.say(Some(id), &frame),
                Some(_) => {}
                None if hub.connecting.get() => {
                    let words = "An error occurred while sending:  Error: WebSocket is not open: readyState 0 (CONNECTING)";
                    host.log(Level::Warn, words);
                }
                None => hub.say(None, &frame),
            }
        }
        host.done(message);
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        if let Wake::Finished(output) = wake
            && let Ok(told) = output.downcast::<HubEvent>()
            && let HubEvent::Badge(status) = *told
        {
            host.status(status);
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
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
