//! Every metric's name, help and labels, once. Handles are registered at start; counting only adds to a number.

use metrics_exporter_prometheus::PrometheusRecorder;

/// The class of a route, as metrics label it: bounded, never a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteClass {
    /// `/auth/*`
    Auth,
    /// `/flows`, `/flow/*`
    Flows,
    /// Any other admin endpoint.
    Admin,
    /// The editor's open files.
    Editor,
    /// Endpoints made by flows.
    Endpoint,
    /// Refused before a route was known.
    None,
}

/// How a sign-in ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// A token was handed out.
    Success,
    /// Unknown user or wrong password.
    BadCredentials,
    /// A scope that the user does not have.
    InvalidScope,
    /// Refused by the throttle.
    Throttled,
    /// A malformed request.
    Invalid,
}

/// How the check of a token ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenCheck {
    /// Known and alive.
    Valid,
    /// Unknown, expired or revoked.
    Invalid,
    /// None was sent.
    Absent,
    /// Not a bearer token, or doubled.
    Malformed,
}

/// The phases of a deployment that are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Parsing and checking the body.
    Parse,
    /// Waiting for the turn.
    Wait,
    /// Diff and plan.
    Plan,
    /// Writing history and files.
    Store,
    /// Stopping and starting nodes.
    Apply,
}

/// How a deployment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deployed {
    /// Active now.
    Success,
    /// Another revision is active.
    Stale,
    /// The submission is malformed.
    Malformed,
    /// Storage or engine failed.
    Failed,
}

/// All metrics of one gateway.
pub struct Metrics {
    recorder: PrometheusRecorder,
}
