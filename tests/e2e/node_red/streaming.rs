//! Flows of a real Node-RED that answer slowly, without end, or with very much.

use super::{NodeRed, Release};
use crate::client::Raw;
use crate::harness::{Gateway, Process, public, until};
use serde_json::{Value as Json, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Answers that a flow holds open.
const HELD: &str = "functionGlobalContext: { listeners: new Set(), waiting: [] },";

/// What it does with a request: `/events` listens, `/poll` waits, `/say` tells both, `/listeners`
/// counts.
const HOLDS: &str = r#"
    const listeners = global.get("listeners"), waiting = global.get("waiting");
    const res = msg.res._res;
    switch (msg.req.path) {
        case "/events":
            res.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-cache" });
            res.write(": welcome\n\n");
            listeners.add(res);
            res.on("close", () => listeners.delete(res));
            return;
        case "/poll":
            waiting.push(msg);
            return;
        case "/say":
            for (const listener of listeners) listener.write(`data: ${msg.payload}\n\n`);
            for (const held of waiting.splice(0)) node.send({ ...held, payload: msg.payload });
            msg.payload = "said";
            return msg;
        default:
            msg.payload = `${listeners.size} ${waiting.length}`;
            return msg;
    }
"#;

/// Endpoints that all end in one function node.
fn holding() -> Json {
    let mut flow = json!([
        { "id": "t", "type": "tab", "label": "held" },
        { "id": "f", "type": "function", "z": "t", "x": 200, "y": 1, "func": HOLDS, "outputs": 1, "wires": [["r"]] },
        { "id": "r", "type": "http response", "z": "t", "x": 300, "y": 1, "wires": [] },
    ]);
    for (id, method, url) in [
        ("e", "get", "/events"),
        ("p", "get", "/poll"),
        ("s", "post", "/say"),
        ("l", "get", "/listeners"),
    ] {
        flow.as_array_mut().unwrap().push(json!({
            "id": id, "type": "http in", "z": "t", "x": 100, "y": 1, "method": method, "url": url, "wires": [["f"]],
        }));
    }
    flow
}

#[tokio::test]
async fn events_of_a_flow_arrive_as_they_happen_and_the_flow_sees_disconnects() {
    let red = NodeRed::start(Release::Four, HELD);
    let open = public(&["/events", "/poll", "/say", "/listeners"]);
    let gateway = Gateway::with(&(red.config() + &open));
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &holding()).await;
    let counts = async || gateway.get("/listeners").send().await.text();
    until("the flow runs", async || counts().await == "0 0").await;
    let publish = async |words: &str| {
        let request = gateway.post("/say").header("Content-Type", "text/plain");
        assert_eq!(request.body(words.to_owned()).send().await.text(), "said");
    };

    let host = gateway.address;
    let mut events = gateway.raw().await;
    events
        .send(&format!(
            "GET /events HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n"
        ))
        .await;
    let head = receive_until(&mut events, ": welcome\n\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(
        head.contains("content-type: text/event-stream\r\n"),
        "{head}"
    );
    // Compressed or held back until there is more of it, it would not come now.
    for words in ["one", "two"] {
        publish(words).await;
        receive_until(&mut events, &format!("data: {words}\n\n")).await;
    }

    let poll = tokio::spawn(gateway.get("/poll").send());
    until("a client waits", async || counts().await == "1 1").await;
    publish("three").await;
    let answer = poll.await.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "three"));
    receive_until(&mut events, "data: three\n\n").await;

    drop(events);
    until("no client listens", async || counts().await == "0 0").await;
}

/// Hears until these words have come.
async fn receive_until(raw: &mut Raw, words: &str) -> String {
    let mut received = String::new();
    while !received.contains(words) {
        let piece = raw.receive().await;
        assert!(!piece.is_empty(), "it ends: {received}");
        received.push_str(&piece);
    }
    received
}

/// Before the bodies of requests are read for flows: a source of as many bytes as wanted, and a
/// sink that counts them. Byte `n` is `n % 251`.
const MUCH: &str = r#"httpNodeMiddleware: (() => {
    const block = Buffer.from(Uint8Array.from({ length: 251 * 1024 }, (_, i) => i % 251));
    let sent = 0;
    const pour = (res, left) => {
        while (left > 0) {
            const piece = block.subarray(0, Math.min(left, 251 * 256));
            left -= piece.length;
            sent += piece.length;
            if (!res.write(piece)) return res.once("drain", () => pour(res, left));
        }
        res.end();
    };
    const drink = (req, res) => {
        let count = 0, whole = true;
        req.on("data", (piece) => {
            const from = count % 251;
            whole &&= piece.equals(block.subarray(from, from + piece.length));
            count += piece.length;
        });
        req.on("end", () => res.json({ count, whole }));
    };
    return (req, res, next) => {
        if (req.path !== "/much") return next();
        if (req.method === "POST") return drink(req, res);
        if (!req.query.bytes) return res.json({ sent });
        res.writeHead(200, { "Content-Length": req.query.bytes });
        pour(res, Number(req.query.bytes));
    };
})(),"#;

/// 200 MiB
const SIZE: usize = 200 << 20;

#[tokio::test]
async fn two_hundred_mebibytes_pass_both_ways_and_the_gateway_stays_small() {
    let red = NodeRed::start(Release::Four, MUCH);
    let directory = tempfile::tempdir().unwrap();
    let lines = red.config() + &public(&["/much"]) + "[limits]\nbody = \"256MiB\"\n";
    let gateway = Process::start(&lines, directory.path());
    let way = |id, method| json!({ "id": id, "type": "http in", "z": "t", "x": 1, "y": 1, "method": method, "url": "/much", "wires": [[]] });
    let tab = json!({ "id": "t", "type": "tab", "label": "much" });
    red.deploy(&json!([tab, way("g", "get"), way("p", "post")]))
        .await;
    let sent = async || {
        gateway.get("/much").send().await.json()["sent"]
            .as_u64()
            .unwrap()
    };
    until("the flow runs", async || {
        gateway.get("/much").send().await.status == 200
    })
    .await;
    // A small one of each kind, so that what is taken once is taken.
    upload(&gateway, 1 << 20).await;
    let before = gateway.memory("VmHWM");

    // Who does not read on lets the source wait too.
    let mut slow = gateway.raw().await;
    ask(&mut slow, SIZE).await;
    let mut last = 0;
    until("the source stands still", async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = sent().await;
        std::mem::replace(&mut last, now) == now && now > 0
    })
    .await;
    assert!(last < 32 << 20, "{last} bytes are on their way");
    read(&mut slow, SIZE).await;
    upload(&gateway, SIZE).await;

    let after = gateway.memory("VmHWM");
    assert!(after < before + (16 << 10), "{before} KiB became {after}");
}

/// Byte `n` of what passes is `n % 251`.
fn pattern() -> Vec<u8> {
    (0..=250).cycle().take(251 * 1024).collect()
}

async fn ask(raw: &mut Raw, bytes: usize) {
    let line = format!("GET /much?bytes={bytes} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    raw.send(&line).await;
}

/// Reads the head of an answer, and a body of this size.
async fn read(raw: &mut Raw, bytes: usize) {
    let pattern = pattern();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(raw.0.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    assert!(
        head.contains(&format!("content-length: {bytes}\r\n")),
        "{head}"
    );
    let (mut count, mut piece) = (0, vec![0; 64 << 10]);
    while count < bytes {
        let length = raw.0.read(&mut piece).await.unwrap();
        assert!(length > 0, "it ends after {count} bytes");
        assert!(pattern[count % 251..].starts_with(&piece[..length]));
        count += length;
    }
    assert_eq!(count, bytes);
}

async fn upload(gateway: &Process, bytes: usize) {
    let mut raw = gateway.raw().await;
    let line = format!(
        "POST /much HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n"
    );
    raw.send(&line).await;
    let pattern = pattern();
    let mut count = 0;
    while count < bytes {
        let length = (64 << 10).min(bytes - count);
        let from = count % 251;
        raw.0
            .write_all(&pattern[from..from + length])
            .await
            .unwrap();
        count += length;
    }
    raw.0.flush().await.unwrap();
    let answer = raw.rest().await;
    let expected = format!(r#"{{"count":{bytes},"whole":true}}"#);
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains(&expected),
        "{answer}"
    );
}
