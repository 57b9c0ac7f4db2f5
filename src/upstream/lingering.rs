//! The body of a request as the connection receives it. The rest of one that is dropped before its
//! end over HTTP/2 is read and discarded for a while: the HTTP/2 library resets the stream of a
//! dropped body at once, and a client whose stream is reset while it sends may never read the
//! response (curl 7.88).

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::Version;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;

/// The longest silence of a client whose rest is discarded, and the longest that this takes in all.
/// The same as after the end of an HTTP/1.1 connection.
const SILENCE: Duration = Duration::from_secs(2);
const LINGER: Duration = Duration::from_secs(30);

/// A body whose stream outlives it. Bytes of the rest that are discarded at most: `limit`.
#[derive(Debug)]
pub struct Lingering {
    /// Taken out by drop only.
    inner: Option<Incoming>,
    limit: usize,
    /// True if it is a stream of HTTP/2.
    is_stream: bool,
}

impl Lingering {
    pub(super) fn new(inner: Incoming, version: Version, limit: usize) -> Self {
        Self {
            inner: Some(inner),
            limit,
            is_stream: version == Version::HTTP_2,
        }
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let rest = self.inner.take().filter(|body| !body.is_end_stream());
        let Some(rest) = rest.filter(|_| self.is_stream) else {
            return;
        };
        // Without a runtime the connection has ended too.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let mut rest = Limited::new(rest, self.limit);
            runtime.spawn(timeout(LINGER, async move {
                while let Ok(Some(Ok(_))) = timeout(SILENCE, rest.frame()).await {}
            }));
        }
    }
}

impl Body for Lingering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.inner {
            Some(inner) => Pin::new(inner).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(SizeHint::default, Body::size_hint)
    }
}
