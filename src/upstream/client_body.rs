//! Checks the body of a client's request while it is read: it has exactly the length that its head
//! announced, it ends where the protocol requires it, and its trailers carry nothing that belongs
//! into a head.

use super::lingering::Lingering;
use super::withheld;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::{HeaderMap, Version};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Why a client's body is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It ended early, is longer than announced, or its framing is broken.
    #[error("the body is incomplete")]
    Incomplete,
    /// Its trailers frame, route or authorise.
    #[error("the trailers have a field that belongs into the head")]
    Trailers,
}

/// The body of a client's request; its frames are data only.
#[derive(Debug)]
pub struct ClientBody<B = Lingering> {
    inner: B,
    /// Bytes that are announced and have not come.
    left: Option<u64>,
    /// True if the protocol marks the end of the body apart from the end of its connection or
    /// stream.
    marks_end: bool,
    /// The last bytes of an announced length: kept until the body has ended, because trailers may
    /// follow.
    held: Bytes,
    ended: bool,
}

impl ClientBody {
    /// Of a request of this version. If it is dropped before its end, at most `limit` bytes more
    /// are discarded.
    pub fn received(body: Incoming, version: Version, limit: usize) -> Self {
        Self::new(Lingering::new(body, version, limit), version)
    }
}

impl<B: Body<Data = Bytes> + Unpin> ClientBody<B> {
    /// Of a request of this version.
    pub fn new(inner: B, version: Version) -> Self {
        let left = inner.size_hint().exact();
        Self {
            left,
            ended: inner.is_end_stream() && left.unwrap_or(0) == 0,
            marks_end: version == Version::HTTP_2,
            held: Bytes::new(),
            inner,
        }
    }

    fn end(&mut self) -> Poll<Option<Result<Bytes, BodyError>>> {
        self.ended = true;
        // HTTP/2: a stream that was reset with NO_ERROR ends too, but not with END_STREAM.
        let marked = !self.marks_end || self.inner.is_end_stream();
        if !marked || self.left.is_some_and(|left| left > 0) {
            return Poll::Ready(Some(Err(BodyError::Incomplete)));
        }
        let last = std::mem::take(&mut self.held);
        Poll::Ready((!last.is_empty()).then_some(Ok(last)))
    }

    /// Data that can be passed on now; `None`: it is kept for the end.
    fn data(&mut self, data: Bytes) -> Result<Option<Bytes>, BodyError> {
        if let Some(left) = &mut self.left {
            *left = left
                .checked_sub(data.len() as u64)
                .ok_or(BodyError::Incomplete)?;
        }
        let complete = self.left.unwrap_or(0) == 0;
        if complete && self.inner.is_end_stream() {
            self.ended = true;
        } else if complete && self.left.is_some() {
            self.held = data;
            return Ok(None);
        }
        Ok(Some(data))
    }

    /// The next piece.
    pub(super) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        while !self.ended {
            let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(cx)) else {
                return self.end();
            };
            let frame = frame.map_err(|_| BodyError::Incomplete);
            let next = frame.and_then(|frame| match frame.into_data() {
                Ok(data) if data.is_empty() => Ok(None),
                Ok(data) => self.data(data),
                Err(frame) => frame.trailers_ref().map_or(Ok(()), checked).map(|()| None),
            });
            match next {
                Ok(None) => {}
                Ok(Some(data)) => return Poll::Ready(Some(Ok(data))),
                Err(error) => {
                    self.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Ready(None)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ClientBody<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let data = ready!(self.get_mut().poll_data(cx));
        Poll::Ready(data.map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.len() as u64;
        self.left
            .map_or_else(SizeHint::default, |left| SizeHint::with_exact(left + held))
    }
}

/// Refuses trailers that a recipient might merge into the head with another meaning than what was
/// authorised (RFC 9110 §6.5.1). All others stay behind. Of HTTP/2 the library has removed
/// pseudo-header fields before.
fn checked(trailers: &HeaderMap) -> Result<(), BodyError> {
    if trailers
        .keys()
        .any(|name| withheld::is_refused_in_trailers(name.as_str()))
    {
        return Err(BodyError::Trailers);
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use hyper::header::{HeaderName, HeaderValue};
    use std::convert::Infallible;

    /// A body of frames; `marked`: its end is marked.
    struct Pieces {
        frames: Vec<Frame<Bytes>>,
        length: Option<u64>,
        marked: bool,
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let next = (!self.frames.is_empty()).then(|| self.frames.remove(0));
            Poll::Ready(next.map(Ok))
        }

        fn is_end_stream(&self) -> bool {
            self.marked && self.frames.is_empty()
        }

        fn size_hint(&self) -> SizeHint {
            self.length
                .map_or_else(SizeHint::default, SizeHint::with_exact)
        }
    }

    fn data(text: &'static str) -> Frame<Bytes> {
        Frame::data(Bytes::from_static(text.as_bytes()))
    }

    fn trailers(name: &'static str) -> Frame<Bytes> {
        let field = (HeaderName::from_static(name), HeaderValue::from_static("1"));
        Frame::trailers(HeaderMap::from_iter([field]))
    }

    /// The pieces that pass, and how it ended.
    async fn read(
        frames: Vec<Frame<Bytes>>,
        length: Option<u64>,
        version: Version,
        marked: bool,
    ) -> (Vec<String>, Result<(), BodyError>) {
        let pieces = Pieces {
            frames,
            length,
            marked,
        };
        let mut body = ClientBody::new(pieces, version);
        let mut passed = Vec::new();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => {
                    let piece = frame.into_data().unwrap();
                    passed.push(String::from_utf8(piece.to_vec()).unwrap());
                }
                Err(error) => return (passed, Err(error)),
            }
        }
        assert!(body.is_end_stream());
        (passed, Ok(()))
    }

    const HTTP_1: (Version, bool) = (Version::HTTP_11, false);
    const HTTP_2: (Version, bool) = (Version::HTTP_2, true);

    #[tokio::test]
    async fn a_body_must_have_exactly_the_announced_length() {
        for (version, marked) in [HTTP_1, HTTP_2] {
            let body = read(vec![data("ab"), data("cd")], Some(4), version, marked).await;
            assert_eq!(body, (vec!["ab".to_owned(), "cd".to_owned()], Ok(())));
            let short = read(vec![data("ab")], Some(4), version, marked).await;
            assert_eq!(short, (vec!["ab".to_owned()], Err(BodyError::Incomplete)));
            let long = read(vec![data("ab"), data("cd")], Some(3), version, marked).await;
            assert_eq!(long, (vec!["ab".to_owned()], Err(BodyError::Incomplete)));
        }
    }

    #[tokio::test]
    async fn a_reset_stream_is_not_a_complete_body() {
        let (_, ended) = read(vec![data("ab")], None, Version::HTTP_2, false).await;
        assert_eq!(ended, Err(BodyError::Incomplete));
        let (pieces, ended) = read(vec![data("ab")], None, Version::HTTP_2, true).await;
        assert_eq!((pieces.len(), ended), (1, Ok(())));
    }

    #[tokio::test]
    async fn a_body_is_complete_only_after_its_trailers_are_accepted() {
        for (version, marked) in [HTTP_1, HTTP_2] {
            for length in [None, Some(2)] {
                let good = read(
                    vec![data("ab"), trailers("x-checksum")],
                    length,
                    version,
                    marked,
                )
                .await;
                assert_eq!(good, (vec!["ab".to_owned()], Ok(())));
                let bad = read(
                    vec![data("ab"), trailers("authorization")],
                    length,
                    version,
                    marked,
                )
                .await;
                assert_eq!(bad.1, Err(BodyError::Trailers));
                assert_eq!(
                    bad.0.is_empty(),
                    length.is_some(),
                    "nothing that looks whole"
                );
            }
        }
    }
}
