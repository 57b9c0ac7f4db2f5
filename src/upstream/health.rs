//! Whether the upstream is well: asked again and again, for `/readyz` and metrics. Requests are
//! sent in any case, so that they succeed as soon as it is back.

use super::{Error, Inner, Leader, Outgoing, Upstream};
use hyper::StatusCode;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::sleep;

/// The maximum interval between checks while the upstream is unavailable. Our choice: its return is
/// to be noticed at once.
const AWAY: Duration = Duration::from_secs(1);

/// The result of the last check; at first unknown.
pub(super) const UNKNOWN: u8 = 0;
const WELL: u8 = 1;
const GONE: u8 = 2;

/// A path that every runtime of either dialect answers without a token (docs/reference/admin-api.md
/// §4.1).
const PATH: &str = "/auth/login";

/// A path of the admin API that needs a permission, if any does.
const SETTINGS: &str = "/settings";
/// The most that is read of the response of [`PATH`]. Our choice: many times what Node-RED has
/// there.
const LOGIN_LIMIT: usize = 64 << 10;

/// The response of [`PATH`].
struct Answered {
    status: StatusCode,
    asks_for_sign_in: bool,
}

/// Returns whether the response of `/auth/login` names a way to sign in: it is `{}` where none is
/// needed.
fn asks_for_sign_in(body: &[u8]) -> bool {
    let way = serde_json::from_slice::<serde_json::Value>(body);
    way.is_ok_and(|way| way.get("type").is_some())
}

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

    /// Returns whether the last health check succeeded.
    pub fn healthy(&self) -> bool {
        self.0.health.load(Ordering::Relaxed) == WELL
    }

    /// Returns whether the last health check failed.
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

    /// The same for the operator, with the remedy where there is one.
    pub fn state_with_remedy(&self) -> &'static str {
        match self.state() {
            "unauthorized" if !self.has_account() => {
                "unauthorized: its admin API asks for a sign-in (adminAuth), and [upstream] has no account: set user and password_file, or token_file"
            }
            state => state,
        }
    }

    /// Checks whether an upstream without an account has an admin API that refuses requests without
    /// a token: each would be 502. One that asks for a sign-in may still let everyone read.
    async fn check_openness(&self, asks: bool) {
        let refuses = asks
            && match self
                .send_bare(|| self.own(SETTINGS), Outgoing::empty(), None)
                .await
            {
                Ok(response) => response.status() == StatusCode::UNAUTHORIZED,
                Err(_) => return,
            };
        if self.0.lacks_account.swap(refuses, Ordering::Relaxed) != refuses {
            self.0.metrics.authorized(!refuses);
            if refuses {
                tracing::warn!(
                    upstream = self.name(),
                    "the upstream's admin API asks for a sign-in (adminAuth), and [upstream] has no account: requests to it are answered with 502. Set user and password_file, or token_file"
                );
            } else {
                tracing::info!(
                    upstream = self.name(),
                    "the upstream's admin API needs no account any more"
                );
            }
        }
    }

    /// The error for a request that is not sent because the last health check failed.
    pub fn away(&self) -> Error {
        match self.0.config.socket {
            Some(_) => Error::NotListening(io::ErrorKind::ConnectionRefused.into()),
            None => Error::Unavailable,
        }
    }

    /// Asks now; with what it answers, unless we are too busy to ask.
    async fn answers(&self) -> Result<Option<Answered>, Error> {
        match self
            .send_bare(|| self.own(PATH), Outgoing::empty(), None)
            .await
        {
            Ok(response) if response.status().is_server_error() => {
                Err(Error::Unexpected("it answers with an error of its own"))
            }
            Ok(response) => {
                let status = response.status();
                let body = response.into_body().whole(LOGIN_LIMIT).await;
                let asks_for_sign_in = body.is_ok_and(|body| asks_for_sign_in(&body));
                Ok(Some(Answered {
                    status,
                    asks_for_sign_in,
                }))
            }
            // A gateway that is busy has an upstream that answers.
            Err(Error::Busy) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes over the result of a check, and logs it if it is another one than before.
    async fn learn(&self, result: Result<Option<Answered>, Error>, before: &mut Option<bool>) {
        let well = result.is_ok();
        let asks = match &result {
            Ok(Some(answered)) => Some(answered.asks_for_sign_in),
            Ok(None) | Err(_) => None,
        };
        if *before != Some(well) {
            match result {
                // An admin API outside this root would be open to all callers of endpoints.
                Ok(Some(Answered {
                    status: StatusCode::NOT_FOUND,
                    ..
                })) => tracing::warn!(
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
        if let Some(asks) = asks.filter(|_| !self.has_account()) {
            self.check_openness(asks).await;
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
