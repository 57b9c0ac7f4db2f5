//! The counts of the flow engine, among the metrics of the gateway.

use super::Metrics;
use super::register::counter;
use engine::load::Load;
use engine::metrics::NodeType;
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
        }
    }

    fn running(&self, nodes: usize, flows: usize) {
        self.running(nodes, flows);
    }

    fn load(&self) -> Arc<Load> {
        Arc::clone(&self.load)
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
