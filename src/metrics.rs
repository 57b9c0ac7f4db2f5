//! Every metric's name and help, once. Handles are registered at start; counting only adds to a number.
//!
//! Names have the prefix `flowgate_`, base units and `_total` for counters (Prometheus' naming practice). Every
//! series exists at 0 from the start, except those of node types, which appear with the first node of a type.
//! Knows nothing of what it counts.

mod labels;

pub use labels::{Deployed, Handshake, Login, Phase, Refused, RouteClass, Target, TokenCheck};

use labels::{ALPNS, API_VERSIONS, DEPLOYMENT_TYPES, METHODS, STATUSES, TLS_VERSIONS};
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use std::sync::Arc;
use std::time::Duration;

/// Upper bounds of requests' durations, seconds: from an answer out of memory to the longest wait for a flow.
const REQUEST_SECONDS: [f64; 11] = [
    0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0,
];
/// Upper bounds of deployments' phases, seconds: a close may take 15 s (facts, engine semantics).
const PHASE_SECONDS: [f64; 10] = [0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 20.0];

const DURATION: &str = "flowgate_request_duration_seconds";
const PHASE: &str = "flowgate_deployment_phase_duration_seconds";

type Requests = [[[Counter; STATUSES.len()]; METHODS.len()]; RouteClass::NAMES.len()];

/// All metrics of one gateway.
pub struct Metrics {
    recorder: PrometheusRecorder,
    page: PrometheusHandle,
    requests: Requests,
    received: Requests,
    sent: Requests,
    duration: [[Histogram; METHODS.len()]; RouteClass::NAMES.len()],
    in_flight: [Gauge; RouteClass::NAMES.len()],
    connections: Counter,
    connections_open: Gauge,
    connections_refused: [Counter; Refused::NAMES.len()],
    handshakes: [[[Counter; Handshake::DONE]; ALPNS.len()]; TLS_VERSIONS.len()],
    handshakes_failed: [Counter; Handshake::NAMES.len() - Handshake::DONE],
    certificate_not_after: Gauge,
    logins: [Counter; Login::NAMES.len()],
    token_checks: [Counter; TokenCheck::NAMES.len()],
    permission_checks: [Counter; 2],
    lockouts: Counter,
    sessions: Gauge,
    deployments: [[[[Counter; Target::NAMES.len()]; Deployed::NAMES.len()]; API_VERSIONS.len()];
        DEPLOYMENT_TYPES.len()],
    phases: [[Histogram; Phase::NAMES.len()]; DEPLOYMENT_TYPES.len()],
    revision_conflicts: Counter,
    nodes: Gauge,
    flows: Gauge,
}

/// What is counted of a request that has been answered.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    /// From the request's head to the answer's last byte.
    pub duration: Duration,
    /// Bytes of the request's body.
    pub received: u64,
    /// Bytes of the answer's body.
    pub sent: u64,
}

/// What is counted of the nodes of one type; made once per type by [`Metrics::node_type`] and kept by who counts.
#[derive(Clone)]
pub struct NodeType {
    messages: Counter,
    errors: Counter,
}

/// A request under way: counted until dropped.
#[must_use]
pub struct InFlight(Gauge);

/// An open connection: counted until dropped.
#[must_use]
pub struct OpenConnection(Gauge);

impl Metrics {
    /// Registers everything.
    pub fn new() -> Arc<Self> {
        let recorder = recorder();
        let r = &recorder;
        let metrics = Self {
            page: recorder.handle(),
            requests: per_request(r, "flowgate_requests_total", "Requests answered."),
            received: per_request(
                r,
                "flowgate_request_body_bytes_total",
                "Bytes of request bodies received.",
            ),
            sent: per_request(
                r,
                "flowgate_response_body_bytes_total",
                "Bytes of response bodies sent.",
            ),
            duration: durations(r),
            in_flight: RouteClass::NAMES.map(|class| {
                gauge(
                    r,
                    "flowgate_requests_in_flight",
                    "Requests not yet answered.",
                    &[("route", class)],
                )
            }),
            connections: counter(
                r,
                "flowgate_connections_total",
                "Connections accepted.",
                &[],
            ),
            connections_open: gauge(r, "flowgate_connections_open", "Connections open.", &[]),
            connections_refused: Refused::NAMES.map(|reason| {
                let help = "Connections closed at once because a limit was reached.";
                counter(
                    r,
                    "flowgate_connections_refused_total",
                    help,
                    &[("reason", reason)],
                )
            }),
            handshakes: TLS_VERSIONS.map(|version| {
                ALPNS.map(|alpn| {
                    Handshake::done().map(|result| handshake(r, [version, alpn, result]))
                })
            }),
            handshakes_failed: Handshake::failed()
                .map(|result| handshake(r, ["none", "none", result])),
            certificate_not_after: gauge(
                r,
                "flowgate_tls_certificate_not_after_seconds",
                "When the first certificate to expire does, Unix time.",
                &[],
            ),
            logins: Login::NAMES.map(|result| {
                counter(
                    r,
                    "flowgate_logins_total",
                    "Attempts to sign in.",
                    &[("result", result)],
                )
            }),
            token_checks: TokenCheck::NAMES.map(|result| {
                counter(
                    r,
                    "flowgate_token_checks_total",
                    "Checks of a request's token.",
                    &[("result", result)],
                )
            }),
            permission_checks: ["denied", "granted"].map(|result| {
                counter(
                    r,
                    "flowgate_permission_checks_total",
                    "Checks of a caller's permission.",
                    &[("result", result)],
                )
            }),
            lockouts: counter(
                r,
                "flowgate_login_lockouts_total",
                "Times that failures made the throttle refuse further sign-ins.",
                &[],
            ),
            sessions: gauge(r, "flowgate_sessions_active", "Sessions alive.", &[]),
            deployments: deployments(r),
            phases: phases(r),
            revision_conflicts: counter(
                r,
                "flowgate_revision_conflicts_total",
                "Deployments refused because another revision is active.",
                &[],
            ),
            nodes: gauge(r, "flowgate_nodes_running", "Nodes running.", &[]),
            flows: gauge(r, "flowgate_flows_running", "Flows running.", &[]),
            recorder,
        };
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        gauge(
            &metrics.recorder,
            "flowgate_build_info",
            "This program's version.",
            &version,
        )
        .set(1.0);
        Arc::new(metrics)
    }

    /// All metrics as text for Prometheus (exposition format 0.0.4).
    pub fn render(&self) -> String {
        self.page.render()
    }

    /// Moves what histograms have collected into their buckets; must be called every few seconds, because
    /// the samples are kept until then or until somebody renders.
    pub fn tidy(&self) {
        self.page.run_upkeep();
    }

    /// A request has been answered with this status.
    pub fn request(
        &self,
        class: RouteClass,
        method: &hyper::Method,
        status: u16,
        traffic: Traffic,
    ) {
        let (c, m, s) = (
            class as usize,
            labels::method(method),
            labels::status(status),
        );
        self.requests[c][m][s].increment(1);
        self.duration[c][m].record(traffic.duration.as_secs_f64());
        if traffic.received > 0 {
            self.received[c][m][s].increment(traffic.received);
        }
        if traffic.sent > 0 {
            self.sent[c][m][s].increment(traffic.sent);
        }
    }

    /// A request is under way until the guard is dropped.
    pub fn in_flight(&self, class: RouteClass) -> InFlight {
        let gauge = self.in_flight[class as usize].clone();
        gauge.increment(1.0);
        InFlight(gauge)
    }

    /// A connection has been accepted and is open until the guard is dropped.
    pub fn connection(&self) -> OpenConnection {
        self.connections.increment(1);
        self.connections_open.increment(1.0);
        OpenConnection(self.connections_open.clone())
    }

    /// A connection has been closed at once.
    pub fn refused(&self, reason: Refused) {
        self.connections_refused[reason as usize].increment(1);
    }

    /// A TLS handshake has ended; `tls13` and `alpn` are what was agreed and do not matter when it failed.
    pub fn handshake(&self, result: Handshake, tls13: bool, alpn: Option<&[u8]>) {
        match (result as usize).checked_sub(Handshake::DONE) {
            Some(failure) => self.handshakes_failed[failure].increment(1),
            None => self.handshakes[usize::from(tls13)][labels::alpn(alpn)][result as usize]
                .increment(1),
        }
    }

    /// When the first certificate to expire does, seconds since 1970.
    pub fn certificate_not_after(&self, unix: i64) {
        self.certificate_not_after.set(unix as f64);
    }

    /// A sign-in has ended.
    pub fn login(&self, result: Login) {
        self.logins[result as usize].increment(1);
    }

    /// A request's token has been looked at.
    pub fn token_check(&self, result: TokenCheck) {
        self.token_checks[result as usize].increment(1);
    }

    /// A caller's permission has been looked at.
    pub fn permission_check(&self, granted: bool) {
        self.permission_checks[usize::from(granted)].increment(1);
    }

    /// Failures have made the throttle refuse further sign-ins.
    pub fn lockout(&self) {
        self.lockouts.increment(1);
    }

    /// How many sessions are alive now.
    pub fn sessions(&self, alive: usize) {
        self.sessions.set(alive as f64);
    }

    /// A deployment has ended. `kind` is the type's name as clients spell it, `api` the API version 1 or 2.
    pub fn deployment(&self, kind: &str, api: u8, result: Deployed, target: Target) {
        let api = usize::from(api != 1);
        self.deployments[labels::deployment_type(kind)][api][result as usize][target as usize]
            .increment(1);
    }

    /// A phase of a deployment of this type has ended.
    pub fn phase(&self, kind: &str, phase: Phase, took: Duration) {
        self.phases[labels::deployment_type(kind)][phase as usize].record(took.as_secs_f64());
    }

    /// A deployment named another revision than the active one.
    pub fn revision_conflict(&self) {
        self.revision_conflicts.increment(1);
    }

    /// How many nodes and flows run now.
    pub fn running(&self, nodes: usize, flows: usize) {
        self.nodes.set(nodes as f64);
        self.flows.set(flows as f64);
    }

    /// The counters of one node type, registered when first asked for. Ask only for types that the engine
    /// knows: their number is what bounds this label.
    pub fn node_type(&self, kind: &str) -> NodeType {
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
}

impl NodeType {
    /// Nodes of this type have received messages.
    pub fn messages(&self, count: u64) {
        self.messages.increment(count);
    }

    /// A node of this type has reported an error.
    pub fn error(&self) {
        self.errors.increment(1);
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

fn recorder() -> PrometheusRecorder {
    let mut builder = PrometheusBuilder::new();
    for (name, bounds) in [
        (DURATION, &REQUEST_SECONDS[..]),
        (PHASE, &PHASE_SECONDS[..]),
    ] {
        // The only error is an empty list of bounds, and then the default, quantiles, is the best there is.
        builder = builder
            .set_buckets_for_metric(Matcher::Full(name.to_owned()), bounds)
            .unwrap_or_default();
    }
    builder.build_recorder()
}

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

fn key(name: &'static str, labels: &[(&'static str, &str)]) -> Key {
    let labels: Vec<Label> = labels
        .iter()
        .map(|(k, v)| Label::new(*k, (*v).to_owned()))
        .collect();
    Key::from_parts(name, labels)
}

fn counter(
    r: &PrometheusRecorder,
    name: &'static str,
    help: &'static str,
    labels: &[(&'static str, &str)],
) -> Counter {
    r.describe_counter(name.into(), None, help.into());
    r.register_counter(&key(name, labels), &METADATA)
}

fn gauge(
    r: &PrometheusRecorder,
    name: &'static str,
    help: &'static str,
    labels: &[(&'static str, &str)],
) -> Gauge {
    r.describe_gauge(name.into(), None, help.into());
    r.register_gauge(&key(name, labels), &METADATA)
}

fn histogram(
    r: &PrometheusRecorder,
    name: &'static str,
    help: &'static str,
    labels: &[(&'static str, &str)],
) -> Histogram {
    r.describe_histogram(name.into(), Some(Unit::Seconds), help.into());
    r.register_histogram(&key(name, labels), &METADATA)
}

fn per_request(r: &PrometheusRecorder, name: &'static str, help: &'static str) -> Requests {
    RouteClass::NAMES.map(|class| {
        METHODS.map(|method| {
            STATUSES.map(|status| {
                counter(
                    r,
                    name,
                    help,
                    &[("route", class), ("method", method), ("status", status)],
                )
            })
        })
    })
}

/// By class and method only: with the status too, a scrape would carry five times these 600 lines.
fn durations(r: &PrometheusRecorder) -> [[Histogram; METHODS.len()]; RouteClass::NAMES.len()] {
    let help = "From a request's head to its answer's last byte.";
    RouteClass::NAMES.map(|class| {
        METHODS.map(|method| histogram(r, DURATION, help, &[("route", class), ("method", method)]))
    })
}

fn handshake(r: &PrometheusRecorder, [version, alpn, result]: [&'static str; 3]) -> Counter {
    let labels = [("version", version), ("alpn", alpn), ("result", result)];
    counter(
        r,
        "flowgate_tls_handshakes_total",
        "TLS handshakes.",
        &labels,
    )
}

fn deployments(
    r: &PrometheusRecorder,
) -> [[[[Counter; Target::NAMES.len()]; Deployed::NAMES.len()]; API_VERSIONS.len()];
    DEPLOYMENT_TYPES.len()] {
    DEPLOYMENT_TYPES.map(|kind| {
        API_VERSIONS.map(|api| {
            Deployed::NAMES.map(|result| {
                Target::NAMES.map(|target| {
                    let labels = [
                        ("type", kind),
                        ("api_version", api),
                        ("result", result),
                        ("target", target),
                    ];
                    counter(r, "flowgate_deployments_total", "Deployments.", &labels)
                })
            })
        })
    })
}

fn phases(r: &PrometheusRecorder) -> [[Histogram; Phase::NAMES.len()]; DEPLOYMENT_TYPES.len()] {
    let help = "How long the phases of deployments took.";
    DEPLOYMENT_TYPES.map(|kind| {
        Phase::NAMES.map(|phase| histogram(r, PHASE, help, &[("type", kind), ("phase", phase)]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(page: &str, series: &str) -> Option<f64> {
        let line = page.lines().find(|line| line.starts_with(series))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    #[test]
    fn every_series_is_there_at_zero_from_the_start() {
        let page = Metrics::new().render();
        for series in [
            "flowgate_requests_total{route=\"flows\",method=\"POST\",status=\"4xx\"}",
            "flowgate_request_duration_seconds_count{route=\"auth\",method=\"GET\"}",
            "flowgate_request_duration_seconds_bucket{route=\"auth\",method=\"GET\",le=\"0.001\"}",
            "flowgate_tls_handshakes_total{version=\"1.3\",alpn=\"h2\",result=\"resumed\"}",
            "flowgate_tls_handshakes_total{version=\"none\",alpn=\"none\",result=\"timeout\"}",
            "flowgate_deployments_total{type=\"reload\",api_version=\"v2\",result=\"stale\",target=\"upstream\"}",
            "flowgate_deployment_phase_duration_seconds_sum{type=\"full\",phase=\"store\"}",
            "flowgate_sessions_active",
            "flowgate_revision_conflicts_total",
        ] {
            assert_eq!(value(&page, series), Some(0.0), "{series}");
        }
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
    fn guards_take_back_what_they_added() {
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
    fn what_a_client_chooses_freely_ends_in_other() {
        let metrics = Metrics::new();
        let method = hyper::Method::from_bytes(b"BREW").unwrap_or_default();
        let nothing = Traffic {
            duration: Duration::ZERO,
            received: 0,
            sent: 0,
        };
        metrics.request(RouteClass::None, &method, 999, nothing);
        metrics.handshake(Handshake::Full, true, Some(b"spdy/1"));
        let page = metrics.render();
        let series = "flowgate_requests_total{route=\"none\",method=\"other\",status=\"5xx\"}";
        assert_eq!(value(&page, series), Some(1.0));
        let series = "flowgate_tls_handshakes_total{version=\"1.3\",alpn=\"none\",result=\"full\"}";
        assert_eq!(value(&page, series), Some(1.0));
    }

    #[test]
    fn a_node_type_appears_with_its_first_node_and_is_registered_once() {
        let metrics = Metrics::new();
        assert!(!metrics.render().contains("flowgate_node_messages_total{"));
        metrics.node_type("change").messages(2);
        metrics.node_type("change").messages(3);
        assert_eq!(
            value(
                &metrics.render(),
                "flowgate_node_messages_total{type=\"change\"}"
            ),
            Some(5.0)
        );
    }

    #[test]
    fn names_have_the_prefix_help_and_a_type() {
        let page = Metrics::new().render();
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
