//! The response body as the connection sends it: it fails when the client's authorization lapses,
//! so that the response is visibly incomplete.

use super::granted::Watch;
use super::response_body::{Body, Half};
use crate::auth::Lapsed;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use limits::quota::Grant;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of a response, as it is sent.
#[derive(Debug)]
pub struct ResponseBody {
    body: Body,
    /// `None`: it is sent in one piece, or is public.
    watch: Option<Watch>,
    /// Its memory, charged to its user until it is sent.
    _held: Option<Grant>,
}

impl ResponseBody {
    pub(super) fn new(body: Body, watch: Option<Watch>, held: Option<Grant>) -> Self {
        Self {
            body,
            watch,
            _held: held,
        }
    }

    fn cut(&mut self, lapsed: Lapsed) -> Poll<Option<Result<Frame<Bytes>, Half>>> {
        // Closes the source now: the upstream's connection, or a file.
        (self.body, self.watch) = (Body::default(), None);
        Poll::Ready(Some(Err(lapsed.into())))
    }
}

#[cfg(test)]
impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self::new(Body::Ours(bytes), None, None)
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = Half;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Half>>> {
        let this = self.get_mut();
        let Some(watch) = &mut this.watch else {
            return Pin::new(&mut this.body).poll_frame(cx);
        };
        if let Err(lapsed) = watch.glance() {
            return this.cut(lapsed);
        }
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if frame.is_pending()
            && let Poll::Ready(lapsed) = watch.poll_lapsed_if_known(cx)
        {
            return this.cut(lapsed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
