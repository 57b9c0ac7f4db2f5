//! An editor's channel: a WebSocket to `/comms`, as a browser or a program opens it.

use crate::client::Door;
use crate::harness::PATIENCE;
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

/// What a channel says next.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
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
    /// Messages of a batch of which others were asked for.
    ahead: VecDeque<Json>,
}

impl Door {
    /// Opens `/comms` with more headers; an error is the answer that was no `101`.
    pub async fn open_comms(&self, headers: &[(&str, &str)]) -> Result<(Channel, Response), Error> {
        let tls = Arc::new(self.tls(&["http/1.1"]));
        let from = Ipv4Addr::LOCALHOST.into();
        let stream = self.shake_hands(tls, from, "localhost").await.unwrap();
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
        channel.say(&json!({ "auth": token })).await;
        assert_eq!(channel.hear().await, Told::Auth("ok".to_owned()));
        channel
    }
}

impl Channel {
    pub async fn say(&mut self, frame: &Json) {
        self.say_text(&frame.to_string()).await;
    }

    pub async fn say_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    pub async fn subscribe(&mut self, topic: &str) {
        self.say(&json!({ "subscribe": topic })).await;
    }

    /// What comes next, heartbeats aside.
    pub async fn hear(&mut self) -> Told {
        let heard = async {
            loop {
                match self.hear_all().await {
                    Told::Batch(batch) if batch.len() == 1 && batch[0]["topic"] == "hb" => {}
                    told => return told,
                }
            }
        };
        timeout(PATIENCE, heard)
            .await
            .expect("only heartbeats come")
    }

    /// What comes next.
    pub async fn hear_all(&mut self) -> Told {
        let next = timeout(PATIENCE, self.socket.next()).await;
        match next.expect("the channel is silent") {
            Some(Ok(Message::Text(text))) => match serde_json::from_str(&text).unwrap() {
                Json::Array(batch) => Told::Batch(batch),
                other => Told::Auth(other["auth"].as_str().unwrap().to_owned()),
            },
            Some(Ok(Message::Close(frame))) => Told::Closed(frame.map(|frame| frame.code.into())),
            None => Told::Closed(Some(1006)),
            other => panic!("{other:?}"),
        }
    }

    /// The next batch.
    pub async fn batch(&mut self) -> Vec<Json> {
        match self.hear().await {
            Told::Batch(batch) => batch,
            other => panic!("{other:?}"),
        }
    }

    /// What is picked of the next message that has it; other messages before it are dropped.
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
        let found = timeout(PATIENCE, found).await;
        found.expect("nothing of that comes")
    }

    /// The data of the next message of a topic; other messages before it are dropped.
    pub async fn topic(&mut self, topic: &str) -> Json {
        self.find(|message| (message["topic"] == topic).then(|| message["data"].clone()))
            .await
    }

    /// Hears that it must go: `{"auth":"fail"}`, then a close without a code.
    pub async fn is_sent_away(&mut self) {
        self.ends_with(&Told::Auth("fail".to_owned())).await;
        assert_eq!(self.hear().await, Told::Closed(None));
    }

    /// Hears batches, then this.
    pub async fn ends_with(&mut self, last: &Told) {
        loop {
            match self.hear().await {
                Told::Batch(_) => {}
                told => return assert_eq!(told, *last),
            }
        }
    }
}
