//! Connections to an upstream: which are used again, and responses that come before or beside their
//! request.

use crate::harness::{Gateway, TEST_TIMEOUT, public, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::raw_upstream;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

fn in_front_of(address: SocketAddr, more: &str) -> Gateway {
    let upstream = format!("[upstream]\nurl = \"http://{address}\"\nhealth = \"1h\"\n{more}\n");
    Gateway::with(&format!(
        "{upstream}[server]\nworkers = 1\n{}",
        public(&["/x"])
    ))
}

/// Answers every request of every connection with these bytes; counts the connections with requests
/// for `/x`.
async fn answering(answer: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            tokio::spawn(answer_all(tcp, answer, Arc::clone(&counter)));
        }
    });
    (address, connections)
}

async fn answer_all(mut tcp: TcpStream, answer: &str, connections: Arc<AtomicUsize>) {
    let mut piece = [0; 4096];
    let mut counted = false;
    while let Ok(count @ 1..) = tcp.read(&mut piece).await {
        if !counted && piece[..count].starts_with(b"GET /x") {
            counted = true;
            connections.fetch_add(1, Ordering::SeqCst);
        }
        if tcp.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_connection_whose_response_does_not_end_cleanly_is_not_used_again() {
    for (answer, again) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", true),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            true,
        ),
        // Another response without a request.
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\n\r\n",
            false,
        ),
        (
            "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 1\r\n\r\na",
            false,
        ),
        (
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na",
            false,
        ),
        // Two lengths: another reader might see another end.
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            false,
        ),
    ] {
        let (address, connections) = answering(answer).await;
        let gateway = in_front_of(address, "keep_alive = \"1h\"");
        for _ in 0..3 {
            assert_eq!(gateway.get("/x").send().await.text(), "a", "{answer}");
        }
        let expected = if again { 1 } else { 3 };
        assert_eq!(connections.load(Ordering::SeqCst), expected, "{answer}");
    }
}

#[tokio::test]
async fn an_idle_connection_that_the_upstream_closes_is_closed_without_another_request() {
    let behind = MockUpstream::start(|_| Action::Respond(ok("text/plain", "a"))).await;
    let gateway = in_front_of(behind.address, "keep_alive = \"1h\"");
    assert_eq!(gateway.get("/x").send().await.text(), "a");
    let (open, idle) = (
        behind.series("connections_open", ""),
        behind.series("connections_idle", ""),
    );
    assert!(gateway.metric(&idle).await >= Some(1.0));
    behind.stop().await;
    until("the connections are closed", async || {
        gateway.metric(&open).await == Some(0.0) && gateway.metric(&idle).await == Some(0.0)
    })
    .await;
}

#[tokio::test]
async fn interim_responses_are_passed_over_and_their_number_is_limited() {
    let (address, _) = answering(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
    )
    .await;
    let gateway = in_front_of(address, "");
    let response = gateway.get("/x").send().await;
    assert_eq!((response.status, response.text().as_str()), (200, "a"));
    assert!(!response.headers.contains_key("link"));

    let address = raw_upstream::start(async |mut tcp, _| {
        while tcp
            .write_all(b"HTTP/1.1 102 Processing\r\n\r\n")
            .await
            .is_ok()
        {}
    })
    .await;
    let gateway = in_front_of(address, "");
    let response = timeout(TEST_TIMEOUT, gateway.get("/x").send())
        .await
        .unwrap();
    assert_eq!(
        (response.status, response.code().as_str()),
        (502, "upstream_invalid_answer")
    );
}

/// What passes each way: more than the buffers of the system.
const MUCH: usize = 32 << 20;

/// Answers at once, and reads the request while it writes the response.
async fn both_ways(tcp: TcpStream) {
    let (mut reader, mut writer) = tcp.into_split();
    let reading = async {
        let mut left = MUCH;
        let mut piece = vec![0; 1 << 16];
        while left > 0 {
            left -= reader.read(&mut piece).await.unwrap();
        }
    };
    let writing = async {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n");
        writer.write_all(head.as_bytes()).await.unwrap();
        writer.write_all(&vec![b'x'; MUCH - 3]).await.unwrap();
    };
    tokio::join!(reading, writing);
    // Only when the whole request has been read.
    writer.write_all(b"end").await.unwrap();
}

#[tokio::test]
async fn a_client_that_reads_nothing_until_it_has_sent_everything_gets_an_early_response() {
    let address = raw_upstream::start(async |tcp, _| both_ways(tcp).await).await;
    let gateway = in_front_of(address, "[limits]\nbody = \"32MiB\"");
    let mut raw = gateway.raw().await;
    let host = gateway.address;
    let head = format!(
        "POST /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {MUCH}\r\n\r\n"
    );
    raw.send(&head).await;
    let whole = async {
        raw.0.write_all(&vec![b'y'; MUCH]).await.unwrap();
        raw.0.flush().await.unwrap();
        raw.rest().await
    };
    let response = timeout(TEST_TIMEOUT, whole).await.expect("neither waits");
    assert!(response.starts_with("HTTP/1.1 200"));
    assert!(response.ends_with("xend"));
}
