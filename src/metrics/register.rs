//! Registering: names, labels and bounds become handles. Done once, at start.

use super::histogram::{Description, Histogram, Histograms};
use super::labels::{self, ALPNS, API_VERSIONS, DEPLOYMENT_TYPES, METHODS, STATUSES, TLS_VERSIONS};
use super::{
    Deployed, Handshake, Login, Phase, PolicyRule, Refused, RouteClass, Stopped, Target,
    TokenCheck, Traffic,
};
use hyper::Method;
use metrics::{Counter, Gauge, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::PrometheusRecorder;
use std::sync::{Arc, OnceLock};

/// Upper bounds of requests' durations, seconds: from an answer out of memory to the longest wait
/// for a flow.
static REQUEST_SECONDS: [f64; 11] = [
    0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0,
];
/// Upper bounds of deployments' phases, seconds: a close may take 15 s (facts, engine semantics).
static PHASE_SECONDS: [f64; 10] = [0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 20.0];

const DURATION: Description = Description {
    name: "flowgate_request_duration_seconds",
    help: "From a request's head to its answer's last byte.",
    bounds: &REQUEST_SECONDS,
};
const PHASE: Description = Description {
    name: "flowgate_deployment_phase_duration_seconds",
    help: "How long the phases of deployments took.",
    bounds: &PHASE_SECONDS,
};
pub(super) const UPSTREAM_DURATION: Description = Description {
    name: "flowgate_upstream_request_duration_seconds",
    help: "From a request's forwarding to the head of the upstream's answer.",
    bounds: &REQUEST_SECONDS,
};

/// A counter whose series appears when it first counts: one of many combinations of labels, most of
/// which never occur.
type Seldom = OnceLock<Counter>;
type ByMethod<T> = [[T; METHODS.len()]; RouteClass::NAMES.len()];
type ByStatus = ByMethod<[Seldom; STATUSES.len()]>;
type ByTarget = [[Seldom; Target::NAMES.len()]; Deployed::NAMES.len()];
type ByType<T> = [T; DEPLOYMENT_TYPES.len()];

/// Of requests.
pub(super) struct Requests {
    answered: ByStatus,
    received: ByStatus,
    sent: ByStatus,
    duration: ByMethod<Arc<Histogram>>,
    pub(super) in_flight: [Gauge; RouteClass::NAMES.len()],
}

impl Requests {
    pub(super) fn register(r: &PrometheusRecorder, h: &Histograms) -> Self {
        // By class and method only: with the status too, a scrape would carry five times as many
        // lines.
        let duration = RouteClass::NAMES.map(|route| {
            METHODS.map(|method| h.register(DURATION, &[("route", route), ("method", method)]))
        });
        let in_flight = RouteClass::NAMES.map(|route| {
            let help = "Requests not yet answered.";
            gauge(r, "flowgate_requests_in_flight", help, &[("route", route)])
        });
        Self {
            answered: ByStatus::default(),
            received: ByStatus::default(),
            sent: ByStatus::default(),
            duration,
            in_flight,
        }
    }

    /// A request of this class has been answered with this status.
    pub(super) fn answered(
        &self,
        r: &PrometheusRecorder,
        class: RouteClass,
        method: &Method,
        status: u16,
        traffic: Traffic,
    ) {
        let (class, method) = (class as usize, labels::method(method));
        let status = labels::status(status);
        let add = |table: &ByStatus, name, help, count| {
            let counter = || {
                let labels = [
                    ("route", RouteClass::NAMES[class]),
                    ("method", METHODS[method]),
                    ("status", STATUSES[status]),
                ];
                counter(r, name, help, &labels)
            };
            table[class][method][status]
                .get_or_init(counter)
                .increment(count);
        };
        let (name, help) = ("flowgate_requests_total", "Requests answered.");
        add(&self.answered, name, help, 1);
        self.duration[class][method].record(traffic.duration);
        if traffic.received > 0 {
            let help = "Bytes of request bodies received.";
            let name = "flowgate_request_body_bytes_total";
            add(&self.received, name, help, traffic.received);
        }
        if traffic.sent > 0 {
            let help = "Bytes of response bodies sent.";
            let name = "flowgate_response_body_bytes_total";
            add(&self.sent, name, help, traffic.sent);
        }
    }
}

/// Of connections and TLS.
pub(super) struct Connections {
    pub(super) accepted: Counter,
    pub(super) open: Gauge,
    pub(super) refused: [Counter; Refused::NAMES.len()],
    pub(super) malformed: Counter,
    pub(super) handshakes: [[[Counter; Handshake::DONE]; ALPNS.len()]; TLS_VERSIONS.len()],
    pub(super) failed: [Counter; Handshake::NAMES.len() - Handshake::DONE],
    pub(super) not_after: Gauge,
    /// Failed, issued.
    pub(super) acme_orders: [Counter; 2],
    /// Of the workers; of the control thread.
    pub(super) tasks: [Gauge; 2],
}

impl Connections {
    pub(super) fn register(r: &PrometheusRecorder) -> Self {
        let handshake = |version, alpn, result| {
            let labels = [("version", version), ("alpn", alpn), ("result", result)];
            counter(
                r,
                "flowgate_tls_handshakes_total",
                "TLS handshakes.",
                &labels,
            )
        };
        let refused = Refused::NAMES.map(|reason| {
            let help =
                "Connections closed at once: a limit was reached, or the PROXY protocol broken.";
            counter(
                r,
                "flowgate_connections_refused_total",
                help,
                &[("reason", reason)],
            )
        });
        let malformed = "Requests that are no HTTP/1.1: answered without a body, or not at all.";
        let expiry = "When the first certificate to expire does, Unix time.";
        Self {
            accepted: counter(
                r,
                "flowgate_connections_total",
                "Connections accepted.",
                &[],
            ),
            open: gauge(r, "flowgate_connections_open", "Connections open.", &[]),
            refused,
            malformed: counter(r, "flowgate_requests_malformed_total", malformed, &[]),
            handshakes: TLS_VERSIONS.map(|version| {
                ALPNS.map(|alpn| Handshake::done().map(|result| handshake(version, alpn, result)))
            }),
            failed: Handshake::failed().map(|result| handshake("none", "none", result)),
            tasks: ["worker", "control"].map(|runtime| {
                let help = "Tasks alive: what goes on for connections, and beside them.";
                gauge(r, "flowgate_tasks", help, &[("runtime", runtime)])
            }),
            not_after: gauge(r, "flowgate_tls_certificate_not_after_seconds", expiry, &[]),
            acme_orders: ["failed", "issued"].map(|result| {
                let help = "Orders for a certificate by ACME.";
                counter(r, "flowgate_acme_orders_total", help, &[("result", result)])
            }),
        }
    }
}

/// Of who comes in and what they may do.
pub(super) struct Access {
    pub(super) logins: [Counter; Login::NAMES.len()],
    pub(super) tokens: [Counter; TokenCheck::NAMES.len()],
    pub(super) permissions: [Counter; 2],
    pub(super) lockouts: Counter,
    pub(super) guessing: Counter,
    pub(super) sessions: Gauge,
    pub(super) audit_failures: Counter,
    pub(super) audit_suppressed: Counter,
    pub(super) audit_bytes: Gauge,
    pub(super) audit_max_bytes: Gauge,
}

impl Access {
    pub(super) fn register(r: &PrometheusRecorder) -> Self {
        let by_result = |name, help, result| counter(r, name, help, &[("result", result)]);
        let logins = |result| by_result("flowgate_logins_total", "Attempts to sign in.", result);
        let tokens = |result| {
            by_result(
                "flowgate_token_checks_total",
                "Checks of a request's token.",
                result,
            )
        };
        let permissions = |result| {
            by_result(
                "flowgate_permission_checks_total",
                "Checks of a caller's permission.",
                result,
            )
        };
        let lockouts = "Times that failures made the throttle refuse further sign-ins.";
        let guessing = "Times that failures of one user, from all addresses, made addresses that are new to that user wait.";
        Self {
            logins: Login::NAMES.map(logins),
            tokens: TokenCheck::NAMES.map(tokens),
            permissions: ["denied", "granted"].map(permissions),
            lockouts: counter(r, "flowgate_login_lockouts_total", lockouts, &[]),
            guessing: counter(r, "flowgate_login_guessing_episodes_total", guessing, &[]),
            sessions: gauge(r, "flowgate_sessions_active", "Sessions alive.", &[]),
            audit_failures: counter(
                r,
                "flowgate_audit_failures_total",
                "Times that the audit log could not be written.",
                &[],
            ),
            audit_suppressed: counter(
                r,
                "flowgate_audit_suppressed_total",
                "Audit records counted instead of written one by one.",
                &[],
            ),
            audit_bytes: gauge(
                r,
                "flowgate_audit_log_bytes",
                "Bytes of the audit log's files.",
                &[],
            ),
            audit_max_bytes: gauge(
                r,
                "flowgate_audit_log_max_bytes",
                "Bytes that the audit log's files may have.",
                &[],
            ),
        }
    }
}

/// Of deployments.
pub(super) struct Deployments {
    ended: ByType<[ByTarget; API_VERSIONS.len()]>,
    pub(super) phases: ByType<[Arc<Histogram>; Phase::NAMES.len()]>,
    pub(super) conflicts: Counter,
    pub(super) violations: [Counter; PolicyRule::NAMES.len()],
    pub(super) fallbacks: Counter,
    pub(super) fallen_back: Gauge,
}

impl Deployments {
    pub(super) fn register(r: &PrometheusRecorder, h: &Histograms) -> Self {
        let phase = |kind, phase| h.register(PHASE, &[("type", kind), ("phase", phase)]);
        let conflicts = "Deployments refused because another revision is active.";
        Self {
            ended: Default::default(),
            phases: DEPLOYMENT_TYPES.map(|kind| Phase::NAMES.map(|name| phase(kind, name))),
            conflicts: counter(r, "flowgate_revision_conflicts_total", conflicts, &[]),
            violations: PolicyRule::NAMES.map(|rule| {
                let help = "Rules of the policy that refused deployments have violated.";
                counter(
                    r,
                    "flowgate_policy_violations_total",
                    help,
                    &[("rule", rule)],
                )
            }),
            fallbacks: counter(
                r,
                "flowgate_fallbacks_total",
                "Flow sets set aside because they did not start.",
                &[],
            ),
            fallen_back: gauge(
                r,
                "flowgate_fallen_back",
                "1 while the active flow set is there because a later one did not start.",
                &[],
            ),
        }
    }

    /// A deployment of this type has ended; `api` is the version's place among [`API_VERSIONS`].
    pub(super) fn ended(
        &self,
        r: &PrometheusRecorder,
        kind: &str,
        api: usize,
        result: Deployed,
        target: Target,
    ) {
        let kind = labels::deployment_type(kind);
        let (result, target) = (result as usize, target as usize);
        let counter = || {
            let labels = [
                ("type", DEPLOYMENT_TYPES[kind]),
                ("api_version", API_VERSIONS[api]),
                ("result", Deployed::NAMES[result]),
                ("target", Target::NAMES[target]),
            ];
            counter(r, "flowgate_deployments_total", "Deployments.", &labels)
        };
        self.ended[kind][api][result][target]
            .get_or_init(counter)
            .increment(1);
    }
}

/// Of what runs.
pub(super) struct Flows {
    pub(super) nodes: Gauge,
    pub(super) running: Gauge,
    pub(super) stopped: [Counter; Stopped::NAMES.len()],
}

impl Flows {
    pub(super) fn register(r: &PrometheusRecorder) -> Self {
        Self {
            nodes: gauge(r, "flowgate_nodes_running", "Nodes running.", &[]),
            running: gauge(r, "flowgate_flows_running", "Flows running.", &[]),
            stopped: Stopped::NAMES.map(|reason| {
                let help =
                    "Flows that the engine has stopped because too many messages waited for them.";
                let labels = [("reason", reason)];
                counter(r, "flowgate_flows_stopped_total", help, &labels)
            }),
        }
    }
}

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

/// Label names with their values.
type Labels<'l> = &'l [(&'static str, &'l str)];

fn key(name: &'static str, labels: Labels<'_>) -> Key {
    let labels: Vec<Label> = labels
        .iter()
        .map(|(k, v)| Label::new(*k, (*v).to_owned()))
        .collect();
    Key::from_parts(name, labels)
}

pub(super) fn counter(
    r: &PrometheusRecorder,
    name: &'static str,
    help: &'static str,
    labels: Labels<'_>,
) -> Counter {
    r.describe_counter(name.into(), None, help.into());
    r.register_counter(&key(name, labels), &METADATA)
}

pub(super) fn gauge(
    r: &PrometheusRecorder,
    name: &'static str,
    help: &'static str,
    labels: Labels<'_>,
) -> Gauge {
    r.describe_gauge(name.into(), None, help.into());
    r.register_gauge(&key(name, labels), &METADATA)
}
