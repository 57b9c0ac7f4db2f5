//! `websocket-listener`: each client opens a WebSocket to a path of the gateway.
//!
//! As in Node-RED, the path decides: a configuration whose path is a URL of a WebSocket is a
//! client, whatever its type.

use super::hub::Hub;
use super::websocket_client;
use crate::node::{BoxedNode, Build, Closing, Host, Level, Node, Wake, boxed};
use crate::ws_endpoints::Event;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::HashMap;
use std::rc::Rc;
use tokio::sync::watch;
use value::{Failure, Message};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    path: SmolStr,
    wholemsg: Json,
}

struct WebSocketListener {
    path: SmolStr,
    hub: Rc<Hub>,
    /// The session id of each connection.
    ids: HashMap<u64, SmolStr>,
}

pub(in crate::nodes) fn build(
    build: &Build<'_>,
    host: &mut Host<'_>,
) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let scheme = properties.path.to_ascii_lowercase();
    if scheme.starts_with("ws://") || scheme.starts_with("wss://") {
        return websocket_client::build(build, host);
    }
    // The truth is not enough (observed).
    let whole = properties.wholemsg == "true";
    Ok(boxed(WebSocketListener {
        path: properties.path,
        hub: Rc::new(Hub::new(whole, true)),
        ids: HashMap::new(),
    }))
}

impl Node for WebSocketListener {
    fn start(&mut self, host: &mut Host<'_>) {
        host.publish(Rc::clone(&self.hub));
        let (full, connections) = watch::channel(false);
        match host.listen_sockets(&self.path, connections) {
            Ok(()) => {
                let (hub, pressure) = (Rc::clone(&self.hub), host.pressure());
                host.run(async move {
                    loop {
                        full.send_replace(hub.is_full());
                        pressure.changed().await;
                    }
                });
            }
            Err(failure) => host.log(Level::Error, failure.to_string()),
        }
    }

    fn receive(&mut self, _message: Message, _host: &mut Host<'_>) {}

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        let Wake::Socket(connection, event) = wake else {
            return;
        };
        match event {
            Event::Open(outbox) => {
                let id = host.fresh_id();
                self.hub.opened(&id, outbox);
                self.ids.insert(connection, id);
            }
            Event::Frame(frame, permit) => {
                if let Some(id) = self.ids.get(&connection) {
                    self.hub.received(id, frame, &Some(Rc::new(permit)));
                }
            }
            Event::Closed => {
                if let Some(id) = self.ids.remove(&connection) {
                    self.hub.closed(&id);
                }
            }
        }
    }

    fn close(&mut self, _removed: bool, _host: &mut Host<'_>) -> Option<Closing> {
        self.hub.close();
        None
    }
}
