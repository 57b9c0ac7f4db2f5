//! Traces of requests, their calls of upstreams and their deployments, for a collector of
//! OpenTelemetry.
//!
//! [`context`] reads and writes the header fields, [`span`] is what is recorded, [`export`] sends
//! it. Off unless `[traces]` names a collector. Whether a request is recorded is decided once, at
//! its beginning: as its parent was, if the gateway in front or a trusted proxy names one, and by
//! chance otherwise. Other clients decide nothing: their traces begin here, with a link to the span
//! that they name. In each second a limited number of requests is recorded.

mod context;
mod export;
mod span;

pub use context::SpanContext;
pub use span::{Kind, Span, Value};

use crate::config;
use crate::metrics::{Metrics, SpanEnd};
use crate::upstream::{OpenError, Outbound, OutboundTls, TraceHeaders};
use export::Exporter;
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// Spans that wait for the collector. As `OTEL_BSP_MAX_QUEUE_SIZE` by default.
const QUEUE: usize = 2048;
/// How long the end of the process waits for the collector. Our choice: as for sinks of the audit
/// log.
const LAST: Duration = Duration::from_secs(3);

/// Begins traces. Cheap to clone.
#[derive(Clone)]
pub struct Tracer(Arc<Inner>);

struct Inner {
    config: config::Traces,
    queue: mpsc::Sender<Span>,
    closing: watch::Sender<bool>,
    metrics: crate::metrics::Traces,
    /// The requests recorded in a second: the second above, their number below.
    recorded: AtomicU64,
}

/// A request in its trace. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The request's own span.
    pub context: SpanContext,
    parent: Option<[u8; 8]>,
    link: Option<SpanContext>,
    state: Option<HeaderValue>,
    /// The span of its call of an upstream, since that has begun.
    call: Option<[u8; 8]>,
    began: (Duration, Instant),
    tracer: Tracer,
}

/// Whether the collector can be named and its files be read; connects to nothing.
pub fn check(config: Option<&config::Traces>) -> Result<(), OpenError> {
    config.map_or(Ok(()), |config| collector(config).map(drop))
}

fn collector(config: &config::Traces) -> Result<Outbound, OpenError> {
    let tls = OutboundTls {
        ca_file: config.ca_file.as_deref(),
        certificate: config.certificate.as_ref(),
    };
    Outbound::open(&config.host, config.port, config.secure.then_some(&tls))
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").finish_non_exhaustive()
    }
}

impl Tracer {
    /// Starts it, if there is a collector.
    pub fn start(
        config: Option<&config::Traces>,
        metrics: &Metrics,
    ) -> Result<Option<Self>, OpenError> {
        let open = |config| Self::open(config, metrics, crate::audit::machine_name());
        config.map(open).transpose()
    }

    /// Starts the task that sends, on the runtime of the caller; it ends with the tracer.
    /// `gateway`: the machine's name.
    fn open(
        config: &config::Traces,
        metrics: &Metrics,
        gateway: String,
    ) -> Result<Self, OpenError> {
        let (queue, spans) = mpsc::channel(QUEUE);
        let closing = watch::Sender::new(false);
        let metrics = metrics.traces();
        let exporter = Exporter {
            config: config.clone(),
            collector: collector(config)?,
            queue: spans,
            closing: closing.subscribe(),
            metrics: metrics.clone(),
            gateway,
        };
        tokio::spawn(exporter.run());
        Ok(Self(Arc::new(Inner {
            config: config.clone(),
            queue,
            closing,
            metrics,
            recorded: AtomicU64::new(0),
        })))
    }

    /// Begins the trace of a request, or continues it. `trusted`: whether the client's
    /// `traceparent` counts; `now`: since 1970; `began`: the same moment by the clock of the
    /// durations.
    pub fn begin(
        &self,
        headers: &HeaderMap,
        trusted: bool,
        now: Duration,
        began: Instant,
    ) -> Trace {
        let named = SpanContext::read(headers);
        let parent = named.filter(|_| trusted);
        let wanted = match parent {
            Some(parent) => parent.sampled,
            None => self
                .0
                .config
                .ratio
                .hits(u64::from_le_bytes(crypto::random())),
        };
        Trace {
            context: SpanContext {
                trace: parent.map_or_else(random, |parent| parent.trace),
                span: random(),
                sampled: wanted && self.admits(now.as_secs()),
            },
            parent: parent.map(|parent| parent.span),
            link: named.filter(|_| !trusted),
            state: parent.and_then(|_| context::state(headers)),
            call: None,
            began: (now, began),
            tracer: self.clone(),
        }
    }

    /// Counts a request of this second; whether it may be recorded.
    fn admits(&self, second: u64) -> bool {
        let most = u64::from(self.0.config.max_per_second);
        let count = |last: u64| match (last >> 32 == second & 0xffff_ffff, last & 0xffff_ffff) {
            (true, count) if count >= most => None,
            (true, _) => Some(last + 1),
            (false, _) => Some(second << 32 | 1),
        };
        let counted = self
            .0
            .recorded
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        if counted.is_err() {
            self.0.metrics.limited();
        }
        counted.is_ok()
    }

    /// Sends what waits, if the collector takes it soon.
    pub async fn finish(&self) {
        self.0.closing.send_replace(true);
        let _ = timeout(LAST, self.0.queue.closed()).await;
    }
}

impl Trace {
    /// Returns whether its spans are recorded.
    pub fn is_recorded(&self) -> bool {
        self.context.sampled
    }

    /// Returns whether names of users are recorded.
    pub fn has_users(&self) -> bool {
        self.tracer.0.config.users
    }

    /// Begins a call of an upstream: the requests from now on have its span as their parent.
    pub fn begin_call(&mut self) {
        self.call = Some(random());
    }

    /// The span of the call of an upstream; if it has not begun, one that is part of nothing.
    pub fn call(&self) -> [u8; 8] {
        self.call.unwrap_or_else(random)
    }

    /// The header fields of a request that is made for this one, instead of the client's.
    pub fn headers(&self) -> Option<TraceHeaders> {
        let context = SpanContext {
            span: self.call.unwrap_or(self.context.span),
            ..self.context
        };
        Some(TraceHeaders {
            parent: context.header()?,
            state: self.state.clone(),
        })
    }

    /// The time since 1970 of a moment.
    fn time(&self, moment: Instant) -> Duration {
        self.began.0 + moment.saturating_duration_since(self.began.1)
    }

    /// A step of this trace; `span`: itself.
    pub fn step(&self, name: &str, span: [u8; 8], times: [Instant; 2]) -> Span {
        Span {
            context: SpanContext {
                span,
                ..self.context
            },
            parent: Some(self.context.span),
            link: None,
            name: name.into(),
            kind: Kind::Internal,
            times: times.map(|time| self.time(time)),
            failed: false,
            attributes: Vec::new(),
        }
    }

    /// The request itself, which ends now.
    pub fn request(&self, name: &str, end: Instant) -> Span {
        Span {
            parent: self.parent,
            link: self.link,
            kind: Kind::Server,
            ..self.step(name, self.context.span, [self.began.1, end])
        }
    }

    /// Hands a span to the collector's queue; drops it if that is full, or if the trace is not
    /// recorded.
    pub fn record(&self, span: Span) {
        if self.is_recorded() && self.tracer.0.queue.try_send(span).is_err() {
            self.tracer.0.metrics.ended(SpanEnd::Dropped, 1);
        }
    }
}

/// An id that is not zero.
pub fn random<const N: usize>() -> [u8; N] {
    let mut id: [u8; N] = crypto::random();
    if id == [0; N] {
        id[N - 1] = 1;
    }
    id
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
