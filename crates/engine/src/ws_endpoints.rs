//! A WebSocket to a `websocket-listener` node: which path leads to which node, and the way in and
//! out of each connection.
//!
//! The connection itself stays with the thread that accepted it; only frames come here.

use crate::instance::Instance;
use crate::pressure::InFlight;
use bytes::Bytes;
use limits::quota::{Grant, Quota};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use value::Failure;

/// Frames of one connection that wait for the flow, or for the client; our choice. A client that
/// sends more waits, one that takes no more is cut off.
pub const WAITING: usize = 256;
/// Bytes of the frames in a client's outbound queue. Our choice, as `comms.queue`; a longer frame
/// is queued alone.
const WAITING_BYTES: usize = 4 << 20;

/// A data frame of a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A text, shared by the clients that it is sent to.
    Text(Utf8Bytes),
    /// Bytes.
    Binary(Bytes),
}

/// An event of a connection, as its listener receives it.
#[derive(Debug)]
pub enum Event {
    /// It is open; frames for the client go here. When the last copy is dropped, the connection is
    /// closed.
    Open(Outbox),
    /// A message arrived. Its permit is released when the flow has taken it.
    Frame(Frame, InboundPermit),
    /// The connection has ended.
    Closed,
}

/// Back-pressure for an inbound frame: its part of the connection's queue, of the bytes on their
/// way to the engine, and of the memory for unauthenticated clients.
#[derive(Debug)]
pub struct InboundPermit {
    _connection: OwnedSemaphorePermit,
    _in_flight: Option<OwnedSemaphorePermit>,
    _memory: Option<Grant>,
}

/// The outbound queue of one client, bounded in frames and bytes.
#[derive(Debug, Clone)]
pub struct Outbox {
    frames: mpsc::Sender<Queued>,
    bytes: Arc<Semaphore>,
    memory: Option<Memory>,
}

/// The quota to which an unauthenticated client's frames are charged, and the client's address.
pub type Memory = (Arc<Quota>, IpAddr);

/// A frame in an outbound queue; counted until dropped.
#[derive(Debug)]
pub struct Queued {
    /// The frame.
    pub frame: Frame,
    _bytes: OwnedSemaphorePermit,
    _memory: Option<Grant>,
}

/// An outbound queue, and its receiver.
pub fn outbox() -> (Outbox, mpsc::Receiver<Queued>) {
    let (frames, receiver) = mpsc::channel(WAITING);
    let bytes = Arc::new(Semaphore::new(WAITING_BYTES));
    let outbox = Outbox {
        frames,
        bytes,
        memory: None,
    };
    (outbox, receiver)
}

impl Frame {
    /// Its bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
        }
    }
}

impl InboundPermit {
    /// A part of the connection's queue, of the bytes on their way ([`Listening::claim`]) and, for
    /// an unauthenticated client, the memory granted to the frame.
    pub fn new(
        connection: OwnedSemaphorePermit,
        in_flight: Option<OwnedSemaphorePermit>,
        memory: Option<Grant>,
    ) -> Self {
        Self {
            _connection: connection,
            _in_flight: in_flight,
            _memory: memory,
        }
    }
}

impl Outbox {
    /// The same, charged to this memory.
    #[must_use]
    pub fn charged_to(self, memory: Option<Memory>) -> Self {
        Self { memory, ..self }
    }

    /// Queues a frame for the client. False: the queue is full, or the memory for unauthenticated
    /// clients is exhausted.
    pub fn send(&self, frame: &Frame) -> bool {
        let size = frame.size().min(WAITING_BYTES);
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let Ok(bytes) = Arc::clone(&self.bytes).try_acquire_many_owned(size) else {
            return false;
        };
        let mut memory = self.memory.as_ref().map(|(quota, ip)| quota.grant(*ip));
        if let Some(memory) = &mut memory
            // As a reply: one that is larger than the share of an address takes all of it.
            && memory.try_grow(frame.size().min(memory.most())).is_err()
        {
            return false;
        }
        let queued = Queued {
            frame: frame.clone(),
            _bytes: bytes,
            _memory: memory,
        };
        // A closed queue is not a slow client.
        !matches!(
            self.frames.try_send(queued),
            Err(mpsc::error::TrySendError::Full(_))
        )
    }
}

/// A listener's path that matched a request.
#[derive(Debug, Clone)]
pub struct Listening {
    listener: Listener,
    in_flight: InFlight,
    /// The number of the node's thread.
    thread: usize,
}

/// A websocket-listener node, and whether a flow that receives its frames is full.
#[derive(Debug, Clone)]
pub(super) struct Listener {
    pub(super) instance: Instance,
    pub(super) full: watch::Receiver<bool>,
}

impl Listening {
    pub(super) fn new(listener: Listener, in_flight: InFlight, thread: usize) -> Self {
        Self {
            listener,
            in_flight,
            thread,
        }
    }

    pub(super) fn thread(&self) -> usize {
        self.thread
    }

    pub(super) fn instance(&self) -> Instance {
        self.listener.instance
    }

    /// Waits until the flows that receive the listener's frames have room for them.
    pub async fn room(&mut self) {
        // An error: the node has closed, and the connection ends.
        let _ = self.listener.full.wait_for(|full| !full).await;
    }

    /// Waits until a frame of this size may be on its way to the engine.
    pub async fn claim(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.in_flight.claim(bytes).await
    }
}

/// The paths of running websocket-listener nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Paths(HashMap<String, Listener>);

impl Paths {
    /// Adds a path; each leads to one node.
    pub(super) fn add(&mut self, path: &str, listener: Listener) -> Result<(), Failure> {
        match self.0.entry(key(path)) {
            Entry::Vacant(free) => {
                free.insert(listener);
                Ok(())
            }
            Entry::Occupied(_) => Err(Failure::text(format!(
                "Cannot have two WebSocket listeners on the same path: {path}"
            ))),
        }
    }

    /// The same without the paths of nodes that no longer run.
    pub(super) fn retained(&self, runs: impl Fn(Instance) -> bool) -> Self {
        let paths = self
            .0
            .iter()
            .filter(|(_, listener)| runs(listener.instance));
        Self(
            paths
                .map(|(path, node)| (path.clone(), node.clone()))
                .collect(),
        )
    }

    /// The listener on a path. As with other endpoints, letter case and a slash at the end do not
    /// matter.
    pub(super) fn find(&self, path: &str) -> Option<Listener> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&key(path)).cloned()
    }
}

fn key(path: &str) -> String {
    path.trim_matches('/').to_lowercase()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn queued_bytes_per_client_are_limited_except_for_one_longer_frame() {
        let large = Frame::Binary(vec![0; WAITING_BYTES / 2].into());
        let (outbox, mut frames) = outbox();
        assert!(outbox.send(&large) && outbox.send(&large));
        assert!(!outbox.send(&Frame::Text("x".into())));
        drop(frames.try_recv().unwrap());
        assert!(outbox.send(&large));
        drop((frames.try_recv().unwrap(), frames.try_recv().unwrap()));
        assert!(outbox.send(&Frame::Binary(vec![0; 2 * WAITING_BYTES].into())));
        assert!(!outbox.send(&large));
        drop(frames);
    }

    #[test]
    fn queued_frames_of_unauthenticated_clients_are_limited_per_address() {
        let quota = Quota::new(10_000, 1000);
        let client = |last: u8| {
            let (outbox, frames) = outbox();
            let memory = (Arc::clone(&quota), [10, 0, 0, last].into());
            (outbox.charged_to(Some(memory)), frames)
        };
        let frame = |bytes: usize| Frame::Text("x".repeat(bytes).into());
        let ((first, mut taken), (second, _second), (other, _other)) =
            (client(1), client(1), client(2));
        assert!(first.send(&frame(600)));
        assert!(!second.send(&frame(600)));
        assert!(other.send(&frame(600)));
        drop(taken.try_recv().unwrap());
        assert!(second.send(&frame(600)));
        // A closed queue holds nothing.
        drop(taken);
        assert!(first.send(&frame(400)) && first.send(&frame(400)));
        let (large, _large) = client(3);
        assert!(large.send(&frame(5000)) && !large.send(&frame(1)));
    }

    #[test]
    fn a_path_belongs_to_one_listener_until_that_stops() {
        let mut paths = Paths::default();
        let listener = |slot| Listener {
            instance: Instance { slot, epoch: slot },
            full: watch::channel(false).1,
        };
        paths.add("/ws/A", listener(1)).unwrap();
        assert!(paths.add("ws/a", listener(2)).is_err());
        assert_eq!(paths.find("/WS/a/").unwrap().instance.slot, 1);
        assert_eq!(paths.find("ws/a").unwrap().instance.slot, 1);
        let paths = paths.retained(|_| false);
        assert!(paths.find("/ws/a").is_none());
    }
}
