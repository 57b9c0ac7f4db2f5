//! WebSocket connections of flows through the gateway: authorization, messages, limits, and their
//! end.

use crate::client::{Client, Raw};
use crate::harness::{Gateway, Process, until};
use crate::stopwatch::Stopwatch;
use crate::websocket_upstream::{Plan, WebSocketUpstream, agree};
use futures_util::{SinkExt, StreamExt};
use hyper::header::{HeaderName, HeaderValue};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

pub type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// Opens a WebSocket with some headers.
pub async fn open(client: &Client, path: &str, headers: &[(&str, &str)]) -> Result<Socket, Error> {
    let url = format!("wss://{}{path}", client.address);
    let mut request = url.into_client_request().unwrap();
    for &(name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        let value = HeaderValue::from_str(value).unwrap();
        request.headers_mut().insert(name, value);
    }
    let (socket, _) = client_async(request, client.raw().await.0).await?;
    Ok(socket)
}

pub async fn open_as(client: &Client, token: &str) -> Result<Socket, Error> {
    open(
        client,
        "/ws",
        &[("Authorization", &format!("Bearer {token}"))],
    )
    .await
}

/// Says something and hears it again.
pub async fn try_out(socket: &mut Socket) {
    socket.send("hello".into()).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), "hello".into());
}

/// The code that the other end closes with, after which nothing comes.
pub async fn closing(mut socket: Socket) -> u16 {
    loop {
        match socket.next().await.unwrap().unwrap() {
            Message::Close(frame) => {
                assert!(socket.next().await.is_none());
                return frame.map_or(1005, |frame| frame.code.into());
            }
            message => drop(message),
        }
    }
}

/// A handshake as bytes, with some lines more.
pub fn handshake(client: &Client, path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n",
        client.address
    )
}

/// Hears until this has come.
pub async fn receive_until(raw: &mut Raw, end: &str) -> String {
    let mut received = String::new();
    while !received.contains(end) {
        let piece = raw.receive().await;
        assert!(!piece.is_empty(), "it ends after {received}");
        received.push_str(&piece);
    }
    received
}

/// Waits until so many have been closed for this cause.
pub async fn closed_by(client: &Client, cause: &str, count: f64) {
    let series = format!("flowgate_upstream_tunnels_closed_total{{cause=\"{cause}\"}}");
    until(&series, async || {
        client.metric(&series).await == Some(count)
    })
    .await;
}

/// Waits until the only one has been closed for this cause.
pub async fn closed(client: &Client, cause: &str) {
    closed_by(client, cause, 1.0).await;
    let open = "flowgate_upstream_tunnels_open";
    until("none is open", async || {
        client.metric(open).await == Some(0.0)
    })
    .await;
    none_in_flight(client).await;
}

/// Waits until the upstream has no request, health checks included.
pub async fn none_in_flight(client: &Client) {
    let in_flight = "flowgate_upstream_requests_in_flight";
    until("none is in flight", async || {
        client.metric(in_flight).await == Some(0.0)
    })
    .await;
}

#[tokio::test]
async fn messages_of_all_kinds_and_sizes_pass_both_ways_and_so_does_the_close() {
    let far = WebSocketUpstream::echo().await;
    let gateway = Gateway::with(&far.config(""));
    let token = gateway.sign_in("reader").await;
    let mut socket = open_as(&gateway, &token).await.unwrap();
    let open = "flowgate_upstream_tunnels_open";
    assert_eq!(gateway.metric(open).await, Some(1.0));
    none_in_flight(&gateway).await;

    let large: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    for message in [
        Message::text("text: äöü"),
        Message::binary(vec![0, 255, 1]),
        Message::text(""),
        Message::binary(vec![7; 126]),
        Message::binary(large),
    ] {
        socket.send(message.clone()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), message);
    }
    let part = |text: &'static str, code, last| {
        Message::Frame(Frame::message(text, OpCode::Data(code), last))
    };
    socket.send(part("in ", Data::Text, false)).await.unwrap();
    socket
        .send(Message::Ping("still there?".into()))
        .await
        .unwrap();
    socket
        .send(part("parts", Data::Continue, true))
        .await
        .unwrap();
    let pong = socket.next().await.unwrap().unwrap();
    assert_eq!(pong, Message::Pong("still there?".into()));
    assert_eq!(socket.next().await.unwrap().unwrap(), "in parts".into());

    let code = CloseCode::from(4001);
    let reason = "enough".into();
    socket
        .close(Some(CloseFrame { code, reason }))
        .await
        .unwrap();
    assert_eq!(closing(socket).await, 4001);
    far.ended("closed with 4001").await;
    closed(&gateway, "client").await;
    for direction in ["up", "down"] {
        let series = format!("flowgate_upstream_tunnel_bytes_total{{direction=\"{direction}\"}}");
        assert!(gateway.metric(&series).await >= Some(1_048_576.0));
    }
    let opened = "flowgate_upstream_tunnels_total";
    assert_eq!(gateway.metric(opened).await, Some(1.0));
}

#[tokio::test]
async fn the_close_code_of_the_flow_arrives() {
    let far = WebSocketUpstream::echo().await;
    let gateway = Gateway::with(&far.config(""));
    let mut socket = open(&gateway, "/open", &[]).await.unwrap();
    socket.send("bye".into()).await.unwrap();
    assert_eq!(closing(socket).await, 4002);
    closed(&gateway, "upstream").await;
}

#[tokio::test]
async fn without_the_permission_a_tunnel_gets_401_and_the_upstream_receives_nothing() {
    let far = WebSocketUpstream::echo().await;
    let gateway = Gateway::with(&far.config(""));
    let deployer = gateway.sign_in("deployer").await;
    for token in [None, Some("x".repeat(43)), Some(deployer)] {
        let headers = token.map(|token| format!("Bearer {token}"));
        let headers = headers
            .as_ref()
            .map(|value| ("Authorization", value.as_str()));
        match open(&gateway, "/ws", headers.as_slice()).await {
            Err(Error::Http(response)) => assert_eq!(response.status(), 401),
            other => panic!("{other:?}"),
        }
    }
    assert!(far.heads().is_empty());
    let mut socket = open(&gateway, "/open", &[]).await.unwrap();
    try_out(&mut socket).await;
}

#[tokio::test]
async fn a_tunnel_ends_at_once_with_its_token() {
    let far = WebSocketUpstream::echo().await;
    let gateway = Gateway::with(&far.config(""));
    let (token, other) = (
        gateway.sign_in("reader").await,
        gateway.sign_in("reader").await,
    );
    let mut socket = open_as(&gateway, &token).await.unwrap();
    let mut stays = open_as(&gateway, &other).await.unwrap();
    try_out(&mut socket).await;
    let revoked = gateway.post("/auth/revoke").token(&token);
    let revoked = revoked.form(&[("token", &token)]).send().await;
    assert_eq!(revoked.status, 200);
    assert_eq!(closing(socket).await, 1008);
    far.ended("broke off").await;
    try_out(&mut stays).await;
    closed_by(&gateway, "session", 1.0).await;
}

#[tokio::test]
async fn a_tunnel_ends_when_its_token_expires() {
    let far = WebSocketUpstream::echo().await;
    let gateway = Gateway::with(&far.config("[auth]\nlifetime = \"1s\""));
    let token = gateway.sign_in("reader").await;
    let Ok(socket) = open_as(&gateway, &token).await else {
        assert!(
            !gateway.accepts_token(&token).await,
            "it has expired before"
        );
        return;
    };
    assert_eq!(closing(socket).await, 1008);
    assert!(!gateway.accepts_token(&token).await);
    closed(&gateway, "session").await;
}

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_tunnel() {
    let far = WebSocketUpstream::start(|head| Plan::Flood(agree(head, ""))).await;
    let gateway = Gateway::with(&far.config("[timeouts]\nbody_idle = \"300ms\""));
    let token = gateway.sign_in("reader").await;
    let _unread = open_as(&gateway, &token).await.unwrap();
    closed(&gateway, "slow").await;
    until("nothing is left of it", async || {
        gateway.metric("flowgate_connections_open").await == Some(0.0)
    })
    .await;
}

#[tokio::test]
async fn a_tunnel_of_a_token_that_is_not_used_ends_within_seconds() {
    let far = WebSocketUpstream::echo().await;
    let gateway = Gateway::with(&far.config("[auth]\nidle = \"2s\""));
    let token = gateway.sign_in("reader").await;
    let Ok(socket) = open_as(&gateway, &token).await else {
        return;
    };
    let stopwatch = Stopwatch::start();
    assert_eq!(closing(socket).await, 1008);
    // Two seconds, and five until it is looked at.
    stopwatch.assert_within(Duration::from_secs(10));
    assert!(!gateway.accepts_token(&token).await);
}

#[tokio::test]
async fn a_reload_ends_the_tunnels_that_are_no_longer_authorized() {
    let far = WebSocketUpstream::echo().await;
    let rule = |path: &str, needs: &str| format!("[[route]]\npath = \"{path}\"\n{needs}\n");
    let mine = |needs: &str| far.config("") + &rule("/mine", needs);
    let gateway = Gateway::with(&mine("permission = \"flows.read\""));
    let token = format!("Bearer {}", gateway.sign_in("deployer").await);
    let as_deployer = [("Authorization", token.as_str())];
    let mut mine_open = open(&gateway, "/mine", &as_deployer).await.unwrap();
    let mut public = open(&gateway, "/open", &[]).await.unwrap();
    assert!(gateway.reload(&mine("permission = \"flows.write\"")).await);
    try_out(&mut mine_open).await;
    assert!(gateway.reload(&mine("permission = \"special\"")).await);
    assert_eq!(closing(mine_open).await, 1008);
    try_out(&mut public).await;
    closed_by(&gateway, "permission", 1.0).await;
    assert!(gateway.reload("").await, "what was public is closed now");
    assert_eq!(closing(public).await, 1008);
    closed_by(&gateway, "permission", 2.0).await;
}

#[tokio::test]
async fn a_drain_closes_tunnels_with_going_away() {
    let far = WebSocketUpstream::echo().await;
    let gateway = Gateway::with(&far.config(""));
    let mut socket = open(&gateway, "/open", &[]).await.unwrap();
    try_out(&mut socket).await;
    let (code, ()) = tokio::join!(closing(socket), gateway.running.drain());
    assert_eq!(code, 1001);
    far.ended("broke off").await;
}

#[tokio::test]
async fn when_one_end_disconnects_the_other_is_closed() {
    let far = WebSocketUpstream::echo().await;
    let gateway = Gateway::with(&far.config(""));
    let socket = open(&gateway, "/open", &[]).await.unwrap();
    drop(socket);
    far.ended("broke off").await;
    closed(&gateway, "client").await;

    let mut socket = open(&gateway, "/open", &[]).await.unwrap();
    try_out(&mut socket).await;
    far.task.abort();
    assert_eq!(closing(socket).await, 1001);
    closed(&gateway, "upstream").await;
}

#[tokio::test]
async fn the_number_of_tunnels_is_limited() {
    let far = WebSocketUpstream::echo().await;
    let gateway = Gateway::with(&far.config("max_tunnels = 1"));
    let mut socket = open(&gateway, "/open", &[]).await.unwrap();
    match open(&gateway, "/open", &[]).await {
        Err(Error::Http(response)) => {
            assert_eq!(response.status(), 503);
            assert!(response.headers().contains_key("retry-after"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(far.heads().len(), 1);
    socket.close(None).await.unwrap();
    assert_eq!(closing(socket).await, 1005);
    closed(&gateway, "client").await;
    let mut socket = open(&gateway, "/open", &[]).await.unwrap();
    try_out(&mut socket).await;
}

#[tokio::test]
async fn the_log_has_a_line_when_it_opens_and_one_when_it_closes() {
    let far = WebSocketUpstream::echo().await;
    let directory = TempDir::new().unwrap();
    let lines = far.config("[log]\naccess = true");
    let gateway = Process::start(&lines, directory.path());
    let token = gateway.sign_in("reader").await;
    let mut socket = open_as(&gateway, &token).await.unwrap();
    try_out(&mut socket).await;
    socket.close(None).await.unwrap();
    assert_eq!(closing(socket).await, 1005);
    closed(&gateway, "client").await;
    let opened = gateway.wait_for_log("status=101");
    let ended = gateway.wait_for_log("closed=\"client\"");
    let id = |line: &str| line.split("id=").nth(1).unwrap()[..18].to_owned();
    assert_eq!(id(&opened), id(&ended));
    // Five letters and an empty Close, with their heads; the client's have keys of four bytes.
    for part in ["path=\"/ws\"", "received=17", "bytes=9", "user=\"reader\""] {
        assert!(ended.contains(part), "{part} in {ended}");
    }
    assert!(!opened.contains(&token) && !ended.contains(&token));
}

#[tokio::test]
async fn a_tunnel_passes_over_tls_on_both_sides() {
    let far = WebSocketUpstream::echo().await;
    let behind = Gateway::with(&far.config(""));
    let directory = TempDir::new().unwrap();
    let certificate = behind.directory.path().join("certs/self-signed.crt");
    std::fs::copy(certificate, directory.path().join("ca.pem")).unwrap();
    std::fs::write(
        directory.path().join("token"),
        behind.sign_in("admin").await,
    )
    .unwrap();
    let port = behind.address.port();
    let front = Gateway::open(
        &format!(
            "[upstream]\nurl = \"https://127.0.0.1:{port}\"\nca_file = \"ca.pem\"\ntoken_file = \"token\"\n\
             [[route]]\npath = \"/ws\"\npermission = \"http.read\"\naccount = true\n"
        ),
        directory,
    );
    let token = front.sign_in("reader").await;
    let mut socket = open_as(&front, &token).await.unwrap();
    try_out(&mut socket).await;
    let message = Message::binary(vec![9; 3 << 20]);
    socket.send(message.clone()).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), message);
    socket.close(None).await.unwrap();
    far.ended("closed with 1005").await;
    closed(&front, "client").await;
    closed(&behind, "client").await;
}
