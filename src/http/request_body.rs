//! Reads a request's body: in time, within its limit, and only of the kind that the endpoint takes.

use super::error::{Error, FramingError};
use crate::upstream::{BodyError, ClientBody, Pace, Pacer};
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use limits::quota::Grant;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Refuses a body that announces more bytes than the limit, or its length in a way that programs
/// read differently. With HTTP/1.1 that was looked at before; the HTTP/2 library takes two equal
/// lengths for one.
pub(super) fn announced(headers: &HeaderMap, limit: usize) -> Result<(), Error> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(()),
        (Some(length), None) => match number(length.as_bytes()) {
            Some(length) if length <= limit as u64 => Ok(()),
            Some(_) => Err(Error::BodyTooLarge { limit }),
            None => Err(FramingError::Length.into()),
        },
        (Some(_), Some(_)) => Err(FramingError::Length.into()),
    }
}

/// A length in its one spelling: digits, of which the first is zero only if it is the only one.
fn number(text: &[u8]) -> Option<u64> {
    let plain = text.iter().all(u8::is_ascii_digit) && (text == b"0" || !text.starts_with(b"0"));
    let text = std::str::from_utf8(text).ok().filter(|_| plain)?;
    text.parse().ok()
}

/// Reads the whole body, of at most `limit` bytes, at no lower pace than this. The memory that it
/// takes is charged to `held`, if there is a grant.
pub(super) async fn read<B>(
    body: &mut ClientBody<B>,
    limit: usize,
    pace: Pace,
    mut held: Option<&mut Grant>,
) -> Result<Bytes, Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut pacer = Pacer::new(pace);
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut whole = Vec::new();
    while let Some(frame) = next(body, &mut pacer).await? {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        pacer.received(data.len());
        if whole.len() + data.len() > limit {
            return Err(Error::BodyTooLarge { limit });
        }
        // A slice may keep a larger read buffer in memory, so bodies of unauthenticated callers are
        // copied.
        if trusts(held.as_deref()) && whole.is_empty() && body.is_end_stream() {
            let taken = held.map_or(Ok(()), |held| held.try_grow(data.len()));
            return taken.map(|()| data).map_err(|_| Error::MemoryBusy);
        }
        let likely = announced.max(2 * whole.capacity()).min(limit);
        make_room(&mut whole, data.len(), likely, held.as_deref_mut())?;
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}

/// The next frame, unless the client is too slow.
async fn next<B: Body + Unpin>(
    body: &mut B,
    pacer: &mut Pacer,
) -> Result<Option<Result<Frame<B::Data>, B::Error>>, Error> {
    poll_fn(|cx| match Pin::new(&mut *body).poll_frame(cx) {
        Poll::Ready(frame) => Poll::Ready(Ok(frame)),
        Poll::Pending => pacer.poll_late(cx).map(|()| Err(Error::BodyTimeout)),
    })
    .await
}

/// Bytes of the header fields, which stay in memory while the body is read.
pub(super) fn head_size(headers: &HeaderMap) -> usize {
    let sizes = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    sizes.sum()
}

/// Returns whether room may be made for what is announced: of a user, who has a share, or of a body
/// that is not charged.
fn trusts(held: Option<&Grant>) -> bool {
    held.is_none_or(Grant::is_of_user)
}

/// Makes room for more bytes of a body that will probably have `likely`. What an unauthenticated
/// caller is charged grows with what has come; for all else there is room at once: system memory is
/// taken only where bytes are written, and copying 10 MB to grow takes longer than reading them.
fn make_room(
    whole: &mut Vec<u8>,
    more: usize,
    likely: usize,
    held: Option<&mut Grant>,
) -> Result<(), Error> {
    let needed = whole.len() + more;
    if needed <= whole.capacity() {
        return Ok(());
    }
    let capacity = if trusts(held.as_deref()) {
        needed.max(likely)
    } else {
        needed.max(likely.min(2 * whole.capacity()))
    };
    if let Some(held) = held {
        let taken = held.try_grow(capacity - whole.capacity());
        taken.map_err(|_| Error::MemoryBusy)?;
    }
    let made = whole.try_reserve_exact(capacity - whole.len());
    made.map_err(|_| Error::MemoryBusy)
}

/// Refuses a body that is not empty.
pub(super) async fn none<B>(body: &mut ClientBody<B>, pace: Pace) -> Result<(), Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > 0 {
        return Err(Error::UnexpectedBody);
    }
    match read(body, 0, pace, None).await {
        Ok(_) => Ok(()),
        Err(Error::BodyTooLarge { .. }) => Err(Error::UnexpectedBody),
        Err(other) => Err(other),
    }
}

impl From<BodyError> for Error {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Incomplete => Self::BodyBroken,
            BodyError::Trailers => FramingError::Trailers.into(),
        }
    }
}

/// Refuses a body that is not JSON in UTF-8, or is compressed.
pub(super) fn json(headers: &HeaderMap) -> Result<(), Error> {
    match media_type(headers) {
        Some(MediaType { name, utf8: true }) if name.eq_ignore_ascii_case("application/json") => {}
        Some(_) | None => return Err(Error::ContentType),
    }
    plain(headers)
}

/// Refuses a compressed body.
pub(super) fn plain(headers: &HeaderMap) -> Result<(), Error> {
    let identity = |value: &[u8]| value.is_empty() || value.eq_ignore_ascii_case(b"identity");
    if headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .all(|v| identity(v.as_bytes()))
    {
        Ok(())
    } else {
        Err(Error::ContentEncoding)
    }
}

/// A parsed `Content-Type`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MediaType<'h> {
    /// Type and subtype, as sent.
    pub(super) name: &'h str,
    /// True if the `charset` is UTF-8, or none is named.
    pub utf8: bool,
}

/// The one `Content-Type` (RFC 9110 §8.3); `None` if there is none, or several.
pub(super) fn media_type(headers: &HeaderMap) -> Option<MediaType<'_>> {
    let mut fields = headers.get_all(CONTENT_TYPE).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return None;
    };
    let mut parts = field.to_str().ok()?.split(';');
    let name = parts.next()?.trim();
    let utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((key, value)) if key.trim().eq_ignore_ascii_case("charset") => {
            let value = value.trim().trim_matches('"');
            value.eq_ignore_ascii_case("utf-8") || value.eq_ignore_ascii_case("utf8")
        }
        Some(_) | None => true,
    });
    Some(MediaType { name, utf8 })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use futures_util::stream;
    use http_body_util::{Full, StreamBody};
    use hyper::Version;
    use hyper::header::HeaderValue;
    use limits::quota::Quota;
    use std::convert::Infallible;
    use std::time::Duration;

    fn pace() -> Pace {
        Pace::within(Duration::from_secs(30))
    }

    /// A body in pieces.
    fn pieces(pieces: &[&'static str]) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let frames = pieces
            .iter()
            .map(|piece| Ok(Frame::data(Bytes::from(*piece))));
        StreamBody::new(stream::iter(frames.collect::<Vec<_>>()))
    }

    fn client<B: Body<Data = Bytes> + Unpin>(body: B) -> ClientBody<B> {
        ClientBody::new(body, Version::HTTP_11)
    }

    fn with(name: hyper::header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[tokio::test]
    async fn a_body_in_chunks_is_concatenated() {
        let mut body = client(pieces(&["ab", "", "cd", "e"]));
        assert_eq!(read(&mut body, 5, pace(), None).await.unwrap(), "abcde");
        let mut body = client(Full::from("abc"));
        assert_eq!(read(&mut body, 3, pace(), None).await.unwrap(), "abc");
    }

    #[tokio::test]
    async fn the_memory_of_a_body_is_charged_and_refused_beyond_the_quota() {
        let quota = Quota::new(10, 8);
        let mut held = quota.grant([127, 0, 0, 1].into());
        let parts = || client(pieces(&["ab", "cd", "e"]));
        let body = read(&mut parts(), 6, pace(), Some(&mut held)).await;
        assert_eq!((body.unwrap().as_ref(), held.units()), (&b"abcde"[..], 6));
        let body = read(&mut parts(), 6, pace(), Some(&mut held)).await;
        assert!(matches!(body, Err(Error::MemoryBusy)));
        assert_eq!(held.units(), 8);
    }

    #[test]
    fn room_is_made_at_once_for_what_is_announced_unless_it_is_charged() {
        let mut whole = Vec::new();
        make_room(&mut whole, 1, 1_000, None).unwrap();
        assert_eq!(whole.capacity(), 1_000);
        let mut held = Quota::new(100, 100).grant([127, 0, 0, 1].into());
        let mut whole = Vec::new();
        make_room(&mut whole, 1, 1_000, Some(&mut held)).unwrap();
        assert_eq!((whole.capacity(), held.units()), (1, 1));
        let too_much = make_room(&mut Vec::new(), 1, usize::MAX, None);
        assert!(matches!(too_much, Err(Error::MemoryBusy)));
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_while_it_is_read() {
        let body = read(&mut client(pieces(&["abc", "d"])), 3, pace(), None).await;
        assert!(matches!(body, Err(Error::BodyTooLarge { limit: 3 })));
    }

    #[tokio::test]
    async fn a_stalled_body_times_out() {
        let silent = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        assert!(matches!(
            read(
                &mut client(StreamBody::new(silent)),
                3,
                Pace::within(Duration::from_millis(1)),
                None
            )
            .await,
            Err(Error::BodyTimeout)
        ));
    }

    #[tokio::test]
    async fn an_empty_body_counts_as_no_body() {
        assert!(none(&mut client(Full::from("")), pace()).await.is_ok());
        assert!(none(&mut client(pieces(&["", ""])), pace()).await.is_ok());
        for refused in [
            none(&mut client(Full::from("a")), pace()).await,
            none(&mut client(pieces(&["", "a"])), pace()).await,
        ] {
            assert!(matches!(refused, Err(Error::UnexpectedBody)));
        }
    }

    #[test]
    fn an_announced_length_over_the_limit_is_refused() {
        assert!(announced(&with(CONTENT_LENGTH, "6"), 5).is_err());
        assert!(announced(&with(CONTENT_LENGTH, "5"), 5).is_ok());
        assert!(announced(&HeaderMap::new(), 5).is_ok());
    }

    #[test]
    fn only_json_in_utf_8_is_json() {
        for value in [
            "application/json",
            "APPLICATION/JSON; charset=UTF-8",
            "application/json;charset=\"utf-8\"; x=y",
        ] {
            assert!(json(&with(CONTENT_TYPE, value)).is_ok(), "{value}");
        }
        for value in [
            "",
            "text/plain",
            "application/vnd.x+json",
            "application/jsonx",
            "application/json; charset=iso-8859-1",
            "application/x-www-form-urlencoded",
        ] {
            let result = json(&with(CONTENT_TYPE, value));
            assert!(matches!(result, Err(Error::ContentType)), "{value}");
        }
        assert!(matches!(json(&HeaderMap::new()), Err(Error::ContentType)));
    }

    #[test]
    fn a_compressed_body_is_refused() {
        let gzip = plain(&with(CONTENT_ENCODING, "gzip"));
        assert!(matches!(gzip, Err(Error::ContentEncoding)));
        assert!(plain(&with(CONTENT_ENCODING, "identity")).is_ok());
    }
}
