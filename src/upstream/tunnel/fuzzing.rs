//! Checks the invariants of every stream of WebSocket frames.

#![allow(clippy::missing_panics_doc, reason = "a check: it may panic")]

use super::frames::{Frames, GOING_AWAY};

/// However a stream is cut into pieces, the same is known of it at its end; after a Close there is
/// no other.
pub fn tunnel(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else {
        return;
    };
    let mut whole = Frames::default();
    whole.pass(stream);
    let mut pieces = Frames::default();
    for piece in stream.chunks(usize::from(*size).max(1)) {
        let closing = pieces.closing();
        pieces.pass(piece);
        assert!(pieces.closing() || !closing);
    }
    assert_eq!(pieces.closing(), whole.closing());
    assert_eq!(pieces.close(GOING_AWAY), whole.close(GOING_AWAY));
    assert!(!whole.closing() || whole.close(GOING_AWAY).is_none());
}
