//! Watches the flows of a backend after each deployment, and falls back to those before it if they
//! are not well.
//!
//! A deployment of the same user meanwhile ends the watch and begins its own: the flows to come
//! back to are those that were active before the first of these deployments, so ones that were
//! never found well are not. A deployment of another user is watched first, and only that one is
//! taken back if the flows are not well: no user loses a change by that of another. Then the watch
//! of the one before it goes on.

use super::Backend;
use crate::config::Health;
use crate::deployment::{Active, Change};
use smol_str::SmolStr;
use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch::Receiver;
use tokio::time::{MissedTickBehavior, interval};

/// The interval between checks. Our choice: a fault is found within seconds, and a check costs
/// little.
const INTERVAL: Duration = Duration::from_secs(1);
/// The checks in a row that fail before the flows count as unhealthy. Our choice: nodes that
/// connect need a moment.
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
    // The changes that are watched, the newest last.
    let mut watched: Vec<Watched> = Vec::new();
    loop {
        let end = match watched.last() {
            Some(newest) => observe(&backend, newest, &mut changes).await,
            None if changes.changed().await.is_ok() => End::Replaced,
            None => End::Gone,
        };
        match end {
            End::Replaced => match changes.borrow_and_update().as_deref() {
                Some(change) => add(&mut watched, change),
                None => watched.clear(),
            },
            End::Healthy => watched.clear(),
            End::Unhealthy(reason) => {
                let Some((bad, backend)) = watched.pop().zip(backend.upgrade()) else {
                    return;
                };
                let rev = fall_back(&backend, &bad, &reason, clock().as_secs()).await;
                match (rev, watched.last_mut()) {
                    (Some(rev), Some(before)) => before.rev = rev,
                    _ => watched.clear(),
                }
            }
            End::Gone => return,
        }
    }
}

/// A change of one user that is watched, or several in a row.
struct Watched {
    user: String,
    before: Arc<Active>,
    flows: HashSet<SmolStr>,
    rev: String,
    health: Health,
}

fn add(watched: &mut Vec<Watched>, change: &Change) {
    let (rev, health) = (change.rev.clone(), change.health.clone());
    match watched.last_mut().filter(|last| last.user == change.user) {
        Some(last) => {
            last.flows.extend(change.flows.iter().cloned());
            (last.rev, last.health) = (rev, health);
        }
        None => watched.push(Watched {
            user: change.user.clone(),
            before: Arc::clone(&change.before),
            flows: change.flows.clone(),
            rev,
            health,
        }),
    }
}

/// Checks the flows every second, until they have been watched for long enough or are not well.
async fn observe(
    backend: &Weak<Backend>,
    Watched { flows, health, .. }: &Watched,
    changes: &mut Receiver<Option<Arc<Change>>>,
) -> End {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first is at once.
    ticks.tick().await;
    let Some(mut counts) = backend.upgrade().map(|kept| kept.deployments.counts(flows)) else {
        return End::Gone;
    };
    let mut failures = 0;
    for left in (0..health.watch.as_secs()).rev() {
        tokio::select! {
            biased;
            another = changes.changed() => {
                return if another.is_ok() { End::Replaced } else { End::Gone };
            }
            _ = ticks.tick() => {}
        }
        let Some(backend) = backend.upgrade() else {
            return End::Gone;
        };
        let checked = backend
            .deployments
            .check_health(health, flows, &counts)
            .await;
        counts = backend.deployments.counts(flows);
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

/// Deploys the flows before a change again; the new revision, if that has happened.
async fn fall_back(backend: &Backend, bad: &Watched, reason: &str, now: u64) -> Option<String> {
    let deployments = &backend.deployments;
    let mount = &backend.mount.name;
    match deployments
        .fall_back(&bad.rev, &bad.before, reason, now)
        .await
    {
        Ok(Some(rev)) => return Some(rev),
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
    None
}
