//! The counts that the engine makes for monitoring. The program that embeds it registers and shows
//! them.

use crate::load::Load;
use crate::stopped_flows::Reason;
use metrics::{Counter, Gauge};
use std::fmt::Debug;
use std::sync::Arc;

/// The counters and gauges of the engine.
pub trait Metrics: Debug + Send + Sync {
    /// The counters of a type of node. Called once for each running node.
    fn node_type(&self, kind: &str) -> NodeType;

    /// Counts an error of a node on a tab, besides the counter of its type; empty: it is on none.
    fn error_on(&self, tab: &str);

    /// Sets the numbers of running nodes and of their flows.
    fn running(&self, nodes: usize, flows: usize);

    /// The load of a thread of the engine, which that keeps up to date. Called once by each.
    fn load(&self) -> Arc<Load>;

    /// The counters and gauges of the node host. Called once, if there is one.
    fn node_host(&self) -> NodeHostMetrics;

    /// Counts flows that the engine has stopped.
    fn stopped(&self, flows: usize, reason: Reason);
}

/// The counters of the nodes of one type.
#[derive(Clone)]
pub struct NodeType {
    /// Messages that they received.
    pub messages: Counter,
    /// Errors that they reported.
    pub errors: Counter,
    /// Messages that were dropped: by them as sources while their flow was full, or from their
    /// queue when their flow was stopped.
    pub dropped: Counter,
}

/// The kinds of frames of the node host that may be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusedFrame {
    /// A message for a node.
    Message,
    /// An error, a status, a completed message or a line of the log of a node.
    Report,
    /// A question about a context.
    Context,
    /// A message for editors.
    Published,
    /// A frame of no node.
    Control,
}

impl RefusedFrame {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Message,
        Self::Report,
        Self::Context,
        Self::Published,
        Self::Control,
    ];

    /// The kind as a label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Report => "report",
            Self::Context => "context",
            Self::Published => "published",
            Self::Control => "control",
        }
    }
}

/// The counters and gauges of the node host.
#[derive(Clone)]
pub struct NodeHostMetrics {
    /// Messages that it received.
    pub received: Counter,
    /// Messages that it sent.
    pub sent: Counter,
    /// What it sent and could not be delivered.
    pub errors: Counter,
    /// Frames that name what the host was not given: in the order of
    /// [`RefusedFrame::ALL`].
    pub refused: Vec<Counter>,
    /// The times that its process was started again.
    pub restarts: Counter,
    /// Bytes on their way to it that its nodes have not taken.
    pub queue: Gauge,
    /// Its resident memory, bytes.
    pub memory: Gauge,
}

impl NodeHostMetrics {
    /// Counts a frame that is refused.
    pub(crate) fn refused(&self, frame: RefusedFrame) {
        let position = RefusedFrame::ALL.iter().position(|kind| *kind == frame);
        if let Some(counter) = position.and_then(|position| self.refused.get(position)) {
            counter.increment(1);
        }
    }
}

/// Counts nothing.
#[derive(Debug, Clone, Copy)]
pub struct Uncounted;

impl Metrics for Uncounted {
    fn node_type(&self, _: &str) -> NodeType {
        NodeType {
            messages: Counter::noop(),
            errors: Counter::noop(),
            dropped: Counter::noop(),
        }
    }

    fn error_on(&self, _: &str) {}

    fn running(&self, _: usize, _: usize) {}

    fn node_host(&self) -> NodeHostMetrics {
        let counter = Counter::noop;
        NodeHostMetrics {
            received: counter(),
            sent: counter(),
            errors: counter(),
            refused: RefusedFrame::ALL.map(|_| counter()).into(),
            restarts: counter(),
            queue: Gauge::noop(),
            memory: Gauge::noop(),
        }
    }

    fn load(&self) -> Arc<Load> {
        Arc::default()
    }

    fn stopped(&self, _: usize, _: Reason) {}
}
