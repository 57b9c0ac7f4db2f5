//! [`Channel`]: a WebSocket to `/comms`, as an editor opens it. `client.comms()` opens one without
//! a sign-in, `client.editor(token)` signs in.

use crate::client::Client;
use crate::harness::TEST_TIMEOUT;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::{Error, Message};

/// What the gateway sends on a channel.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerMessage {
    /// `{"auth": "ok" | "fail"}`
    Auth(String),
    /// A batch of messages.
    Batch(Vec<Json>),
    /// The end, with the code that it was given.
    Closed(Option<u16>),
}

/// An open channel.
pub struct Channel {
    pub socket: WebSocketStream<TlsStream<TcpStream>>,
    /// Messages of the last batch that were not read yet.
    ahead: VecDeque<Json>,
}

impl Client {
    /// Opens `/comms` with more headers; an error is the answer that was no `101`.
    pub async fn open_comms(&self, headers: &[(&str, &str)]) -> Result<(Channel, Response), Error> {
        let tls = Arc::new(self.tls(&["http/1.1"]));
        let from = Ipv4Addr::LOCALHOST.into();
        let stream = self.connect_tls(tls, from, "localhost").await.unwrap();
        let mut request = format!("wss://{}/comms", self.address)
            .into_client_request()
            .unwrap();
        for (name, value) in headers {
            let name: hyper::header::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let (socket, response) = tokio_tungstenite::client_async(request, stream).await?;
        let ahead = VecDeque::new();
        Ok((Channel { socket, ahead }, response))
    }

    /// Opens `/comms`.
    pub async fn comms(&self) -> Channel {
        self.open_comms(&[]).await.unwrap().0
    }

    /// Opens `/comms` and signs in.
    pub async fn editor(&self, token: &str) -> Channel {
        let mut channel = self.comms().await;
        channel.send(&json!({ "auth": token })).await;
        assert_eq!(
            channel.receive().await,
            ServerMessage::Auth("ok".to_owned())
        );
        channel
    }
}

impl Channel {
    pub async fn send(&mut self, frame: &Json) {
        self.send_text(&frame.to_string()).await;
    }

    pub async fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    pub async fn subscribe(&mut self, topic: &str) {
        self.send(&json!({ "subscribe": topic })).await;
    }

    /// The next message that is not a heartbeat.
    pub async fn receive(&mut self) -> ServerMessage {
        let received = async {
            loop {
                match self.receive_any().await {
                    ServerMessage::Batch(batch)
                        if batch.len() == 1 && batch[0]["topic"] == "hb" => {}
                    message => return message,
                }
            }
        };
        timeout(TEST_TIMEOUT, received)
            .await
            .expect("only heartbeats come")
    }

    /// The next message.
    pub async fn receive_any(&mut self) -> ServerMessage {
        let next = timeout(TEST_TIMEOUT, self.socket.next()).await;
        match next.expect("the channel is silent") {
            Some(Ok(Message::Text(text))) => match serde_json::from_str(&text).unwrap() {
                Json::Array(batch) => ServerMessage::Batch(batch),
                other => ServerMessage::Auth(other["auth"].as_str().unwrap().to_owned()),
            },
            Some(Ok(Message::Close(frame))) => {
                ServerMessage::Closed(frame.map(|frame| frame.code.into()))
            }
            None => ServerMessage::Closed(Some(1006)),
            other => panic!("{other:?}"),
        }
    }

    /// The next batch.
    pub async fn batch(&mut self) -> Vec<Json> {
        match self.receive().await {
            ServerMessage::Batch(batch) => batch,
            other => panic!("{other:?}"),
        }
    }

    /// The first value that `pick` returns; messages before it are dropped.
    pub async fn find<T>(&mut self, pick: impl Fn(&Json) -> Option<T>) -> T {
        let found = async {
            loop {
                while let Some(message) = self.ahead.pop_front() {
                    if let Some(picked) = pick(&message) {
                        return picked;
                    }
                }
                self.ahead = self.batch().await.into();
            }
        };
        let found = timeout(TEST_TIMEOUT, found).await;
        found.expect("nothing of that comes")
    }

    /// The data of the next message of a topic; other messages before it are dropped.
    pub async fn topic(&mut self, topic: &str) -> Json {
        self.find(|message| (message["topic"] == topic).then(|| message["data"].clone()))
            .await
    }

    /// Expects `{"auth":"fail"}`, then a close without a code.
    pub async fn is_rejected(&mut self) {
        self.ends_with(&ServerMessage::Auth("fail".to_owned()))
            .await;
        assert_eq!(self.receive().await, ServerMessage::Closed(None));
    }

    /// Expects any number of batches, then this.
    pub async fn ends_with(&mut self, last: &ServerMessage) {
        loop {
            match self.receive().await {
                ServerMessage::Batch(_) => {}
                message => return assert_eq!(message, *last),
            }
        }
    }
}
