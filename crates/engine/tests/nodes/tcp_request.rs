//! `tcp request` in a running engine, with real sockets at the other end.

use crate::bench::Bench;
use crate::steps::merged;
use crate::steps::send;
use crate::tcp::{at, flow, wait_for_status};
use serde_json::json;
use testing::ports;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server that answers each piece with itself, three times over, piece by piece.
async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut buffer = [0; 256];
                while let Ok(count) = stream.read(&mut buffer).await {
                    if count == 0 || stream.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn a_request_waits_for_its_response_as_configured() {
    let port = echo().await;
    let table = [
        (
            json!({ "out": "time", "splitc": "50" }),
            "a b",
            json!("a b"),
        ),
        (json!({ "out": "count", "splitc": "2" }), "abc", json!("ab")),
        (
            json!({ "out": "char", "splitc": "\\n" }),
            "ab\ncd",
            json!("ab\n"),
        ),
        (
            json!({ "out": "char", "splitc": "0x62" }),
            "abc",
            json!("ab"),
        ),
        (json!({ "out": "sit" }), "abc", json!("abc")),
        (
            json!({ "out": "sit", "newline": "\\n" }),
            "a\nb",
            json!("a"),
        ),
        (
            json!({ "out": "sit", "newline": "\\n", "trim": true }),
            "a\nb",
            json!("a\n"),
        ),
        (
            json!({ "out": "count", "splitc": "2", "ret": "buffer" }),
            "abc",
            json!({ "type": "Buffer", "data": b"ab", "__enc__": true, "length": 2 }),
        ),
    ];
    for (more, sent, expected) in table {
        for own in [true, false] {
            let mut node = merged(
                json!({ "id": "node", "type": "tcp request", "server": "", "port": "", "ret": "string", "newline": "", "wires": [["out"]] }),
                &more,
            );
            let mut message = json!({ "payload": sent, "topic": "kept" });
            let target = if own { &mut node } else { &mut message };
            target["port"] = json!(port);
            target[if own { "server" } else { "host" }] = json!("127.0.0.1");
            let mut bench = Bench::with(&flow(&[node])).await;
            send(&bench, &message).await;
            let came = at(&mut bench, "out").await;
            assert_eq!(
                (&came["payload"], &came["topic"]),
                (&expected, &json!("kept")),
                "{more}"
            );
        }
    }
}

#[tokio::test]
async fn a_kept_connection_is_used_until_it_is_reset() {
    let port = echo().await;
    let node = json!({ "id": "node", "type": "tcp request", "server": "127.0.0.1", "port": port, "out": "sit", "ret": "string", "wires": [["out"]] });
    let mut bench = Bench::with(&flow(&[node])).await;
    for text in ["one", "two"] {
        send(&bench, &json!({ "payload": text })).await;
        assert_eq!(at(&mut bench, "out").await["payload"], text);
    }
    send(&bench, &json!({ "reset": true })).await;
    wait_for_status(&mut bench, "0 connections").await;
    send(&bench, &json!({ "payload": "three" })).await;
    assert_eq!(at(&mut bench, "out").await["payload"], "three");
}

#[tokio::test]
async fn a_failed_connection_is_an_error() {
    let port = ports::free();
    let node = json!({ "id": "node", "type": "tcp request", "server": "127.0.0.1", "port": port, "out": "time", "splitc": "0", "wires": [["out"]] });
    let mut bench = Bench::with(&flow(&[node])).await;
    send(&bench, &json!({ "payload": "x" })).await;
    let caught = at(&mut bench, "caught").await;
    assert_eq!(
        (&caught["error"]["message"], &caught["payload"]),
        (
            &json!(format!("connect failed 127.0.0.1:{port}")),
            &json!("x")
        )
    );
    let node = json!({ "id": "node", "type": "tcp request", "server": "", "port": "", "out": "time", "splitc": "0", "wires": [[]] });
    bench
        .deploy(&flow(&[node]), flows::DeploymentType::Full)
        .await;
    send(&bench, &json!({ "payload": "x" })).await;
    assert_eq!(bench.error().await.1, "Host and/or port not set");
}
