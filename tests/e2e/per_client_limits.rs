//! One client address takes at most its share of every pool: connections, memory, upstream
//! requests. Unread responses are dropped, request bodies have a minimum rate, and bodies of
//! anonymous clients are bounded.

use crate::client::{Client, PASSWORD, Request as Asked};
use crate::harness::{Gateway, TEST_TIMEOUT, flow_set, public, script, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::streaming_request::ChannelBody;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::header::HOST;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{self, FrameHeader};
use tokio_tungstenite::tungstenite::{Error, Message};

const GREEDY: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The address of another client.
const HONEST: &str = "127.0.0.2";

/// A part of the editor, 6.4 MB, that no buffer of the system holds: Linux lets a send buffer grow
/// to 4 MiB (`tcp_wmem`).
const LARGE_FILE: &str = "/vendor/monaco/dist/ts.worker.js";

/// A gateway that serves the editor, with other lines.
fn with_editor(lines: &str) -> Gateway {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_modules");
    Gateway::with(&format!(
        "[editor]\nmodules = \"{}\"\n{lines}",
        modules.display()
    ))
}

/// A connection over HTTP/2 whose streams have room for 64 KiB each.
struct Many {
    sender: http2::SendRequest<ChannelBody>,
    host: String,
    keeper: AbortHandle,
}

impl Drop for Many {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Many {
    /// One of its streams moves all the time.
    async fn connect(client: &Client, from: IpAddr) -> Self {
        let tls = Arc::new(client.tls(&["h2"]));
        let stream = client.connect_tls(tls, from, "localhost").await.unwrap();
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(65_535)
            .initial_connection_window_size(64 << 20)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let host = client.address.to_string();
        let (mut keeping, name) = (sender.clone(), host.clone());
        let keeper = tokio::spawn(async move {
            loop {
                let request = Request::get(format!("https://{name}/auth/login"));
                let request = request.body(ChannelBody(mpsc::channel(1).1)).unwrap();
                let Ok(response) = keeping.send_request(request).await else {
                    return;
                };
                let _ = response.into_body().collect().await;
                sleep(Duration::from_millis(50)).await;
            }
        });
        Self {
            sender,
            host,
            keeper: keeper.abort_handle(),
        }
    }

    /// A request with a body that is fed; its response is awaited elsewhere.
    fn begin(
        &self,
        method: &str,
        path: &str,
        kind: &str,
    ) -> (
        mpsc::Sender<Bytes>,
        impl Future<Output = hyper::Result<Response<Incoming>>> + use<>,
    ) {
        let (feed, body) = mpsc::channel(1);
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.host))
            .header("Content-Type", kind);
        let request = request.body(ChannelBody(body)).unwrap();
        let mut sender = self.sender.clone();
        (feed, async move {
            sender.ready().await?;
            sender.send_request(request).await
        })
    }

    fn get(&self, path: &str) -> impl Future<Output = hyper::Result<Response<Incoming>>> + use<> {
        self.begin("GET", path, "text/plain").1
    }
}

/// Asks for something so many times, on three connections, and reads nothing of what comes.
async fn ask_and_read_nothing(
    gateway: &Gateway,
    path: &'static str,
    count: usize,
) -> (Vec<Many>, JoinSet<Option<Response<Incoming>>>) {
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(Many::connect(gateway, GREEDY).await);
    }
    let mut unread = JoinSet::new();
    for n in 0..count {
        let response = connections[n % 3].get(path);
        unread.spawn(async move { response.await.ok() });
    }
    (connections, unread)
}

/// The responses that take all places which one address may have.
async fn whole_share(unread: &mut JoinSet<Option<Response<Incoming>>>) -> Vec<Response<Incoming>> {
    let mut held = Vec::new();
    while held.len() < 128 {
        let response = unread.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!(response.status(), 200);
        held.push(response);
    }
    held
}

async fn answers(request: Asked, what: &str) -> crate::client::Answer {
    timeout(TEST_TIMEOUT, request.send())
        .await
        .unwrap_or_else(|_| panic!("{what} waits without end"))
}

#[tokio::test]
async fn an_editor_loads_while_one_client_requests_all_files_and_reads_nothing() {
    let gateway = with_editor("[timeouts]\nbody_idle = \"1h\"");
    let (_connections, mut unread) = ask_and_read_nothing(&gateway, LARGE_FILE, 290).await;
    let _held = whole_share(&mut unread).await;
    let answer = answers(gateway.get(LARGE_FILE).from(HONEST), "an honest client").await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.len() > 1 << 20);
    // The client that has used up its share is refused.
    let answer = answers(gateway.get("/red/red.min.js"), "the greedy client").await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (503, "editor_busy")
    );
    assert_eq!(answer.header("retry-after"), "1");
}

#[tokio::test]
async fn unread_http_2_streams_are_reset_although_other_streams_progress() {
    let gateway = with_editor("[timeouts]\nbody_idle = \"1s\"");
    let (connections, mut unread) = ask_and_read_nothing(&gateway, LARGE_FILE, 256).await;
    let mut held = whole_share(&mut unread).await;
    until("the greedy client's places are free again", async || {
        let answer = timeout(TEST_TIMEOUT, gateway.get(LARGE_FILE).send()).await;
        answer.is_ok_and(|answer| answer.status == 200)
    })
    .await;
    // Half of a file never looks like a whole one.
    let first = held.swap_remove(0);
    assert!(first.into_body().collect().await.is_err());
    drop(connections);
}

#[tokio::test]
async fn a_stream_that_progresses_continues_when_another_one_is_reset() {
    let behind = MockUpstream::start(|request| {
        if request.contains("/events") {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
            Action::Hang(head.to_owned())
        } else {
            Action::Respond(ok("text/plain", &"x".repeat(4 << 20)))
        }
    })
    .await;
    let gateway = Gateway::with(
        &(behind.config() + "[timeouts]\nbody_idle = \"1s\"\n" + &public(&["/events", "/much"])),
    );
    let connection = Many::connect(&gateway, GREEDY).await;
    let mut events = connection.get("/events").await.unwrap().into_body();
    let event = events.frame().await.unwrap().unwrap();
    assert_eq!(event.into_data().unwrap(), "data: 1\n\n");
    let mut asked = JoinSet::new();
    for _ in 0..10 {
        asked.spawn(connection.get("/much"));
    }
    let unread = asked.join_all().await;
    assert!(unread.iter().all(Result::is_ok));
    let in_flight = behind.series("requests_in_flight", "");
    until(
        "what is not read does not count at the upstream",
        async || gateway.metric(&in_flight).await == Some(1.0),
    )
    .await;
    // A stream of events says nothing for as long as it likes.
    assert!(
        timeout(Duration::from_millis(10), events.frame())
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_connection_that_keeps_a_reset_stream_open_is_closed_gracefully() {
    let gateway = with_editor("[timeouts]\nbody_idle = \"500ms\"\nkeep_alive = \"1h\"");
    let connection = Many::connect(&gateway, GREEDY).await;
    let unread = connection.get(LARGE_FILE).await.unwrap();
    until("no new requests are taken", async || {
        connection.get("/auth/login").await.is_err()
    })
    .await;
    drop(unread);
}

#[tokio::test]
async fn an_editor_loads_while_one_client_holds_its_maximum_of_connections() {
    let gateway = with_editor("[timeouts]\nbody_idle = \"1h\"");
    let tls = Arc::new(gateway.tls(&["http/1.1"]));
    let mut open = Vec::new();
    for _ in 0..256 {
        let stream = gateway.connect_tls(Arc::clone(&tls), GREEDY, "localhost");
        let mut stream = stream.await.unwrap();
        let request = format!("GET {LARGE_FILE} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        open.push(stream);
    }
    // Requests that have waited for too long are refused, the responses to all others have begun.
    let mut refused = 0;
    for stream in &mut open {
        let mut status = [0; 12];
        timeout(TEST_TIMEOUT, stream.read_exact(&mut status))
            .await
            .unwrap()
            .unwrap();
        match &status {
            b"HTTP/1.1 200" => {}
            b"HTTP/1.1 503" => refused += 1,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    assert_eq!(refused, 128);
    let answer = answers(gateway.get(LARGE_FILE).from(HONEST), "an honest client").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn one_client_address_takes_at_most_its_share_of_the_upstream() {
    let behind = MockUpstream::hanging_at("/x").await;
    let gateway = Gateway::with(
        &(behind.config_with("max_in_flight = 4\nhealth = \"1h\"")
            + "[server]\ntrusted_proxies = [\"127.0.0.9\"]\n"
            + &public(&["/x", "/well"])),
    );
    until("the health check is over", async || {
        gateway.operations("/readyz").await.status == 200
    })
    .await;
    let mut greedy = JoinSet::new();
    for _ in 0..2 {
        greedy.spawn(gateway.get("/x").try_send());
    }
    until("both are there", async || behind.received().len() == 2).await;
    let refused = gateway.get("/well").send().await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "upstream_busy")
    );
    assert_eq!(refused.header("retry-after"), "1");
    let honest = gateway.get("/well").from(HONEST).send().await;
    assert_eq!(honest.status, 200);
    // Behind a proxy the clients count, not the proxy.
    let behind_a_proxy = |client: &str| {
        let request = gateway.get("/well").from("127.0.0.9");
        request.header("X-Forwarded-For", client).send()
    };
    assert_eq!(behind_a_proxy("127.0.0.1").await.status, 503);
    assert_eq!(behind_a_proxy("192.0.2.1").await.status, 200);
    greedy.shutdown().await;
    until("clients that leave make room", async || {
        gateway.get("/well").send().await.status == 200
    })
    .await;
}

#[tokio::test]
async fn an_incomplete_sign_in_times_out_however_often_a_byte_arrives() {
    let gateway = Gateway::with("[timeouts]\nsign_in_body = \"500ms\"");
    let mut raw = gateway.raw().await;
    raw.send("POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n")
        .await;
    let answered = async {
        loop {
            tokio::select! {
                received = raw.receive() => return received,
                () = sleep(Duration::from_millis(20)) => {}
            }
            let _ = raw.0.write_all(b"x").await;
            let _ = raw.0.flush().await;
        }
    };
    let answer = timeout(TEST_TIMEOUT, answered).await.expect("it ends");
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("body_timeout"), "{answer}");

    let connection = Many::connect(&gateway, GREEDY).await;
    let form = "application/x-www-form-urlencoded";
    let (feed, response) = connection.begin("POST", "/auth/token", form);
    feed.send("client_id=".into()).await.unwrap();
    let response = timeout(TEST_TIMEOUT, response).await.unwrap().unwrap();
    assert_eq!(response.status(), 408);
}

#[tokio::test]
async fn incomplete_forms_take_at_most_the_share_of_their_client_address() {
    let gateway = Gateway::with("[timeouts]\nsign_in_body = \"1h\"");
    let connection = Many::connect(&gateway, GREEDY).await;
    let mut responses = JoinSet::new();
    let mut feeds = Vec::new();
    // The keeper has the last of the 100 streams.
    for _ in 0..99 {
        let form = "application/x-www-form-urlencoded";
        let (feed, response) = connection.begin("POST", "/auth/token", form);
        feed.try_send(vec![b'x'; 16_000].into()).unwrap();
        feeds.push(feed);
        responses.spawn(response);
    }
    // 64 forms of 16,000 bytes are a MiB.
    for _ in 0..30 {
        let response = timeout(TEST_TIMEOUT, responses.join_next()).await;
        let response = response.expect("what is too much is refused").unwrap();
        let response = response.unwrap().unwrap();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
    }
    let honest = gateway.sign_in_request("admin", PASSWORD, "").from(HONEST);
    assert_eq!(honest.send().await.status, 200);
    // Those that leave give back what they had.
    drop((connection, feeds, responses));
    until("the address can sign in again", async || {
        let many = gateway.sign_in_request("admin", PASSWORD, "");
        many.send().await.status == 200
    })
    .await;
}

/// The status of a request whose body is sent in `pieces` of this size with a pause after each.
async fn trickle(
    client: &Client,
    http2: bool,
    piece: usize,
    pause: Duration,
    pieces: usize,
) -> u16 {
    let feeding = async |feed: mpsc::Sender<Bytes>| {
        for _ in 0..pieces {
            if feed.send(vec![b'x'; piece].into()).await.is_err() {
                return;
            }
            sleep(pause).await;
        }
    };
    let (feed, body) = mpsc::channel(1);
    let request = |uri: String| Request::post(uri).header("Content-Type", "text/plain");
    let answering = async {
        let tls = Arc::new(client.tls(&[if http2 { "h2" } else { "http/1.1" }]));
        let stream = client.connect_tls(tls, GREEDY, "localhost").await.unwrap();
        let stream = TokioIo::new(stream);
        let host = client.address.to_string();
        if http2 {
            let handshake = http2::handshake(TokioExecutor::new(), stream).await;
            let (mut sender, connection) = handshake.unwrap();
            tokio::spawn(connection);
            let request = request(format!("https://{host}/slow")).body(ChannelBody(body));
            sender.send_request(request.unwrap()).await
        } else {
            let handshake = hyper::client::conn::http1::handshake(stream).await;
            let (mut sender, connection) = handshake.unwrap();
            tokio::spawn(connection);
            let request = request("/slow".to_owned()).header(HOST, host);
            sender
                .send_request(request.body(ChannelBody(body)).unwrap())
                .await
        }
    };
    let answering = async {
        let answer = timeout(TEST_TIMEOUT, answering).await.expect("it ends");
        answer.unwrap().status().as_u16()
    };
    // A response ends the upload: the client would send on to a gateway that reads no more.
    tokio::select! {
        status = answering => status,
        status = async {
            feeding(feed).await;
            std::future::pending().await
        } => status,
    }
}

/// Below the minimum rate; and just above it, for longer than the grace.
const TOO_SLOW: (usize, Duration, usize) = (1, Duration::from_millis(100), 250);
const SLOW: (usize, Duration, usize) = (1024, Duration::from_millis(500), 7);
const RATE: &str = "[timeouts]\nbody_grace = \"2s\"\n[limits]\nbody_rate = \"1KiB\"\n";

/// Bodies below the minimum rate time out, over both protocols; those above it arrive.
async fn the_minimum_rate_holds(gateway: &Gateway) {
    let both = async |(piece, pause, pieces)| {
        tokio::join!(
            trickle(gateway, false, piece, pause, pieces),
            trickle(gateway, true, piece, pause, pieces)
        )
    };
    let (too_slow, slow) = tokio::join!(both(TOO_SLOW), both(SLOW));
    assert_eq!(too_slow, (408, 408));
    assert_eq!(slow, (200, 200));
}

#[tokio::test]
async fn a_body_below_the_minimum_rate_times_out_and_one_above_it_arrives() {
    let gateway = Gateway::with(&(RATE.to_owned() + &public(&["/slow"])));
    let token = gateway.sign_in("admin").await;
    let code = "msg.payload = String(msg.req.body.length); return msg";
    gateway
        .deploy(&token, &flow_set(&[script("a", "post", "/slow", code)]))
        .await;
    Box::pin(the_minimum_rate_holds(&gateway)).await;
}

#[tokio::test]
async fn a_body_for_an_upstream_has_the_same_minimum_rate() {
    let behind = MockUpstream::start(|_| Action::Respond(ok("text/plain", "all of it"))).await;
    let gateway = Gateway::with(&(behind.config() + RATE + &public(&["/slow"])));
    Box::pin(the_minimum_rate_holds(&gateway)).await;
}

#[tokio::test]
async fn a_body_that_the_upstream_reads_slowly_does_not_time_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut tcp, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                // Longer than the grace, and then nothing of what there is waits for the client.
                sleep(Duration::from_secs(3)).await;
                let (mut received, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
                while !received.ends_with(b"the end") && !received.starts_with(b"GET ") {
                    let Ok(count @ 1..) = tcp.read(&mut piece).await else {
                        return;
                    };
                    received.extend_from_slice(&piece[..count]);
                }
                let _ = tcp.write_all(ok("text/plain", "whole").as_bytes()).await;
            });
        }
    });
    let lines = format!(
        "[upstream]\nurl = \"http://{address}\"\nhealth = \"1h\"\n{RATE}body = \"64MiB\"\n{}",
        public(&["/slow"])
    );
    let gateway = Gateway::with(&lines);
    let mut body = vec![b'x'; 32 << 20];
    body.extend_from_slice(b"the end");
    let request = gateway.post("/slow").body(body);
    let answer = timeout(TEST_TIMEOUT, request.send()).await.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "whole"));
}

const LITTLE_MEMORY: &str = "[limits]\nbody = \"1MiB\"\nunauthenticated_bytes = \"3MiB\"\n\
                             unauthenticated_bytes_per_address = \"1MiB\"\n";

#[tokio::test]
async fn bodies_of_anonymous_clients_take_at_most_the_share_of_their_address() {
    let gateway = Gateway::with(&(LITTLE_MEMORY.to_owned() + &public(&["/take"])));
    let token = gateway.sign_in("admin").await;
    let code = "msg.payload = String(msg.req.body.length); return msg";
    let take = |tab, path| script(tab, "post", path, code);
    gateway
        .deploy(&token, &flow_set(&[take("a", "/take"), take("b", "/own")]))
        .await;
    let connection = Many::connect(&gateway, GREEDY).await;
    let piece = || Bytes::from(vec![b'x'; 600 << 10]);
    let (first, whole) = connection.begin("POST", "/take", "text/plain");
    let whole = tokio::spawn(whole);
    first.send(piece()).await.unwrap();
    // Whatever comes first: one of the two has no room.
    let (second, refused) = connection.begin("POST", "/take", "text/plain");
    let refused = tokio::spawn(refused);
    second.send(piece()).await.unwrap();
    let (left, refused) = match futures_util::future::select(whole, refused).await {
        futures_util::future::Either::Left((answer, other)) => ((second, other), answer),
        futures_util::future::Either::Right((answer, other)) => ((first, other), answer),
    };
    let refused = refused.unwrap().unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("memory_busy"));
    // Other addresses have shares of their own, and identified callers have no such limit.
    let upload = |request: Asked| request.body(vec![b'x'; 1000 << 10]).send();
    let other = upload(gateway.post("/take").from(HONEST)).await;
    assert_eq!((other.status, other.text().as_str()), (200, "1024000"));
    let known = upload(gateway.post("/own").token(&token)).await;
    assert_eq!(known.status, 200, "{}", known.text());
    let (feed, whole) = left;
    drop(feed);
    assert_eq!(whole.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn unread_responses_of_anonymous_clients_take_at_most_their_share() {
    let gateway = Gateway::with(&(LITTLE_MEMORY.to_owned() + &public(&["/much"])));
    let token = gateway.sign_in("admin").await;
    let code = "msg.payload = 'x'.repeat(500000); return msg";
    gateway
        .deploy(&token, &flow_set(&[script("a", "get", "/much", code)]))
        .await;
    let connection = Many::connect(&gateway, GREEDY).await;
    let mut unread = Vec::new();
    for _ in 0..2 {
        unread.push(connection.get("/much").await.unwrap());
        assert_eq!(unread.last().unwrap().status(), 200);
    }
    assert_eq!(connection.get("/much").await.unwrap().status(), 503);
    let other = gateway.get("/much").from(HONEST).send().await;
    assert_eq!((other.status, other.body.len()), (200, 500_000));
    for response in unread {
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len(), 500_000);
    }
    until("what was read is free again", async || {
        gateway.get("/much").send().await.status == 200
    })
    .await;
}

/// A frame of a message that goes on.
fn part(bytes: usize, first: bool, last: bool) -> Message {
    let data = if first { Data::Text } else { Data::Continue };
    let header = FrameHeader {
        is_final: last,
        opcode: OpCode::Data(data),
        mask: Some([0; 4]),
        ..FrameHeader::default()
    };
    Message::Frame(frame::Frame::from_payload(header, vec![b'x'; bytes].into()))
}

#[tokio::test]
async fn frames_of_anonymous_clients_take_at_most_the_share_of_their_address() {
    let gateway = Gateway::with(&(LITTLE_MEMORY.to_owned() + &public(&["/ws"])));
    let token = gateway.sign_in("admin").await;
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "l", "type": "websocket-listener", "path": "/ws", "wholemsg": "false" },
        { "id": "ws-in", "type": "websocket in", "z": "t", "x": 1, "y": 1, "server": "l", "client": "", "wires": [["count"]] },
        { "id": "count", "type": "function", "z": "t", "x": 1, "y": 1, "outputs": 1, "wires": [["ws-out"]],
          "func": "msg.payload = String(msg.payload.length); return msg;" },
        { "id": "ws-out", "type": "websocket out", "z": "t", "x": 1, "y": 1, "server": "l", "client": "", "wires": [] },
    ]);
    gateway.deploy(&token, &flow).await;
    let mut first = crate::tunnel::open(&gateway, "/ws", &[]).await.unwrap();
    let mut second = crate::tunnel::open(&gateway, "/ws", &[]).await.unwrap();
    first.send(part(900_000, true, false)).await.unwrap();
    // It has been heard when a ping behind it is answered.
    first.send(Message::Ping("there?".into())).await.unwrap();
    let pong = first.next().await.unwrap().unwrap();
    assert_eq!(pong, Message::Pong("there?".into()));
    // The gateway may close before it has heard everything.
    let _ = second.send(part(900_000, true, false)).await;
    let closed = timeout(TEST_TIMEOUT, second.next()).await.unwrap().unwrap();
    match closed {
        Ok(Message::Close(Some(close))) => assert_eq!(u16::from(close.code), 1013),
        other => panic!("{other:?}"),
    }
    first.send(part(1, false, true)).await.unwrap();
    assert_eq!(
        first.next().await.unwrap().unwrap(),
        Message::text("900001")
    );
    // What the flow has is not counted any more.
    for _ in 0..10 {
        first
            .send(Message::text("x".repeat(500_000)))
            .await
            .unwrap();
        assert_eq!(
            first.next().await.unwrap().unwrap(),
            Message::text("500000")
        );
    }
}

#[tokio::test]
async fn frames_that_wait_for_the_share_of_their_address_do_not_delay_those_of_others() {
    // A share is never less than one body.
    let lines = "[limits]\nbody = \"512KiB\"\nunauthenticated_bytes = \"3MiB\"\n\
                 unauthenticated_bytes_per_address = \"1MiB\"\n[engine]\nqueue_bytes = \"1MiB\"\n";
    let lines = lines.to_owned() + &public(&["/ws"]);
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("admin").await;
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "l", "type": "websocket-listener", "path": "/ws", "wholemsg": "false" },
        { "id": "own", "type": "websocket-listener", "path": "/own", "wholemsg": "false" },
        { "id": "own-in", "type": "websocket in", "z": "t", "x": 1, "y": 1, "server": "own", "client": "", "wires": [["own-out"]] },
        { "id": "own-out", "type": "websocket out", "z": "t", "x": 1, "y": 1, "server": "own", "client": "", "wires": [] },
    ]);
    gateway.deploy(&token, &flow).await;
    let mut greedy = Vec::new();
    // Unfinished messages take the whole share, 64 KiB each; the frames behind them wait for it.
    // They would take all of the 128 KiB that may be on their way to the engine.
    for _ in 0..16 {
        let mut socket = crate::tunnel::open(&gateway, "/ws", &[]).await.unwrap();
        socket.send(part(60_000, true, false)).await.unwrap();
        // It has been heard when a ping behind it is answered.
        socket.send(Message::Ping("there?".into())).await.unwrap();
        let pong = socket.next().await.unwrap().unwrap();
        assert_eq!(pong, Message::Pong("there?".into()));
        greedy.push(socket);
    }
    for _ in 0..24 {
        let mut socket = crate::tunnel::open(&gateway, "/ws", &[]).await.unwrap();
        socket.send(Message::text("x".repeat(8000))).await.unwrap();
        greedy.push(socket);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let bearer = format!("Bearer {token}");
    let authorization = [("Authorization", bearer.as_str())];
    let known = crate::tunnel::open(&gateway, "/own", &authorization).await;
    let mut known = known.unwrap();
    known.send(Message::text("x".repeat(10_000))).await.unwrap();
    let answer = timeout(TEST_TIMEOUT, known.next()).await;
    let answer = answer
        .expect("its frame reaches the flow")
        .unwrap()
        .unwrap();
    assert_eq!(answer.len(), 10_000);
}

#[tokio::test]
async fn a_client_behind_a_proxy_opens_no_more_websockets_than_it_could_connections() {
    let lines =
        "[limits]\nconnections_per_address = 2\n[server]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    let gateway = Gateway::with(&(lines.to_owned() + &public(&["/ws"])));
    let token = gateway.sign_in("admin").await;
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "l", "type": "websocket-listener", "path": "/ws", "wholemsg": "false" },
    ]);
    gateway.deploy(&token, &flow).await;
    let open = async |client: &str| {
        crate::tunnel::open(&gateway, "/ws", &[("X-Forwarded-For", client)]).await
    };
    let first = open("192.0.2.1").await.unwrap();
    let _second = open("192.0.2.1").await.unwrap();
    let Err(Error::Http(refusal)) = open("192.0.2.1").await else {
        panic!("a third one");
    };
    assert_eq!(refusal.status(), 503);
    let _other = open("192.0.2.2").await.unwrap();
    drop(first);
    until("one that has gone makes room", async || {
        open("192.0.2.1").await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn websockets_that_a_proxy_opens_without_naming_its_clients_do_not_count_for_its_address() {
    let lines =
        "[limits]\nconnections_per_address = 1\n[server]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    let gateway = Gateway::with(&(lines.to_owned() + &public(&["/ws"])));
    let token = gateway.sign_in("admin").await;
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "l", "type": "websocket-listener", "path": "/ws", "wholemsg": "false" },
    ]);
    gateway.deploy(&token, &flow).await;
    let _first = crate::tunnel::open(&gateway, "/ws", &[]).await.unwrap();
    let _second = crate::tunnel::open(&gateway, "/ws", &[]).await.unwrap();
}
