//! `websocket-client`: a WebSocket that is opened to a server, and opened again when it is lost.

use super::hub::Hub;
use crate::expression::typed::text_of;
use crate::node::{BoxedNode, Build, Closing, Host, Level, Mailbox, Node, Task, Wake, boxed};
use crate::nodes::network::connect::{self, Stream};
use crate::nodes::network::http::http_proxy;
use crate::nodes::network::tls::Trust;
use crate::ws_endpoints::{Frame, Outbox, Queued, outbox};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as WsMessage;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use url::Url;
use value::{Failure, Message, Value, coerce};

/// The delay before a client reconnects. 3 s, as in Node-RED.
const RECONNECT: Duration = Duration::from_secs(3);

/// The time-out for the closing handshake when the node closes. 1 s, as in Node-RED.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    path: SmolStr,
    tls: SmolStr,
    wholemsg: Json,
    hb: Json,
    subprotocol: Json,
    headers: Vec<Header>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Header {
    key_type: SmolStr,
    key_value: SmolStr,
    value_type: SmolStr,
    value_value: SmolStr,
}

struct WebSocketClient {
    properties: Properties,
    hub: Rc<Hub>,
    task: Option<Task>,
    /// The connection that is open or on its way.
    id: SmolStr,
}

/// An event of the connection's task.
enum ClientEvent {
    Connecting,
    Open(Outbox),
    Frame(Frame),
    Failed(Failure),
    Closed,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    // The truth is not enough (observed).
    let whole = properties.wholemsg == "true";
    Ok(boxed(WebSocketClient {
        properties,
        hub: Rc::new(Hub::new(whole, false)),
        task: None,
        id: SmolStr::default(),
    }))
}

impl Node<ClientEvent> for WebSocketClient {
    fn start(&mut self, host: &mut Host<'_, ClientEvent>) {
        host.publish(Rc::clone(&self.hub));
        // When all config nodes have started: the `tls-config` may be one of those that follow.
        host.after(Duration::ZERO);
    }

    fn receive(&mut self, _message: Message, _host: &mut Host<'_, ClientEvent>) {}

    fn wake(&mut self, wake: Wake, host: &mut Host<'_, ClientEvent>) {
        if matches!(wake, Wake::Timer(_)) {
            self.begin(host);
        }
    }

    fn event(&mut self, event: ClientEvent, host: &mut Host<'_, ClientEvent>) {
        match event {
            ClientEvent::Connecting => {
                self.id = host.fresh_id();
                self.hub.connecting.set(true);
            }
            ClientEvent::Open(outbox) => self.hub.opened(&self.id, outbox),
            ClientEvent::Frame(frame) => self.hub.received(&self.id, frame, &None),
            ClientEvent::Failed(failure) => {
                host.log(Level::Debug, failure.to_string());
                self.hub.failed(&self.id);
            }
            ClientEvent::Closed => {
                self.hub.connecting.set(false);
                self.hub.closed(&self.id);
            }
        }
    }

    fn close(&mut self, _removed: bool, _host: &mut Host<'_, ClientEvent>) -> Option<Closing> {
        let task = self.task.take()?;
        if self.hub.connecting.get() {
            return Some(task.end());
        }
        // The task closes the connection in order when the last sender is dropped.
        self.hub.close();
        let ended = task.ended();
        Some(Box::pin(async move {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, ended).await;
        }))
    }
}

impl WebSocketClient {
    fn begin(&mut self, host: &mut Host<'_, ClientEvent>) {
        match self.plan(host) {
            Ok(plan) => {
                let hub = Rc::clone(&self.hub);
                self.task = Some(Task::run(plan.run(host.mailbox(), hub)));
            }
            Err(failure) => host.log(Level::Error, failure.to_string()),
        }
    }

    fn plan(&self, host: &mut Host<'_, ClientEvent>) -> Result<Plan, Failure> {
        let own = &self.properties;
        let url = Url::parse(&own.path).map_err(|e| Failure::error(e.to_string()))?;
        let trust = match host.lookup(&own.tls) {
            Some(tls) => Trust::Own(tls),
            None => Trust::Default(Rc::default(), true),
        };
        let protocols = text_of(&own.subprotocol);
        let protocols: Vec<&str> = protocols
            .split(',')
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .collect();
        let mut headers = Vec::new();
        if !protocols.is_empty() {
            headers.push(("sec-websocket-protocol".into(), protocols.join(", ")));
        }
        for header in &own.headers {
            let name = match header.key_type.as_str() {
                "other" => header.key_value.clone(),
                fixed => fixed.into(),
            };
            let value = match header.value_type.as_str() {
                "other" => header.value_value.to_string(),
                "env" => {
                    let text = &header.value_value;
                    let value = match host.info().env(text) {
                        Value::Undefined => host.info().container.env.expand(text),
                        own => own,
                    };
                    coerce::to_text(&value).to_string()
                }
                fixed => fixed.to_owned(),
            };
            if !name.is_empty() && !value.is_empty() {
                headers.push((name, value));
            }
        }
        let seconds = coerce::parse_float(&text_of(&own.hb)).trunc();
        Ok(Plan {
            url,
            trust,
            headers,
            heartbeat: Duration::try_from_secs_f64(seconds)
                .ok()
                .filter(|beat| !beat.is_zero()),
        })
    }
}

/// The parameters of the connection.
struct Plan {
    url: Url,
    trust: Trust,
    headers: Vec<(SmolStr, String)>,
    heartbeat: Option<Duration>,
}

impl Plan {
    /// Connects again and again, until the node closes.
    async fn run(self, mailbox: Mailbox<ClientEvent>, hub: Rc<Hub>) {
        loop {
            mailbox.send(ClientEvent::Connecting);
            match self.open().await {
                Ok(socket) => {
                    let (outbox, frames) = outbox();
                    mailbox.send(ClientEvent::Open(outbox));
                    let end = self.carry(socket, frames, &mailbox, &hub).await;
                    if let End::Left = end {
                        return;
                    }
                    if let End::Failed(failure) = end {
                        mailbox.send(ClientEvent::Failed(failure));
                    }
                }
                Err(failure) => mailbox.send(ClientEvent::Failed(failure)),
            }
            mailbox.send(ClientEvent::Closed);
            tokio::time::sleep(RECONNECT).await;
        }
    }

    async fn open(&self) -> Result<WebSocketStream<Stream>, Failure> {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or(80);
        let gate = http_proxy::gate(&self.url, None).map_err(Failure::error)?;
        let tls = (self.url.scheme() == "wss").then(|| self.trust.tls());
        let stream = connect::open(gate.as_ref(), host, port, tls).await?;
        let opened = tokio_tungstenite::client_async(self.request()?, stream).await;
        let (socket, _) = opened.map_err(|e| Failure::error(e.to_string()))?;
        Ok(socket)
    }

    fn request(&self) -> Result<Request, Failure> {
        let wrong = |e: &dyn std::fmt::Display| Failure::error(e.to_string());
        let mut request = self
            .url
            .as_str()
            .into_client_request()
            .map_err(|e| wrong(&e))?;
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|e| wrong(&e))?;
            let value = HeaderValue::from_str(value).map_err(|e| wrong(&e))?;
            request.headers_mut().insert(name, value);
        }
        Ok(request)
    }

    /// Carries frames both ways until the connection ends, or the node lets go of its sender.
    async fn carry(
        &self,
        mut socket: WebSocketStream<Stream>,
        mut frames: mpsc::Receiver<Queued>,
        mailbox: &Mailbox<ClientEvent>,
        hub: &Hub,
    ) -> End {
        let period = self.heartbeat.unwrap_or(Duration::from_hours(1));
        let mut beat = tokio::time::interval(period);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is at once.
        beat.tick().await;
        let mut waits = false;
        loop {
            let paused = hub.is_full();
            tokio::select! {
                // The response to a ping may be behind what is not read.
                () = hub.room(), if paused => waits = false,
                message = socket.next(), if !paused => match message {
                    Some(Ok(WsMessage::Text(text))) => {
                        mailbox.send(ClientEvent::Frame(Frame::Text(text)));
                        tokio::task::yield_now().await;
                    }
                    Some(Ok(WsMessage::Binary(bytes))) => {
                        mailbox.send(ClientEvent::Frame(Frame::Binary(bytes)));
                        tokio::task::yield_now().await;
                    }
                    Some(Ok(WsMessage::Ping(_) | WsMessage::Pong(_))) => waits = false,
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return End::of(&error),
                    None => return End::Lost,
                },
                queued = frames.recv() => {
                    let Some(queued) = queued else {
                        close_handshake(socket).await;
                        return End::Left;
                    };
                    let message = match queued.frame {
                        Frame::Text(text) => WsMessage::Text(text),
                        Frame::Binary(bytes) => WsMessage::binary(bytes),
                    };
                    if let Err(error) = socket.send(message).await {
                        return End::of(&error);
                    }
                }
                _ = beat.tick(), if self.heartbeat.is_some() => {
                    if waits && !paused {
                        return End::Failed(Failure::error("timeout"));
                    }
                    waits = true;
                    if let Err(error) = socket.send(WsMessage::Ping(Vec::new().into())).await {
                        return End::of(&error);
                    }
                }
            }
        }
    }
}

/// Why a connection ended.
enum End {
    /// The node closes.
    Left,
    Lost,
    Failed(Failure),
}

impl End {
    fn of(error: &tokio_tungstenite::tungstenite::Error) -> Self {
        use tokio_tungstenite::tungstenite::Error;
        match error {
            Error::ConnectionClosed | Error::AlreadyClosed | Error::Protocol(_) | Error::Io(_) => {
                Self::Lost
            }
            other => Self::Failed(Failure::error(other.to_string())),
        }
    }
}

/// Performs the closing handshake: the node's close frame, then the server's.
async fn close_handshake(mut socket: WebSocketStream<Stream>) {
    if socket.close(None).await.is_ok() {
        while let Some(Ok(_)) = socket.next().await {}
    }
}

/// Whether this value is a text, for messages that are.
pub(super) fn text_frame(value: &Value) -> Option<Frame> {
    match value {
        Value::Buffer(bytes) => Some(Frame::Binary(bytes.as_ref().clone())),
        other => {
            let text = coerce::to_output_text(other);
            (!text.is_empty()).then(|| Frame::Text(text.into_owned().into()))
        }
    }
}
