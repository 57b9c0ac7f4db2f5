//! Back-pressure: the sources of a flow pause, or drop and count, while too many messages wait for
//! it.

use crate::bench::{Bench, debug};
use crate::mosquitto::{Mosquitto, OPEN};
use crate::steps::merged;
use engine::Error;
use engine::http::Request;
use hyper::{HeaderMap, Method};
use serde_json::{Value as Json, json};
use std::io::Write;
use std::net::UdpSocket;
use std::time::Duration;
use testing::ports;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Messages that may wait; twice as many circle while the flow is to be full.
const MOST: usize = 20;

/// A function node on tab `t`.
fn function(id: &str, code: &str, to: &str) -> Json {
    json!({ "id": id, "type": "function", "z": "t", "x": 1, "y": 1, "outputs": 1, "func": code, "wires": [[to]] })
}

/// The nodes under test on tab `t`, with the debug node `out`. `fill` makes the flow full, `drain`
/// ends that.
fn flow(nodes: &[Json]) -> Json {
    let make = format!(
        "return [Array.from({{ length: {} }}, () => ({{}}))]",
        2 * MOST
    );
    let open = json!({ "t": "set", "p": "open", "pt": "global", "to": "true", "tot": "bool" });
    let mut flow = vec![
        json!({ "id": "t", "type": "tab", "label": "T" }),
        json!({ "id": "fill", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [], "wires": [["make"]] }),
        function("make", &make, "turn"),
        function("turn", "return global.get('open') ? null : msg", "turn"),
        debug("out"),
        json!({ "id": "u", "type": "tab", "label": "U" }),
        json!({ "id": "drain", "type": "inject", "z": "u", "x": 1, "y": 1, "props": [], "wires": [["open"]] }),
        json!({ "id": "open", "type": "change", "z": "u", "x": 1, "y": 1, "rules": [open], "wires": [[]] }),
    ];
    // One group: the messages that circle make the flow of all nodes full.
    for node in nodes {
        let placed = json!({ "z": "t", "x": 1, "y": 1, "wires": [["out"]] });
        let is_config = node["z"] == "";
        flow.push(if is_config {
            node.clone()
        } else {
            merged(placed, node)
        });
    }
    Json::Array(flow)
}

async fn bench(nodes: &[Json]) -> Bench {
    Bench::set(&flow(nodes), |settings| settings.queue_messages = MOST).await
}

/// Makes the flow full and waits until the node shows that it pauses.
async fn paused(bench: &mut Bench, node: &str) {
    bench.inject("fill").await;
    shows(
        bench,
        node,
        &json!({ "fill": "yellow", "shape": "ring", "text": "paused" }),
    )
    .await;
}

/// Waits for a status of a node.
async fn shows(bench: &mut Bench, node: &str, expected: &Json) {
    loop {
        let (id, status) = bench.status().await;
        if id == node && status == *expected {
            return;
        }
    }
}

/// No message comes out for a while.
async fn silent(bench: &mut Bench) {
    let came = tokio::time::timeout(Duration::from_millis(300), bench.output()).await;
    assert!(came.is_err(), "{came:?}");
}

async fn payload(bench: &mut Bench) -> Json {
    bench.output().await.1["payload"].take()
}

#[tokio::test]
async fn tcp_in_reads_nothing_while_its_flow_is_full_and_shows_its_own_status_again() {
    let port = ports::free();
    let node = json!({ "id": "node", "type": "tcp in", "server": "server", "host": "", "port": port.to_string(),
        "datamode": "stream", "datatype": "utf8", "newline": "\\n", "topic": "" });
    let mut bench = bench(&[node]).await;
    let mut client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    client.write_all(b"before\n").await.unwrap();
    assert_eq!(payload(&mut bench).await, "before");
    paused(&mut bench, "node").await;
    client.write_all(b"first\nsecond\n").await.unwrap();
    silent(&mut bench).await;
    bench.inject("drain").await;
    assert_eq!(payload(&mut bench).await, "first");
    assert_eq!(payload(&mut bench).await, "second");
    loop {
        let (id, status) = bench.status().await;
        if id == "node" && status["text"] == "1 connection" {
            break;
        }
    }
}

#[tokio::test]
async fn a_connecting_tcp_in_and_tcp_request_read_nothing_while_their_flow_is_full() {
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let client = json!({ "id": "node", "type": "tcp in", "server": "client", "host": "127.0.0.1", "port": port,
        "datamode": "stream", "datatype": "utf8", "newline": "", "topic": "" });
    let request = json!({ "id": "node", "type": "tcp request", "server": "127.0.0.1", "port": port, "out": "sit",
        "ret": "string", "newline": "" });
    let ask = json!({ "id": "ask", "type": "inject", "props": [{ "p": "payload", "v": "x", "vt": "str" }], "wires": [["node"]] });
    for nodes in [&[client][..], &[request, ask]] {
        let mut bench = bench(nodes).await;
        if nodes.len() == 2 {
            bench.inject("ask").await;
        }
        let (mut accepted, _) = server.accept().await.unwrap();
        paused(&mut bench, "node").await;
        accepted.write_all(b"hello").await.unwrap();
        silent(&mut bench).await;
        bench.inject("drain").await;
        assert_eq!(payload(&mut bench).await, "hello");
        bench.engine.close().await;
    }
}

#[tokio::test]
async fn injections_by_timer_are_dropped_and_counted_while_the_flow_is_full() {
    let tick = json!({ "id": "node", "type": "inject", "repeat": "0.1", "props": [{ "p": "payload", "v": "tick", "vt": "str" }] });
    let mut bench = bench(&[tick]).await;
    assert_eq!(payload(&mut bench).await, "tick");
    bench.inject("fill").await;
    assert!(matches!(
        bench.engine.inject("node", None).await,
        Err(Error::Full)
    ));
    loop {
        let (id, status) = bench.status().await;
        let text = status["text"].as_str().unwrap_or_default();
        if id == "node" && text.starts_with("paused, ") && text.ends_with(" dropped") {
            break;
        }
    }
    bench.inject("drain").await;
    shows(&mut bench, "node", &Json::Null).await;
    assert_eq!(payload(&mut bench).await, "tick");
}

#[tokio::test]
async fn dropped_datagrams_are_logged_with_their_number() {
    let port = ports::free();
    let node = json!({ "id": "node", "type": "udp in", "iface": "", "port": port.to_string(), "ipv": "udp4",
        "multicast": "false", "group": "", "datatype": "utf8" });
    let mut bench = bench(&[node]).await;
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |text: &str| {
        client
            .send_to(text.as_bytes(), ("127.0.0.1", port))
            .unwrap()
    };
    paused(&mut bench, "node").await;
    for text in ["a", "b", "c"] {
        send(text);
    }
    let (id, text) = bench.error().await;
    assert_eq!(
        (id.as_str(), text.as_str()),
        ("node", "3 messages dropped: the flow is full")
    );
    bench.inject("drain").await;
    shows(&mut bench, "node", &Json::Null).await;
    send("d");
    assert_eq!(payload(&mut bench).await, "d");
}

#[tokio::test]
async fn file_in_and_exec_read_on_when_their_flow_has_room() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "one").unwrap();
    let read = json!({ "id": "node", "type": "file in", "filename": file.path(), "filenameType": "str",
        "format": "lines", "encoding": "none", "allProps": false });
    let exec = json!({ "id": "node", "type": "exec", "command": "echo one", "addpay": "", "append": "",
        "useSpawn": "true", "timer": "", "wires": [["out"], [], []] });
    for node in [read, exec] {
        // The message waits in the flow with those that make it full.
        let start = function(
            "start",
            "return global.get('asked') ? null : (global.set('asked', true), msg)",
            "node",
        );
        let make = format!(
            "node.send([Array.from({{ length: {} }}, () => ({{}}))]); node.send([null, msg])",
            2 * MOST
        );
        let make = merged(
            function("both", &make, "turn"),
            &json!({ "outputs": 2, "wires": [["turn"], ["start"]] }),
        );
        let ask = json!({ "id": "ask", "type": "inject", "props": [], "wires": [["both"]] });
        let mut bench = bench(&[node, start, make, ask]).await;
        bench.inject("ask").await;
        shows(
            &mut bench,
            "node",
            &json!({ "fill": "yellow", "shape": "ring", "text": "paused" }),
        )
        .await;
        silent(&mut bench).await;
        bench.inject("drain").await;
        let text = payload(&mut bench).await;
        assert_eq!(text.as_str().unwrap().trim_end(), "one");
    }
}

#[tokio::test]
async fn websocket_listeners_take_frames_only_while_all_their_flows_have_room() {
    let config = json!({ "id": "w", "type": "websocket-listener", "path": "/ws", "wholemsg": "false", "z": "" });
    let node = json!({ "id": "node", "type": "websocket in", "server": "w", "client": "" });
    let mut bench = bench(&[config, node]).await;
    let mut listening = bench.engine.listening("/ws").unwrap();
    listening.room().await;
    paused(&mut bench, "node").await;
    let waits = tokio::time::timeout(Duration::from_millis(100), listening.room()).await;
    assert!(waits.is_err());
    bench.inject("drain").await;
    listening.room().await;
}

#[tokio::test]
async fn mqtt_acknowledges_nothing_while_a_flow_is_full_and_stays_connected() {
    let mosquitto = Mosquitto::start(OPEN).await;
    let broker = mosquitto.node(&json!({ "keepalive": "1", "z": "" }));
    let node = json!({ "id": "node", "type": "mqtt in", "topic": "a", "qos": "2", "datatype": "utf8", "broker": "b",
        "nl": false, "rap": true, "rh": 0, "inputs": 0 });
    let send = json!({ "id": "send", "z": "u", "type": "mqtt out", "topic": "a", "qos": "2", "retain": "", "broker": "c", "wires": [] });
    let other = mosquitto.node(&json!({ "id": "c", "clientid": "other", "z": "" }));
    let say = |text: &str| {
        json!({ "id": format!("say-{text}"), "z": "u", "type": "inject", "wires": [["send"]],
        "props": [{ "p": "payload", "v": text, "vt": "str" }] })
    };
    let mut bench = bench(&[broker, other, node, send, say("1"), say("2")]).await;
    for node in ["node", "send"] {
        shows_text(&mut bench, node, "node-red:common.status.connected").await;
    }
    bench.inject("say-1").await;
    assert_eq!(payload(&mut bench).await, "1");
    paused(&mut bench, "node").await;
    bench.inject("say-2").await;
    // Several times the keep-alive interval.
    tokio::time::sleep(Duration::from_secs(4)).await;
    silent(&mut bench).await;
    bench.inject("drain").await;
    assert_eq!(payload(&mut bench).await, "2");
    // The node shows its own status again, and the first one that it shows: it was never
    // disconnected.
    loop {
        let (id, status) = bench.status().await;
        if id == "node" {
            assert_eq!(status["text"], "node-red:common.status.connected");
            break;
        }
    }
}

async fn shows_text(bench: &mut Bench, node: &str, text: &str) {
    loop {
        let (id, status) = bench.status().await;
        if id == node && status["text"] == text {
            return;
        }
    }
}

#[tokio::test]
async fn requests_are_refused_while_the_flow_is_full() {
    let node = json!({ "id": "node", "type": "http in", "url": "/e", "method": "get", "wires": [["answer"]] });
    let answer = json!({ "id": "answer", "type": "http response", "wires": [] });
    let bench = bench(&[node, answer]).await;
    let call = async || {
        let endpoint = bench.engine.endpoint(&Method::GET, "/e").unwrap();
        let request = Request {
            method: Method::GET,
            path: "/e".to_owned(),
            url: "/e".to_owned(),
            query: String::new(),
            params: Vec::new(),
            headers: HeaderMap::new(),
            body: bytes::Bytes::new(),
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            secure: true,
            user: None,
        };
        bench.engine.call(endpoint, request, None).await
    };
    assert_eq!(call().await.unwrap().unwrap().0.status, 200);
    bench.inject("fill").await;
    while call().await.is_ok() {}
    assert!(matches!(call().await, Err(Error::Full)));
    bench.inject("drain").await;
    while call().await.is_err() {}
}

/// The memory of a flow that lives on a source is bounded by its queue: all that was sent arrives.
#[tokio::test]
async fn every_byte_that_a_full_flow_accepts_arrives() {
    let port = ports::free();
    let node = json!({ "id": "node", "type": "tcp in", "server": "server", "host": "", "port": port.to_string(),
        "datamode": "stream", "datatype": "utf8", "newline": "\\n", "topic": "", "wires": [["count"]] });
    let count = function(
        "count",
        "const n = (context.get('n') || 0) + 1; context.set('n', n); return msg.payload === 'end' ? { payload: n } : null",
        "out",
    );
    let mut bench = Bench::set(&flow(&[node, count]), |settings| {
        settings.queue_bytes = 1 << 20;
    })
    .await;
    let mut client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let line = format!("{}\n", "x".repeat(99));
    let text = line.repeat(100_000);
    client.write_all(text.as_bytes()).await.unwrap();
    client.write_all(b"end\n").await.unwrap();
    assert_eq!(payload(&mut bench).await, 100_001);
}
