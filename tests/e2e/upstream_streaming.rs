//! Long responses stream through: events, long polls, large bodies. Nothing is buffered whole.

use crate::client::Raw;
use crate::harness::{Gateway, Process, TEST_TIMEOUT, public, until};
use crate::raw_upstream;
use bytes::Bytes;
use http_body_util::BodyExt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

fn in_front_of(address: SocketAddr, more: &str) -> String {
    format!(
        "[upstream]\nurl = \"http://{address}\"\nhealth = \"1h\"\n{more}\n{}",
        public(&["/x"])
    )
}

/// Hears until this has come.
async fn receive_until(raw: &mut Raw, end: &str) -> String {
    let mut received = String::new();
    while !received.contains(end) {
        let piece = raw.receive().await;
        assert!(!piece.is_empty(), "it ends after {received}");
        received.push_str(&piece);
    }
    received
}

#[tokio::test]
async fn events_arrive_one_by_one_and_a_disconnect_reaches_the_upstream() {
    let (next, left) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (go, gone) = (Arc::clone(&next), Arc::clone(&left));
    let address = raw_upstream::start(move |mut tcp, _| {
        let (next, left) = (Arc::clone(&go), Arc::clone(&gone));
        async move {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
            tcp.write_all(head.as_bytes()).await.unwrap();
            for event in ["9\r\ndata: 1\n\n\r\n", "9\r\ndata: 2\n\n\r\n"] {
                tcp.write_all(event.as_bytes()).await.unwrap();
                next.notified().await;
            }
            let _ = tcp.read(&mut [0]).await;
            left.notify_one();
        }
    })
    .await;
    // No answer may pause for so long, but events may.
    let gateway = Gateway::with(&in_front_of(address, "idle = \"50ms\""));
    for http2 in [false, true] {
        let mut connection = gateway.connect(http2).await.unwrap();
        let request = gateway.get("/x");
        let request = if http2 { request.http2() } else { request };
        let mut body = connection.begin(request).await.unwrap().into_body();
        let mut event = async || body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(event().await, "data: 1\n\n");
        let silence = timeout(std::time::Duration::from_millis(150), event());
        assert!(silence.await.is_err(), "the second is not there yet");
        next.notify_one();
        assert_eq!(event().await, "data: 2\n\n");
        next.notify_one();
        drop((body, connection));
        timeout(TEST_TIMEOUT, left.notified())
            .await
            .expect("the upstream sees the disconnect");
    }
}

#[tokio::test]
async fn a_client_that_disconnects_ends_its_request_to_the_upstream() {
    let (begun, left) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, gone) = (Arc::clone(&begun), Arc::clone(&left));
    let address = raw_upstream::start(move |mut tcp, _| {
        let (begins, gone) = (Arc::clone(&begins), Arc::clone(&gone));
        async move {
            begins.notify_one();
            let _ = tcp.read(&mut [0]).await;
            gone.notify_one();
        }
    })
    .await;
    let gateway = Gateway::with(&in_front_of(address, ""));
    for http2 in [false, true] {
        let request = gateway.get("/x");
        let request = if http2 { request.http2() } else { request };
        let waiting = tokio::spawn(request.try_send());
        timeout(TEST_TIMEOUT, begun.notified()).await.unwrap();
        waiting.abort();
        let _ = waiting.await;
        timeout(TEST_TIMEOUT, left.notified())
            .await
            .expect("the upstream sees the disconnect");
    }
}

#[tokio::test]
async fn trailers_of_a_response_reach_clients_that_accept_them() {
    let address = raw_upstream::start(async |mut tcp, _| {
        let answer = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n\
                      3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n";
        tcp.write_all(answer.as_bytes()).await.unwrap();
        let _ = tcp.read(&mut [0]).await;
    })
    .await;
    let gateway = Gateway::with(&in_front_of(address, ""));
    let mut connection = gateway.connect(true).await.unwrap();
    let response = connection.begin(gateway.get("/x").http2()).await.unwrap();
    let whole = response.into_body().collect().await.unwrap();
    assert_eq!(whole.trailers().unwrap()["x-sum"], "7");
    assert_eq!(whole.to_bytes(), "abc");

    let host = gateway.address;
    let ask = |more: &str| {
        let close = "Connection: close";
        format!("GET /x HTTP/1.1\r\nHost: {host}\r\n{more}{close}\r\n\r\n")
    };
    let with = gateway.raw_exchange(&ask("TE: trailers\r\n")).await;
    assert!(
        with.to_ascii_lowercase().ends_with("0\r\nx-sum: 7\r\n\r\n"),
        "{with}"
    );
    let without = gateway.raw_exchange(&ask("")).await;
    assert!(without.ends_with("3\r\nabc\r\n0\r\n\r\n"), "{without}");
}

/// What is large.
const MUCH: usize = 200 << 20;

/// Takes a body of [`MUCH`] bytes, or answers with one.
async fn large(mut tcp: TcpStream, head: String) {
    let mut piece = vec![b'x'; 1 << 20];
    if head.starts_with("POST") {
        let mut left = MUCH;
        while left > 0 {
            let count = tcp.read(&mut piece).await.unwrap();
            assert!(count > 0, "{left} bytes are missing");
            left -= count;
        }
        let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nall";
        tcp.write_all(answer.as_bytes()).await.unwrap();
    } else {
        let head =
            format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {MUCH}\r\n\r\n");
        tcp.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..MUCH >> 20 {
            tcp.write_all(&piece).await.unwrap();
        }
    }
    let _ = tcp.read(&mut [0]).await;
}

#[tokio::test]
async fn large_bodies_pass_both_ways_without_being_buffered() {
    let address = raw_upstream::start(large).await;
    let directory = tempfile::tempdir().unwrap();
    let lines = in_front_of(address, "[limits]\nbody = \"200MiB\"");
    let gateway = Process::start(&lines, directory.path());
    assert_eq!(
        gateway
            .get("/x")
            .http2()
            .header("X-A", "1")
            .send()
            .await
            .body
            .len(),
        MUCH
    );
    let before = gateway.memory("VmHWM");

    let mut raw = gateway.raw().await;
    let host = gateway.address;
    raw.send(&format!(
        "POST /x HTTP/1.1\r\nHost: {host}\r\nContent-Length: {MUCH}\r\nExpect: 100-continue\r\n\r\n"
    ))
    .await;
    receive_until(&mut raw, "HTTP/1.1 100 Continue\r\n\r\n").await;
    let piece = vec![b'y'; 1 << 20];
    for _ in 0..MUCH >> 20 {
        raw.0.write_all(&piece).await.unwrap();
    }
    raw.0.flush().await.unwrap();
    assert!(
        receive_until(&mut raw, "all")
            .await
            .starts_with("HTTP/1.1 200 OK")
    );

    let body = Bytes::from(vec![b'z'; MUCH]);
    let up = gateway.post("/x").http2().body(body).send().await;
    assert_eq!((up.status, up.text().as_str()), (200, "all"));
    assert_eq!(gateway.get("/x").send().await.body.len(), MUCH);
    // Against 200 MiB: what two more connections and the allocator may hold.
    let grown = gateway.memory("VmHWM") - before;
    assert!(before < 64 << 10, "{before} KiB");
    assert!(grown < 16 << 10, "{grown} KiB more");
}

#[tokio::test]
async fn a_client_that_does_not_read_a_response_is_disconnected() {
    let address = raw_upstream::start(|mut tcp: TcpStream, head| async move {
        let kind = if head.contains("events") {
            "text/event-stream"
        } else {
            "application/octet-stream"
        };
        let output = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n");
        tcp.write_all(output.as_bytes()).await.unwrap();
        let piece = vec![b'x'; 64 * 1024];
        while tcp.write_all(&piece).await.is_ok() {}
    })
    .await;
    let lines = in_front_of(address, "[timeouts]\nbody_idle = \"300ms\"");
    let gateway = Gateway::with(&lines);
    let mut open = Vec::new();
    for query in ["events", "long"] {
        let mut raw = gateway.raw().await;
        raw.send(&format!("GET /x?{query} HTTP/1.1\r\nHost: x\r\n\r\n"))
            .await;
        let request = gateway.get(&format!("/x?{query}"));
        let mut connection = gateway.connect(true).await.unwrap();
        // The window of the stream fills; the client does not open it again.
        let answer = connection.begin(request).await.unwrap();
        open.push((raw, connection, answer));
    }
    until("all four are closed", async || {
        gateway.metric("flowgate_connections_open").await == Some(0.0)
    })
    .await;
}
