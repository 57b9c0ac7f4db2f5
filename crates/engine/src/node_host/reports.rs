//! The reports of the node host: messages, errors, status, completed messages, log lines of its
//! nodes. While a deployment stops and starts the engine's nodes, they wait.

use super::NodeHost;
use super::outgoing::Addressed;
use super::received::{Kind, Received};
use super::values::decode;
use crate::log_level::Level;
use bytes::Bytes;
use smol_str::SmolStr;
use tokio::sync::OwnedSemaphorePermit;
use value::{Failure, Message, Value};

/// Bytes that wait for a deployment, at most; what comes after them is dropped. Our choice: as a
/// frame.
const MAX_HELD: usize = 64 << 20;

/// An event of the node host, for the engine's thread.
pub(crate) enum Event {
    /// The runtime and its packages are loaded.
    Ready,
    /// The first flow set of a process runs.
    Running,
    /// The process has ended.
    Down,
    /// Messages that a process which has ended did not take.
    Lost(Vec<Addressed>),
    /// A report of one of its nodes.
    Report(Report),
}

/// A report of a node of the host.
pub(crate) struct Report {
    /// Its running id; empty: of no node.
    pub node: SmolStr,
    /// The report itself.
    pub what: What,
    /// Its size on the socket.
    size: usize,
    permit: Option<OwnedSemaphorePermit>,
}

/// What a node of the host reports.
pub(crate) enum What {
    /// A message for the nodes of these running ids.
    Message(Vec<SmolStr>, Message),
    /// An error, perhaps on a message.
    Error(Failure, Option<Message>),
    /// Its status.
    Status(Value),
    /// It has finished with a message.
    Complete(Message),
    /// A line of the log.
    Log(Level, Value),
}

impl NodeHost {
    /// Reads a report. Fails if it is malformed.
    pub(super) fn report(
        &self,
        received: &Received<'_>,
        attachments: &Bytes,
        size: usize,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Event, Failure> {
        let text = received.message.or(received.content);
        let text = text.map_or("null", |text| text.get());
        let value = decode(text, received.escaped, attachments, &self.handles)?;
        let part = |name: &str| {
            let parts = value.as_object().and_then(|parts| parts.get(name));
            parts.cloned().unwrap_or_default()
        };
        let message = || Message::from_value(part("message"));
        let what = match received.t {
            Kind::Message => {
                self.metrics.sent.increment(1);
                let message = Message::from_value(value.clone())
                    .ok_or_else(|| Failure::error("a message of the node host is no object"))?;
                What::Message(received.to.clone(), message)
            }
            Kind::Error => What::Error(failure(part("value")), message()),
            Kind::Status => What::Status(part("value")),
            Kind::Complete => What::Complete(message().unwrap_or_default()),
            _ => What::Log(level(received.level), part("value")),
        };
        Ok(Event::Report(Report {
            node: received.node.clone().unwrap_or_default(),
            what,
            size,
            permit,
        }))
    }

    /// Keeps an event until the deployment is done.
    pub(crate) fn hold(&self, event: Event) {
        let Event::Report(mut report) = event else {
            return self.held.borrow_mut().push(event);
        };
        // The host must be able to go on until its part of the deployment is done.
        report.permit = None;
        let held = self.held_bytes.get() + report.size;
        if held > MAX_HELD {
            self.metrics.errors.increment(1);
            return tracing::error!(target: "node_host", node = %report.node, "a message sent during a deployment was dropped: too many wait");
        }
        self.held_bytes.set(held);
        self.held.borrow_mut().push(Event::Report(report));
    }
}

fn failure(value: Value) -> Failure {
    match value {
        Value::Error(failure) => (*failure).clone(),
        other => Failure::text(value::coerce::to_text(&other)),
    }
}

/// The level of a line of Node-RED's log; `fatal` (10) is an error.
fn level(number: u32) -> Level {
    match number {
        0..=20 => Level::Error,
        21..=30 => Level::Warn,
        31..=40 => Level::Info,
        41..=50 => Level::Debug,
        _ => Level::Trace,
    }
}
