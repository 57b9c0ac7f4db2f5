//! The body of an answer, and whose it is: ours, a part of the editor, or a flow's or the
//! upstream's.

use super::file_body::Reading;
use super::pieces::{PIECE, charged, piece};
use crate::auth::Lapsed;
use crate::upstream::{self, Cut};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use limits::quota::Grant;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The body of an answer.
#[derive(Debug)]
pub(super) enum Body {
    /// Made here.
    Ours(Bytes),
    /// Made by a flow or the upstream, known as a whole. For an unauthenticated caller it is
    /// charged to its address until its last piece has been sent.
    Theirs(Bytes, Option<Arc<Grant>>),
    /// Passed on as it comes from the upstream.
    Upstream(upstream::ResponseBody),
    /// A part of the editor; the number sent at a time is limited.
    #[cfg(feature = "engine")]
    Editor(Box<Reading>),
    /// The audit log; the number sent at a time is limited.
    Log(Box<Reading>),
}

/// Why a body broke off: its connection ends then, so that half an answer never looks like a whole
/// one.
#[derive(Debug, thiserror::Error)]
pub enum Half {
    /// The upstream's did.
    #[error(transparent)]
    Upstream(#[from] Cut),
    /// A file became shorter, or cannot be read any more.
    #[error("a file could not be read to its end")]
    File(#[source] std::io::Error),
    /// The client took nothing of it for too long.
    #[error("the client took nothing of the response for too long")]
    Stalled,
    /// The client's authorization has lapsed.
    #[error(transparent)]
    Lapsed(#[from] Lapsed),
}

impl Body {
    /// Returns whether it is not a flow's or the upstream's.
    pub(super) fn is_ours(&self) -> bool {
        !matches!(self, Self::Theirs(..) | Self::Upstream(_))
    }

    /// The same, with the grant for its memory.
    #[cfg(feature = "engine")]
    pub(super) fn charged(self, held: Option<Grant>) -> Self {
        match self {
            Self::Theirs(bytes, _) => Self::Theirs(bytes, held.map(Arc::new)),
            other => other,
        }
    }

    /// Its bytes in memory that are not charged yet.
    pub(super) fn uncharged(&self) -> usize {
        match self {
            Self::Ours(bytes) | Self::Theirs(bytes, None) => bytes.len(),
            Self::Theirs(_, Some(_)) | Self::Upstream(_) | Self::Log(_) => 0,
            #[cfg(feature = "engine")]
            Self::Editor(_) => 0,
        }
    }

    /// Returns whether it is sent in several pieces, between which the authorization may lapse.
    pub(super) fn lasts(&self) -> bool {
        match self {
            Self::Ours(bytes) | Self::Theirs(bytes, _) => bytes.len() > PIECE,
            Self::Upstream(answer) => answer.lasts(),
            // Public files.
            #[cfg(feature = "engine")]
            Self::Editor(_) => false,
            Self::Log(reading) => reading.left() > 0,
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Ours(Bytes::new())
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Half;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Half>>> {
        match self.get_mut() {
            Self::Ours(bytes) | Self::Theirs(bytes, _) if bytes.is_empty() => Poll::Ready(None),
            Self::Ours(bytes) | Self::Theirs(bytes, None) => {
                Poll::Ready(Some(Ok(Frame::data(piece(bytes)))))
            }
            Self::Theirs(bytes, Some(grant)) => {
                Poll::Ready(Some(Ok(Frame::data(charged(piece(bytes), grant)))))
            }
            Self::Upstream(answer) => Pin::new(answer)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(Half::Upstream))),
            #[cfg(feature = "engine")]
            Self::Editor(reading) => reading
                .poll_piece(cx)
                .map(|piece| piece.map(|piece| piece.map(Frame::data).map_err(Half::File))),
            Self::Log(reading) => reading
                .poll_piece(cx)
                .map(|piece| piece.map(|piece| piece.map(Frame::data).map_err(Half::File))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Ours(bytes) | Self::Theirs(bytes, _) => bytes.is_empty(),
            Self::Upstream(answer) => answer.is_end_stream(),
            #[cfg(feature = "engine")]
            Self::Editor(reading) => reading.left() == 0,
            Self::Log(reading) => reading.left() == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Ours(bytes) | Self::Theirs(bytes, _) => SizeHint::with_exact(bytes.len() as u64),
            Self::Upstream(answer) => answer.size_hint(),
            #[cfg(feature = "engine")]
            Self::Editor(reading) => SizeHint::with_exact(reading.left()),
            Self::Log(reading) => SizeHint::with_exact(reading.left()),
        }
    }
}
