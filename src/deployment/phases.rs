//! Measures the phases of a deployment.

use crate::metrics::{Metrics, Phase};
use crate::store;
use std::time::Instant;

/// Times the phases of one deployment.
pub(super) struct Phases<'a> {
    metrics: &'a Metrics,
    kind: &'static str,
    clock: fn() -> Instant,
    since: Instant,
}

impl<'a> Phases<'a> {
    pub(super) fn begin(metrics: &'a Metrics, kind: &'static str, clock: fn() -> Instant) -> Self {
        let since = clock();
        Self {
            metrics,
            kind,
            clock,
            since,
        }
    }

    pub(super) fn end(&mut self, phase: Phase) {
        store::step();
        let now = (self.clock)();
        let took = now.saturating_duration_since(self.since);
        self.metrics.phase(self.kind, phase, took);
        self.since = now;
    }
}
