//! Every metric's name and help, once. Handles are registered at start; counting only adds to a
//! number.
//!
//! Names have the prefix `flowgate_`, base units and `_total` for counters (Prometheus' naming
//! practice). A series exists at 0 from the start, except those of requests and deployments, which
//! appear when their combination of labels first occurs, those of node types, which appear with the
//! first node of a type, and those of flows, which are there as long as the flows. Knows nothing of
//! what it counts.

mod audit_sink;
mod comms;
#[cfg(feature = "engine")]
mod engine;
mod exposition;
#[cfg(feature = "engine")]
mod flow_errors;
mod histogram;
mod labels;
mod last_hour;
#[cfg(feature = "engine")]
mod load;
mod register;
mod traces;
mod upstream;

pub use audit_sink::AuditSink;
pub use comms::{Comms, OpenChannel};
pub use labels::{
    CommsEnd, Deployed, Handshake, Login, Phase, PolicyRule, Refused, RouteClass, SpanEnd, Stopped,
    Target, TokenCheck, TunnelEnd, UpstreamFault, UpstreamSignIn, method_name,
};
pub use last_hour::{INTERVAL, LastHour, Sample};
#[cfg(feature = "engine")]
pub use load::Lateness;
pub use traces::Traces;
pub use upstream::Upstream;

use histogram::Histograms;
use metrics::Gauge;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use register::{Access, Connections, Deployments, Flows, Requests, gauge};
#[cfg(feature = "engine")]
use smol_str::SmolStr;
#[cfg(feature = "engine")]
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// All metrics of one gateway.
pub struct Metrics {
    recorder: PrometheusRecorder,
    page: PrometheusHandle,
    histograms: Histograms,
    requests: Requests,
    connections: Connections,
    access: Access,
    deployments: Deployments,
    flows: Flows,
    comms: Comms,
    /// Registered when it is first set: most gateways share nothing.
    shared_store: OnceLock<Gauge>,
    leader: OnceLock<Gauge>,
    #[cfg(feature = "engine")]
    loads: load::Loads,
    #[cfg(feature = "engine")]
    errors_on: flow_errors::FlowErrors,
}

/// The measurements of a request that has been answered.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    /// From the request's head to the answer's last byte.
    pub duration: Duration,
    /// Bytes of the request's body.
    pub received: u64,
    /// Bytes of the answer's body.
    pub sent: u64,
}

/// A request under way: counted until dropped.
#[must_use]
pub struct InFlight(Gauge);

/// An open connection: counted until dropped.
#[must_use]
pub struct OpenConnection(Gauge);

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Registers everything.
    pub fn new() -> Arc<Self> {
        let recorder = PrometheusBuilder::new().build_recorder();
        let histograms = Histograms::default();
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        gauge(
            &recorder,
            "flowgate_build_info",
            "This program's version.",
            &version,
        )
        .set(1.0);
        Arc::new(Self {
            page: recorder.handle(),
            requests: Requests::register(&recorder, &histograms),
            connections: Connections::register(&recorder),
            access: Access::register(&recorder),
            deployments: Deployments::register(&recorder, &histograms),
            flows: Flows::register(&recorder),
            comms: Comms::register(&recorder),
            shared_store: OnceLock::new(),
            leader: OnceLock::new(),
            #[cfg(feature = "engine")]
            loads: load::Loads::default(),
            #[cfg(feature = "engine")]
            errors_on: flow_errors::FlowErrors::default(),
            histograms,
            recorder,
        })
    }

    /// All metrics as text for Prometheus (exposition format 0.0.4).
    pub fn render(&self) -> String {
        let mut page = self.page.render();
        self.histograms.render(&mut page);
        #[cfg(feature = "engine")]
        self.loads.render(&mut page);
        page
    }

    /// The sum of all series of a counter.
    #[cfg(feature = "engine")]
    pub fn total(&self, name: &str) -> f64 {
        let page = self.page.render();
        let value = |line: &str| {
            let labels = line.strip_prefix(name)?;
            let value = labels
                .starts_with('{')
                .then(|| labels.rsplit(' ').next())??;
            value.parse::<f64>().ok()
        };
        page.lines().filter_map(value).sum()
    }

    /// The errors of nodes on these tabs, since the start.
    #[cfg(feature = "engine")]
    pub fn errors_on(&self, tabs: &HashSet<SmolStr>) -> f64 {
        self.errors_on.sum(tabs)
    }

    /// How late timers of nodes fired, since the start.
    #[cfg(feature = "engine")]
    pub fn lateness(&self) -> Lateness {
        self.loads.lateness()
    }

    /// A request has been answered with this status.
    pub fn request(
        &self,
        class: RouteClass,
        method: &hyper::Method,
        status: u16,
        traffic: Traffic,
    ) {
        let recorder = &self.recorder;
        self.requests
            .answered(recorder, class, method, status, traffic);
    }

    /// Counts a request as under way until the guard is dropped.
    pub fn in_flight(&self, class: RouteClass) -> InFlight {
        let gauge = self.requests.in_flight[class as usize].clone();
        gauge.increment(1.0);
        InFlight(gauge)
    }

    /// A connection has been accepted and is open until the guard is dropped.
    pub fn connection(&self) -> OpenConnection {
        self.connections.accepted.increment(1);
        self.connections.open.increment(1.0);
        OpenConnection(self.connections.open.clone())
    }

    /// Sets the current number of tasks of the workers and the control thread.
    pub fn tasks(&self, workers: usize, control: usize) {
        let [of_workers, of_control] = &self.connections.tasks;
        of_workers.set(workers as f64);
        of_control.set(control as f64);
    }

    /// A connection has been closed at once.
    pub fn refused(&self, reason: Refused) {
        self.connections.refused[reason as usize].increment(1);
    }

    /// Counts input on a connection that could not be read as HTTP.
    pub fn malformed(&self) {
        self.connections.malformed.increment(1);
    }

    /// A TLS handshake has ended; `tls13` and `alpn` are what was agreed and do not matter when it
    /// failed.
    pub fn handshake(&self, result: Handshake, tls13: bool, alpn: Option<&[u8]>) {
        match (result as usize).checked_sub(Handshake::DONE) {
            Some(failure) => self.connections.failed[failure].increment(1),
            None => self.connections.handshakes[usize::from(tls13)][labels::alpn(alpn)]
                [result as usize]
                .increment(1),
        }
    }

    /// When the first certificate to expire does, seconds since 1970.
    pub fn certificate_not_after(&self, unix: i64) {
        self.connections.not_after.set(unix as f64);
    }

    /// An order for a certificate has ended.
    pub fn acme_order(&self, issued: bool) {
        self.connections.acme_orders[usize::from(issued)].increment(1);
    }

    /// A sign-in has ended.
    pub fn login(&self, result: Login) {
        self.access.logins[result as usize].increment(1);
    }

    /// A request's token has been looked at.
    pub fn token_check(&self, result: TokenCheck) {
        self.access.tokens[result as usize].increment(1);
    }

    /// A caller's permission has been looked at.
    pub fn permission_check(&self, granted: bool) {
        self.access.permissions[usize::from(granted)].increment(1);
    }

    /// The number of times, since the start, that failures made the throttle refuse further
    /// sign-ins.
    pub fn lockouts(&self, count: u64) {
        self.access.lockouts.absolute(count);
    }

    /// The number of times, since the start, that a user began to count as being guessed from many
    /// addresses.
    pub fn guessing(&self, count: u64) {
        self.access.guessing.absolute(count);
    }

    /// Sets the number of live sessions.
    pub fn sessions(&self, alive: usize) {
        self.access.sessions.set(alive as f64);
    }

    /// The audit log could not be written.
    pub fn audit_failure(&self) {
        self.access.audit_failures.increment(1);
    }

    /// Audit records were counted instead of written one by one.
    pub fn audit_suppressed(&self, records: u64) {
        self.access.audit_suppressed.increment(records);
    }

    /// Sets the size and the maximum size of the audit log, in bytes.
    pub fn audit_size(&self, bytes: u64, max: u64) {
        self.access.audit_bytes.set(bytes as f64);
        self.access.audit_max_bytes.set(max as f64);
    }

    /// A deployment has ended. `kind` is the type's name as clients spell it, `api` the API version
    /// 1 or 2.
    pub fn deployment(&self, kind: &str, api: u8, result: Deployed, target: Target) {
        let api = usize::from(api != 1);
        let recorder = &self.recorder;
        self.deployments.ended(recorder, kind, api, result, target);
    }

    /// A phase of a deployment of this type has ended.
    pub fn phase(&self, kind: &str, phase: Phase, took: Duration) {
        self.deployments.phases[labels::deployment_type(kind)][phase as usize].record(took);
    }

    /// A deployment named another revision than the active one.
    pub fn revision_conflict(&self) {
        self.deployments.conflicts.increment(1);
    }

    /// A deployment is refused because it violates this rule.
    pub fn policy_violation(&self, rule: PolicyRule) {
        self.deployments.violations[rule as usize].increment(1);
    }

    /// Whether the active flow set is there because the one deployed last did not start.
    pub fn fallen_back(&self, is: bool) {
        self.deployments.fallen_back.set(f64::from(u8::from(is)));
    }

    /// The program has started the flow set before the one deployed last.
    pub fn fallback(&self) {
        self.deployments.fallbacks.increment(1);
    }

    /// Sets the number of running nodes and flows.
    pub fn running(&self, nodes: usize, flows: usize) {
        self.flows.nodes.set(nodes as f64);
        self.flows.running.set(flows as f64);
    }

    /// Counts flows that the engine has stopped.
    pub fn flows_stopped(&self, flows: usize, reason: Stopped) {
        self.flows.stopped[reason as usize].increment(flows as u64);
    }

    /// The metrics of editors' channels.
    pub fn comms(&self) -> &Comms {
        &self.comms
    }

    /// The metrics of the audit sink of this name, registered at the first call.
    pub fn audit_sink(&self, name: &str) -> AuditSink {
        AuditSink::register(&self.recorder, name)
    }

    /// The metrics of traces, registered at the first call.
    pub fn traces(&self) -> Traces {
        Traces::register(&self.recorder)
    }

    /// Whether the database that gateways share was reached just now.
    pub fn shared_store_reached(&self, reached: bool) {
        let reachable = self.shared_store.get_or_init(|| {
            gauge(
                &self.recorder,
                "flowgate_shared_store_reachable",
                "Whether the database that gateways share is reached: 1 or 0.",
                &[],
            )
        });
        reachable.set(if reached { 1.0 } else { 0.0 });
    }

    /// Whether this gateway of a cluster runs the engine of a shard; empty: the main one.
    pub fn leads(&self, shard: &str, leads: bool) {
        let leads = if leads { 1.0 } else { 0.0 };
        if !shard.is_empty() {
            let of_shard = gauge(
                &self.recorder,
                "flowgate_shard_leader",
                "Whether this gateway of a cluster runs the engine of a shard: 1 or 0.",
                &[("shard", shard)],
            );
            return of_shard.set(leads);
        }
        let leader = self.leader.get_or_init(|| {
            gauge(
                &self.recorder,
                "flowgate_engine_leader",
                "Whether this gateway of a cluster runs the engine: 1 or 0.",
                &[],
            )
        });
        leader.set(leads);
    }

    /// The metrics of the upstream of this name, registered at the first call.
    pub fn upstream(&self, name: &str) -> Upstream {
        Upstream::register(&self.recorder, &self.histograms, name)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Traffic = Traffic {
        duration: Duration::ZERO,
        received: 0,
        sent: 0,
    };

    fn value(page: &str, series: &str) -> Option<f64> {
        let line = page.lines().find(|line| line.starts_with(series))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    #[test]
    fn series_exist_at_zero_from_the_start() {
        let page = Metrics::new().render();
        for series in [
            "flowgate_tls_handshakes_total{version=\"1.3\",alpn=\"h2\",result=\"resumed\"}",
            "flowgate_tls_handshakes_total{version=\"none\",alpn=\"none\",result=\"timeout\"}",
            "flowgate_sessions_active",
            "flowgate_revision_conflicts_total",
        ] {
            assert_eq!(value(&page, series), Some(0.0), "{series}");
        }
    }

    #[test]
    fn combinations_of_labels_that_never_occurred_have_no_series() {
        let metrics = Metrics::new();
        let series = |page: &str| page.lines().filter(|line| !line.starts_with('#')).count();
        let idle = metrics.render();
        assert!(series(&idle) < 400, "{}", series(&idle));
        let (full, target) = ("full", Target::Engine);
        metrics.deployment(full, 2, Deployed::Success, target);
        metrics.phase(full, Phase::Store, Duration::from_millis(1));
        let page = metrics.render();
        let deployments = |line: &&str| line.starts_with("flowgate_deployments_total");
        assert_eq!(page.lines().filter(deployments).count(), 1, "{page}");
        let phases =
            |line: &&str| line.starts_with("flowgate_deployment_phase_duration_seconds_sum");
        assert_eq!(page.lines().filter(phases).count(), 1, "{page}");
    }

    #[test]
    fn a_request_adds_to_the_series_of_its_class_method_and_status() {
        let metrics = Metrics::new();
        let traffic = Traffic {
            duration: Duration::from_millis(2),
            received: 10,
            sent: 20,
        };
        metrics.request(RouteClass::Flows, &hyper::Method::POST, 409, traffic);
        let page = metrics.render();
        let labels = "{route=\"flows\",method=\"POST\",status=\"4xx\"}";
        assert_eq!(
            value(&page, &format!("flowgate_requests_total{labels}")),
            Some(1.0)
        );
        assert_eq!(
            value(&page, &format!("flowgate_request_body_bytes_total{labels}")),
            Some(10.0)
        );
        assert_eq!(
            value(
                &page,
                &format!("flowgate_response_body_bytes_total{labels}")
            ),
            Some(20.0)
        );
        let bucket = "flowgate_request_duration_seconds_bucket{route=\"flows\",method=\"POST\",le=";
        assert_eq!(value(&page, &format!("{bucket}\"0.001\"}}")), Some(0.0));
        assert_eq!(value(&page, &format!("{bucket}\"0.005\"}}")), Some(1.0));
    }

    #[test]
    fn guards_undo_their_increments_on_drop() {
        let metrics = Metrics::new();
        let guards = (metrics.in_flight(RouteClass::Auth), metrics.connection());
        let page = metrics.render();
        assert_eq!(
            value(&page, "flowgate_requests_in_flight{route=\"auth\"}"),
            Some(1.0)
        );
        assert_eq!(value(&page, "flowgate_connections_open"), Some(1.0));
        drop(guards);
        let page = metrics.render();
        assert_eq!(
            value(&page, "flowgate_requests_in_flight{route=\"auth\"}"),
            Some(0.0)
        );
        assert_eq!(value(&page, "flowgate_connections_open"), Some(0.0));
        assert_eq!(value(&page, "flowgate_connections_total"), Some(1.0));
    }

    #[test]
    fn label_values_chosen_by_clients_become_other() {
        let metrics = Metrics::new();
        let method = hyper::Method::from_bytes(b"BREW").unwrap_or_default();
        metrics.request(RouteClass::None, &method, 999, NOTHING);
        metrics.handshake(Handshake::Full, true, Some(b"spdy/1"));
        let page = metrics.render();
        let series = "flowgate_requests_total{route=\"none\",method=\"other\",status=\"5xx\"}";
        assert_eq!(value(&page, series), Some(1.0));
        let series = "flowgate_tls_handshakes_total{version=\"1.3\",alpn=\"none\",result=\"full\"}";
        assert_eq!(value(&page, series), Some(1.0));
    }

    #[test]
    fn names_have_the_prefix_help_and_a_type() {
        let metrics = Metrics::new();
        metrics.request(RouteClass::None, &hyper::Method::GET, 200, NOTHING);
        let page = metrics.render();
        for line in page.lines().filter(|line| !line.is_empty()) {
            let name = line
                .strip_prefix("# HELP ")
                .or_else(|| line.strip_prefix("# TYPE "))
                .unwrap_or(line);
            assert!(name.starts_with("flowgate_"), "{line}");
        }
        assert!(page.contains("# HELP flowgate_requests_total Requests answered."));
        assert!(page.contains("# TYPE flowgate_requests_total counter"));
    }
}
