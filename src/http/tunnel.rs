//! Tunnels: a WebSocket of a flow, through to the upstream. Opened for who may, closed as soon as he may not any more.
//!
//! Knows who the caller is and when he ceases to be; the frames pass in [`crate::upstream`], unread.

use super::call::Call;
use super::content::Body;
use super::error::Error;
use super::forward::{front, passed_back};
use super::path::Path;
use super::route::{self, Needs};
use super::upgrade::Opening;
use crate::auth::{Caller, Session};
use crate::gateway::{Gateway, Site};
use crate::metrics::TunnelEnd;
use crate::upstream::{Ended, Opened, Upstream};
use hyper::header::CONTENT_LENGTH;
use hyper::{Method, Response};
use smol_str::SmolStr;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::sleep;

/// Who has a tunnel, and to what.
struct Holder {
    gateway: Arc<Gateway>,
    site: Arc<Site>,
    /// `None`: it is public.
    caller: Option<Caller>,
    path: SmolStr,
    id: SmolStr,
}

/// Opens a tunnel for a client that wants a WebSocket; what the upstream answers instead of one comes back as it is.
pub(super) async fn open(
    call: &mut Call<'_>,
    path: &Path<'_>,
    upstream: &Upstream,
) -> Result<Response<Body>, Error> {
    let opening = Opening::check(call)?;
    let target = path.target(&call.head.uri)?;
    let front = front(call, &target, upstream);
    let (headers, tunnel) = match upstream.tunnel(&front, opening.accept_key()).await? {
        Opened::Tunnel(headers, tunnel) => (headers, tunnel),
        Opened::Refused(response) => {
            return Ok(passed_back(call, upstream, response).map(Body::Upstream));
        }
    };
    let holder = Holder {
        gateway: Arc::clone(call.gateway),
        site: Arc::clone(call.site),
        caller: call.caller.clone(),
        path: SmolStr::new(path.as_str()),
        id: call.id.clone(),
    };
    let mut response = opening.accept(async move |client| {
        let opened = Instant::now();
        let ended = tunnel.join(client, pin!(holder.over())).await;
        holder.log(ended, opened.elapsed());
    });
    let mut answer = Response::new(());
    *answer.headers_mut() = headers;
    let mut headers = passed_back(call, upstream, answer).into_parts().0.headers;
    // Of an answer that ends with its head it would say nothing.
    headers.remove(CONTENT_LENGTH);
    headers.extend(std::mem::take(response.headers_mut()));
    *response.headers_mut() = headers;
    Ok(response)
}

impl Holder {
    /// Waits until the tunnel must be closed, and tells why.
    async fn over(&self) -> TunnelEnd {
        let session = self.caller.as_ref().and_then(|c| c.session.as_deref());
        tokio::select! {
            biased;
            () = ended(session) => TunnelEnd::Session,
            () = self.forbidden() => TunnelEnd::Permission,
            () = self.gateway.left() => TunnelEnd::Drain,
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
        let needed = match route::route(&Method::GET, &path, &rules.routes).needs {
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

    fn log(&self, ended: Ended, duration: Duration) {
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

/// Waits until a session is revoked or over.
async fn ended(session: Option<&Session>) {
    let Some(session) = session else {
        return pending().await;
    };
    let expires = UNIX_EPOCH + Duration::from_secs(session.expires);
    let left = expires.duration_since(SystemTime::now());
    tokio::select! {
        () = session.over() => {}
        () = sleep(left.unwrap_or_default()) => {}
    }
}
