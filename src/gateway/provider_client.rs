//! Identity providers: the gateway's HTTP client for them, and the regular look at what they say.

use super::Gateway;
use crate::auth::{Auth, ProviderOutcome, ProviderRequest, ProviderResponse};
use crate::upstream::{Answered, ask};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Weak;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Requests under way, to all providers. Our choice: each has its connection, and one that hangs
/// lasts for seconds.
static UNDER_WAY: Semaphore = Semaphore::const_new(64);

/// The interval between looks for keys and sessions whose time has come. Our choice: a look costs
/// nothing.
const INTERVAL: Duration = Duration::from_secs(1);

/// The time for answers that are under way when the gateway ends. Our choice: that of one request.
const FINISH: Duration = Duration::from_secs(5);

/// Sends a request to a provider.
pub(super) fn send(
    request: ProviderRequest,
) -> Pin<Box<dyn Future<Output = io::Result<ProviderResponse>> + Send>> {
    Box::pin(async move {
        let permit = UNDER_WAY.try_acquire();
        let _held =
            permit.map_err(|_| io::Error::other("too many requests to providers at a time"))?;
        let ProviderRequest {
            url,
            ca_file,
            form,
            authorization,
        } = request;
        let answer = ask(url.uri(), ca_file.as_deref(), form, authorization).await?;
        Ok(ProviderResponse {
            outcome: match answer.answered {
                Answered::Success => ProviderOutcome::Success,
                Answered::Refused => ProviderOutcome::Refused,
                Answered::Failed => ProviderOutcome::Failed,
            },
            body: answer.body,
            max_age: answer.max_age,
        })
    })
}

/// Waits for what providers are asked about sessions when the gateway ends.
pub(super) async fn finish(auth: Option<&Auth>) {
    if let Some(auth) = auth {
        // What takes longer is lost.
        let _ = timeout(FINISH, auth.finish_asking()).await;
    }
}

/// Keeps the keys of providers and what they say of sessions fresh, until the gateway is dropped.
pub(super) async fn refresh(gateway: Weak<Gateway>, clock: fn() -> Duration) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let auth = gateway.upgrade().map(|gateway| gateway.auth.clone());
        match auth {
            Some(Some(auth)) => {
                let now = clock().as_secs();
                tokio::join!(auth.refresh_jwt_keys(now), auth.refresh_oidc(now));
            }
            Some(None) | None => return,
        }
    }
}
