//! `websocket-listener`, `websocket-client`, `websocket in` and `websocket out` in a running
//! engine. Connections to a listener come through the gateway (see `tests/e2e`); here they are
//! joined to it directly.

use crate::bench::{Bench, debug};
use crate::http_server::{acceptor, certificate};
use crate::steps::send;
use engine::ws_endpoints::{Event, Frame, InboundPermit, Queued, WAITING, outbox};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

/// A tab in which `in` sends to `send`, and `out` shows what comes.
fn flow(config: &Json, more: &Json) -> Json {
    let mut config = config.clone();
    config["id"] = json!("w");
    let refer = |mut node: Json| {
        let kind = if config["type"] == "websocket-client" {
            "client"
        } else {
            "server"
        };
        node[kind] = json!("w");
        for (key, value) in more.as_object().unwrap() {
            node[key] = value.clone();
        }
        node
    };
    let listen = refer(
        json!({ "id": "ws-in", "type": "websocket in", "z": "t", "x": 1, "y": 1, "server": "", "client": "", "wires": [["out"]] }),
    );
    let send = refer(
        json!({ "id": "send", "type": "websocket out", "z": "t", "x": 1, "y": 1, "server": "", "client": "", "wires": [] }),
    );
    json!([
        { "id": "t", "type": "tab", "label": "T" }, config, listen, send, debug("out"),
        { "id": "in", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [], "wires": [["send"]] },
    ])
}

/// The next message at `out`, without its id, and the id of its session.
async fn came(bench: &mut Bench) -> (Json, String) {
    let (_, mut message) = bench.output().await;
    let message = message.as_object_mut().unwrap();
    message.remove("_msgid");
    let session = message.shift_remove("_session").unwrap();
    assert_eq!(session["type"], "websocket");
    (json!(message), session["id"].as_str().unwrap().to_owned())
}

async fn expect_status(bench: &mut Bench, text: &str, event: &str) {
    loop {
        let (id, status) = bench.status().await;
        if id == "send" && status["text"] == text && status["event"] == event {
            return;
        }
    }
}

/// A connection to the listener.
struct Client {
    tell: Box<dyn Fn(Event)>,
    frames: mpsc::Receiver<Queued>,
    room: Arc<Semaphore>,
}

impl Client {
    fn join(bench: &Bench, path: &str) -> Self {
        let listening = bench.engine.listening(path).unwrap();
        let tell = bench.engine.join(&listening);
        let (outbox, frames) = outbox();
        tell(Event::Open(outbox)).unwrap();
        Self {
            tell: Box::new(move |event| tell(event).unwrap()),
            frames,
            room: Arc::new(Semaphore::new(1)),
        }
    }

    async fn send(&self, frame: Frame) {
        let permit = Arc::clone(&self.room).acquire_owned().await.unwrap();
        (self.tell)(Event::Frame(frame, InboundPermit::new(permit, None, None)));
    }

    async fn receive(&mut self) -> Option<Frame> {
        self.frames.recv().await.map(|queued| queued.frame)
    }
}

fn text(text: &str) -> Frame {
    Frame::Text(text.into())
}

fn listener(path: &str, whole: bool) -> Json {
    json!({ "type": "websocket-listener", "path": path, "wholemsg": whole.to_string() })
}

#[tokio::test]
async fn payloads_come_and_go() {
    let mut bench = Bench::with(&flow(&listener("/ws/a", false), &json!({}))).await;
    assert!(bench.engine.listening("/ws").is_none());
    let mut clients = [
        Client::join(&bench, "/ws/a"),
        Client::join(&bench, "/WS/a/"),
    ];
    clients[0].send(text("hi")).await;
    let (message, session) = came(&mut bench).await;
    assert_eq!(message, json!({ "payload": "hi" }));
    clients[1].send(Frame::Binary(vec![1].into())).await;
    assert_eq!(came(&mut bench).await.0["payload"]["data"], json!([1]));
    for (payload, expected) in [
        (json!("all"), "all"),
        (json!({ "a": 1 }), r#"{"a":1}"#),
        (json!(5), "5"),
    ] {
        send(&bench, &json!({ "payload": payload })).await;
        for client in &mut clients {
            assert_eq!(client.receive().await.unwrap(), text(expected));
        }
    }
    send(&bench, &json!({ "payload": "" })).await;
    send(
        &bench,
        &json!({ "payload": "you", "_session": { "type": "websocket", "id": session } }),
    )
    .await;
    send(&bench, &json!({ "payload": "end" })).await;
    assert_eq!(clients[0].receive().await.unwrap(), text("you"));
    for client in &mut clients {
        assert_eq!(client.receive().await.unwrap(), text("end"));
    }
}

#[tokio::test]
async fn whole_messages_come_and_go() {
    let mut bench = Bench::with(&flow(&listener("ws", true), &json!({}))).await;
    let mut client = Client::join(&bench, "/ws");
    for (sent, expected) in [
        (
            r#"{"payload":1,"topic":"x"}"#,
            json!({ "payload": 1, "topic": "x" }),
        ),
        ("5", json!({ "payload": 5 })),
        ("no json", json!({ "payload": "no json" })),
    ] {
        client.send(text(sent)).await;
        assert_eq!(came(&mut bench).await.0, expected);
    }
    send(
        &bench,
        &json!({ "payload": 1, "topic": "t", "_msgid": "m", "_session": { "type": "other" } }),
    )
    .await;
    assert_eq!(
        client.receive().await.unwrap(),
        text(r#"{"_msgid":"m","payload":1,"topic":"t"}"#)
    );
}

#[tokio::test]
async fn the_status_shows_connections_and_a_restart_closes_them() {
    let deployed = flow(&listener("/ws", false), &json!({}));
    let mut bench = Bench::with(&deployed).await;
    let mut first = Client::join(&bench, "/ws");
    expect_status(&mut bench, "connected 1", "connect").await;
    let second = Client::join(&bench, "/ws");
    expect_status(&mut bench, "connected 2", "connect").await;
    (second.tell)(Event::Closed);
    expect_status(&mut bench, "connected 1", "disconnect").await;
    bench.deploy(&deployed, flows::DeploymentType::Full).await;
    assert_eq!(first.receive().await, None);
    let third = Client::join(&bench, "/ws");
    expect_status(&mut bench, "connected 1", "connect").await;
    (third.tell)(Event::Closed);
    expect_status(&mut bench, "common.status.disconnected", "disconnect").await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let bench = Bench::with(&flow(&listener("/ws", false), &json!({}))).await;
    let mut client = Client::join(&bench, "/ws");
    for _ in 0..=WAITING {
        send(&bench, &json!({ "payload": "x" })).await;
    }
    while !client.frames.is_closed() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let mut heard = 0;
    while client.receive().await.is_some() {
        heard += 1;
    }
    assert_eq!(heard, WAITING);
}

#[tokio::test]
async fn two_listeners_on_one_path_are_an_error() {
    let mut deployed = flow(&listener("/ws", false), &json!({}));
    let mut other = listener("/ws", false);
    other["id"] = json!("w2");
    deployed.as_array_mut().unwrap().push(other);
    let mut bench = Bench::with(&json!([])).await;
    bench.deploy(&deployed, flows::DeploymentType::Full).await;
    assert_eq!(
        bench.error().await,
        (
            "w2".into(),
            "Cannot have two WebSocket listeners on the same path: /ws".into()
        )
    );
    bench
        .deploy(
            &flow(&listener("/ws", false), &json!({ "server": "none" })),
            flows::DeploymentType::Full,
        )
        .await;
    assert_eq!(bench.error().await.1, "Missing server configuration");
}

#[tokio::test]
async fn a_client_exchanges_messages_with_a_server_and_reconnects() {
    let pair = certificate();
    for secure in [false, true] {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let scheme = if secure { "wss" } else { "ws" };
        let config = json!({ "type": "websocket-client", "path": format!("{scheme}://localhost:{port}/p"), "tls": "tls", "wholemsg": "false",
            "hb": "1", "subprotocol": "chat, log", "headers": [{ "keyType": "other", "keyValue": "X-Own", "valueType": "other", "valueValue": "1" }] });
        let mut deployed = flow(&config, &json!({}));
        deployed.as_array_mut().unwrap().push(json!({ "id": "tls", "type": "tls-config", "verifyservercert": true, "credentials": { "cadata": pair.0 } }));
        let mut bench = Bench::with(&deployed).await;
        for round in if secure {
            &["one"][..]
        } else {
            &["one", "two"]
        } {
            let (stream, _) = server.accept().await.unwrap();
            #[allow(clippy::result_large_err, reason = "the library's signature")]
            let check = |request: &Request, mut response: Response| {
                let header = |name: &str| request.headers().get(name).and_then(|v| v.to_str().ok());
                assert_eq!(
                    (header("x-own"), header("sec-websocket-protocol")),
                    (Some("1"), Some("chat, log"))
                );
                response
                    .headers_mut()
                    .insert("sec-websocket-protocol", "log".parse().unwrap());
                Ok(response)
            };
            if secure {
                let stream = acceptor(&pair.0, &pair.1).accept(stream).await.unwrap();
                talk(
                    tokio_tungstenite::accept_hdr_async(stream, check)
                        .await
                        .unwrap(),
                    &mut bench,
                    round,
                )
                .await;
            } else {
                talk(
                    tokio_tungstenite::accept_hdr_async(stream, check)
                        .await
                        .unwrap(),
                    &mut bench,
                    round,
                )
                .await;
            }
            expect_status(&mut bench, "common.status.disconnected", "disconnect").await;
        }
    }
}

async fn talk<S>(mut socket: tokio_tungstenite::WebSocketStream<S>, bench: &mut Bench, round: &str)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    expect_status(bench, "connected ", "connect").await;
    socket.send(Message::text(round)).await.unwrap();
    assert_eq!(came(bench).await.0, json!({ "payload": round }));
    send(bench, &json!({ "payload": { "to": round } })).await;
    let mut pinged = false;
    let mut heard = false;
    while !(pinged && heard) {
        match socket.next().await.unwrap().unwrap() {
            Message::Ping(_) => pinged = true,
            other => {
                assert_eq!(other, Message::text(json!({ "to": round }).to_string()));
                heard = true;
            }
        }
    }
}

#[tokio::test]
async fn an_unreachable_server_is_shown() {
    let port = testing::ports::free();
    let config = json!({ "type": "websocket-client", "path": format!("ws://127.0.0.1:{port}/"), "wholemsg": "false" });
    let mut bench = Bench::with(&flow(&config, &json!({}))).await;
    expect_status(&mut bench, "common.status.error", "error").await;
    expect_status(&mut bench, "common.status.disconnected", "disconnect").await;
}
