//! A WebSocket to a `websocket-listener` node: which path leads to which node, and the way in and out of each connection.
//!
//! The connection itself stays with the thread that accepted it; only frames come here.

use super::value::Failure;
use super::world::Instance;
use arc_swap::ArcSwap;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Frames of one connection that wait for the flow, or for the client; our choice. A client that sends more waits,
/// one that takes no more is cut off.
pub const WAITING: usize = 256;

/// What is said over a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A text.
    Text(String),
    /// Bytes.
    Binary(Bytes),
}

/// What happens to a connection, as its listener hears it.
#[derive(Debug)]
pub enum Event {
    /// It is open; what is to be said goes here. When nobody holds this any more, the connection is closed.
    Open(mpsc::Sender<Frame>),
    /// Something was said. The permit makes room for more when it is dropped.
    Said(Frame, OwnedSemaphorePermit),
    /// It is over.
    Closed,
}

/// A listener's path that matched a request.
#[derive(Debug, Clone)]
pub struct Listening {
    pub(super) instance: Instance,
}

/// The paths of running websocket-listener nodes: read by every worker without a lock, changed by the engine's thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Paths(Arc<ArcSwap<HashMap<String, Instance>>>);

impl Paths {
    /// Adds a path; each leads to one node.
    pub(super) fn add(&self, path: &str, instance: Instance) -> Result<(), Failure> {
        let mut paths = HashMap::clone(&self.0.load());
        if paths.insert(key(path), instance).is_some() {
            return Err(Failure::text(format!(
                "Cannot have two WebSocket listeners on the same path: {path}"
            )));
        }
        self.0.store(Arc::new(paths));
        Ok(())
    }

    /// Removes the paths of nodes that no longer run.
    pub(super) fn retain(&self, runs: impl Fn(Instance) -> bool) {
        if self.0.load().is_empty() {
            return;
        }
        let mut paths = HashMap::clone(&self.0.load());
        paths.retain(|_, instance| runs(*instance));
        self.0.store(Arc::new(paths));
    }

    /// The listener on a path. As with other endpoints, letter case and a slash at the end do not matter.
    pub(super) fn find(&self, path: &str) -> Option<Listening> {
        let paths = self.0.load();
        if paths.is_empty() {
            return None;
        }
        let instance = *paths.get(&key(path))?;
        Some(Listening { instance })
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
    fn a_path_leads_to_one_listener_until_that_stops() {
        let paths = Paths::default();
        let instance = |slot| Instance { slot, epoch: slot };
        paths.add("/ws/A", instance(1)).unwrap();
        assert!(paths.add("ws/a", instance(2)).is_err());
        assert_eq!(paths.find("/WS/a/").unwrap().instance, instance(1));
        paths.retain(|_| false);
        assert!(paths.find("/ws/a").is_none());
    }
}
