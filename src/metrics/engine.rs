//! The counts of the flow engine, among the metrics of the gateway.

use super::register::counter;
use super::{Metrics, Stopped};
use engine::load::Load;
use engine::metrics::NodeType;
use engine::stopped_flows::Reason;
use std::sync::Arc;

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

    fn running(&self, nodes: usize, flows: usize) {
        self.running(nodes, flows);
    }

    fn load(&self) -> Arc<Load> {
        Arc::clone(&self.load)
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
