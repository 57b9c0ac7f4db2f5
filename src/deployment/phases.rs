//! Measures the phases of a deployment, for metrics and traces.

use crate::metrics::{Metrics, Phase};
use crate::store;
use crate::traces::{self, Trace};
use std::time::Instant;

/// Times the phases of one deployment, until it is dropped.
pub(super) struct Phases<'a> {
    metrics: &'a Metrics,
    kind: &'static str,
    clock: fn() -> Instant,
    since: Instant,
    traced: Option<Traced<'a>>,
}

/// The span of the deployment, of which the phases are parts.
struct Traced<'a> {
    trace: &'a Trace,
    span: [u8; 8],
    began: Instant,
}

impl<'a> Phases<'a> {
    pub(super) fn begin(
        metrics: &'a Metrics,
        kind: &'static str,
        clock: fn() -> Instant,
        trace: Option<&'a Trace>,
    ) -> Self {
        let since = clock();
        let traced = trace.map(|trace| Traced {
            trace,
            span: traces::random(),
            began: since,
        });
        Self {
            metrics,
            kind,
            clock,
            since,
            traced,
        }
    }

    pub(super) fn end(&mut self, phase: Phase) {
        store::step();
        let now = (self.clock)();
        let took = now.saturating_duration_since(self.since);
        self.metrics.phase(self.kind, phase, took);
        if let Some(traced) = &self.traced {
            traced.phase(phase, [self.since, now]);
        }
        self.since = now;
    }
}

impl Drop for Phases<'_> {
    fn drop(&mut self) {
        let Some(Traced { trace, span, began }) = &self.traced else {
            return;
        };
        let name = format!("deploy {}", self.kind);
        trace.record(trace.step(&name, *span, [*began, (self.clock)()]));
    }
}

impl Traced<'_> {
    /// A change of an upstream is made by the call that its request names as its parent.
    fn phase(&self, phase: Phase, times: [Instant; 2]) {
        let span = match phase {
            Phase::Apply => self.trace.call(),
            Phase::Parse | Phase::Wait | Phase::Plan | Phase::Store => traces::random(),
        };
        let mut step = self.trace.step(phase.name(), span, times);
        step.parent = Some(self.span);
        self.trace.record(step);
    }
}
