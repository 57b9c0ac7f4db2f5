//! The frames that wait for one editor: producers put them in without waiting; the editor's own task takes them out.
//!
//! Bounded in bytes. An editor that reads too slowly loses nothing silently: it is closed, and opens again.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The sending half of an outbox.
pub(super) struct Outbox {
    frames: UnboundedSender<Bytes>,
    level: Arc<Level>,
}

/// The receiving half of an outbox.
pub(super) struct Waiting {
    frames: UnboundedReceiver<Bytes>,
    level: Arc<Level>,
}

/// The fill level of an outbox.
pub(super) struct Level {
    bytes: AtomicUsize,
    limit: usize,
    over: Notify,
}

/// An outbox in which about `limit` bytes may wait.
pub(super) fn outbox(limit: usize) -> (Outbox, Waiting) {
    let (sender, receiver) = unbounded_channel();
    let level = Arc::new(Level {
        bytes: AtomicUsize::new(0),
        limit,
        over: Notify::new(),
    });
    let outbox = Outbox {
        frames: sender,
        level: Arc::clone(&level),
    };
    let waiting = Waiting {
        frames: receiver,
        level,
    };
    (outbox, waiting)
}

impl Outbox {
    /// Puts a frame in; false: the editor is too slow, or gone. An empty outbox takes a frame of any size.
    pub(super) fn put(&self, frame: Bytes) -> bool {
        let length = frame.len();
        let before = self.level.bytes.fetch_add(length, Ordering::Relaxed);
        if before > 0 && before + length > self.level.limit {
            self.level.over.notify_one();
            return false;
        }
        self.frames.send(frame).is_ok()
    }

    /// Whether it is this editor's.
    pub(super) fn belongs_to(&self, level: &Arc<Level>) -> bool {
        Arc::ptr_eq(&self.level, level)
    }
}

impl Waiting {
    /// The next frame; waits for ever once the outbox has been dropped. Cancel-safe.
    pub(super) async fn next(&mut self) -> Bytes {
        match self.frames.recv().await {
            Some(frame) => frame,
            None => std::future::pending().await,
        }
    }

    /// A frame has left.
    pub(super) fn left(&self, length: usize) {
        self.level.bytes.fetch_sub(length, Ordering::Relaxed);
    }

    pub(super) fn level(&self) -> Arc<Level> {
        Arc::clone(&self.level)
    }
}

impl Level {
    /// Waits until more was put in than may wait.
    pub(super) async fn exceeded(&self) {
        self.over.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_outbox_is_bounded_except_for_a_single_frame() {
        let (outbox, mut waiting) = outbox(10);
        assert!(outbox.put(Bytes::from_static(&[0; 50])));
        let frame = waiting.next().await;
        waiting.left(frame.len());
        assert!(outbox.put(Bytes::from_static(&[0; 6])));
        assert!(outbox.put(Bytes::from_static(&[0; 4])));
        assert!(!outbox.put(Bytes::from_static(&[0; 1])));
        waiting.level().exceeded().await;
    }
}
