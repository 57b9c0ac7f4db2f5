//! Memory of a peak is returned to the system.

use crate::harness::{Process, flow_set, page, public, until};
use crate::stopwatch::Stopwatch;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

/// What may stay, in KiB.
const MAY_STAY: u64 = 8 << 10;

/// It goes back when a thread has rested for a second.
const SOON: Duration = Duration::from_secs(8);

#[tokio::test]
async fn memory_of_a_deployment_is_returned_to_the_system_within_seconds() {
    let place = tempfile::tempdir().unwrap();
    let process = Process::start("", place.path());
    let token = process.sign_in("admin").await;
    let before = process.memory("RssAnon");

    // 4 MiB, which are there several times while they are deployed.
    let mut large = page("a", "/a", "a");
    large.push(json!({ "id": "c", "type": "comment", "z": "a", "x": 1, "y": 1, "info": "i".repeat(4 << 20) }));
    process.deploy(&token, &flow_set(&[large])).await;
    let small = flow_set(&[page("a", "/a", "b")]);
    process.deploy(&token, &small).await;
    comes_back_in_time(&process, before).await;
}

#[tokio::test]
async fn memory_of_many_nodes_is_returned_to_the_system_by_every_thread_within_seconds() {
    let place = tempfile::tempdir().unwrap();
    let process = Process::start("", place.path());
    let token = process.sign_in("admin").await;
    let before = process.memory("RssAnon");

    for edit in 0..3 {
        let mut many = page("a", "/a", "a");
        many.extend((0..10_000).map(|n| {
            json!({ "id": format!("{n:016x}"), "type": "change", "z": "a", "x": 1, "y": 1, "name": format!("step {n}"),
                    "rules": [{ "t": "set", "p": "payload", "pt": "msg", "to": edit.to_string(), "tot": "num" }],
                    "wires": [[format!("{:016x}", n + 1)]] })
        }));
        process.deploy(&token, &flow_set(&[many])).await;
    }
    process
        .deploy(&token, &flow_set(&[page("a", "/a", "b")]))
        .await;
    comes_back_in_time(&process, before).await;
}

#[tokio::test]
async fn memory_of_a_refused_deployment_is_returned_to_the_system_within_seconds() {
    let place = tempfile::tempdir().unwrap();
    let process = Process::start("", place.path());
    let token = process.sign_in("admin").await;
    let before = process.memory("RssAnon");

    let text = "[".repeat(5 << 20);
    let answer = process
        .post("/flows")
        .token(&token)
        .header("Content-Type", "application/json")
        .body(text)
        .send()
        .await;
    assert_eq!(answer.status, 400);
    comes_back_in_time(&process, before).await;
}

#[tokio::test]
async fn memory_of_a_password_check_is_returned_to_the_system_within_seconds() {
    // Of the tests' password, as `flowgate hash-password` makes it: a check takes 19 MiB.
    let hash = "$argon2id$v=19$m=19456,t=2,p=1$s7gYDYT1awdJnerafJUr4w$XvfFjptqI2TPwr+t8B2SGWFemzp3dlCP4m5Wuv8W3Es";
    let user = format!(
        "[[auth.user]]\nname = \"admin\"\npassword_hash = \"{hash}\"\npermissions = [\"*\"]\n"
    );
    let place = tempfile::tempdir().unwrap();
    let process = Process::start(&user, place.path());
    let before = process.memory("RssAnon");
    process.sign_in("admin").await;
    comes_back_in_time(&process, before).await;
}

#[tokio::test]
async fn memory_of_large_bodies_is_returned_to_the_system_within_seconds() {
    let place = tempfile::tempdir().unwrap();
    let process = Process::start(&public(&["/size"]), place.path());
    let token = process.sign_in("admin").await;
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "in", "type": "http in", "z": "t", "x": 1, "y": 1, "method": "post", "url": "/size", "wires": [["size"]] },
        { "id": "size", "type": "change", "z": "t", "x": 1, "y": 1, "wires": [["out"]],
          "rules": [{ "t": "set", "p": "payload", "pt": "msg", "to": "payload.length", "tot": "msg" }] },
        { "id": "out", "type": "http response", "z": "t", "x": 1, "y": 1, "wires": [] },
    ]);
    process.deploy(&token, &flow).await;
    // What a deployment gives back is not what is tried here.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = process.memory("RssAnon");
    let uploads = (0..8).map(|_| {
        let upload = process.post("/size").header("Content-Type", "text/plain");
        upload.body("x".repeat(4 << 20)).send()
    });
    for answer in futures_util::future::join_all(uploads).await {
        assert_eq!(answer.status, 200);
    }
    comes_back_in_time(&process, before).await;
}

#[tokio::test]
async fn a_websocket_does_not_keep_the_memory_of_its_largest_frame() {
    let place = tempfile::tempdir().unwrap();
    let process = Process::start(&public(&["/ws"]), place.path());
    let token = process.sign_in("admin").await;
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "l", "type": "websocket-listener", "path": "/ws", "wholemsg": "false" },
        { "id": "ws-in", "type": "websocket in", "z": "t", "x": 1, "y": 1, "server": "l", "client": "", "wires": [["count"]] },
        { "id": "count", "type": "function", "z": "t", "x": 1, "y": 1, "outputs": 1, "wires": [["ws-out"]],
          "func": "msg.payload = String(msg.payload.length); return msg;" },
        { "id": "ws-out", "type": "websocket out", "z": "t", "x": 1, "y": 1, "server": "l", "client": "", "wires": [] },
    ]);
    process.deploy(&token, &flow).await;
    let mut sockets = Vec::new();
    let mut before = 0;
    for n in 0..13 {
        let mut socket = crate::tunnel::open(&process, "/ws", &[]).await.unwrap();
        let large = Message::binary(vec![b'x'; 4 << 20]);
        socket.send(large).await.unwrap();
        let received = socket.next().await.unwrap().unwrap();
        assert_eq!(received, Message::text((4 << 20).to_string()));
        sockets.push(socket);
        // The first ones also warm up the engine.
        if n == 4 {
            before = process.memory("RssAnon");
        }
    }
    until("the memory is back", async || {
        process.memory("RssAnon") < before + (12 << 10)
    })
    .await;
}

async fn comes_back_in_time(process: &Process, before: u64) {
    let stopwatch = Stopwatch::start();
    until("the memory is back", async || {
        process.memory("RssAnon") < before + MAY_STAY
    })
    .await;
    stopwatch.assert_within(SOON);
}
