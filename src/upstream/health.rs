//! Whether the upstream is well: asked again and again, for `/readyz` and metrics. Requests are sent in any case, so
//! that they succeed as soon as it is back.

use super::{Error, Inner, Leader, Outgoing, Upstream};
use hyper::StatusCode;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::sleep;

/// The maximum interval between checks while the upstream is unavailable. Our choice: its return is to be noticed at
/// once.
const AWAY: Duration = Duration::from_secs(1);

/// The result of the last check; at first unknown.
pub(super) const UNKNOWN: u8 = 0;
const WELL: u8 = 1;
const GONE: u8 = 2;

/// A path that every runtime of either dialect answers without a token (docs/reference/admin-api.md §4.1).
const PATH: &str = "/auth/login";

impl Upstream {
    /// Checks the upstream until all other handles to it have been dropped.
    pub async fn watch(self) {
        let inner = Arc::downgrade(&self.0);
        let every = self.0.config.health;
        // One on a socket may start after us.
        let (first, mut before) = (self.answers().await, None);
        if let Err(Error::NotListening(_)) = first {
            self.set_health(false);
        } else {
            self.learn(first, &mut before).await;
        }
        drop(self);
        loop {
            let well = before == Some(true);
            sleep(if well { every } else { every.min(AWAY) }).await;
            let Some(inner) = inner.upgrade() else {
                return;
            };
            let upstream = Self(inner);
            let result = upstream.answers().await;
            upstream.learn(result, &mut before).await;
        }
    }

    /// Whether the last health check succeeded.
    pub fn healthy(&self) -> bool {
        self.0.health.load(Ordering::Relaxed) == WELL
    }

    /// Whether the last health check failed.
    pub fn is_away(&self) -> bool {
        self.0.health.load(Ordering::Relaxed) == GONE
    }

    /// The same in a word, with what it says to our account.
    pub fn state(&self) -> &'static str {
        let nobody_leads = self.leader() == Some(Leader::Nobody);
        match (self.healthy() && !nobody_leads, self.authorized()) {
            (false, _) => "unreachable",
            (true, false) => "unauthorized",
            (true, true) => "well",
        }
    }

    /// The error for a request that is not sent because the last health check failed.
    pub fn away(&self) -> Error {
        match self.0.config.socket {
            Some(_) => Error::NotListening(io::ErrorKind::ConnectionRefused.into()),
            None => Error::Unavailable,
        }
    }

    /// Asks now; with the status of its answer, unless we are too busy to ask.
    async fn answers(&self) -> Result<Option<StatusCode>, Error> {
        match self
            .send_bare(|| self.own(PATH), Outgoing::empty(), None)
            .await
        {
            Ok(response) if response.status().is_server_error() => {
                Err(Error::Unexpected("it answers with an error of its own"))
            }
            Ok(response) => Ok(Some(response.status())),
            // A gateway that is busy has an upstream that answers.
            Err(Error::Busy) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes over the result of a check, and logs it if it is another one than before.
    async fn learn(&self, result: Result<Option<StatusCode>, Error>, before: &mut Option<bool>) {
        let well = result.is_ok();
        if *before != Some(well) {
            match result {
                // An admin API outside this root would be open to all callers of endpoints.
                Ok(Some(StatusCode::NOT_FOUND)) => tracing::warn!(
                    upstream = self.name(),
                    "the upstream is well, but {}{PATH} is not there: admin_root must be its httpAdminRoot",
                    self.0.config.root,
                ),
                Ok(_) => tracing::info!(upstream = self.name(), "the upstream is well"),
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::error!(upstream = self.name(), cause, "{error}");
                }
            }
        }
        *before = Some(well);
        self.set_health(well);
        if well {
            self.check_account().await;
        }
        self.learn_flows_state(well).await;
    }

    fn set_health(&self, well: bool) {
        let inner: &Inner = &self.0;
        let health = if well { WELL } else { GONE };
        inner.health.store(health, Ordering::Relaxed);
        inner.metrics.health(well);
    }
}
