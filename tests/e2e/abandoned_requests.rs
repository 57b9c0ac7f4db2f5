//! Requests of clients that disconnect, or do not read, while the engine is busy count against
//! their address, and are dropped.

use crate::harness::{Gateway, TEST_TIMEOUT, flow_set, public, script, until};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

const LITTLE_MEMORY: &str = "[limits]\nbody = \"1MiB\"\nunauthenticated_bytes = \"3MiB\"\n\
                             unauthenticated_bytes_per_address = \"1200KiB\"\n";

/// Keeps the engine busy.
const BUSY: &str = "const end = Date.now() + 5000; while (Date.now() < end) {} return msg";

#[tokio::test]
async fn abandoned_requests_count_against_the_client_until_the_engine_drops_them() {
    let lines = LITTLE_MEMORY.to_owned() + &public(&["/busy", "/take"]);
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("admin").await;
    let count = "const n = (context.get('n') || 0) + 1; context.set('n', n); \
                 msg.payload = String(n); return msg";
    let flows = [
        script("a", "get", "/busy", BUSY),
        script("b", "post", "/take", count),
    ];
    gateway.deploy(&token, &flow_set(&flows)).await;
    let busy = tokio::spawn(gateway.get("/busy").try_send());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let body = || vec![b'x'; 400 << 10];
    let mut refused = 0;
    for _ in 0..6 {
        let request = gateway.post("/take").body(body()).try_send();
        // Those that are not refused wait for the engine, and leave.
        if let Ok(answer) = timeout(Duration::from_millis(150), request).await {
            let answer = answer.unwrap();
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (503, "memory_busy")
            );
            refused += 1;
        }
    }
    assert!(
        !busy.is_finished(),
        "the engine was not busy for long enough"
    );
    assert!(refused >= 3, "only {refused} were refused");
    let other = gateway
        .post("/take")
        .from("127.0.0.2")
        .body(body())
        .send()
        .await;
    // The flow has seen no request whose client had left.
    assert_eq!((other.status, other.text().as_str()), (200, "1"));
    until("what was dropped is not charged any more", async || {
        gateway.post("/take").body(body()).send().await.status == 200
    })
    .await;
}

#[tokio::test]
async fn requests_without_a_body_count_against_the_client_while_the_engine_is_busy() {
    let lines = LITTLE_MEMORY.to_owned() + &public(&["/busy", "/quick"]);
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("admin").await;
    let flows = [
        script("a", "get", "/busy", BUSY),
        script("b", "get", "/quick", "return msg"),
    ];
    gateway.deploy(&token, &flow_set(&flows)).await;
    let busy = tokio::spawn(gateway.get("/busy").try_send());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let large = "x".repeat(12 << 10);
    let mut asked = JoinSet::new();
    for _ in 0..150 {
        let request = gateway.get("/quick").from("127.0.0.3");
        asked.spawn(request.header("X-Large", &large).send());
    }
    let answers = asked.join_all().await;
    let refused = answers.iter().filter(|answer| answer.status == 503);
    assert!(refused.count() >= 20);
    assert!(answers.iter().any(|answer| answer.status == 200));
    assert_eq!(busy.await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn unread_responses_take_at_most_the_share_of_their_client_address() {
    let lines = LITTLE_MEMORY.to_owned() + "[timeouts]\nbody_idle = \"1h\"\n" + &public(&["/ws"]);
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("admin").await;
    let flow = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "l", "type": "websocket-listener", "path": "/ws", "wholemsg": "false" },
        { "id": "ws-in", "type": "websocket in", "z": "t", "x": 1, "y": 1, "server": "l", "client": "", "wires": [["make"]] },
        { "id": "make", "type": "function", "z": "t", "x": 1, "y": 1, "outputs": 1, "wires": [["ws-out"]],
          "func": "const large = { payload: 'x'.repeat(200000) }; return [Array(20).fill(large)];" },
        { "id": "ws-out", "type": "websocket out", "z": "t", "x": 1, "y": 1, "server": "l", "client": "", "wires": [] },
    ]);
    gateway.deploy(&token, &flow).await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(crate::tunnel::open(&gateway, "/ws", &[]).await.unwrap());
    }
    // Each is sent 4 MB, which is less than one client's queue holds.
    clients[0].send(Message::text("go")).await.unwrap();
    // Those that have no room are closed, however long others may take.
    let mut whole = 0;
    for mut client in clients {
        let mut frames = 0;
        while let Ok(Some(Ok(message))) = timeout(TEST_TIMEOUT, client.next()).await {
            frames += usize::from(message.is_text());
            if frames == 20 {
                whole += 1;
                break;
            }
        }
    }
    assert!(whole <= 2, "{whole} clients got everything");
}
