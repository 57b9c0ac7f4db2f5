//! The runtime behind the gateway: forwards requests to it and returns its responses.
//!
//! [`headers`] and [`withheld`] choose the header fields that pass, [`token_source`] adds our
//! credentials, [`pool`] has a connection for the request or [`connect`] makes one, [`client_body`]
//! checks its body, [`request_body`] passes it on at the least [`body_pace`], [`http1`] writes it
//! and reads the response, [`response_body`] is the response, [`early_response`] one that begins
//! before the request has ended, [`rewrite`] rewrites the locations and cookie paths in it,
//! [`deploy`] changes the flows, [`tunnel`] joins a client's WebSocket, [`ws_client`] opens one of
//! our own, [`health`] checks the upstream. Independent of callers and permissions: the code that
//! forwards has checked them.

mod ask;
mod bearer;
mod body_pace;
mod client_body;
mod client_tls;
mod connect;
mod deploy;
#[cfg(feature = "engine")]
mod download;
mod early_response;
mod flows_state;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod gateway_client;
mod headers;
mod health;
mod http1;
mod leader;
mod lingering;
mod outbound;
mod pool;
mod probe;
mod request_body;
mod response_body;
mod rewrite;
mod sign_in;
#[cfg(any(test, fuzzing))]
#[allow(unreachable_pub, reason = "the end-to-end tests have it too")]
pub(crate) mod strict_reader;
mod token_source;
mod tunnel;
mod withheld;
mod ws_client;

pub use ask::{Answer, Answered, ask, send};
pub use bearer::Bearer;
pub use body_pace::{Pace, Pacer};
pub use client_body::{BodyError, ClientBody};
pub use client_tls::OpenError;
pub use deploy::{Change, Changed, Outcome, Shown};
#[cfg(feature = "engine")]
pub use download::download;
pub use flows_state::FlowsState;
pub use gateway_client::GatewayClient;
pub use headers::{
    Authorization, ForwardedRequest, Identity, PERMISSIONS, REQUEST_ID, TRACEPARENT, TRACESTATE,
    TraceHeaders, USER, returned, seen_by_flows,
};
pub use http1::{InvalidResponse, Upgraded};
pub use leader::Leader;
use leader::Members;
pub use outbound::{ByteStream, Outbound, OutboundTls};
pub use probe::probe;
pub use request_body::{Outgoing, Refusal};
pub use response_body::{Cut, ResponseBody};
pub use tunnel::{Ended, Opened, Tunnel};
pub use withheld::Passing;
pub use ws_client::LinkHead;

use crate::config;
use crate::metrics::{self, Metrics, UpstreamFault};
use arc_swap::ArcSwapOption;
use connect::Connect;
use http1::Connection;
use hyper::{Method, Request, Response, StatusCode};
use limits::conn_limit::{ConnLimit, LimitReached};
use pool::Pool;
use response_body::InFlight;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::task::{Poll, ready};
use std::time::Duration;
use token_source::Account;
use tokio::time::Instant;

/// The runtime behind us. Cheap to clone.
#[derive(Clone)]
pub struct Upstream(Arc<Inner>);

/// The state shared by all clones.
struct Inner {
    config: config::Upstream,
    connect: Connect,
    pool: Pool,
    /// `None`: it is open.
    account: Option<Account>,
    metrics: Arc<metrics::Upstream>,
    in_flight: Arc<ConnLimit>,
    tunnels: Arc<ConnLimit>,
    health: AtomicU8,
    /// True if its admin API refuses requests without a token, and there is no account.
    lacks_account: AtomicBool,
    flows_state: ArcSwapOption<FlowsState>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection.
    #[error("the upstream cannot be reached")]
    Unreachable(#[source] io::Error),
    /// Nothing listens on its Unix socket: it is on this machine, and is being started, most
    /// likely.
    #[error("the upstream does not listen on its socket; it may be starting")]
    NotListening(#[source] io::Error),
    /// The last health check failed, which has been logged.
    #[error("the upstream is away")]
    Unavailable,
    /// No connection within the time for it.
    #[error("the upstream did not accept a connection in time")]
    ConnectTimeout,
    /// It has not begun to answer in time.
    #[error("the upstream did not answer in time")]
    Timeout,
    /// It closed the connection instead of answering.
    #[error("the upstream closed the connection without an answer")]
    Closed(#[source] io::Error),
    /// Its response is not HTTP, or too large.
    #[error("the upstream's answer makes no sense")]
    InvalidResponse(#[source] InvalidResponse),
    /// Its response is not of the expected kind.
    #[error("the upstream's answer makes no sense: {0}")]
    Unexpected(&'static str),
    /// It stopped in the middle of its answer.
    #[error("the upstream's answer is incomplete")]
    Incomplete(#[source] Cut),
    /// There is no token to show to it; a refusal was logged when it was found.
    #[error("the gateway is not signed in to the upstream")]
    SignedOut,
    /// It does not accept us.
    #[error("the upstream does not accept the gateway's own account")]
    Unauthorized,
    /// Too many requests are there already.
    #[error("too many requests are under way at the upstream")]
    Busy,
    /// The client address has used up its share.
    #[error("too many requests of this address are under way at the upstream")]
    AddressBusy,
    /// Too many tunnels are open already, in all or of this address.
    #[error("too many tunnels to the upstream are open")]
    TooManyTunnels,
    /// The client's body broke off or was refused on the way.
    #[error("the request's body did not arrive whole")]
    Request(Refusal),
}

impl Upstream {
    /// Prepares connections; the upstream need not be there yet.
    pub fn open(config: config::Upstream, metrics: &Metrics) -> Result<Self, OpenError> {
        let metrics = metrics.upstream(&config.mount.name);
        Self::with_metrics(config, metrics)
    }

    /// Prepares connections to the engine of a cluster, wherever that runs.
    pub fn open_in_cluster(
        config: config::Upstream,
        cluster: &config::Cluster,
        shard: Option<&str>,
        metrics: &Metrics,
    ) -> Result<Self, OpenError> {
        let metrics = metrics.upstream(&config.mount.name);
        let members = Members::new(cluster, shard)?;
        Self::of(config, Some(members), metrics)
    }

    /// Connections go there from now on, if this is the engine of a cluster; whether they went
    /// elsewhere before.
    pub fn follow(&self, leader: Leader) -> bool {
        let members = self.0.connect.members.as_ref();
        let is_other = members.is_some_and(|members| members.follow(leader));
        if is_other {
            self.0.pool.renew();
        }
        is_other
    }

    /// Reads the certificates for connections to other members again, if this is the engine of a
    /// cluster.
    pub fn read_certificates_again(&self, cluster: &config::Cluster) -> Result<(), OpenError> {
        let members = self.0.connect.members.as_ref();
        members.map_or(Ok(()), |members| members.read_again(cluster))
    }

    /// Who leads, if this is the engine of a cluster.
    pub fn leader(&self) -> Option<Leader> {
        self.0.connect.members.as_ref().map(Members::leader)
    }

    /// The same with these metrics.
    pub fn with_metrics(
        config: config::Upstream,
        metrics: metrics::Upstream,
    ) -> Result<Self, OpenError> {
        Self::of(config, None, metrics)
    }

    fn of(
        config: config::Upstream,
        members: Option<Members>,
        metrics: metrics::Upstream,
    ) -> Result<Self, OpenError> {
        let metrics = Arc::new(metrics);
        let account = config.account.clone().map(Account::new);
        metrics.authorized(account.is_none());
        let mut connect = Connect::new(&config, Arc::clone(&metrics))?;
        connect.members = members;
        Ok(Self(Arc::new(Inner {
            connect,
            pool: Pool::new(config.pool, config.keep_alive, Arc::clone(&metrics)),
            account,
            metrics,
            in_flight: ConnLimit::new(config.max_in_flight, config.max_in_flight_per_address),
            tunnels: ConnLimit::new(config.max_tunnels, config.max_tunnels_per_address),
            health: AtomicU8::new(health::UNKNOWN),
            lacks_account: AtomicBool::new(false),
            flows_state: ArcSwapOption::empty(),
            config,
        })))
    }

    /// The name in logs, metrics and audit.
    pub fn name(&self) -> &str {
        &self.0.config.mount.name
    }

    /// It does not accept us: counted as an error.
    pub fn refused(&self) -> Error {
        self.0.metrics.fault(UpstreamFault::Unauthorized);
        Error::Unauthorized
    }

    /// Returns whether it listens on a Unix socket.
    pub fn is_on_socket(&self) -> bool {
        self.0.config.socket.is_some()
    }

    /// Returns whether it supports the deployment type `reload`.
    pub fn reloads(&self) -> bool {
        self.0.config.reload
    }

    /// Sends a request as it is and waits for the head of its answer. `head` makes the request
    /// again if a kept connection turns out to be closed: only then, and only once, and only if the
    /// method is safe. `client` is the address that the request counts for; `None`: a request of
    /// the gateway itself.
    pub async fn send_bare(
        &self,
        head: impl Fn() -> Request<()>,
        body: Outgoing,
        client: Option<IpAddr>,
    ) -> Result<Response<ResponseBody>, Error> {
        let started = Instant::now();
        let result = self.admitted(head, body, client, started).await;
        self.count(result.as_ref().map(Response::status), started);
        result
    }

    fn count(&self, answered: Result<StatusCode, &Error>, started: Instant) {
        let metrics = &self.0.metrics;
        match answered {
            Ok(status) => metrics.answered(status.as_u16(), started.elapsed()),
            Err(error) => error
                .fault()
                .into_iter()
                .for_each(|kind| metrics.fault(kind)),
        }
    }

    async fn admitted(
        &self,
        head: impl Fn() -> Request<()>,
        body: Outgoing,
        client: Option<IpAddr>,
        now: Instant,
    ) -> Result<Response<ResponseBody>, Error> {
        let in_flight = InFlight::take(&self.0, client)?;
        let mut request = head().map(|()| body);
        let may_be_starting = self.0.connect.members.is_some() && is_safe(request.method());
        if let Some(mut connection) = self.0.pool.take(now) {
            let repeatable = request.body().is_empty() && is_safe(request.method());
            match self.ask(&mut connection, request, now).await {
                Ok(response) => return self.answer(response, connection, in_flight),
                Err(Error::Closed(_)) if repeatable => {}
                Err(error) => return Err(error),
            }
            self.0.metrics.retried();
            request = head().map(|()| Outgoing::empty());
        }
        let asked = Box::pin(self.ask_anew(request)).await;
        let (response, connection) = asked.map_err(|error| match error {
            // The member that leads has no engine yet, or leads no more.
            Error::Closed(error) if may_be_starting => Error::NotListening(error),
            error => error,
        })?;
        self.answer(response, connection, in_flight)
    }

    /// Sends over a connection just made.
    async fn ask_anew(
        &self,
        request: Request<Outgoing>,
    ) -> Result<(Response<()>, Box<Connection>), Error> {
        let generation = self.0.pool.generation();
        let mut connection = self.0.connect.connect().await?;
        connection.generation = generation;
        let response = self.ask(&mut connection, request, Instant::now()).await?;
        Ok((response, connection))
    }

    /// Sends a request over this connection. The time-out for the response restarts for as long as
    /// the body moves, or waits for the client, which has a time-out elsewhere, and once more when
    /// the body has ended. It starts `now`.
    async fn ask(
        &self,
        connection: &mut Connection,
        request: Request<Outgoing>,
        now: Instant,
    ) -> Result<Response<()>, Error> {
        let limit = self.0.config.first_byte;
        let progress = request.body().progress();
        connection.begin(request);
        connection.set_timer(now + limit);
        poll_fn(|cx| {
            if let Poll::Ready(response) = connection.poll_head(cx) {
                return Poll::Ready(response.map_err(Error::from));
            }
            loop {
                ready!(connection.poll_timer(cx));
                let progress = progress.as_deref();
                let deadline = progress.and_then(|p| p.deadline(Instant::now(), limit));
                let Some(deadline) = deadline else {
                    return Poll::Ready(Err(Error::Timeout));
                };
                connection.set_timer(deadline);
            }
        })
        .await
    }

    fn answer(
        &self,
        response: Response<()>,
        connection: Box<Connection>,
        in_flight: InFlight,
    ) -> Result<Response<ResponseBody>, Error> {
        if response.status().is_informational() {
            return Err(Error::Unexpected("it changes the protocol unasked"));
        }
        let unlimited = headers::is_event_stream(response.headers());
        let idle = (!unlimited).then_some(self.0.config.idle);
        Ok(response.map(|()| ResponseBody::new(connection, idle, in_flight)))
    }
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Upstream({})", self.name())
    }
}

impl From<LimitReached> for Error {
    fn from(full: LimitReached) -> Self {
        match full {
            LimitReached::Total => Self::Busy,
            LimitReached::Address => Self::AddressBusy,
        }
    }
}

impl From<http1::Error> for Error {
    fn from(error: http1::Error) -> Self {
        match error {
            http1::Error::Closed(error) => Self::Closed(error),
            http1::Error::Invalid(error) => Self::InvalidResponse(error),
            http1::Error::Request(refusal) => Self::Request(refusal),
            http1::Error::TooLarge => Self::Unexpected("it is too large"),
        }
    }
}

impl Error {
    /// The class for metrics and traces; `None`: the client caused it, or a health check has found
    /// it.
    pub fn fault(&self) -> Option<UpstreamFault> {
        Some(match self {
            Self::Unreachable(_) | Self::NotListening(_) => UpstreamFault::Unreachable,
            Self::ConnectTimeout => UpstreamFault::ConnectTimeout,
            Self::Timeout => UpstreamFault::Timeout,
            Self::Closed(_) => UpstreamFault::Closed,
            Self::InvalidResponse(_) | Self::Unexpected(_) => UpstreamFault::Invalid,
            Self::Incomplete(_) => UpstreamFault::Incomplete,
            Self::SignedOut | Self::Unauthorized => UpstreamFault::Unauthorized,
            Self::Busy | Self::AddressBusy | Self::TooManyTunnels => UpstreamFault::Busy,
            Self::Unavailable | Self::Request(_) => return None,
        })
    }
}

/// Methods that change nothing (RFC 9110 §9.2.1). `PUT` and `DELETE` are idempotent too, but here
/// they deploy.
fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// The idle time before the system sends TCP keep-alive probes. Our choice.
const KEEPALIVE: Duration = Duration::from_mins(1);
