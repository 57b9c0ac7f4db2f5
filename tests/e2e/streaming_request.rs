//! [`StreamingRequest`]: a request whose body a test sends piece by piece, over HTTP/1.1 or HTTP/2.

use crate::client::{Client, Request};
use crate::harness::{TEST_TIMEOUT, until};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::CONTENT_LENGTH;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The body: whatever comes through the channel, until that is closed.
pub struct ChannelBody(pub mpsc::Receiver<Bytes>);

impl Body for ChannelBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(cx)
            .map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// A request that has begun.
pub struct StreamingRequest {
    pieces: Option<mpsc::Sender<Bytes>>,
    response: JoinHandle<hyper::Result<Response<Incoming>>>,
}

/// What came back.
#[derive(Debug)]
pub struct Outcome {
    pub status: u16,
    pub challenge: String,
    pub body: Bytes,
}

impl StreamingRequest {
    /// Sends the head and the first piece, and waits until the gateway has accepted the caller.
    /// `length`: of the whole body, if it is announced.
    pub async fn send(
        client: &Client,
        request: Request,
        http2: bool,
        first: &[u8],
        length: Option<usize>,
    ) -> Self {
        const VALID: &str = "flowgate_token_checks_total{result=\"valid\"}";
        let before = client.metric(VALID).await;
        let (sender, receiver) = mpsc::channel(1);
        let tls = Arc::new(client.tls(&[if http2 { "h2" } else { "http/1.1" }]));
        let from = Ipv4Addr::LOCALHOST.into();
        let stream = TokioIo::new(client.connect_tls(tls, from, "localhost").await.unwrap());
        let mut request = request.build(http2).map(|_| ChannelBody(receiver));
        if let Some(length) = length {
            request.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        let response = if http2 {
            let executor = TokioExecutor::new();
            let (mut sender, connection) = http2::handshake(executor, stream).await.unwrap();
            tokio::spawn(connection);
            tokio::spawn(async move { sender.send_request(request).await })
        } else {
            let (mut sender, connection) = http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            tokio::spawn(async move { sender.send_request(request).await })
        };
        let mut begun = Self {
            pieces: Some(sender),
            response,
        };
        assert!(begun.piece(first).await, "the first piece is taken");
        until("the caller is accepted", async || {
            client.metric(VALID).await > before
        })
        .await;
        begun
    }

    /// Sends a piece; false if the body is not wanted any more.
    pub async fn piece(&mut self, piece: &[u8]) -> bool {
        let Some(pieces) = &self.pieces else {
            return false;
        };
        let sent = pieces.send(Bytes::copy_from_slice(piece));
        timeout(TEST_TIMEOUT, sent)
            .await
            .is_ok_and(|sent| sent.is_ok())
    }

    /// Sends the last piece, if it is still wanted, and reads the answer; `None`: the connection
    /// ended without one.
    pub async fn end(mut self, last: &[u8]) -> Option<Outcome> {
        self.piece(last).await;
        self.pieces = None;
        self.answer().await
    }

    /// Reads the answer while the body is not at its end.
    pub async fn answer(self) -> Option<Outcome> {
        let response = timeout(TEST_TIMEOUT, self.response).await;
        let response = response.expect("it is answered").unwrap().ok()?;
        let challenge = response.headers().get("www-authenticate");
        let challenge = challenge.map_or("", |value| value.to_str().unwrap());
        let (status, challenge) = (response.status().as_u16(), challenge.to_owned());
        let body = response.into_body().collect().await.ok()?.to_bytes();
        Some(Outcome {
            status,
            challenge,
            body,
        })
    }
}
