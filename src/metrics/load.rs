//! The series of the engine's load. Flows come and go with deployments and so do their series,
//! which those of the recorder cannot.

use super::exposition::{self, Buckets, describe, escaped, line};
use engine::load::{FlowLoad, LATENESS_SECONDS, Load};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The load of each thread of the engine.
#[derive(Default)]
pub(super) struct Loads(Mutex<Vec<Arc<Load>>>);

/// How late the timers of all threads fired.
#[derive(Debug, Default)]
pub struct Lateness {
    /// The number of timers in each bucket of [`LATENESS_SECONDS`], and of those that were later.
    pub buckets: [u64; LATENESS_SECONDS.len() + 1],
    /// The time that all timers together were late.
    pub sum: Duration,
}

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

const UNKEPT: &str = "flowgate_context_unkept_seconds";
const LATENESS: &str = "flowgate_timer_lateness_seconds";

impl Loads {
    /// The load of one more thread.
    pub(super) fn add(&self) -> Arc<Load> {
        let load = Arc::<Load>::default();
        self.0.lock().push(Arc::clone(&load));
        load
    }

    fn all(&self) -> Vec<Arc<Load>> {
        self.0.lock().clone()
    }

    /// How late timers fired.
    pub(super) fn lateness(&self) -> Lateness {
        let mut all = Lateness::default();
        for load in self.all() {
            let buckets = load.lateness.buckets();
            for (sum, timers) in all.buckets.iter_mut().zip(buckets) {
                *sum += timers;
            }
            all.sum += load.lateness.sum();
        }
        all
    }

    /// Adds the load to the page.
    pub(super) fn render(&self, page: &mut String) {
        let flows = self.flows();
        for (name, help, kind, value) in FLOW_SERIES.iter().filter(|_| !flows.is_empty()) {
            describe(page, name, help, kind);
            for same in &flows {
                let (flow, sum) = (&same[0].flow, same.iter().map(|flow| value(flow)));
                line(
                    page,
                    format_args!("{name}{{flow=\"{}\"}} {}", escaped(flow), sum.sum::<f64>()),
                );
            }
            page.push('\n');
        }
        self.render_lateness(page);
        let help = "Age of the oldest change of a shared context that the database does not have.";
        describe(page, UNKEPT, help, "gauge");
        let age = engine::context::unkept_age();
        line(page, format_args!("{UNKEPT} {}\n", age.as_secs_f64()));
    }

    /// The flows of all threads, at least one in each list: those of one name, such as `other`, are
    /// together.
    fn flows(&self) -> Vec<Vec<Arc<FlowLoad>>> {
        let mut flows: Vec<Vec<Arc<FlowLoad>>> = Vec::new();
        let mut places = HashMap::new();
        for flow in self
            .all()
            .iter()
            .flat_map(|load| load.flows.load_full().to_vec())
        {
            let next = flows.len();
            let place = *places.entry(flow.flow.clone()).or_insert(next);
            if place == next {
                flows.push(Vec::new());
            }
            flows[place].push(flow);
        }
        flows
    }

    fn render_lateness(&self, page: &mut String) {
        describe(
            page,
            LATENESS,
            "How late timers of nodes fired.",
            "histogram",
        );
        let Lateness { buckets, sum } = self.lateness();
        let buckets = Buckets {
            labels: "",
            bounds: &LATENESS_SECONDS,
            counts: &buckets,
            sum: sum.as_secs_f64(),
        };
        exposition::histogram(page, LATENESS, &buckets);
        page.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(loads: &Loads) -> String {
        let mut page = String::new();
        loads.render(&mut page);
        page
    }

    #[test]
    fn flows_have_series_for_as_long_as_they_are_there() {
        let loads = Loads::default();
        let load = loads.add();
        assert!(!page(&loads).contains("flowgate_flow"));
        load.flows.store(Arc::new(vec![FlowLoad::new("t1".into())]));
        let shown = page(&loads);
        assert!(
            shown.contains("\nflowgate_flow_waiting_messages{flow=\"t1\"} 0\n"),
            "{shown}"
        );
        assert!(
            shown.contains("# TYPE flowgate_flow_busy_seconds_total counter\n"),
            "{shown}"
        );
        load.flows.store(Arc::default());
        assert!(!page(&loads).contains("flowgate_flow"));
    }

    #[test]
    fn an_id_cannot_add_a_line_or_a_label() {
        let loads = Loads::default();
        let load = loads.add();
        load.flows
            .store(Arc::new(vec![FlowLoad::new("a\"} 1\nb\\".into())]));
        let line = "\nflowgate_flow_waiting_messages{flow=\"a\\\"} 1\\nb\\\\\"} 0\n";
        assert!(page(&loads).contains(line), "{}", page(&loads));
    }

    #[test]
    fn flows_of_one_name_on_several_threads_are_one_series() {
        let loads = Loads::default();
        for own in ["t1", "t2"] {
            let flows = ["global", own].map(|id| FlowLoad::new(id.into()));
            loads.add().flows.store(Arc::new(flows.to_vec()));
        }
        let page = page(&loads);
        let series = page
            .lines()
            .filter(|line| line.starts_with("flowgate_flow_pauses_total"));
        let names = ["global", "t1", "t2"];
        assert!(
            series.eq(names.map(|id| format!("flowgate_flow_pauses_total{{flow=\"{id}\"}} 0")))
        );
    }

    #[test]
    fn lateness_is_a_histogram() {
        let shown = page(&Loads::default());
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
