//! The body of an answer: made here, or on its way from the upstream.

use crate::upstream::{self, Cut};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// Known as a whole.
    Whole(Bytes),
    /// Passed on as it comes from the upstream.
    Upstream(upstream::Answer),
}

impl Body {
    /// These bytes.
    pub(super) fn new(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Whole(Bytes::new())
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
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Upstream(answer) => Pin::new(answer).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Upstream(answer) => answer.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Upstream(answer) => answer.size_hint(),
        }
    }
}
