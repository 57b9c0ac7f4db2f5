//! The counts of the flow engine, among the metrics of the gateway.

use super::register::{counter, gauge};
use super::{Metrics, Stopped};
use engine::load::Load;
use engine::metrics::{NodeHostMetrics, NodeType, RefusedFrame};
use engine::stopped_flows::Reason;
use std::sync::Arc;

impl Metrics {
    /// Starts of an engine in a process of its own, beside the first.
    pub fn engine_restarts(&self) -> metrics::Counter {
        counter(
            &self.recorder,
            "flowgate_engine_restarts_total",
            "Restarts of the engine's process, which had ended by itself.",
            &[],
        )
    }
}

impl engine::metrics::Metrics for Metrics {
    fn node_type(&self, kind: &str) -> NodeType {
        let labels = [("type", kind)];
        NodeType {
            messages: counter(
                &self.recorder,
                "flowgate_node_messages_total",
                "Messages received by nodes.",
                &labels,
            ),
            errors: counter(
                &self.recorder,
                "flowgate_node_errors_total",
                "Errors reported by nodes.",
                &labels,
            ),
            dropped: counter(
                &self.recorder,
                "flowgate_node_messages_dropped_total",
                "Messages dropped: by sources while their flow was full, or with the queue of a stopped flow.",
                &labels,
            ),
        }
    }

    fn error_on(&self, tab: &str) {
        self.errors_on.add(tab);
    }

    fn running(&self, nodes: usize, flows: usize) {
        self.running(nodes, flows);
    }

    fn load(&self) -> Arc<Load> {
        self.loads.add()
    }

    fn node_host(&self) -> NodeHostMetrics {
        let messages = |direction| {
            let help = "Messages between the engine and the node host.";
            let labels = [("direction", direction)];
            counter(
                &self.recorder,
                "flowgate_node_host_messages_total",
                help,
                &labels,
            )
        };
        let refused = |frame: RefusedFrame| {
            counter(
                &self.recorder,
                "flowgate_node_host_refused_frames_total",
                "Frames of the node host that named a node, flow, context or topic of others.",
                &[("frame", frame.label())],
            )
        };
        NodeHostMetrics {
            received: messages("to_host"),
            sent: messages("from_host"),
            errors: counter(
                &self.recorder,
                "flowgate_node_host_errors_total",
                "Messages of the node host that were dropped: malformed, or too many during a deployment.",
                &[],
            ),
            refused: RefusedFrame::ALL.map(refused).into(),
            restarts: counter(
                &self.recorder,
                "flowgate_node_host_restarts_total",
                "The times that the process of the node host was started again.",
                &[],
            ),
            queue: gauge(
                &self.recorder,
                "flowgate_node_host_queue_bytes",
                "Bytes on their way to the node host that its nodes have not taken.",
                &[],
            ),
            memory: gauge(
                &self.recorder,
                "flowgate_node_host_memory_bytes",
                "Resident memory of the node host.",
                &[],
            ),
        }
    }

    fn stopped(&self, flows: usize, reason: Reason) {
        let reason = match reason {
            Reason::Queue => Stopped::Queue,
            Reason::Memory => Stopped::Memory,
        };
        self.flows_stopped(flows, reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::metrics::Metrics as _;

    #[test]
    fn a_node_type_appears_with_its_first_node_and_is_registered_once() {
        let metrics = Metrics::new();
        assert!(!metrics.render().contains("flowgate_node_messages_total{"));
        metrics.node_type("change").messages.increment(2);
        metrics.node_type("change").messages.increment(3);
        let line = "flowgate_node_messages_total{type=\"change\"} 5";
        assert!(metrics.render().lines().any(|found| found == line));
    }
}
