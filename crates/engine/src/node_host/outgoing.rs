//! What is on its way to the process: frames that it has not taken, and messages that wait until
//! its nodes have started. It is counted, so that sources can pause. Messages of a process that
//! ends are given back.

use bytes::Bytes;
use smol_str::SmolStr;
use std::collections::VecDeque;
use tokio::sync::mpsc;
use value::Message;

/// A message for a node.
pub(crate) struct Addressed {
    /// The running id of the node.
    pub node: SmolStr,
    /// The message itself.
    pub message: Message,
}

/// What is on its way to one process after the other.
#[derive(Default)]
pub(super) struct Outgoing {
    /// The frames for the process; `None`: there is no process.
    frames: Option<mpsc::UnboundedSender<Bytes>>,
    /// Messages for nodes that have not started yet, with their frames.
    early: Vec<(Addressed, Bytes)>,
    early_bytes: usize,
    /// Bytes of all frames that were sent to this process.
    sent: usize,
    /// Bytes of those that were written to it.
    written: usize,
    /// Bytes of those that it has taken.
    taken: usize,
    /// The messages that it has not taken, in order. With each `sent` after it.
    untaken: VecDeque<(usize, Addressed)>,
}

impl Outgoing {
    /// A process begins.
    pub(super) fn begin(&mut self, frames: mpsc::UnboundedSender<Bytes>) {
        self.frames = Some(frames);
    }

    /// The bytes that are on their way.
    pub(super) fn bytes(&self) -> usize {
        self.early_bytes + self.sent.saturating_sub(self.taken)
    }

    /// Sends a frame, if there is a process.
    pub(super) fn send(&mut self, frame: Bytes) {
        if let Some(frames) = &self.frames {
            self.sent += frame.len();
            // The process may be ending; then `end` gives the message back.
            let _ = frames.send(frame);
        }
    }

    /// Sends the frame of a message.
    pub(super) fn send_message(&mut self, message: Addressed, frame: Bytes) {
        self.send(frame);
        self.untaken.push_back((self.sent, message));
    }

    /// Keeps a message until the nodes have started.
    pub(super) fn wait(&mut self, message: Addressed, frame: Bytes) {
        self.early_bytes += frame.len();
        self.early.push((message, frame));
    }

    /// The nodes have started: sends the messages that waited.
    pub(super) fn send_early(&mut self) {
        self.early_bytes = 0;
        for (message, frame) in std::mem::take(&mut self.early) {
            self.send_message(message, frame);
        }
    }

    /// So many bytes were written to the process.
    pub(super) fn written(&mut self, bytes: usize) {
        self.written += bytes;
    }

    /// The process has handed so many bytes of frames to its nodes. False: it cannot have, because
    /// they were not written; then those that were count.
    pub(super) fn taken(&mut self, bytes: usize) -> bool {
        let is_possible = bytes <= self.written - self.taken;
        self.taken = self.taken.saturating_add(bytes).min(self.written);
        while let Some((end, _)) = self.untaken.front()
            && *end <= self.taken
        {
            self.untaken.pop_front();
        }
        is_possible
    }

    /// The process has ended: gives back the messages that it has not taken.
    pub(super) fn end(&mut self) -> Vec<Addressed> {
        let ended = std::mem::take(self);
        let untaken = ended.untaken.into_iter().map(|(_, message)| message);
        let early = ended.early.into_iter().map(|(message, _)| message);
        untaken.chain(early).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn message(node: &str) -> Addressed {
        Addressed {
            node: node.into(),
            message: Message::default(),
        }
    }

    fn nodes(messages: &[Addressed]) -> Vec<&str> {
        messages.iter().map(|m| m.node.as_str()).collect()
    }

    fn frame(length: usize) -> Bytes {
        vec![0; length].into()
    }

    #[test]
    fn what_a_process_has_not_taken_when_it_ends_is_given_back() {
        let (sender, mut frames) = mpsc::unbounded_channel();
        let mut outgoing = Outgoing::default();
        outgoing.wait(message("early"), frame(5));
        outgoing.begin(sender);
        outgoing.send(frame(10));
        assert_eq!(outgoing.bytes(), 15);
        outgoing.send_early();
        outgoing.send_message(message("a"), frame(20));
        outgoing.send_message(message("b"), frame(20));
        assert_eq!(outgoing.bytes(), 55);
        let lengths: Vec<usize> =
            std::iter::from_fn(|| Some(frames.try_recv().ok()?.len())).collect();
        assert_eq!(lengths, [10, 5, 20, 20]);
        outgoing.written(45);
        assert!(outgoing.taken(16));
        assert!(outgoing.taken(19));
        assert_eq!(outgoing.bytes(), 20);
        assert_eq!(nodes(&outgoing.end()), ["b"]);
        assert_eq!(outgoing.bytes(), 0);
        assert!(outgoing.end().is_empty());
    }

    #[test]
    fn a_process_takes_no_more_than_was_written_to_it() {
        let (sender, _frames) = mpsc::unbounded_channel();
        let mut outgoing = Outgoing::default();
        outgoing.begin(sender);
        outgoing.send_message(message("a"), frame(20));
        outgoing.send_message(message("b"), frame(20));
        outgoing.written(20);
        assert!(!outgoing.taken(usize::MAX));
        assert!(!outgoing.taken(usize::MAX));
        assert_eq!(outgoing.bytes(), 20);
        outgoing.written(20);
        assert!(outgoing.taken(20));
        assert_eq!(outgoing.bytes(), 0);
    }

    #[test]
    fn messages_for_a_process_that_never_starts_its_nodes_are_given_back() {
        let mut outgoing = Outgoing::default();
        outgoing.wait(message("a"), frame(1));
        outgoing.send(frame(1));
        assert_eq!(outgoing.bytes(), 1);
        assert_eq!(nodes(&outgoing.end()), ["a"]);
    }
}
