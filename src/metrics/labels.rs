//! The values that labels can take: all of them, so that none can be added by a client.

macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$value_doc])* $value,)* }

        impl $name {
            /// All values, in the enum's order.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$value),*];
            /// The values as the label spells them, in the enum's order.
            pub(super) const NAMES: [&'static str; [$($text),*].len()] = [$($text),*];

            /// The value as the label spells it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $text,)* }
            }
        }
    };
}

label! {
    /// The class of a route, as metrics label it: bounded, never a path.
    RouteClass {
        /// `/auth/*`
        Auth = "auth",
        /// `/flows`, `/flow/*`
        Flows = "flows",
        /// Any other admin endpoint.
        Admin = "admin",
        /// The editor's open files.
        Editor = "editor",
        /// Endpoints made by flows.
        Endpoint = "endpoint",
        /// Refused before a route was known.
        None = "none",
    }
}

label! {
    /// Why the engine has stopped flows.
    Stopped {
        /// Their queue did not get shorter.
        Queue = "queue",
        /// Their queue was the largest when memory was short.
        Memory = "memory",
    }
}

label! {
    /// The result of a sign-in.
    Login {
        /// A token was handed out.
        Success = "success",
        /// Unknown user or wrong password.
        BadCredentials = "bad_credentials",
        /// A scope that the user does not have.
        InvalidScope = "invalid_scope",
        /// Refused by the throttle.
        Throttled = "throttled",
        /// A malformed request.
        Invalid = "invalid",
    }
}

label! {
    /// The result of a token check.
    TokenCheck {
        /// Known and alive.
        Valid = "valid",
        /// Unknown, expired or revoked.
        Invalid = "invalid",
        /// The same, of an address that has shown too many of these.
        Throttled = "throttled",
        /// None was sent, and none is needed: there is a user's certificate.
        Certificate = "certificate",
        /// None was sent.
        Absent = "absent",
        /// Not a bearer token, or doubled.
        Malformed = "malformed",
    }
}

label! {
    /// The phases of a deployment that are timed.
    Phase {
        /// Parsing and checking the body.
        Parse = "parse",
        /// Waiting for the turn.
        Wait = "wait",
        /// Diff and plan.
        Plan = "plan",
        /// Writing history and files.
        Store = "store",
        /// Stopping and starting nodes.
        Apply = "apply",
    }
}

label! {
    /// The result of a deployment.
    Deployed {
        /// Active now.
        Success = "success",
        /// Another revision is active.
        Stale = "stale",
        /// The submission is malformed.
        Malformed = "malformed",
        /// The policy refuses it.
        Refused = "refused",
        /// It waits for the approval of another user.
        Proposed = "proposed",
        /// Storage or engine failed.
        Failed = "failed",
    }
}

label! {
    /// The rules of the policy that a deployment can violate.
    PolicyRule {
        /// Nothing may be deployed at all.
        ReadOnly = "read_only",
        /// Nothing may be deployed for a time.
        Freeze = "freeze",
        /// A submission must name the revision that it replaces.
        Rev = "require_rev",
        /// The runtime must have the types.
        MissingTypes = "require_types",
        /// These types are forbidden.
        ForbiddenTypes = "forbid_types",
        /// These types need a permission.
        RestrictedTypes = "restrict_types",
        /// The flow set has too many elements.
        MaxNodes = "max_nodes",
        /// The flow set is too large.
        MaxBytes = "max_bytes",
        /// What is locked is changed only with the permission `flows.unlock`.
        Locked = "locked",
        /// What is on a flow is changed only with the permission `flows.write` for it.
        Flows = "flows",
        /// The change needs the approval of another user, and cannot become a proposal.
        Approve = "approve",
        /// Flows of a cluster cannot run where they are to run.
        Place = "place",
    }
}

label! {
    /// The runtime that a deployment went to.
    Target {
        /// Our own engine.
        Engine = "engine",
        /// The runtime behind us.
        Upstream = "upstream",
    }
}

label! {
    /// Why the upstream did not answer well.
    UpstreamFault {
        /// No connection, or no TLS that we trust.
        Unreachable = "unreachable",
        /// No connection in time.
        ConnectTimeout = "connect_timeout",
        /// Silent for too long.
        Timeout = "timeout",
        /// Closed before it answered.
        Closed = "closed",
        /// Not HTTP, too large, or not what was asked for.
        Invalid = "invalid",
        /// Closed or silent in the middle of an answer.
        Incomplete = "incomplete",
        /// It does not accept our token.
        Unauthorized = "unauthorized",
        /// Not asked: too many requests are there already.
        Busy = "busy",
    }
}

label! {
    /// The result of a sign-in of the gateway at the upstream.
    UpstreamSignIn {
        /// With a token.
        Success = "success",
        /// User, password, client or scope are wrong.
        Refused = "refused",
        /// It wants fewer of them.
        Throttled = "throttled",
        /// Without an answer, or with one that makes no sense.
        Failed = "failed",
    }
}

label! {
    /// What became of a span.
    SpanEnd {
        /// The collector has taken it.
        Exported = "exported",
        /// Too many were waiting for the collector.
        Dropped = "dropped",
        /// The collector did not take its batch, after all attempts.
        Undelivered = "undelivered",
        /// The collector has taken its batch without it.
        Rejected = "rejected",
    }
}

label! {
    /// The cause of a tunnel's end.
    TunnelEnd {
        /// The client closed it, or has gone.
        Client = "client",
        /// The upstream closed it, or has gone.
        Upstream = "upstream",
        /// The caller's session is revoked or over.
        Session = "session",
        /// The caller may not have it any more.
        Permission = "permission",
        /// One of the two took nothing for too long.
        Slow = "slow",
        /// The gateway drains.
        Drain = "drain",
    }
}

label! {
    /// Why an editor's channel ended.
    CommsEnd {
        /// The client closed it, or is gone.
        Client = "client",
        /// It did not sign in in time.
        Silent = "silent",
        /// It was not let in: a bad token, none, or no permission.
        Refused = "refused",
        /// Its session was revoked or has expired.
        Session = "session",
        /// Its user has lost the permission.
        Permission = "permission",
        /// It sent what is no frame of ours.
        Malformed = "malformed",
        /// It sent too large a frame.
        TooLarge = "too_large",
        /// It reads too slowly.
        Slow = "slow",
        /// The upstream is away.
        Upstream = "upstream",
        /// The gateway drains.
        Drain = "drain",
    }
}

label! {
    /// Why a connection was closed at once.
    Refused {
        /// Too many connections in all.
        Total = "total",
        /// Too many connections of one address.
        Address = "address",
        /// Only trusted proxies may connect, and this is none.
        Untrusted = "untrusted",
        /// A trusted proxy sent no PROXY header in time, or a malformed one.
        ProxyHeader = "proxy_header",
    }
}

label! {
    /// The result of a TLS handshake; the successful ones come first.
    Handshake {
        /// With a new key exchange and the certificate's signature.
        Full = "full",
        /// With what an earlier connection agreed on.
        Resumed = "resumed",
        /// The peer broke the protocol, offered nothing that we take, or left.
        Failed = "failed",
        /// The peer took too long.
        Timeout = "timeout",
    }
}

impl Handshake {
    /// The number of values, the first ones, that mean success.
    pub(super) const DONE: usize = 2;

    pub(super) fn done() -> [&'static str; 2] {
        let [full, resumed, ..] = Self::NAMES;
        [full, resumed]
    }

    pub(super) fn failed() -> [&'static str; 2] {
        let [.., failed, timeout] = Self::NAMES;
        [failed, timeout]
    }
}

pub(super) const METHODS: [&str; 8] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "other",
];
pub(super) const STATUSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
pub(super) const TLS_VERSIONS: [&str; 2] = ["1.2", "1.3"];
pub(super) const ALPNS: [&str; 3] = ["none", "http/1.1", "h2"];
pub(super) const API_VERSIONS: [&str; 2] = ["v1", "v2"];
pub(super) const DEPLOYMENT_TYPES: [&str; 4] = ["full", "nodes", "flows", "reload"];

/// The method as the label spells it: one of few.
pub fn method_name(method: &hyper::Method) -> &'static str {
    METHODS[self::method(method)]
}

/// The method's place in [`METHODS`].
pub(super) fn method(method: &hyper::Method) -> usize {
    let other = METHODS.len() - 1;
    METHODS[..other]
        .iter()
        .position(|name| *name == method.as_str())
        .unwrap_or(other)
}

/// The place of the status' class in [`STATUSES`].
pub(super) fn status(status: u16) -> usize {
    usize::from(status / 100).clamp(1, STATUSES.len()) - 1
}

/// The protocol's place in [`ALPNS`].
pub(super) fn alpn(protocol: Option<&[u8]>) -> usize {
    ALPNS
        .iter()
        .position(|name| Some(name.as_bytes()) == protocol)
        .unwrap_or(0)
}

/// The index of the type in [`DEPLOYMENT_TYPES`]; an unknown one counts as `full`, the default.
pub(super) fn deployment_type(kind: &str) -> usize {
    DEPLOYMENT_TYPES
        .iter()
        .position(|name| *name == kind)
        .unwrap_or(0)
}
