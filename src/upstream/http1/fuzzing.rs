//! Checks the reader of responses against hyper's client.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a check: it may panic"
)]

use super::super::request_body::Outgoing;
use super::{Connection, Error};
use crate::metrics::{self, Metrics};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};

thread_local! {
    static RUNTIME: (Runtime, Arc<metrics::Upstream>) = (
        Builder::new_current_thread().enable_time().build().unwrap(),
        Arc::new(Metrics::new().upstream("fuzzed")),
    );
}

/// Any bytes are read as the same response, however they are cut into pieces; and what is accepted
/// hyper accepts too, and as the same.
pub fn upstream_response(data: &[u8]) {
    let Some((choice, response)) = data.split_first() else {
        return;
    };
    let method = match choice & 1 {
        0 => Method::GET,
        _ => Method::HEAD,
    };
    RUNTIME.with(|(runtime, metrics)| {
        runtime.block_on(async {
            let whole = ours(metrics, &method, Pieces::new(response, usize::MAX)).await;
            for size in [1, 2, usize::from(choice >> 1).max(1)] {
                let pieces = ours(metrics, &method, Pieces::new(response, size)).await;
                assert_eq!(
                    pieces.is_ok(),
                    whole.is_ok(),
                    "{size}: {pieces:?} {whole:?}"
                );
                if let (Ok(pieces), Ok(whole)) = (pieces, &whole) {
                    assert_eq!(pieces, *whole, "{size}");
                }
            }
            if let Ok(whole) = whole {
                let theirs = theirs(&method, Pieces::new(response, usize::MAX)).await;
                assert_eq!(theirs.unwrap(), whole);
            }
        });
    });
}

/// A response that has been read to its end.
#[derive(Debug, PartialEq)]
struct Read {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

async fn ours(
    metrics: &Arc<metrics::Upstream>,
    method: &Method,
    pieces: Pieces,
) -> Result<Read, Error> {
    let mut connection = Connection::new(pieces, Some(metrics));
    let mut request = Request::new(Outgoing::empty());
    request.method_mut().clone_from(method);
    connection.begin(request);
    let head = poll_fn(|cx| connection.poll_head(cx)).await?;
    let (mut body, mut trailers) = (Vec::new(), None);
    let whole = connection.take_whole();
    body.extend_from_slice(&whole.unwrap_or_default());
    while let Some(frame) = poll_fn(|cx| connection.poll_frame(cx)).await {
        match frame?.into_data() {
            Ok(data) => body.extend_from_slice(&data),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    assert!(connection.is_ended());
    Ok(Read {
        status: head.status(),
        headers: head.headers().clone(),
        body: body.into(),
        trailers,
    })
}

async fn theirs(method: &Method, pieces: Pieces) -> hyper::Result<Read> {
    let handshake = http1::Builder::new().handshake(TokioIo::new(pieces));
    let (mut sender, connection) = handshake.await?;
    tokio::spawn(connection);
    let mut request = Request::new(http_body_util::Empty::<Bytes>::new());
    request.method_mut().clone_from(method);
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?;
    Ok(Read {
        status: head.status,
        headers: head.headers,
        trailers: body.trailers().cloned(),
        body: body.to_bytes(),
    })
}

/// An upstream that answers the first bytes with these pieces, and closes.
struct Pieces {
    response: Bytes,
    size: usize,
    asked: bool,
    reader: Option<Waker>,
}

impl Pieces {
    fn new(response: &[u8], size: usize) -> Self {
        Self {
            response: Bytes::copy_from_slice(response),
            size,
            asked: false,
            reader: None,
        }
    }
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.asked {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = self.response.len().min(self.size).min(buf.remaining());
        buf.put_slice(&self.response.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pieces {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.asked = true;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    const LINES: &[&str] = &[
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 \r\n",
        "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 204 No Content\r\n",
        "HTTP/1.1 999\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
    ];
    const FIELDS: &[&str] = &[
        "Transfer-Encoding: chunked\r\n",
        "transfer-encoding: Chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: 11\r\n",
        "Connection: close\r\n",
        "Set-Cookie: a=b\r\n",
        "X: \r\n",
        " folded\r\n",
        "X : y\r\n",
        "Y: z\n",
    ];
    const CONTENT: &[&str] = &[
        "5\r\nhello\r\n",
        "1 ;a=b\r\nx\r\n",
        "00a\r\nhello",
        "world\r\n",
        "0\r\n\r\n",
        "0\r\nX-Sum: 1\r\n\r\n",
        "\r\n",
        "\n",
        "5",
    ];

    /// A response of parts that mean something, with perhaps one wrong byte.
    fn response() -> impl Strategy<Value = Vec<u8>> {
        let parts = (
            any::<u8>(),
            select(LINES),
            vec(select(FIELDS), 0..4),
            vec(select(CONTENT), 0..6),
            proptest::option::weighted(0.3, (any::<Index>(), any::<u8>())),
        );
        parts.prop_map(|(choice, line, fields, content, wrong)| {
            let text = [line, &fields.concat(), "\r\n", &content.concat()].concat();
            let mut bytes = [&[choice], text.as_bytes()].concat();
            if let Some((at, byte)) = wrong {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_response_is_read_as_hyper_reads_it_however_it_is_cut(data in response()) {
            upstream_response(&data);
        }
    }
}
