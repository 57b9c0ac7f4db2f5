//! [`WebSocketUpstream`]: a runtime behind the gateway that accepts `WebSocket` handshakes and
//! echoes, or follows the [`Plan`] of a test.

use crate::harness::{public, until};
use futures_util::{SinkExt, StreamExt};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

/// What the runtime does with a request.
pub enum Plan {
    /// Sends this and closes.
    Respond(String),
    /// Sends this and nothing more.
    Hang(String),
    /// Sends this, then echoes every byte.
    Bytes(String),
    /// Sends this, then echoes every message.
    Messages(String),
    /// Sends this, then frames without end.
    Flood(String),
}

/// A runtime that speaks WebSocket.
pub struct WebSocketUpstream {
    pub address: SocketAddr,
    /// The heads of the requests that came, health checks aside.
    heads: Arc<Mutex<Vec<String>>>,
    /// How each WebSocket ended.
    ends: Arc<Mutex<Vec<String>>>,
    pub task: JoinHandle<()>,
}

impl WebSocketUpstream {
    /// One that echoes.
    pub async fn echo() -> Self {
        Self::start(|head| Plan::Messages(agree(head, ""))).await
    }

    pub async fn start(plan: impl Fn(&str) -> Plan + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heads, ends) = <(Arc<Mutex<Vec<_>>>, Arc<Mutex<Vec<_>>>)>::default();
        let (all, ended, plan) = (Arc::clone(&heads), Arc::clone(&ends), Arc::new(plan));
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (all, ended, plan) = (Arc::clone(&all), Arc::clone(&ended), Arc::clone(&plan));
                connections.spawn(async move {
                    let end = serve(tcp, &*plan, |head| all.lock().unwrap().push(head)).await;
                    ended.lock().unwrap().extend(end);
                });
            }
        });
        Self {
            address,
            heads,
            ends,
            task,
        }
    }

    pub fn config(&self, more: &str) -> String {
        let address = self.address;
        format!(
            "[upstream]\nurl = \"http://{address}\"\nhealth = \"1h\"\n{more}\n{}",
            public(&["/open"])
        )
    }

    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    pub async fn ended(&self, how: &str) {
        let ends = || self.ends.lock().unwrap().clone();
        until(how, async || ends().iter().any(|end| end == how)).await;
    }
}

/// The response that accepts a handshake, with more header lines.
pub fn agree(head: &str, more: &str) -> String {
    let mut lines = head.lines();
    let key = lines
        .find_map(|line| line.strip_prefix("sec-websocket-key: "))
        .unwrap_or_default();
    let accept = derive_accept_key(key.as_bytes());
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n{more}\r\n"
    )
}

/// How the WebSocket ended, if it became one.
async fn serve(
    mut tcp: TcpStream,
    plan: &(dyn Fn(&str) -> Plan + Sync),
    note: impl Fn(String),
) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    if head.contains("/auth/login") {
        return None;
    }
    note(head.clone());
    match plan(&head) {
        Plan::Respond(response) => drop(tcp.write_all(response.as_bytes()).await),
        Plan::Hang(response) => {
            tcp.write_all(response.as_bytes()).await.unwrap();
            let _ = tcp.read_to_end(&mut Vec::new()).await;
        }
        Plan::Bytes(response) => {
            tcp.write_all(response.as_bytes()).await.unwrap();
            let (mut read, mut write) = tcp.split();
            let _ = tokio::io::copy(&mut read, &mut write).await;
        }
        Plan::Flood(response) => {
            tcp.write_all(response.as_bytes()).await.unwrap();
            let frame = [&[0x82, 126, 0xff, 0xff][..], &vec![b'x'; 0xffff]].concat();
            while tcp.write_all(&frame).await.is_ok() {}
        }
        Plan::Messages(response) => {
            tcp.write_all(response.as_bytes()).await.unwrap();
            return Some(
                echo(WebSocketStream::from_raw_socket(tcp, Role::Server, None).await).await,
            );
        }
    }
    None
}

/// Echoes every message; closes at "bye".
async fn echo(mut socket: WebSocketStream<TcpStream>) -> String {
    while let Some(message) = socket.next().await {
        let sent = match message {
            Ok(Message::Close(frame)) => {
                let code = frame.map_or(1005, |frame| frame.code.into());
                while socket.next().await.is_some() {}
                return format!("closed with {code}");
            }
            Ok(Message::Text(text)) if text == "bye" => {
                let code = CloseCode::from(4002);
                let reason = "bye".into();
                socket.close(Some(CloseFrame { code, reason })).await
            }
            Ok(message @ (Message::Text(_) | Message::Binary(_))) => socket.send(message).await,
            Ok(_) => Ok(()),
            Err(_) => break,
        };
        if sent.is_err() {
            break;
        }
    }
    "broke off".to_owned()
}
