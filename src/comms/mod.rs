//! The channel that delivers events to editors: each editor signs in, its frames are checked, and
//! its events come from the engine or from the upstream.
//!
//! A frame's way in: [`websocket`] → [`frame`] parses it → [`editor`] decides → [`topics`] replays
//! what is retained, or [`upstream_relay`] passes it on to the upstream. The way out: [`topics`] or
//! [`upstream_relay`] → [`outbox`] → [`editor`], which leaves out what the caller does not see
//! ([`visible_events`]) → [`websocket`]. Independent of HTTP: the caller has done the WebSocket
//! handshake and the origin check.

mod editor;
mod frame;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod jwt_sign_in;
mod outbox;
mod sign_in;
mod topic_filter;
mod topics;
mod upstream_relay;
mod visible_events;
mod websocket;

pub use jwt_sign_in::{JwtClient, sign_in_with_jwt};
pub use topics::Topics;
pub use visible_events::{FindSight, Seen};

use crate::audit::{Actor, Audit};
use crate::auth::{Auth, Caller, Certificate};
use crate::config;
use crate::metrics::Metrics;
use crate::upstream::{LinkHead, Upstream};
use bytes::Bytes;
use limits::conn_limit::{ConnLimit, LimitReached, Permit};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

/// The state shared by all channels.
pub struct Comms {
    /// Limits.
    pub config: config::Comms,
    /// Users and sessions; `None`: the API is open.
    pub auth: Option<Auth>,
    /// The audit log of channels.
    pub audit: Audit,
    /// Numbers.
    pub metrics: Arc<Metrics>,
    /// Becomes true when the gateway drains.
    pub leaving: watch::Receiver<bool>,
    /// The time when the gateway started, in milliseconds since 1970; sent in heartbeats.
    pub started: u64,
    /// The messages of flowgate's engine.
    pub topics: Arc<Topics>,
    /// Those who have not signed in.
    pub waiting: Arc<ConnLimit>,
    /// The time-out for an editor that takes none of its frames.
    pub stalled: Duration,
}

/// One who has shaken hands.
pub struct PendingEditor {
    /// The client address and the request; no user yet.
    pub actor: Actor,
    /// Held until the sign-in.
    pub place: Option<Permit>,
    /// True if it may sign in without a token: it asked for a host that is the gateway's own.
    pub without_token: bool,
    /// The client certificate of its connection, if accepted here.
    pub certificate: Option<Arc<Certificate>>,
    /// The time since 1970.
    pub clock: fn() -> Duration,
    /// The caller, with the permissions of the editor's backend.
    pub here: Here,
    /// Finds what the caller sees of the editor's backend.
    pub sight: FindSight,
    /// The source of its messages.
    pub source: Source,
}

/// Gives a caller the permissions of the place where the editor came in.
pub type Here = Arc<dyn Fn(Caller) -> Caller + Send + Sync>;

/// The source of the messages for editors.
pub enum Source {
    /// Our own engine.
    Own,
    /// The runtime behind us, and the engines that run a part of its flows.
    Upstream(Link, Vec<Link>),
}

/// A runtime behind us, and the head of the handshake with it.
pub type Link = (Upstream, Box<LinkHead>);

impl Comms {
    /// A place for one who shakes hands and has not signed in.
    pub fn enter(&self, address: IpAddr) -> Result<Permit, LimitReached> {
        self.waiting.admit()?.of(address)
    }

    /// Serves one editor over its connection until that ends.
    pub async fn serve<S>(self: Arc<Self>, stream: S, editor: PendingEditor)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        editor::serve(&self, stream, editor).await;
    }

    fn heartbeat(&self) -> Bytes {
        format!("[{{\"topic\":\"hb\",\"data\":{}}}]", self.started).into()
    }
}
