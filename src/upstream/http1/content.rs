//! The content of a response: where it ends (RFC 9112 §6.3), and the pieces of it in what has been
//! received.

use super::InvalidResponse;
use super::chunked::Chunked;
use bytes::{Bytes, BytesMut};
use hyper::StatusCode;
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};

/// The rest of the content of a response.
#[derive(Debug)]
pub(super) enum Content {
    /// There is none.
    Ended,
    /// So many bytes, at least one.
    Length(u64),
    /// Chunks.
    Chunked(Chunked),
    /// All until the connection ends.
    UntilClose,
}

impl Content {
    /// Of a response with this head.
    pub(super) fn of(
        status: StatusCode,
        bodiless: bool,
        http_1_0: bool,
        headers: &HeaderMap,
    ) -> Result<Self, InvalidResponse> {
        let never = status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if never || bodiless {
            return Ok(Self::Ended);
        }
        let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
        if let Some(coding) = codings.next() {
            let chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
            if http_1_0 || !chunked || codings.next().is_some() {
                return Err(InvalidResponse::Coding);
            }
            return Ok(Self::Chunked(Chunked::default()));
        }
        Ok(match length(headers)? {
            None => Self::UntilClose,
            Some(0) => Self::Ended,
            Some(length) => Self::Length(length),
        })
    }

    /// Takes a frame off what has been received; `None`: there is none, or the content has ended.
    pub(super) fn next(
        &mut self,
        received: &mut BytesMut,
    ) -> Result<Option<Frame<Bytes>>, InvalidResponse> {
        match self {
            Self::Ended => Ok(None),
            Self::Chunked(chunked) => chunked.next(received),
            _ if received.is_empty() => Ok(None),
            Self::UntilClose => Ok(Some(Frame::data(received.split().freeze()))),
            Self::Length(left) => {
                let all = usize::try_from(*left).unwrap_or(usize::MAX);
                let data = received.split_to(all.min(received.len())).freeze();
                *left -= data.len() as u64;
                if *left == 0 {
                    *self = Self::Ended;
                }
                Ok(Some(Frame::data(data)))
            }
        }
    }

    /// Returns whether its last frame has been taken.
    pub(super) fn is_ended(&self) -> bool {
        match self {
            Self::Ended => true,
            Self::Chunked(chunked) => chunked.is_ended(),
            Self::Length(_) | Self::UntilClose => false,
        }
    }

    /// Returns whether the end of the connection is its end.
    pub(super) fn ends_with_connection(&self) -> bool {
        matches!(self, Self::UntilClose)
    }

    /// Bytes that are still to be taken, if their number is known.
    pub(super) fn left(&self) -> Option<u64> {
        match self {
            Self::Ended => Some(0),
            Self::Length(left) => Some(*left),
            Self::Chunked(_) | Self::UntilClose => None,
        }
    }

    /// Returns whether another server might see another end of it: chunks win over a length (RFC
    /// 9112 §6.3), but the upstream that sends both is not trusted with another request on the
    /// connection.
    pub(super) fn is_ambiguous(&self, headers: &HeaderMap) -> bool {
        matches!(self, Self::Chunked(_)) && headers.contains_key(CONTENT_LENGTH)
    }
}

/// The length in a head; a repeated one counts once (RFC 9112 §6.3).
fn length(headers: &HeaderMap) -> Result<Option<u64>, InvalidResponse> {
    let values = headers.get_all(CONTENT_LENGTH).iter();
    let mut lengths = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let Some(first) = lengths.next().map(<[u8]>::trim_ascii) else {
        return Ok(None);
    };
    if lengths.any(|other| other.trim_ascii() != first) || !first.iter().all(u8::is_ascii_digit) {
        return Err(InvalidResponse::Length);
    }
    let length = std::str::from_utf8(first)
        .ok()
        .and_then(|text| text.parse().ok());
    length.map(Some).ok_or(InvalidResponse::Length)
}
