//! The frames that wait for one editor: producers put them in without waiting; the editor's own
//! task takes them out.
//!
//! Bounded in bytes. An editor that reads too slowly loses the oldest debug messages and is sent
//! their number. It loses nothing else silently: when that is not enough, it is closed, and opens
//! again.

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;

/// A frame for an editor.
#[derive(Clone)]
pub(super) struct Frame {
    text: Bytes,
    /// The number of debug messages in it.
    debug: u64,
    /// The frame without them; empty: it has no other messages.
    rest: Bytes,
}

/// Something that an editor is sent.
#[derive(Debug, PartialEq)]
pub(super) enum Outgoing {
    Frame(Bytes),
    /// This many debug messages were lost before the next frame.
    Lost(u64),
}

/// The sending half of an outbox.
#[derive(Clone)]
pub(super) struct Outbox(Arc<Level>);

/// The receiving half of an outbox.
pub(super) struct Waiting(Arc<Level>);

/// The state of an outbox.
pub(super) struct Level {
    queue: Mutex<Queue>,
    limit: usize,
    filled: Notify,
    over: Notify,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// The number of frames at the front that have no debug messages (any more).
    without_debug: usize,
    lost: u64,
}

/// An outbox in which about `limit` bytes may wait.
pub(super) fn outbox(limit: usize) -> (Outbox, Waiting) {
    let level = Arc::new(Level {
        queue: Mutex::default(),
        limit,
        filled: Notify::new(),
        over: Notify::new(),
    });
    (Outbox(Arc::clone(&level)), Waiting(level))
}

impl Frame {
    /// A frame of which nothing may be lost.
    pub(super) fn whole(text: Bytes) -> Self {
        Self {
            text,
            debug: 0,
            rest: Bytes::new(),
        }
    }

    /// A frame with debug messages, which may be lost; `rest`: the frame without them, empty if
    /// nothing is left.
    pub(super) fn with_debug(text: Bytes, debug: u64, rest: Bytes) -> Self {
        Self { text, debug, rest }
    }
}

impl Outbox {
    /// Puts a frame in; false: the editor is too slow. An empty outbox takes a frame of any size.
    pub(super) fn put(&self, frame: Frame) -> bool {
        let mut queue = self.0.queue();
        queue.bytes += frame.text.len();
        queue.frames.push_back(frame);
        while queue.bytes > self.0.limit && queue.drop_oldest_debug() {}
        let fits = queue.bytes <= self.0.limit || queue.frames.len() == 1;
        drop(queue);
        let notified = if fits { &self.0.filled } else { &self.0.over };
        notified.notify_one();
        fits
    }

    /// Returns whether it is this editor's.
    pub(super) fn belongs_to(&self, level: &Arc<Level>) -> bool {
        Arc::ptr_eq(&self.0, level)
    }
}

impl Queue {
    /// Drops the debug messages of the oldest frame that has some; those of a single frame stay.
    fn drop_oldest_debug(&mut self) -> bool {
        while self.frames.len() > 1 && self.without_debug < self.frames.len() {
            let frame = &mut self.frames[self.without_debug];
            let debug = std::mem::take(&mut frame.debug);
            if debug == 0 {
                self.without_debug += 1;
                continue;
            }
            self.lost += debug;
            self.bytes -= frame.text.len() - frame.rest.len();
            frame.text = std::mem::take(&mut frame.rest);
            if frame.text.is_empty() {
                self.frames.remove(self.without_debug);
            }
            return true;
        }
        false
    }

    fn take(&mut self) -> Option<Outgoing> {
        if self.lost > 0 {
            return Some(Outgoing::Lost(std::mem::take(&mut self.lost)));
        }
        let frame = self.frames.pop_front()?;
        self.without_debug = self.without_debug.saturating_sub(1);
        self.bytes -= frame.text.len();
        Some(Outgoing::Frame(frame.text))
    }
}

impl Waiting {
    /// What is sent next. Cancel-safe.
    pub(super) async fn next(&mut self) -> Outgoing {
        loop {
            let next = self.0.queue().take();
            match next {
                Some(next) => return next,
                None => self.0.filled.notified().await,
            }
        }
    }

    pub(super) fn level(&self) -> Arc<Level> {
        Arc::clone(&self.0)
    }
}

impl Level {
    /// Waits until more was put in than may wait.
    pub(super) async fn exceeded(&self) {
        self.over.notified().await;
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &'static str) -> Frame {
        Frame::whole(text.into())
    }

    fn debug(text: &'static str, rest: &'static str) -> Frame {
        Frame::with_debug(text.into(), 3, rest.into())
    }

    fn sent(text: &'static str) -> Outgoing {
        Outgoing::Frame(text.into())
    }

    #[tokio::test]
    async fn the_outbox_is_bounded_except_for_a_single_frame() {
        let (outbox, mut waiting) = outbox(10);
        assert!(outbox.put(frame("longer than the limit")));
        assert_eq!(waiting.next().await, sent("longer than the limit"));
        assert!(outbox.put(frame("666666")));
        assert!(outbox.put(frame("4444")));
        assert!(!outbox.put(frame("1")));
        waiting.level().exceeded().await;
    }

    #[tokio::test]
    async fn a_slow_editor_loses_the_oldest_debug_messages_and_is_sent_their_number() {
        let (outbox, mut waiting) = outbox(10);
        assert!(outbox.put(frame("A")));
        assert!(outbox.put(debug("dddd", "")));
        assert!(outbox.put(debug("dBdd", "B")));
        assert!(outbox.put(debug("eeee", "")));
        assert!(outbox.put(debug("ffff", "")));
        assert_eq!(waiting.next().await, Outgoing::Lost(6));
        for text in ["A", "B", "eeee"] {
            assert_eq!(waiting.next().await, sent(text));
        }
        assert!(outbox.put(debug("longer than the limit", "")));
        assert_eq!(waiting.next().await, Outgoing::Lost(3));
        assert_eq!(waiting.next().await, sent("longer than the limit"));
    }

    #[tokio::test]
    async fn an_editor_that_reads_nothing_holds_no_more_than_the_limit() {
        let (outbox, mut waiting) = outbox(10);
        for _ in 0..1000 {
            assert!(outbox.put(debug("dddd", "")));
            assert!(waiting.0.queue().frames.len() <= 2);
        }
        for _ in 0..10 {
            assert!(outbox.put(frame("s")));
        }
        assert_eq!(waiting.next().await, Outgoing::Lost(3000));
        assert!(!outbox.put(frame("s")));
    }
}
