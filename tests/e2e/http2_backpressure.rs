//! Unread responses over HTTP/2 that fit into one piece count as long as the HTTP/2 library holds
//! them for the client.

use crate::client::Client;
use crate::harness::{Gateway, flow_set, public, script, until};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// A connection whose streams have little room each.
struct Narrow {
    sender: http2::SendRequest<Empty<Bytes>>,
    host: String,
}

impl Narrow {
    async fn connect(client: &Client) -> Self {
        let tls = Arc::new(client.tls(&["h2"]));
        let stream = client.connect_tls(tls, Ipv4Addr::LOCALHOST.into(), "localhost");
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1000)
            .initial_connection_window_size(16 << 20)
            .handshake(TokioIo::new(stream.await.unwrap()))
            .await
            .unwrap();
        tokio::spawn(connection);
        let host = client.address.to_string();
        Self { sender, host }
    }

    async fn get(&self, path: &str) -> hyper::Result<Response<Incoming>> {
        let request = Request::get(format!("https://{}{path}", self.host));
        let request = request.body(Empty::new()).unwrap();
        let mut sender = self.sender.clone();
        sender.ready().await?;
        sender.send_request(request).await
    }
}

/// A gateway whose unauthenticated clients have a share of 1 MiB, with an endpoint that answers
/// with 50,000 bytes.
async fn serving(lines: &str) -> Gateway {
    let limits = "[limits]\nbody = \"1MiB\"\nunauthenticated_bytes = \"3MiB\"\n\
                  unauthenticated_bytes_per_address = \"1MiB\"\n";
    let gateway = Gateway::with(&(limits.to_owned() + lines + &public(&["/piece"])));
    let token = gateway.sign_in("admin").await;
    let code = "msg.payload = 'x'.repeat(50000); return msg";
    let flow = script("a", "get", "/piece", code);
    gateway.deploy(&token, &flow_set(&[flow])).await;
    gateway
}

#[tokio::test]
async fn small_unread_responses_of_anonymous_clients_take_at_most_their_share() {
    let gateway = serving("").await;
    let connection = Narrow::connect(&gateway).await;
    let (mut unread, mut refused) = (Vec::new(), 0);
    for _ in 0..40 {
        let response = connection.get("/piece").await.unwrap();
        match response.status().as_u16() {
            200 => unread.push(response),
            503 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(
        unread.len() * 50_000 <= (1 << 20) + (32 << 10),
        "{}",
        unread.len()
    );
    assert!(refused > 0);
    for response in unread {
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len(), 50_000);
    }
    until("what was read is free again", async || {
        gateway.get("/piece").send().await.status == 200
    })
    .await;
}

#[tokio::test]
async fn a_connection_with_an_unread_last_piece_is_ended_although_other_streams_progress() {
    let gateway = serving("[timeouts]\nbody_idle = \"500ms\"\nkeep_alive = \"1h\"\n").await;
    let connection = Narrow::connect(&gateway).await;
    let unread = connection.get("/piece").await.unwrap();
    until("no new requests are taken", async || {
        match connection.get("/auth/login").await {
            Ok(response) => response.into_body().collect().await.is_err(),
            Err(_) => true,
        }
    })
    .await;
    drop(unread);
}
