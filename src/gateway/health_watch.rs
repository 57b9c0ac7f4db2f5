//! Watches the flows of a backend after each deployment, and falls back to those before it if they are not well.
//!
//! A deployment meanwhile ends the watch and begins its own. The flows to come back to are those that were active before
//! the first of these deployments, so ones that were never found well are not.

use super::Backend;
use crate::config::Health;
use crate::deployment::{Active, Change};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch::Receiver;
use tokio::time::{MissedTickBehavior, interval};

/// The interval between checks. Our choice: a fault is found within seconds, and a check costs little.
const INTERVAL: Duration = Duration::from_secs(1);
/// The checks in a row that fail before the flows count as unhealthy. Our choice: nodes that connect need a moment.
const FAILURES: u32 = 3;

/// The end of a watch.
enum End {
    Healthy,
    Unhealthy(String),
    /// Another deployment has come.
    Replaced,
    /// The backend is gone.
    Gone,
}

/// Watches until the backend is dropped. `clock` returns the time since 1970.
pub(super) async fn watch(backend: Weak<Backend>, clock: fn() -> Duration) {
    let changes = backend.upgrade().map(|kept| kept.deployments.changes());
    let Some(mut changes) = changes else {
        return;
    };
    // What is to be deployed again, while deployments are being watched.
    let mut healthy: Option<Arc<Active>> = None;
    while changes.changed().await.is_ok() {
        let Some(change) = changes.borrow_and_update().clone() else {
            healthy = None;
            continue;
        };
        let known = Arc::clone(healthy.get_or_insert_with(|| Arc::clone(&change.before)));
        match observe(&backend, &change.health, &mut changes).await {
            // The change stays marked as new, so the loop goes on at once.
            End::Replaced => {}
            End::Healthy => healthy = None,
            End::Unhealthy(reason) => {
                healthy = None;
                let Some(backend) = backend.upgrade() else {
                    return;
                };
                let flows = (change.rev.as_str(), &*known);
                fall_back(&backend, flows, &reason, clock().as_secs()).await;
            }
            End::Gone => return,
        }
    }
}

/// Checks the flows every second, until they have been watched for long enough or are not well.
async fn observe(
    backend: &Weak<Backend>,
    health: &Health,
    changes: &mut Receiver<Option<Arc<Change>>>,
) -> End {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first is at once.
    ticks.tick().await;
    let Some(mut counts) = backend.upgrade().map(|kept| kept.deployments.counts()) else {
        return End::Gone;
    };
    let mut failures = 0;
    for left in (0..health.watch.as_secs()).rev() {
        tokio::select! {
            biased;
            another = replaced(changes) => return if another { End::Replaced } else { End::Gone },
            _ = ticks.tick() => {}
        }
        let Some(backend) = backend.upgrade() else {
            return End::Gone;
        };
        let checked = backend.deployments.check_health(health, &counts).await;
        counts = backend.deployments.counts();
        match checked {
            Ok(()) => failures = 0,
            Err(reason) => {
                failures += 1;
                if failures >= FAILURES || left == 0 {
                    return End::Unhealthy(reason);
                }
                tracing::warn!(reason, "the flows deployed last fail a check");
            }
        }
    }
    End::Healthy
}

/// Waits for another deployment and leaves it for the next look; false: there will be none.
async fn replaced(changes: &mut Receiver<Option<Arc<Change>>>) -> bool {
    let is_there = changes.changed().await.is_ok();
    changes.mark_changed();
    is_there
}

async fn fall_back(backend: &Backend, (bad, known): (&str, &Active), reason: &str, now: u64) {
    let deployments = &backend.deployments;
    let mount = &backend.mount.name;
    match deployments.fall_back(bad, known, reason, now).await {
        Ok(Some(_)) => {}
        Ok(None) => {
            tracing::warn!(
                mount,
                reason,
                "the flows deployed last are not well, and others are active by now"
            );
        }
        Err(error) => {
            tracing::error!(%error, mount, reason, "the flows deployed last are not well, and those before them could not be deployed");
        }
    }
}
