//! The metrics of the runtime behind the gateway. Registered only where there is one: a gauge of
//! its health would mean nothing elsewhere.

use super::histogram::{Histogram, Histograms};
use super::labels::{STATUSES, TunnelEnd, UpstreamFault, UpstreamSignIn, status};
use super::register::{UPSTREAM_DURATION, counter, gauge};
use metrics::{Counter, Gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use std::sync::Arc;
use std::time::Duration;

/// Counters and gauges of one upstream.
pub struct Upstream {
    answered: [Counter; STATUSES.len()],
    duration: Arc<Histogram>,
    in_flight: Gauge,
    connects: Counter,
    open: Gauge,
    idle: Gauge,
    retries: Counter,
    faults: [Counter; UpstreamFault::NAMES.len()],
    healthy: Gauge,
    authorized: Gauge,
    sign_ins: [Counter; UpstreamSignIn::NAMES.len()],
    tunnels: Tunnels,
}

/// Of tunnels: each is a WebSocket that passes through.
struct Tunnels {
    opened: Counter,
    open: Gauge,
    closed: [Counter; TunnelEnd::NAMES.len()],
    up: Counter,
    down: Counter,
}

impl Upstream {
    pub(super) fn register(r: &PrometheusRecorder, h: &Histograms, name: &str) -> Self {
        let own = ("upstream", name);
        let answered = |status| {
            let help = "Answers of the upstream.";
            let labels = [own, ("status", status)];
            counter(r, "flowgate_upstream_requests_total", help, &labels)
        };
        let fault = |kind| {
            let help = "Requests that the upstream did not answer well.";
            let labels = [own, ("kind", kind)];
            counter(r, "flowgate_upstream_errors_total", help, &labels)
        };
        let sign_in = |result| {
            let help = "Sign-ins of the gateway at the upstream.";
            let labels = [own, ("result", result)];
            counter(r, "flowgate_upstream_sign_ins_total", help, &labels)
        };
        let plain = |name, help| gauge(r, name, help, &[own]);
        Self {
            answered: STATUSES.map(answered),
            duration: h.register(UPSTREAM_DURATION, &[own]),
            in_flight: plain(
                "flowgate_upstream_requests_in_flight",
                "Requests at the upstream, answers under way included.",
            ),
            connects: counter(
                r,
                "flowgate_upstream_connects_total",
                "Connections made to the upstream.",
                &[own],
            ),
            open: plain(
                "flowgate_upstream_connections_open",
                "Connections open to the upstream.",
            ),
            idle: plain(
                "flowgate_upstream_connections_idle",
                "Connections to the upstream kept for another request.",
            ),
            retries: counter(
                r,
                "flowgate_upstream_retries_total",
                "Requests sent again because a kept connection was no longer good.",
                &[own],
            ),
            faults: UpstreamFault::NAMES.map(fault),
            healthy: plain(
                "flowgate_upstream_healthy",
                "Whether the last health check of the upstream succeeded.",
            ),
            authorized: plain(
                "flowgate_upstream_authorized",
                "Whether the upstream accepts the gateway's account, or needs none.",
            ),
            sign_ins: UpstreamSignIn::NAMES.map(sign_in),
            tunnels: Tunnels::register(r, name),
        }
    }

    /// Metrics that are not exported.
    pub fn unexported() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        Self::register(&recorder, &Histograms::default(), "")
    }

    /// A tunnel is open; so is its connection.
    pub fn tunnel_opened(&self) {
        self.tunnels.opened.increment(1);
        self.tunnels.open.increment(1.0);
        self.open.increment(1.0);
    }

    /// A tunnel has ended.
    pub fn tunnel_closed(&self, cause: TunnelEnd) {
        self.tunnels.closed[cause as usize].increment(1);
        self.tunnels.open.decrement(1.0);
        self.open.decrement(1.0);
    }

    /// Bytes have passed through a tunnel: from the client, and to it.
    pub fn tunnelled(&self, up: u64, down: u64) {
        if up > 0 {
            self.tunnels.up.increment(up);
        }
        if down > 0 {
            self.tunnels.down.increment(down);
        }
    }

    /// The head of an answer has come.
    pub fn answered(&self, code: u16, took: Duration) {
        self.answered[status(code)].increment(1);
        self.duration.record(took);
    }

    /// A request could not be answered, or not to its end.
    pub fn fault(&self, kind: UpstreamFault) {
        self.faults[kind as usize].increment(1);
    }

    /// A request has gone out again.
    pub fn retried(&self) {
        self.retries.increment(1);
    }

    /// A request is at the upstream, or (false) no longer.
    pub fn in_flight(&self, begins: bool) {
        step(&self.in_flight, begins);
    }

    /// A connection has been made.
    pub fn connected(&self) {
        self.connects.increment(1);
        self.open.increment(1.0);
    }

    /// A connection has ended.
    pub fn disconnected(&self) {
        self.open.decrement(1.0);
    }

    /// A connection is kept for another request, or (false) no longer.
    pub fn idle(&self, kept: bool) {
        step(&self.idle, kept);
    }

    /// Sets the result of the last health check.
    pub fn health(&self, well: bool) {
        self.healthy.set(f64::from(u8::from(well)));
    }

    /// Whether the upstream takes us for who we are.
    pub fn authorized(&self, yes: bool) {
        self.authorized.set(f64::from(u8::from(yes)));
    }

    /// A sign-in has ended.
    pub fn signed_in(&self, result: UpstreamSignIn) {
        self.sign_ins[result as usize].increment(1);
    }
}

impl Tunnels {
    fn register(r: &PrometheusRecorder, name: &str) -> Self {
        let own = ("upstream", name);
        let closed = |cause| {
            let help = "Tunnels to the upstream that have ended.";
            let labels = [own, ("cause", cause)];
            counter(r, "flowgate_upstream_tunnels_closed_total", help, &labels)
        };
        let bytes = |direction| {
            let help = "Bytes through tunnels, to the upstream (up) and from it (down).";
            let labels = [own, ("direction", direction)];
            counter(r, "flowgate_upstream_tunnel_bytes_total", help, &labels)
        };
        let (opened, open) = (
            "Tunnels to the upstream opened.",
            "Tunnels open to the upstream.",
        );
        Self {
            opened: counter(r, "flowgate_upstream_tunnels_total", opened, &[own]),
            open: gauge(r, "flowgate_upstream_tunnels_open", open, &[own]),
            closed: TunnelEnd::NAMES.map(closed),
            up: bytes("up"),
            down: bytes("down"),
        }
    }
}

fn step(gauge: &Gauge, up: bool) {
    if up {
        gauge.increment(1.0);
    } else {
        gauge.decrement(1.0);
    }
}
