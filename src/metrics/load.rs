//! The series of the engine's load. Flows come and go with deployments and so do their series, which those of the
//! recorder cannot.

use super::exposition::{self, Buckets, describe, escaped, line};
use engine::load::{FlowLoad, LATENESS_SECONDS, Load};

/// A series of a flow: its name, help and type, and its value.
type FlowSeries = (
    &'static str,
    &'static str,
    &'static str,
    fn(&FlowLoad) -> f64,
);

/// The series of each group of joined flows.
const FLOW_SERIES: [FlowSeries; 4] = [
    (
        "flowgate_flow_waiting_messages",
        "Messages and requests that wait for the nodes of flows.",
        "gauge",
        |flow| flow.waiting_messages() as f64,
    ),
    (
        "flowgate_flow_waiting_bytes",
        "Bytes of the messages that wait for the nodes of flows.",
        "gauge",
        |flow| flow.waiting_bytes() as f64,
    ),
    (
        "flowgate_flow_pauses_total",
        "Times that the sources of flows paused because too much waited.",
        "counter",
        |flow| flow.pauses() as f64,
    ),
    (
        "flowgate_flow_busy_seconds_total",
        "Time that the nodes of flows took.",
        "counter",
        |flow| flow.busy().as_secs_f64(),
    ),
];

const LATENESS: &str = "flowgate_timer_lateness_seconds";

/// Adds the load to the page.
pub(super) fn render(load: &Load, page: &mut String) {
    let flows = load.flows.load();
    for (name, help, kind, value) in FLOW_SERIES.iter().filter(|_| !flows.is_empty()) {
        describe(page, name, help, kind);
        for flow in flows.iter() {
            line(
                page,
                format_args!("{name}{{flow=\"{}\"}} {}", escaped(&flow.flow), value(flow)),
            );
        }
        page.push('\n');
    }
    lateness(load, page);
}

fn lateness(load: &Load, page: &mut String) {
    describe(
        page,
        LATENESS,
        "How late timers of nodes fired.",
        "histogram",
    );
    let buckets = Buckets {
        labels: "",
        bounds: &LATENESS_SECONDS,
        counts: &load.lateness.buckets(),
        sum: load.lateness.sum().as_secs_f64(),
    };
    exposition::histogram(page, LATENESS, &buckets);
    page.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn page(load: &Load) -> String {
        let mut page = String::new();
        render(load, &mut page);
        page
    }

    #[test]
    fn flows_have_series_for_as_long_as_they_are_there() {
        let load = Load::default();
        assert!(!page(&load).contains("flowgate_flow"));
        load.flows.store(Arc::new(vec![FlowLoad::new("t1".into())]));
        let shown = page(&load);
        assert!(
            shown.contains("\nflowgate_flow_waiting_messages{flow=\"t1\"} 0\n"),
            "{shown}"
        );
        assert!(
            shown.contains("# TYPE flowgate_flow_busy_seconds_total counter\n"),
            "{shown}"
        );
        load.flows.store(Arc::default());
        assert!(!page(&load).contains("flowgate_flow"));
    }

    #[test]
    fn an_id_cannot_add_a_line_or_a_label() {
        let load = Load::default();
        load.flows
            .store(Arc::new(vec![FlowLoad::new("a\"} 1\nb\\".into())]));
        let line = "\nflowgate_flow_waiting_messages{flow=\"a\\\"} 1\\nb\\\\\"} 0\n";
        assert!(page(&load).contains(line), "{}", page(&load));
    }

    #[test]
    fn lateness_is_a_histogram() {
        let shown = page(&Load::default());
        for line in [
            "# TYPE flowgate_timer_lateness_seconds histogram",
            "flowgate_timer_lateness_seconds_bucket{le=\"0.001\"} 0",
            "flowgate_timer_lateness_seconds_bucket{le=\"+Inf\"} 0",
            "flowgate_timer_lateness_seconds_sum 0",
            "flowgate_timer_lateness_seconds_count 0",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
        }
    }
}
