//! `tcp in`, `tcp out` and `tcp request` in a running engine, with real sockets at the other end.

use crate::bench::{Bench, debug};
use crate::http_server::{acceptor, certificate};
use crate::steps::{merged, send};
use serde_json::{Value as Json, json};
use std::time::Duration;
use testing::ports;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A tab with these nodes, an inject node `in` for `node`, and the debug node `out`; `done` shows
/// completions of `node`.
pub(crate) fn flow(nodes: &[Json]) -> Json {
    let mut flow = vec![
        json!({ "id": "t", "type": "tab", "label": "T" }),
        json!({ "id": "in", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [], "wires": [["fn"]] }),
        json!({ "id": "fn", "type": "function", "z": "t", "x": 1, "y": 1, "outputs": 1, "wires": [["node"]],
            "func": "if (msg.payload && msg.payload.$buffer) { msg.payload = Buffer.from(msg.payload.$buffer); } return msg;" }),
        json!({ "id": "c", "type": "complete", "z": "t", "x": 1, "y": 1, "scope": ["node"], "wires": [["done"]] }),
        json!({ "id": "e", "type": "catch", "z": "t", "x": 1, "y": 1, "scope": null, "wires": [["caught"]] }),
        debug("out"),
        debug("done"),
        debug("caught"),
    ];
    for node in nodes {
        let mut node = node.clone();
        node["z"] = json!("t");
        node["x"] = json!(1);
        flow.push(node);
    }
    Json::Array(flow)
}

pub(crate) async fn at(bench: &mut Bench, name: &str) -> Json {
    loop {
        let (from, mut message) = bench.output().await;
        if from == name {
            message.as_object_mut().unwrap().remove("_msgid");
            return message;
        }
    }
}

pub(crate) async fn wait_for_status(bench: &mut Bench, text: &str) -> Json {
    loop {
        let (id, status) = bench.status().await;
        if id == "node" && status["text"] == text {
            return status;
        }
    }
}

fn tcp_in(port: u16, more: &Json) -> Json {
    merged(
        json!({ "id": "node", "type": "tcp in", "server": "server", "host": "127.0.0.1", "port": port.to_string(),
        "datamode": "stream", "datatype": "buffer", "newline": "", "topic": "t", "trim": false, "wires": [["out"]] }),
        more,
    )
}

#[tokio::test]
async fn a_connection_that_never_ends_its_line_is_closed_and_others_are_served() {
    let port = ports::free();
    let set = |settings: &mut engine::settings::Settings| settings.tcp_buffers = 1 << 20;
    let lines = tcp_in(port, &json!({ "datatype": "utf8", "newline": "\\n" }));
    let mut bench = Bench::set(&flow(&[lines]), set).await;
    let mut endless = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut honest = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    // Half of all buffers is the share of an address. The node closes before it has read
    // everything.
    let _ = endless.write_all(&vec![b'x'; 2 << 20]).await;
    assert!(!matches!(endless.read(&mut [0; 1]).await, Ok(1..)));
    honest.write_all(b"hello\n").await.unwrap();
    assert_eq!(at(&mut bench, "out").await["payload"], "hello");
}

#[tokio::test]
async fn a_node_that_listens_closes_an_idle_connection_after_the_socket_timeout() {
    let port = ports::free();
    let set = |settings: &mut engine::settings::Settings| {
        settings.socket_timeout = Some(Duration::from_millis(200));
    };
    let mut bench = Bench::set(&flow(&[tcp_in(port, &json!({}))]), set).await;
    let mut client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let opened = std::time::Instant::now();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(120)).await;
        client.write_all(b"x").await.unwrap();
        assert!(at(&mut bench, "out").await["payload"].is_object());
    }
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
    // Each byte has started the time again.
    assert!(opened.elapsed() >= Duration::from_millis(560), "{opened:?}");
    wait_for_status(&mut bench, "0 connections").await;
}

#[tokio::test]
async fn a_server_makes_payloads_of_received_data() {
    let table = [
        (
            json!({}),
            "abc",
            vec![json!({ "type": "Buffer", "data": b"abc", "__enc__": true, "length": 3 })],
        ),
        (json!({ "datatype": "utf8" }), "abc", vec![json!("abc")]),
        (json!({ "datatype": "base64" }), "abc", vec![json!("YWJj")]),
        (
            json!({ "datatype": "utf8", "newline": "\\n" }),
            "a\nbc\nd",
            vec![json!("a"), json!("bc"), json!("d")],
        ),
        (
            json!({ "datatype": "utf8", "newline": "\\n", "trim": true }),
            "a\nb",
            vec![json!("a\n"), json!("b")],
        ),
        (
            json!({ "datatype": "utf8", "datamode": "single", "newline": "\\n" }),
            "a\nb",
            vec![json!("a\nb")],
        ),
    ];
    for (more, sent, payloads) in table {
        let port = ports::free();
        let mut bench = Bench::with(&flow(&[tcp_in(port, &more)])).await;
        let mut client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let from = client.local_addr().unwrap().port();
        client.write_all(sent.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let count = payloads.len();
        for (place, payload) in payloads.into_iter().enumerate() {
            let mut came = at(&mut bench, "out").await;
            assert!(came["_session"].take()["id"].is_string());
            // A message at the end of the connection lacks the client's address (observed).
            let ended =
                more["newline"] == "\\n" && more["datamode"].is_null() && place + 1 == count;
            let known = |value: Json| {
                if ended {
                    json!({ "__enc__": true, "type": "undefined" })
                } else {
                    value
                }
            };
            assert_eq!(
                came,
                json!({ "topic": "t", "payload": payload, "ip": known(json!("::ffff:127.0.0.1")), "port": known(json!(from)), "_session": null }),
                "{more}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_shows_its_connections_and_frees_its_port_at_once() {
    let port = ports::free();
    let deployed = flow(&[tcp_in(port, &json!({}))]);
    let mut bench = Bench::with(&deployed).await;
    let mut client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let status = wait_for_status(&mut bench, "1 connection").await;
    assert_eq!(
        (&status["event"], &status["_session"]["type"]),
        (&json!("connect"), &json!("tcp"))
    );
    for _ in 0..3 {
        bench.deploy(&deployed, flows::DeploymentType::Full).await;
    }
    assert_eq!(
        client.read(&mut [0]).await.unwrap(),
        0,
        "the old connection is closed"
    );
    let client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    wait_for_status(&mut bench, "1 connection").await;
    drop(client);
    assert_eq!(
        wait_for_status(&mut bench, "0 connections").await["event"],
        "disconnect"
    );
}

#[tokio::test]
async fn a_port_in_use_is_an_error() {
    let taken = std::net::TcpListener::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut bench = Bench::with(&json!([])).await;
    bench
        .deploy(
            &flow(&[tcp_in(port, &json!({}))]),
            flows::DeploymentType::Full,
        )
        .await;
    let words = format!(
        "unable to listen on port {port}, error: Error: listen EADDRINUSE: address already in use :::{port}"
    );
    assert_eq!(bench.error().await, ("node".into(), words));
}

#[tokio::test]
async fn replies_go_to_one_connection_or_to_all() {
    let port = ports::free();
    let server = tcp_in(
        port,
        &json!({ "id": "server", "datatype": "utf8", "wires": [["upper"]] }),
    );
    let upper = json!({ "id": "upper", "type": "function", "outputs": 1, "wires": [["node"]],
        "func": "if (msg.payload === 'all') { delete msg._session; } if (msg.payload === 'cut') { msg.reset = true; } msg.payload = msg.payload.toUpperCase(); return msg;" });
    let reply = json!({ "id": "node", "type": "tcp out", "beserver": "reply", "base64": false, "end": false, "wires": [] });
    let _bench = Bench::with(&flow(&[server, upper, reply])).await;
    let mut clients = [
        TcpStream::connect(("127.0.0.1", port)).await.unwrap(),
        TcpStream::connect(("127.0.0.1", port)).await.unwrap(),
    ];
    let mut buffer = [0; 8];
    for (n, client) in clients.iter_mut().enumerate() {
        client.write_all(format!("me{n}").as_bytes()).await.unwrap();
        let count = client.read(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..count], format!("ME{n}").as_bytes());
    }
    clients[0].write_all(b"all").await.unwrap();
    for client in &mut clients {
        let count = client.read(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..count], b"ALL");
    }
    clients[1].write_all(b"cut").await.unwrap();
    assert!(matches!(clients[1].read(&mut buffer).await, Ok(0) | Err(_)));
}

#[tokio::test]
async fn a_client_reads_and_reconnects() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = tcp_in(
        port,
        &json!({ "server": "client", "datatype": "utf8", "datamode": "single" }),
    );
    let mut bench = Bench::with(&flow(&[client])).await;
    for text in ["one", "two"] {
        let (mut server, _) = listener.accept().await.unwrap();
        wait_for_status(&mut bench, "common.status.connected").await;
        server.write_all(text.as_bytes()).await.unwrap();
        drop(server);
        let came = at(&mut bench, "out").await;
        assert_eq!((&came["payload"], came.get("ip")), (&json!(text), None));
    }
}

#[tokio::test]
async fn a_client_reconnects_to_a_lost_server() {
    let port = ports::free();
    let client = tcp_in(port, &json!({ "server": "client" }));
    let mut bench = Bench::set(&flow(&[client]), |engine| {
        engine.socket_reconnect = Duration::from_millis(20);
    })
    .await;
    wait_for_status(&mut bench, "common.status.disconnected").await;
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    wait_for_status(&mut bench, "common.status.connected").await;
    drop(server);
    wait_for_status(&mut bench, "common.status.disconnected").await;
    listener.accept().await.unwrap();
}

fn tcp_out(port: u16, more: &Json) -> Json {
    merged(
        json!({ "id": "node", "type": "tcp out", "host": "127.0.0.1", "port": port.to_string(), "beserver": "client",
        "base64": false, "end": false, "wires": [] }),
        more,
    )
}

#[tokio::test]
async fn a_client_writes_payloads() {
    let table = [
        (json!({}), json!("text"), "text"),
        (json!({}), json!(5), "5"),
        (json!({}), json!({ "$buffer": "raw" }), "raw"),
        (json!({ "base64": true }), json!("aGk="), "hi"),
    ];
    for (more, payload, expected) in table {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut more = more;
        more["end"] = json!(true);
        let mut bench = Bench::with(&flow(&[tcp_out(port, &more)])).await;
        // A message that ends the connection is followed by another connection.
        for _ in 0..2 {
            let (mut server, _) = listener.accept().await.unwrap();
            wait_for_status(&mut bench, "common.status.connected").await;
            send(&bench, &json!({ "payload": payload })).await;
            let mut seen = String::new();
            server.read_to_string(&mut seen).await.unwrap();
            assert_eq!(seen, expected);
        }
    }
}

#[tokio::test]
async fn a_server_writes_to_all_connections() {
    let port = ports::free();
    let mut bench = Bench::with(&flow(&[tcp_out(port, &json!({ "beserver": "server" }))])).await;
    let mut clients = Vec::new();
    for words in ["1 connection", "2 connections"] {
        clients.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        wait_for_status(&mut bench, words).await;
    }
    send(&bench, &json!({ "payload": "hi" })).await;
    for client in &mut clients {
        let mut buffer = [0; 2];
        client.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"hi");
    }
    assert_eq!(at(&mut bench, "done").await["payload"], "hi");
}

#[tokio::test]
async fn connections_may_be_tls() {
    let (certificate, key) = certificate();
    let tls = json!({ "id": "tls", "type": "tls-config", "cert": "", "key": "", "ca": "", "verifyservercert": true,
        "credentials": { "certdata": certificate, "keydata": key, "cadata": certificate } });
    let port = ports::free();
    let server = tcp_in(port, &json!({ "tls": "tls", "datatype": "utf8" }));
    let client = json!({ "id": "client", "type": "tcp request", "server": "localhost", "port": port, "out": "immed", "ret": "string", "tls": "tls", "wires": [[]] });
    let ask = json!({ "id": "ask", "type": "inject", "props": [{ "p": "payload", "v": "secret", "vt": "str" }], "wires": [["client"]] });
    let mut deployed = flow(&[server, client, ask]);
    deployed.as_array_mut().unwrap().push(tls.clone());
    let mut bench = Bench::with(&deployed).await;
    bench.inject("ask").await;
    assert_eq!(at(&mut bench, "out").await["payload"], "secret");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut deployed = flow(&[tcp_in(
        port,
        &json!({ "server": "client", "host": "localhost", "tls": "tls", "datatype": "utf8" }),
    )]);
    deployed.as_array_mut().unwrap().push(tls);
    bench.deploy(&deployed, flows::DeploymentType::Full).await;
    let (stream, _) = listener.accept().await.unwrap();
    let mut stream = acceptor(&certificate, &key).accept(stream).await.unwrap();
    stream.write_all(b"from the server").await.unwrap();
    assert_eq!(at(&mut bench, "out").await["payload"], "from the server");
}
