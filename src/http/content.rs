//! The body of an answer, and whose it is: ours, or a flow's or the upstream's.

use crate::upstream::{self, Cut};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// Made here.
    Ours(Bytes),
    /// Made by a flow or the upstream, known as a whole.
    Theirs(Bytes),
    /// Passed on as it comes from the upstream.
    Upstream(upstream::Answer),
}

impl Body {
    /// Whether the gateway has made it.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Ours(_))
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Ours(Bytes::new())
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    /// A body that breaks off ends its connection: half an answer never looks like a whole one.
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self.get_mut() {
            Self::Ours(bytes) | Self::Theirs(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Ours(bytes) | Self::Theirs(bytes) => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))))
            }
            Self::Upstream(answer) => Pin::new(answer).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Ours(bytes) | Self::Theirs(bytes) => bytes.is_empty(),
            Self::Upstream(answer) => answer.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Ours(bytes) | Self::Theirs(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Upstream(answer) => answer.size_hint(),
        }
    }
}
