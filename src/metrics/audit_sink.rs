//! The metrics of one sink of the audit log.

use super::register::{counter, gauge};
use metrics::{Counter, Gauge};
use metrics_exporter_prometheus::PrometheusRecorder;

/// Counters and gauges of one sink.
pub struct AuditSink {
    delivered: Counter,
    sent: Counter,
    failures: Counter,
    lost: Counter,
    lag_records: Gauge,
    lag_seconds: Gauge,
}

impl AuditSink {
    pub(super) fn register(r: &PrometheusRecorder, name: &str) -> Self {
        let own = [("sink", name)];
        let count = |name, help| counter(r, name, help, &own);
        Self {
            delivered: count(
                "flowgate_audit_sink_records_total",
                "Audit records that the sink has acknowledged.",
            ),
            sent: count(
                "flowgate_audit_sink_sent_total",
                "Audit records that were sent to the sink over a protocol without acknowledgements.",
            ),
            failures: count(
                "flowgate_audit_sink_failures_total",
                "Times that the sink did not take a batch of audit records.",
            ),
            lost: count(
                "flowgate_audit_sink_lost_total",
                "Audit records that the sink will never get: removed before, or rejected by it.",
            ),
            lag_records: gauge(
                r,
                "flowgate_audit_sink_lag_records",
                "Audit records on disk that the sink has not taken.",
                &own,
            ),
            lag_seconds: gauge(
                r,
                "flowgate_audit_sink_lag_seconds",
                "Age of the oldest of these records when they were last sent.",
                &own,
            ),
        }
    }

    /// It has taken records.
    pub fn delivered(&self, records: u64) {
        self.delivered.increment(records);
    }

    /// Records were sent to it, which cannot acknowledge them.
    pub fn sent(&self, records: u64) {
        self.sent.increment(records);
    }

    /// It did not take a batch.
    pub fn failure(&self) {
        self.failures.increment(1);
    }

    /// It will never get these records.
    pub fn lost(&self, records: u64) {
        self.lost.increment(records);
    }

    /// Records that it has not taken, and the age of the oldest in seconds.
    pub fn lag(&self, records: u64, seconds: u64) {
        self.lag_records.set(records as f64);
        self.lag_seconds.set(seconds as f64);
    }
}
