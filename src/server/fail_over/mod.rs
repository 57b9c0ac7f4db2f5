//! Fail-over of the engine among the gateways of a cluster: the one that holds the lease in the database runs the engine's process, the
//! others connect to it through [`mod@members_listener`]. See docs/cluster.md.
//!
//! Two engines never run at a time. The holder's process ends [`HELD`] after the last renewal that was asked for and has succeeded,
//! whether or not the gateway reaches it ([`engine::lease`]). Another member takes the lease when it has seen no renewal for
//! [`TAKEN_AFTER`], and what it saw was asked for earlier. Both measure with a clock of their own machine, which counts
//! while the machine sleeps.

mod members_listener;

use super::Error;
use super::engine_process::{First, Member, Plan, Supervised, supervise};
use crate::config::Cluster;
use crate::gateway::Gateway;
use crate::metrics::Metrics;
use crate::store::{KeptState, Lease, Seen};
use crate::upstream::{Leader, Upstream};
use engine::lease;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::sleep;

pub(super) use members_listener::{MemberTls, check};

/// How long a renewal lets the process run. Our choice: four renewals may be lost.
const HELD: Duration = Duration::from_millis(2500);
/// How long a member must have seen no renewal before it takes the lease. Our choice: a second longer, for what a process that was
/// stopped still does before it looks at the clock, and for clocks of which one runs faster.
const TAKEN_AFTER: Duration = Duration::from_millis(3500);
/// The time between two renewals. Our choice.
const RENEWAL: Duration = Duration::from_millis(500);
/// The time between two looks at the lease of another one. Our choice: a take-over waits at most for one.
const LOOK: Duration = Duration::from_millis(250);
/// The process is ended this long before its lease. Our choice: it need not end itself then.
const MARGIN: Duration = Duration::from_millis(300);
/// How long the process may be silent, which answers each renewal. Our choice: it is stopped, or ends again and again.
const SILENT: Duration = Duration::from_secs(2);
/// How long a member whose process was silent leaves the lease to others. Our choice.
const PAUSE: Duration = Duration::from_secs(10);

/// A member of the cluster.
struct FailOver {
    lease: Lease,
    kept: Arc<AsyncMutex<KeptState>>,
    plan: Plan,
    upstream: Upstream,
    /// Where other members reach this one.
    address: String,
    /// The most bytes of a message of the process.
    longest: usize,
    leads: watch::Sender<bool>,
    metrics: Arc<Metrics>,
    /// The member leaves the lease to others until then.
    pause: Duration,
}

/// Follows the lease, and runs the process when it is this gateway's; `None`: there is no cluster.
pub(super) fn start(gateway: &Arc<Gateway>) -> Result<Option<(Supervised, MemberTls)>, Error> {
    let config = &gateway.config;
    let upstream = gateway.backends.first().runtime.upstream();
    let (Some(cluster), Some(upstream), Some(process), Some(plan), Some((lease, kept))) = (
        &config.cluster,
        upstream,
        &config.engine.process,
        Plan::of(config)?,
        gateway.store.lease(),
    ) else {
        return Ok(None);
    };
    let (leads, leading) = watch::channel(false);
    let _inside = gateway.control.enter();
    let members = members_listener::start(cluster, &process.socket, upstream, leading)?;
    let member = FailOver {
        lease,
        kept: Arc::new(AsyncMutex::new(kept)),
        plan,
        upstream: upstream.clone(),
        address: address(cluster),
        longest: config.longest_message().unwrap_or_default(),
        leads,
        metrics: Arc::clone(&gateway.metrics),
        pause: Duration::ZERO,
    };
    let (end, ended) = watch::channel(false);
    let task = gateway.control.spawn(member.run(ended));
    Ok(Some((Supervised::new(end, task), members)))
}

fn address(cluster: &Cluster) -> String {
    let Cluster { host, port, .. } = cluster;
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// A lease that was taken.
struct Taken {
    fence: i64,
    /// When it was asked for.
    at: Duration,
}

impl FailOver {
    /// Follows and leads in turn, until the gateway ends.
    async fn run(mut self, mut end: watch::Receiver<bool>) {
        while let Some(taken) = self.follow(&mut end).await {
            let fence = taken.fence;
            tracing::info!(fence, "this gateway runs the engine");
            self.upstream.follow(Leader::Here);
            self.leads.send_replace(true);
            self.metrics.leads(true);
            let ended = self.lead(taken, &mut end).await;
            self.leads.send_replace(false);
            self.metrics.leads(false);
            self.upstream.follow(Leader::Nobody);
            match ended {
                Ended::Wanted => {}
                Ended::Lost(reason) => {
                    tracing::error!(fence, %reason, "this gateway ran the engine and has ended it");
                    continue;
                }
                Ended::Silent => {
                    tracing::error!(
                        fence,
                        "the engine's process does not answer: another gateway may run it"
                    );
                    self.pause = lease::now() + PAUSE;
                }
            }
            if let Err(error) = self.lease.release(fence).await {
                tracing::warn!(%error, "others can run the engine a few seconds later");
            }
        }
    }

    /// Sends requests to the member that holds the lease, until this one has taken it; `None`: the gateway ends.
    async fn follow(&mut self, end: &mut watch::Receiver<bool>) -> Option<Taken> {
        let mut last: Option<(Seen, Duration)> = None;
        let mut is_unseen = false;
        while !*end.borrow() {
            match self.lease.see().await {
                Ok(seen) => {
                    is_unseen = false;
                    let since = match last.take() {
                        Some((before, since)) if before == seen => since,
                        _ => lease::now(),
                    };
                    self.follow_holder(&seen);
                    if let Some(taken) = self.take(&seen, since).await {
                        return Some(taken);
                    }
                    last = Some((seen, since));
                }
                Err(error) if !is_unseen => {
                    is_unseen = true;
                    tracing::error!(%error, "it is not known which gateway runs the engine");
                }
                Err(_) => {}
            }
            tokio::select! {
                () = sleep(LOOK) => {}
                _ = end.changed() => {}
            }
        }
        None
    }

    /// Takes the lease if that is due: it was seen like this since then.
    async fn take(&mut self, seen: &Seen, since: Duration) -> Option<Taken> {
        let at = lease::now();
        let is_over = seen.holder.is_none() || at.saturating_sub(since) >= TAKEN_AFTER;
        if !is_over || at < self.pause {
            return None;
        }
        match self.lease.take(seen, &self.address).await {
            Ok(fence) => fence.map(|fence| Taken { fence, at }),
            Err(error) => {
                tracing::warn!(%error, "the engine's lease could not be taken");
                None
            }
        }
    }

    fn follow_holder(&self, seen: &Seen) {
        let leader = match &seen.holder {
            Some(address) => Leader::At(address.clone()),
            None => Leader::Nobody,
        };
        if self.upstream.follow(leader)
            && let Some(holder) = &seen.holder
        {
            let fence = seen.fence;
            tracing::info!(%holder, fence, "another gateway runs the engine");
        }
    }

    /// Runs the process while the lease can be renewed.
    async fn lead(&mut self, taken: Taken, end: &mut watch::Receiver<bool>) -> Ended {
        let (until, lasts) = watch::channel(taken.at + HELD);
        let (heard, last_heard) = watch::channel(None);
        let (kept, plan, longest) = (&self.kept, &mut self.plan, self.longest);
        let restarts = self.metrics.engine_restarts();
        let run = async {
            let state = kept.lock().await.all().await;
            let state = match state {
                Ok(state) => state,
                Err(error) => return Ended::Lost(format!("its state cannot be read: {error}")),
            };
            plan.member = Some(Member {
                fence: taken.fence,
                until: lasts,
                state: Mutex::new(Some(state)),
                heard,
                kept: Arc::clone(kept),
                longest,
            });
            supervise(plan, end, First::default(), &restarts).await;
            Ended::Wanted
        };
        tokio::select! {
            ended = run => ended,
            ended = renew(&mut self.lease, taken.fence, &until, &last_heard) => ended,
        }
    }
}

/// Why a member leads no longer.
enum Ended {
    /// The gateway ends.
    Wanted,
    /// It may hold the lease no longer, or could not begin.
    Lost(String),
    /// Its process does not answer.
    Silent,
}

/// Renews the lease until that is of no use any more.
async fn renew(
    lease: &mut Lease,
    fence: i64,
    until: &watch::Sender<Duration>,
    heard: &watch::Receiver<Option<Duration>>,
) -> Ended {
    loop {
        sleep(RENEWAL).await;
        let heard = *heard.borrow();
        if heard.is_some_and(|heard| lease::now().saturating_sub(heard) >= SILENT) {
            return Ended::Silent;
        }
        let at = lease::now();
        let left = until.borrow().saturating_sub(MARGIN).saturating_sub(at);
        let failure = tokio::select! {
            renewed = lease.renew(fence) => match renewed {
                Ok(true) => {
                    until.send_replace(at + HELD);
                    continue;
                }
                Ok(false) => return Ended::Lost("another gateway has taken the lease".to_owned()),
                Err(error) => error.to_string(),
            },
            () = sleep(left) => "the shared database does not answer".to_owned(),
        };
        if lease::now() + MARGIN >= *until.borrow() {
            return Ended::Lost(format!("its lease could not be renewed: {failure}"));
        }
    }
}
