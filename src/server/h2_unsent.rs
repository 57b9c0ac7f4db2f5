//! The unfinished responses of an HTTP/2 connection, each with the time since which flow control
//! has blocked it.
//!
//! hyper polls a body for a piece, then waits until its stream has capacity for one byte, hands the
//! whole piece to the h2 library, and polls for the next one. So a body cannot end a blocked
//! stream. The content is therefore kept here, where the connection's ticker can drop it together
//! with the permits and the upstream connection that it holds. With the last piece hyper drops the
//! body, while h2 keeps the piece until it has sent it: the response stays here until then. A
//! connection and its streams run on one thread, so the lock is never contended.

use crate::http::ResponseBody as Content;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use parking_lot::{Mutex, MutexGuard};
use slab::Slab;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// The unfinished responses of one connection.
#[derive(Debug, Default)]
pub(super) struct Unfinished(Mutex<Slab<Response>>);

/// One of them.
#[derive(Debug)]
struct Response {
    /// `None`: dropped, because the peer did not read it, or because the body has ended.
    content: Option<Content>,
    /// Since when a frame has been waiting for capacity; `None`: the content has no frame ready.
    blocked: Option<u64>,
    /// Pieces that hyper or h2 holds.
    pieces: usize,
    /// True if the body has been dropped: only pieces are left.
    ended: bool,
}

/// The state of the responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// No stream is blocked for too long, or its content has been dropped just now.
    Fine,
    /// A stream is still blocked as long again after its content was dropped: its peer holds the
    /// connection's buffers.
    Stuck,
}

impl Unfinished {
    /// Adds a response that has not been polled yet.
    pub(super) fn add(&self, content: Content, now: u64) -> usize {
        self.lock().insert(Response {
            content: Some(content),
            blocked: Some(now),
            pieces: 0,
            ended: false,
        })
    }

    /// Drops the content of a response that has ended, and removes it unless pieces of it are left
    /// to be sent.
    pub(super) fn remove(&self, key: usize, now: u64) {
        let mut responses = self.lock();
        let Some(response) = responses.get_mut(key) else {
            return;
        };
        response.ended = true;
        response.blocked.get_or_insert(now);
        let content = response.content.take();
        if response.pieces == 0 {
            responses.try_remove(key);
        }
        drop(responses);
        drop(content);
    }

    /// A piece of a response has been sent or thrown away.
    pub(super) fn sent(&self, key: usize) {
        let mut responses = self.lock();
        let Some(response) = responses.get_mut(key) else {
            return;
        };
        response.pieces = response.pieces.saturating_sub(1);
        if response.ended && response.pieces == 0 {
            responses.try_remove(key);
        }
    }

    /// The next frame of a response.
    pub(super) fn poll_frame(
        &self,
        key: usize,
        now: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, <Content as Body>::Error>>> {
        let mut responses = self.lock();
        let Some(Response {
            content: Some(content),
            blocked,
            pieces,
            ..
        }) = responses.get_mut(key)
        else {
            return Poll::Ready(Some(Err(<Content as Body>::Error::Stalled)));
        };
        let frame = Pin::new(content).poll_frame(cx);
        *blocked = frame.is_ready().then_some(now);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            *pieces += usize::from(frame.is_data());
        }
        frame
    }

    /// Returns whether a response has no more frames.
    pub(super) fn is_end_stream(&self, key: usize) -> bool {
        let responses = self.lock();
        let content = responses.get(key).and_then(|r| r.content.as_ref());
        content.is_some_and(Content::is_end_stream)
    }

    /// The size of the rest of a response.
    pub(super) fn size_hint(&self, key: usize) -> SizeHint {
        let responses = self.lock();
        let content = responses.get(key).and_then(|r| r.content.as_ref());
        content.map_or_else(SizeHint::default, Content::size_hint)
    }

    /// Drops the content of responses that have been blocked for `limit`.
    pub(super) fn drop_blocked(&self, now: u64, limit: Duration) -> Found {
        let mut found = Found::Fine;
        let mut dropped = Vec::new();
        for (_, response) in self.lock().iter_mut() {
            let since = response.blocked.map(|since| now.saturating_sub(since));
            let blocked = Duration::from_millis(since.unwrap_or_default());
            if since.is_none() || blocked < limit {
                continue;
            }
            dropped.extend(response.content.take());
            if blocked >= limit * 2 {
                found = Found::Stuck;
            }
        }
        if !dropped.is_empty() {
            tracing::debug!(
                streams = dropped.len(),
                "dropped the content of responses that the client does not read"
            );
        }
        found
    }

    fn lock(&self) -> MutexGuard<'_, Slab<Response>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    const LIMIT: Duration = Duration::from_secs(1);

    fn polled(unfinished: &Unfinished, key: usize, now: u64) -> &'static str {
        let mut cx = Context::from_waker(Waker::noop());
        match unfinished.poll_frame(key, now, &mut cx) {
            Poll::Ready(Some(Ok(_))) => "frame",
            Poll::Ready(Some(Err(_))) => "error",
            Poll::Ready(None) => "end",
            Poll::Pending => "pending",
        }
    }

    fn long() -> Content {
        Content::from(Bytes::from(vec![0; 1 << 20]))
    }

    #[test]
    fn unread_content_is_dropped_and_its_stream_fails() {
        let unfinished = Unfinished::default();
        let (slow, quick) = (unfinished.add(long(), 0), unfinished.add(long(), 0));
        assert_eq!(polled(&unfinished, slow, 100), "frame");
        assert_eq!(polled(&unfinished, quick, 900), "frame");
        assert_eq!(unfinished.drop_blocked(1099, LIMIT), Found::Fine);
        assert_eq!(polled(&unfinished, quick, 1100), "frame");
        assert_eq!(unfinished.drop_blocked(1100, LIMIT), Found::Fine);
        assert_eq!(polled(&unfinished, slow, 1200), "error");
        assert_eq!(polled(&unfinished, quick, 1200), "frame");
    }

    #[test]
    fn content_that_was_never_polled_is_dropped_too() {
        let unfinished = Unfinished::default();
        let key = unfinished.add(long(), 0);
        assert_eq!(unfinished.drop_blocked(1000, LIMIT), Found::Fine);
        assert_eq!(polled(&unfinished, key, 1000), "error");
    }

    #[test]
    fn a_stuck_stream_closes_its_connection() {
        let unfinished = Unfinished::default();
        let key = unfinished.add(long(), 0);
        assert_eq!(unfinished.drop_blocked(1999, LIMIT), Found::Fine);
        assert_eq!(unfinished.drop_blocked(2000, LIMIT), Found::Stuck);
        unfinished.remove(key, 2000);
        assert_eq!(unfinished.drop_blocked(9000, LIMIT), Found::Fine);
    }

    #[test]
    fn an_unsent_last_chunk_closes_its_connection() {
        let unfinished = Unfinished::default();
        let key = unfinished.add(Content::from(Bytes::from_static(b"all")), 0);
        assert_eq!(polled(&unfinished, key, 100), "frame");
        unfinished.remove(key, 100);
        assert_eq!(unfinished.drop_blocked(2099, LIMIT), Found::Fine);
        assert_eq!(unfinished.drop_blocked(2100, LIMIT), Found::Stuck);
        unfinished.sent(key);
        assert_eq!(unfinished.drop_blocked(9000, LIMIT), Found::Fine);
        assert!(unfinished.lock().is_empty());
    }
}
