//! Every reason to refuse a request, as facts; [`crate::http::response`] maps each to a response.

use super::access_error::AccessError;
use super::audit_error::AuditLogError;
use super::history_error::HistoryError;
use super::host_error::HostError;
use super::path;
use crate::audit::Unavailable;
use crate::auth::{Lapsed, RevokeError, SignInError};
use crate::gateway::RoutingError;
use crate::websocket::HandshakeError;
use crate::{deployment, store, upstream};
use serde_json::json;
use std::time::Duration;

/// Why an HTTP/1.1 request has no answer but that it is wrong, whatever it asks for: most often,
/// its framing has more than one reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A line ends in LF without CR.
    #[error("every line must end in CRLF")]
    BareLineFeed,
    /// `Content-Length` is no plain number, doubled, or beside `Transfer-Encoding`.
    #[error("the body must have one length")]
    Length,
    /// `Transfer-Encoding` is something else than `chunked`, or doubled.
    #[error("the only transfer encoding is chunked")]
    Encoding,
    /// It came without TLS where TLS is spoken.
    #[error("TLS is missing")]
    Unencrypted,
    /// The trailers have a field that belongs into the head.
    #[error("trailers may not frame, route or authorise")]
    Trailers,
    /// `#` in the request line.
    #[error("a target has no fragment")]
    Fragment,
}

/// A change that has become a proposal.
#[derive(Debug, thiserror::Error)]
#[error("the change waits for the approval of another user as proposal {number}: {url}")]
pub(super) struct Waiting {
    /// Its number.
    pub(super) number: u64,
    /// Its path, for clients.
    pub(super) url: String,
}

impl Waiting {
    /// For clients, as JSON.
    pub(super) fn body(&self) -> String {
        json!({ "id": self.number, "url": self.url, "message": self.to_string() }).to_string()
    }
}

/// Why a request is refused or failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Two programs could read the request differently.
    #[error("the request is malformed: {0}")]
    Framing(FramingError),
    /// It came without TLS where TLS is spoken.
    #[error("this port speaks TLS: ask with https")]
    Unencrypted,
    /// The method is no word in capitals.
    #[error("the method must be in upper-case letters")]
    MethodName,
    /// The request names no host, or several (RFC 9112 §3.2).
    #[error("the request must name one host")]
    Host,
    /// More header fields than the limit.
    #[error("too many header fields")]
    TooManyHeaders,
    /// A body over the limit, announced or found.
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge {
        /// The limit, bytes.
        limit: usize,
    },
    /// The path is not one that is surely read the same everywhere.
    #[error(transparent)]
    Path(#[from] path::Refused),
    /// The path exists, with other methods.
    #[error("the path has other methods: {allow}")]
    Method {
        /// These methods, for `Allow`.
        allow: String,
    },
    /// The host of the request is not answered, or not with this.
    #[error(transparent)]
    Misdirected(#[from] HostError),
    /// Nothing is there.
    #[error("there is nothing here")]
    NotFound,
    /// A plain request to the path of a WebSocket.
    #[error("this path is for WebSocket upgrades")]
    UpgradeRequired,
    /// A WebSocket's opening handshake is not what RFC 6455 §4.2.1 asks for.
    #[error("the WebSocket handshake is malformed: {0}")]
    Handshake(&'static str),
    /// Another version of the WebSocket protocol than 13.
    #[error("Sec-WebSocket-Version must be 13")]
    WebSocketVersion,
    /// A web page of another origin asks for what only ours may have without a token.
    #[error("pages of this origin may not do that")]
    Origin,
    /// Too many editors' channels have not signed in.
    #[error("too many channels have not signed in, try again later")]
    TooManyWaiting,
    /// Too many of the editor's files are being sent, in total or to this address.
    #[cfg(feature = "engine")]
    #[error("too many of the editor's files are being sent, try again later")]
    EditorBusy,
    /// Too many `WebSockets` to flows are open, in all or of this address.
    #[cfg(feature = "engine")]
    #[error("too many WebSockets are open, try again later")]
    TooManySockets,
    /// The memory for unauthenticated callers or for users is exhausted, in total or for this one.
    #[error("the memory for requests and responses of this client is exhausted, try again later")]
    MemoryBusy,
    /// Too many wait for work that takes long, or this one has waited for too long.
    #[error("too many requests wait for this kind of work, try again later")]
    WorkBusy,
    /// `Authorization` is malformed or doubled.
    #[error("the Authorization header is malformed")]
    Authorization,
    /// `access_token` in the query.
    #[error("a token in the query is not accepted")]
    TokenInQuery,
    /// No token, or a scheme that is not ours.
    #[error("no token")]
    NoToken,
    /// A JWT that was not verified before, or a token of another gateway: no answer to a client.
    #[error("the token was not looked up")]
    NewToken,
    /// The shared database was not reached for too long: sessions may have ended.
    #[error("the shared database cannot be reached, and sessions may have ended meanwhile")]
    CutOff,
    /// The token is unknown, over or revoked.
    #[error("the token is unknown, over or revoked")]
    BadToken,
    /// The same, and the address has shown too many of these.
    #[error("too many bad tokens, try again later")]
    BadTokens {
        /// The time until the next try.
        wait: Duration,
    },
    /// The caller lacks the permission.
    #[error("the caller lacks a permission")]
    Scope,
    /// The identity, the network or the rate of the client does not suffice.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The caller may read some flows, and this is about all.
    #[error("this is about all flows: it needs the permission flows.read")]
    SomeFlows,
    /// A header of ours is sent twice with different values.
    #[error("the header {0} is sent twice with different values")]
    DoubledHeader(&'static str),
    /// `Flowgate-Message` is not what a log takes.
    #[error("Flowgate-Message {0}")]
    Message(&'static str),
    /// An API version that there is not.
    #[error("the API version must be v1 or v2")]
    ApiVersion,
    /// A deployment type that there is not.
    #[error("the deployment type must be full, nodes, flows or reload")]
    DeploymentType,
    /// The body is not announced as UTF-8 JSON.
    #[error("the Content-Type must be application/json, in UTF-8")]
    ContentType,
    /// The body is compressed.
    #[error("a body with Content-Encoding is not accepted")]
    ContentEncoding,
    /// The body stopped coming.
    #[error("the body did not arrive in time")]
    BodyTimeout,
    /// The body ended early or its framing is broken.
    #[error("the body is incomplete")]
    BodyBroken,
    /// A body where the endpoint takes none.
    #[error("this endpoint takes no body")]
    UnexpectedBody,
    /// The body is not what the endpoint takes.
    #[error("{0}")]
    Body(String),
    /// A parameter of the query is not what the endpoint takes.
    #[error("{0}")]
    Parameter(&'static str),
    /// The history has not what is asked for.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A request about the audit log is refused.
    #[error(transparent)]
    AuditLog(#[from] AuditLogError),
    /// The store failed.
    #[error("storage: {0}")]
    Store(#[from] store::Error),
    /// What only the engine has is asked for where an upstream runs the flows.
    #[error(
        "the flows of this path run in an upstream; profiles are those of flowgate's own engine"
    )]
    NoEngine,
    /// A form of `/auth/*` is malformed; the answer is RFC 6749's.
    #[error("{0}")]
    Form(String),
    /// `client_id` names no client of ours.
    #[error("unknown client_id")]
    Client,
    /// `grant_type` is not `password`.
    #[error("grant_type must be password")]
    GrantType,
    /// The sign-in failed.
    #[error("sign-in: {0}")]
    SignIn(#[source] SignInError),
    /// The sign-in succeeded but could not be recorded, so its token is not handed out.
    #[error("sign-in: {0}")]
    SignInUnrecorded(#[source] Unavailable),
    /// The revocation failed.
    #[error("revocation: {0}")]
    Revoke(#[source] RevokeError),
    /// It could not be recorded who does it, so it was not done.
    #[error(transparent)]
    Audit(#[from] Unavailable),
    /// The change has become a proposal.
    #[error(transparent)]
    NeedsApproval(#[from] Waiting),
    /// The change of an editor is refused, which shows its user the response.
    #[error(transparent)]
    ForEditor(Box<Error>),
    /// The deployment failed.
    #[error(transparent)]
    Deployment(#[from] deployment::Error),
    /// The upstream did not answer.
    #[error(transparent)]
    Upstream(#[from] upstream::Error),
    /// An endpoint of the admin API that the engine has could not do it.
    #[cfg(feature = "engine")]
    #[error(transparent)]
    Admin(#[from] super::admin_error::AdminError),
    /// The engine could not do it.
    #[cfg(feature = "engine")]
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// The flow did not answer in time.
    #[cfg(feature = "engine")]
    #[error("the flow did not answer in time")]
    EndpointTimeout,
    /// The flow's answer is none that HTTP has.
    #[cfg(feature = "engine")]
    #[error("the flow answered with status {0}")]
    EndpointStatus(u16),
    /// A task of ours broke.
    #[error("something broke")]
    Broken,
}

impl From<FramingError> for Error {
    fn from(flaw: FramingError) -> Self {
        match flaw {
            FramingError::Unencrypted => Self::Unencrypted,
            FramingError::BareLineFeed
            | FramingError::Length
            | FramingError::Encoding
            | FramingError::Trailers
            | FramingError::Fragment => Self::Framing(flaw),
        }
    }
}

impl From<Lapsed> for Error {
    fn from(lapsed: Lapsed) -> Self {
        match lapsed {
            Lapsed::Session => Self::BadToken,
            Lapsed::Permission => Self::Scope,
        }
    }
}

#[cfg(feature = "engine")]
impl From<crate::palette::Error> for Error {
    fn from(error: crate::palette::Error) -> Self {
        Self::Admin(error.into())
    }
}

#[cfg(feature = "engine")]
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Admin(error.into())
    }
}

impl From<HandshakeError> for Error {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::NotWanted => Self::UpgradeRequired,
            HandshakeError::Version => Self::WebSocketVersion,
            HandshakeError::Malformed(reason) => Self::Handshake(reason),
        }
    }
}

impl From<RoutingError> for Error {
    fn from(error: RoutingError) -> Self {
        match error {
            RoutingError::Host => HostError::Unknown.into(),
            RoutingError::Path => Self::NotFound,
        }
    }
}
