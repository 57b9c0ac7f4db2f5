//! An open WebSocket of a flow: when it must be closed, and its line in the access log.

use super::granted::Watch;
use super::path::Path;
use super::request_context::RequestContext;
use crate::auth::Lapsed;
use crate::gateway::Gateway;
use crate::metrics::TunnelEnd;
use crate::upstream::Ended;
use smol_str::SmolStr;
use std::sync::Arc;
use std::time::Duration;

/// An open WebSocket.
pub(super) struct OpenSocket {
    gateway: Arc<Gateway>,
    watch: Watch,
    path: SmolStr,
    id: SmolStr,
}

impl OpenSocket {
    /// For a request that becomes a WebSocket.
    pub(super) fn of(ctx: &RequestContext<'_>, path: &Path<'_>) -> Self {
        Self {
            gateway: Arc::clone(ctx.gateway),
            watch: ctx.new_watch(),
            path: SmolStr::new(path.as_str()),
            id: ctx.id.clone(),
        }
    }

    /// Waits until it must be closed; returns the reason.
    pub(super) async fn over(&mut self) -> TunnelEnd {
        let left = self.gateway.left();
        tokio::select! {
            biased;
            lapsed = self.watch.lapsed() => match lapsed {
                Lapsed::Session => TunnelEnd::Session,
                Lapsed::Permission => TunnelEnd::Permission,
            },
            () = left => TunnelEnd::Drain,
        }
    }

    /// A line for the access log.
    pub(super) fn log(&self, ended: Ended, duration: Duration) {
        if !self.gateway.config.log.access {
            return;
        }
        let user = self.watch.caller().map_or("", |c| c.user.as_str());
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
