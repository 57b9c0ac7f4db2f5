//! Who holds a WebSocket of a flow, for how long, and what is written down when it ends.
//!
//! It is closed as soon as its holder may not have it any more.

use super::call::Call;
use super::clock::since_1970;
use super::path::Path;
use super::route::{self, Needs};
use crate::auth::Caller;
use crate::gateway::{Gateway, Site};
use crate::metrics::TunnelEnd;
use crate::upstream::Ended;
use hyper::Method;
use smol_str::SmolStr;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

/// Who has a WebSocket, and to what.
pub(super) struct Holder {
    gateway: Arc<Gateway>,
    site: Arc<Site>,
    /// `None`: it is public.
    caller: Option<Caller>,
    path: SmolStr,
    id: SmolStr,
}

impl Holder {
    /// The caller of a request that becomes a WebSocket.
    pub(super) fn of(call: &Call<'_>, path: &Path<'_>) -> Self {
        Self {
            gateway: Arc::clone(call.gateway),
            site: Arc::clone(call.site),
            caller: call.caller.clone(),
            path: SmolStr::new(path.as_str()),
            id: call.id.clone(),
        }
    }

    /// Waits until the WebSocket must be closed, and tells why.
    pub(super) async fn over(&self) -> TunnelEnd {
        tokio::select! {
            biased;
            () = self.ended() => TunnelEnd::Session,
            () = self.forbidden() => TunnelEnd::Permission,
            () = self.gateway.left() => TunnelEnd::Drain,
        }
    }

    /// Waits until what the caller is known by is revoked or over.
    async fn ended(&self) {
        match &self.caller {
            Some(caller) => caller.over(since_1970()).await,
            None => pending().await,
        }
    }

    /// Waits until users or routes have changed so that the caller may not have it any more.
    async fn forbidden(&self) {
        let mut reloads = self.gateway.reloads();
        while self.may() {
            // No error: we hold the gateway, and it tells.
            if reloads.changed().await.is_err() {
                return;
            }
        }
    }

    /// Whether the caller would be let in again.
    fn may(&self) -> bool {
        let Ok(mut path) = Path::parse(&self.path) else {
            return false;
        };
        path.enter(&self.site.place);
        let rules = self.site.rules.load();
        let needed = match route::route(&Method::GET, &path, &rules.paths).needs {
            Needs::Nothing => return true,
            Needs::Anyone => "",
            Needs::Permission(needed) => needed,
        };
        let again = |caller: &Caller| match &self.gateway.auth {
            Some(auth) => auth.again(caller),
            None => Some(caller.clone()),
        };
        let now = self.caller.as_ref().and_then(again);
        now.is_some_and(|caller| rules.here(caller).permissions.cover(needed))
    }

    /// A line for the access log.
    pub(super) fn log(&self, ended: Ended, duration: Duration) {
        if !self.gateway.config.log.access {
            return;
        }
        let user = self.caller.as_ref().map_or("", |c| c.user.as_str());
        tracing::info!(
            target: "access",
            id = self.id.as_str(),
            path = self.path.as_str(),
            closed = ended.cause.name(),
            received = ended.up,
            bytes = ended.down,
            duration_ms = duration.as_micros() as f64 / 1000.0,
            user,
        );
    }
}
