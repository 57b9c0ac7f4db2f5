//! Checks the invariants of every request that is written to an upstream.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a check: it may panic"
)]

use super::strict_reader;
use super::{Outgoing, Upstream};
use crate::config::Config;
use crate::metrics::Metrics;
use hyper::Request;
use std::future::poll_fn;
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

pub use super::http1::fuzzing::upstream_response;
pub use super::tunnel::fuzzing::tunnel;

/// An upstream that is never connected to.
pub(crate) fn upstream() -> Upstream {
    let text = "[upstream]\nurl = \"http://upstream.example\"\n";
    let config = Config::parse(text, "fuzzed.toml", Path::new("/nonexistent")).unwrap();
    Upstream::open(config.upstreams[0].clone(), &Metrics::new()).unwrap()
}

/// All bytes of a connection over which a request is sent, and whether it was answered. The far end
/// answers as soon as the request is complete, and reads on until the connection ends.
pub(crate) async fn written(
    upstream: &Upstream,
    head: Request<()>,
    body: Outgoing,
) -> (Vec<u8>, bool) {
    let (near, mut far) = duplex(1 << 16);
    let mut connection = upstream.0.connect.speak(near);
    let sending = async move {
        connection.begin(head.map(|()| body));
        poll_fn(|cx| connection.poll_head(cx)).await.is_ok()
    };
    let reading = async move {
        let mut bytes = Vec::new();
        let mut answered = false;
        while matches!(far.read_buf(&mut bytes).await, Ok(1..)) {
            if !answered && !matches!(strict_reader::read(&bytes), Ok(None)) {
                answered = true;
                let response = b"HTTP/1.1 204 No Content\r\n\r\n";
                // An error: the connection has ended.
                let _ = far.write_all(response).await;
            }
        }
        bytes
    };
    let (answered, bytes) = tokio::join!(sending, reading);
    (bytes, answered)
}
