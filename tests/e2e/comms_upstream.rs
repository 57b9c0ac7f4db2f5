//! Editors receive the events of the upstream over `/comms`: unchanged, and only while they are
//! authorized.
//!
//! The upstream is a real WebSocket server that writes down every frame.

use crate::comms_client::{Channel, ServerMessage};
use crate::harness::{Gateway, until};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value as Json, json};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::broadcast;
use tokio::task::{JoinHandle, JoinSet};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

const REVISION: &str = r#"[{"topic":"notification/runtime-deploy","data":{"revision":"r1"}}]"#;

/// A runtime with a channel of its own.
pub struct Runtime {
    address: SocketAddr,
    received: Arc<Mutex<Vec<String>>>,
    heads: Arc<Mutex<Vec<String>>>,
    publish: broadcast::Sender<String>,
    task: JoinHandle<()>,
}

impl Runtime {
    /// One that wants this token; `""`: none.
    pub async fn start(token: &'static str) -> Self {
        Self::at(crate::reverse_proxies::free_address(), token).await
    }

    async fn at(address: SocketAddr, token: &'static str) -> Self {
        let listener = crate::harness::listen(address).await;
        let address = listener.local_addr().unwrap();
        let (received, heads) = (
            Arc::<Mutex<Vec<_>>>::default(),
            Arc::<Mutex<Vec<_>>>::default(),
        );
        let publish = broadcast::Sender::new(1024);
        let (h, hs, s) = (Arc::clone(&received), Arc::clone(&heads), publish.clone());
        let task = tokio::spawn(async move {
            let mut channels = JoinSet::new();
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let events = s.subscribe();
                channels.spawn(channel(tcp, token, Arc::clone(&h), Arc::clone(&hs), events));
            }
        });
        Self {
            address,
            received,
            heads,
            publish,
            task,
        }
    }

    pub fn gateway(&self, lines: &str) -> Gateway {
        let address = self.address;
        Gateway::with(&format!(
            "[upstream]\nurl = \"http://{address}\"\nhealth = \"1h\"\n{lines}"
        ))
    }

    pub fn received(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }

    /// Waits until it has received this frame.
    pub async fn receives(&self, frame: &Json) {
        let wanted = frame.to_string();
        until(&wanted, async || self.received().contains(&wanted)).await;
    }

    fn publishes(&self, text: &str) {
        self.publish.send(text.to_owned()).unwrap();
    }

    async fn stop(self) -> SocketAddr {
        self.task.abort();
        let _ = self.task.await;
        self.address
    }
}

type Notes = Arc<Mutex<Vec<String>>>;

#[allow(clippy::result_large_err, reason = "the library's callback")]
async fn channel(
    mut tcp: TcpStream,
    token: &str,
    received: Notes,
    heads: Notes,
    mut events: broadcast::Receiver<String>,
) {
    let mut begin = [0; 15];
    tcp.peek(&mut begin).await.unwrap();
    if begin == *b"GET /auth/login" {
        // A health check; nothing else comes before it is answered.
        let well = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
        let read = tcp.read(&mut [0; 4096]).await.unwrap();
        assert!(read > 0);
        tcp.write_all(well).await.unwrap();
        return;
    }
    let note = |request: &Request, response: Response| {
        let sent = format!("{} {:?}", request.uri(), request.headers());
        heads.lock().unwrap().push(sent);
        Ok(response)
    };
    let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(tcp, note).await else {
        return;
    };
    let mut signed_in = token.is_empty();
    loop {
        let answer = tokio::select! {
            text = events.recv(), if signed_in => text.unwrap(),
            frame = socket.next() => match frame {
                Some(Ok(Message::Text(text))) => {
                    received.lock().unwrap().push(text.to_string());
                    let frame: Json = serde_json::from_str(&text).unwrap();
                    if let Some(shown) = frame.get("auth") {
                        signed_in = shown == token;
                    } else if frame["subscribe"] != "notification/#" && signed_in {
                        continue;
                    }
                    match (signed_in, frame.get("auth").is_some()) {
                        (true, true) => r#"{"auth":"ok"}"#.to_owned(),
                        (true, false) => REVISION.to_owned(),
                        (false, _) => r#"{"auth":"fail"}"#.to_owned(),
                    }
                }
                Some(Ok(_)) => continue,
                _ => return,
            },
        };
        if socket.send(Message::text(answer)).await.is_err() {
            return;
        }
        if !signed_in {
            let _ = socket.close(None).await;
            return;
        }
    }
}

fn revision() -> Json {
    json!({ "revision": "r1" })
}

async fn deployed(editor: &mut Channel) {
    assert_eq!(
        editor.topic("notification/runtime-deploy").await,
        revision()
    );
}

#[tokio::test]
async fn messages_pass_between_editor_and_upstream() {
    let upstream = Runtime::start("").await;
    let gateway = upstream.gateway("");
    let token = gateway.sign_in("reader").await;
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    deployed(&mut editor).await;
    let connect = json!({ "topic": "multiplayer/connect", "data": { "session": "s1" } });
    editor.send(&connect).await;
    upstream.receives(&connect).await;
    upstream.publishes(r#"{"auth":"ok"}"#);
    upstream.publishes(r#"[{"topic":"debug","data":{"msg":"é"}},{"topic":"x","data":1}]"#);
    let batch = editor.batch().await;
    assert_eq!(
        batch,
        [
            json!({ "topic": "debug", "data": { "msg": "é" } }),
            json!({ "topic": "x", "data": 1 }),
        ]
    );
    let all = [json!({ "subscribe": "notification/#" }), connect];
    assert_eq!(upstream.received(), all.map(|frame| frame.to_string()));
    let head = upstream.heads.lock().unwrap().join("\n");
    assert!(head.starts_with("/comms {"), "{head}");
    assert!(
        head.contains("x-forwarded-for") && !head.contains("authorization"),
        "{head}"
    );
}

#[tokio::test]
async fn no_channel_without_a_valid_token_reaches_the_upstream() {
    let upstream = Runtime::start("").await;
    let gateway = upstream.gateway("[comms]\nsign_in = \"100ms\"");
    let deployer = gateway.sign_in("deployer").await;
    for first in [
        Some(json!({ "auth": "nope" })),
        Some(json!({ "auth": deployer })),
        Some(json!({ "subscribe": "notification/#" })),
        None,
    ] {
        let mut editor = gateway.comms().await;
        if let Some(first) = first {
            editor.send(&first).await;
        }
        editor.is_rejected().await;
    }
    assert!(upstream.heads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_upstream_sees_the_gateways_token_and_never_the_editors() {
    let upstream = Runtime::start("a-token-of-ours").await;
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("token"), "a-token-of-ours\n").unwrap();
    let lines = format!(
        "[upstream]\nurl = \"http://{}\"\nhealth = \"1h\"\ntoken_file = \"token\"",
        upstream.address
    );
    let gateway = Gateway::open(&lines, directory);
    let token = gateway.sign_in("reader").await;
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    deployed(&mut editor).await;
    editor.send(&json!({ "auth": token })).await;
    assert_eq!(editor.receive().await, ServerMessage::Auth("ok".to_owned()));
    editor.subscribe("notification/#").await;
    deployed(&mut editor).await;
    let received = upstream.received();
    assert_eq!(
        received[0],
        json!({ "auth": "a-token-of-ours" }).to_string()
    );
    assert!(!received.concat().contains(&token));
    let heads = upstream.heads.lock().unwrap().join("\n");
    assert!(
        !heads.contains("authorization") && !heads.contains("cookie"),
        "{heads}"
    );
}

#[tokio::test]
async fn an_upstream_that_refuses_the_gateways_token_does_not_sign_the_editor_out() {
    let upstream = Runtime::start("another-token").await;
    let gateway = upstream.gateway("[comms]\nupstream_away = \"300ms\"");
    let token = gateway.sign_in("reader").await;
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    editor.ends_with(&ServerMessage::Closed(Some(1012))).await;
    let refused = gateway
        .metric("flowgate_upstream_errors_total{kind=\"unauthorized\"}")
        .await;
    assert!(refused.unwrap() >= 1.0);
}

#[tokio::test]
async fn an_editor_stays_connected_while_the_upstream_restarts_and_receives_retained_messages_again()
 {
    let upstream = Runtime::start("").await;
    let gateway = upstream.gateway("[comms]\nheartbeat = \"20ms\"");
    let token = gateway.sign_in("reader").await;
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    editor.subscribe("status/#").await;
    let connect = json!({ "topic": "multiplayer/connect", "data": { "session": "s1" } });
    editor.send(&connect).await;
    deployed(&mut editor).await;
    upstream.receives(&connect).await;
    let address = upstream.stop().await;
    // The gateway's own heartbeats keep the editor's connection busy.
    for _ in 0..3 {
        let ServerMessage::Batch(batch) = editor.receive_any().await else {
            panic!("it ended");
        };
        assert_eq!(batch[0]["topic"], "hb");
    }
    let late = json!({ "subscribe": "event-log/x" });
    editor.send(&late).await;
    let upstream = Runtime::at(address, "").await;
    deployed(&mut editor).await;
    upstream.receives(&connect).await;
    upstream.receives(&late).await;
    let mut received = upstream.received();
    received.sort();
    let mut wanted = [
        json!({ "subscribe": "notification/#" }),
        json!({ "subscribe": "status/#" }),
        late,
        connect,
    ]
    .map(|frame| frame.to_string());
    wanted.sort();
    assert_eq!(received, wanted);
    upstream.publishes(r#"[{"topic":"debug","data":{}}]"#);
    editor.topic("debug").await;
}

#[tokio::test]
async fn an_unavailable_upstream_ends_channels_after_the_time_out_and_opens_none() {
    let upstream = Runtime::start("").await;
    let gateway = upstream.gateway("[comms]\nupstream_away = \"100ms\"");
    let token = gateway.sign_in("reader").await;
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    deployed(&mut editor).await;
    upstream.stop().await;
    editor.ends_with(&ServerMessage::Closed(Some(1012))).await;
    let mut editor = gateway.editor(&token).await;
    editor.ends_with(&ServerMessage::Closed(Some(1012))).await;
    let closed = gateway
        .metric("flowgate_comms_closed_total{cause=\"upstream\"}")
        .await;
    assert_eq!(closed, Some(2.0));
}

#[tokio::test]
async fn a_session_that_ends_closes_its_connection_to_the_upstream() {
    let upstream = Runtime::start("").await;
    let gateway = upstream.gateway("");
    let token = gateway.sign_in("reader").await;
    let mut editor = gateway.editor(&token).await;
    editor.subscribe("notification/#").await;
    deployed(&mut editor).await;
    let revoked = gateway
        .post("/auth/revoke")
        .token(&token)
        .form(&[("token", &token)]);
    assert_eq!(revoked.send().await.status, 200);
    editor.is_rejected().await;
    until("the link is closed", async || {
        upstream.publish.receiver_count() == 0
    })
    .await;
}

#[tokio::test]
async fn a_slow_editor_is_disconnected_without_back_pressure_on_the_upstream() {
    let upstream = Runtime::start("").await;
    let gateway = upstream.gateway("[comms]\nqueue = \"64KiB\"");
    let token = gateway.sign_in("reader").await;
    let mut slow = gateway.editor(&token).await;
    slow.subscribe("notification/#").await;
    deployed(&mut slow).await;
    let mut quick = gateway.editor(&token).await;
    quick.subscribe("notification/#").await;
    deployed(&mut quick).await;
    let large = json!([{ "topic": "debug", "data": "x".repeat(60_000) }]).to_string();
    let slow_ones = "flowgate_comms_closed_total{cause=\"slow\"}";
    let mut said = 0;
    while gateway.metric(slow_ones).await != Some(1.0) {
        upstream.publishes(&large);
        quick.topic("debug").await;
        said += 1;
        assert!(said < 2_000, "it is never cut off");
    }
}

#[tokio::test]
async fn an_editors_channel_counts_as_a_tunnel_of_its_client_address() {
    let upstream = Runtime::start("").await;
    let gateway = upstream.gateway("max_tunnels_per_address = 1");
    let token = gateway.sign_in("reader").await;
    let mut first = gateway.editor(&token).await;
    first.subscribe("notification/#").await;
    deployed(&mut first).await;
    // What a second editor receives.
    let next = async || {
        let mut editor = gateway.comms().await;
        editor.send(&json!({ "auth": token })).await;
        let subscribe = json!({ "subscribe": "notification/#" }).to_string();
        let _ = editor.socket.send(Message::text(subscribe)).await;
        loop {
            match editor.receive().await {
                ServerMessage::Auth(result) => assert_eq!(result, "ok"),
                events => return events,
            }
        }
    };
    assert_eq!(next().await, ServerMessage::Closed(Some(1012)));
    assert_eq!(upstream.heads.lock().unwrap().len(), 1);
    drop(first);
    until("an editor that has left makes room", async || {
        matches!(next().await, ServerMessage::Batch(_))
    })
    .await;
}
