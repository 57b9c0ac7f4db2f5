//! The metrics of traces.

use super::labels::SpanEnd;
use super::register::counter;
use metrics::Counter;
use metrics_exporter_prometheus::PrometheusRecorder;

/// Counters of spans and of requests that are not recorded. Cheap to clone.
#[derive(Clone)]
pub struct Traces {
    spans: [Counter; SpanEnd::ALL.len()],
    limited: Counter,
}

impl Traces {
    pub(super) fn register(r: &PrometheusRecorder) -> Self {
        let help = "Spans of traces, by what became of them.";
        Self {
            spans: SpanEnd::NAMES.map(|result| {
                let labels = [("result", result)];
                counter(r, "flowgate_trace_spans_total", help, &labels)
            }),
            limited: counter(
                r,
                "flowgate_traces_limited_total",
                "Requests that are not recorded because max_per_second were in this second.",
                &[],
            ),
        }
    }

    /// Spans have ended like this.
    pub fn ended(&self, how: SpanEnd, spans: u64) {
        self.spans[how as usize].increment(spans);
    }

    /// A request is not recorded because of the limit.
    pub fn limited(&self) {
        self.limited.increment(1);
    }
}
