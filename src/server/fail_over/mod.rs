//! Fail-over of the engine among the gateways of a cluster: the one that holds the lease in the
//! database runs the engine's process, the others connect to it through [`mod@members_listener`].
//! If flows have places, each shard of them has a lease, a process and a holder of its own, and
//! [`mod@placed_flows`] tells which flows it has. See docs/cluster.md.
//!
//! Two engines never run at a time. The holder's process ends [`HELD`] after the last renewal that
//! was asked for and has succeeded, whether or not the gateway reaches it ([`engine::lease`]).
//! Another member takes the lease when it has seen no renewal for [`TAKEN_AFTER`], and what it saw
//! was asked for earlier. Both measure with a clock of their own machine, which counts while the
//! machine sleeps.

mod lead;
mod members_listener;
mod placed_flows;

use super::Error;
use super::engine_process::{Plan, Supervised};
use crate::config::{Cluster, EngineProcess};
use crate::gateway::{Gateway, Shards};
use crate::metrics::Metrics;
use crate::store::{EngineState, Error as StoreError, KeptState, Lease, Seen};
use crate::upstream::{Leader, Upstream};
use engine::lease;
use lead::{Ended, Taken};
use members_listener::Door;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::sleep;

pub(super) use members_listener::{MemberTls, check};

/// How long a renewal lets the process run. Our choice: four renewals may be lost.
const HELD: Duration = Duration::from_millis(2500);
/// How long a member must have seen no renewal before it takes the lease. Our choice: a second
/// longer, for what a process that was stopped still does before it looks at the clock, and for
/// clocks of which one runs faster.
const TAKEN_AFTER: Duration = Duration::from_millis(3500);
/// The time between two looks at the lease of another one. Our choice: a take-over waits at most
/// for one.
const LOOK: Duration = Duration::from_millis(250);
/// How long a member whose process was silent leaves the lease to others. Our choice.
const PAUSE: Duration = Duration::from_secs(10);
/// How long another member has a shard before the one that is to run it asks for it. Our choice: a
/// restart of its machine is over.
const SETTLED: Duration = Duration::from_secs(10);
/// The number of times that this is doubled for a member whose process was silent again and again.
/// Our choice: 10 minutes.
const DOUBLED: u32 = 6;

/// A member of the cluster, as one that may run a shard.
struct FailOver {
    /// The name of the shard; empty: the main one.
    shard: String,
    /// Which member is to run it.
    preferred: Preferred,
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
    /// The flows of the main engine, for others.
    follows: watch::Receiver<Option<Arc<EngineState>>>,
    /// The member leaves the lease to others until then.
    pause: Duration,
    /// How many times in a row its process was silent.
    silences: u32,
    /// The leases of other shards that are held by other places, as they were seen, and since when
    /// they are like this.
    others: Vec<((String, Seen), Duration)>,
}

/// Which member is to run a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preferred {
    /// Whichever comes first.
    Any,
    /// This one.
    Here,
    /// Another one.
    Elsewhere,
}

/// Follows the leases, and runs the processes of those that are this gateway's; `None`: there is no
/// cluster.
pub(super) fn start(gateway: &Arc<Gateway>) -> Result<Option<(Vec<Supervised>, MemberTls)>, Error> {
    let config = &gateway.config;
    let backend = gateway.backends.first();
    let (Some(cluster), Some(upstream), Some(process)) = (
        &config.cluster,
        backend.runtime.upstream(),
        &config.engine.process,
    ) else {
        return Ok(None);
    };
    let _inside = gateway.control.enter();
    let (follows, followed) = watch::channel(None);
    let mut doors = Vec::new();
    let mut members = Vec::new();
    let mut add = |shard: &str, upstream: &Upstream, process: &EngineProcess| {
        let (leads, leading) = watch::channel(false);
        doors.push(Door::new(shard, upstream, &process.socket, leading));
        let member = FailOver::new(gateway, cluster, shard, upstream, leads, followed.clone());
        member.map(|member| members.extend(member))
    };
    add("", upstream, process)?;
    let shards = backend.shards.iter().flat_map(Shards::all);
    for (shard, upstream) in shards {
        if let Some(process) = cluster.shards.get(shard) {
            add(shard, upstream, process)?;
        }
    }
    let members_tls = members_listener::start(cluster, doors)?;
    if let (Some(_), Some(kept)) = (&backend.shards, gateway.store.kept_state("")) {
        let follow = placed_flows::follow(Arc::downgrade(gateway), kept, follows);
        gateway.control.spawn(follow);
    }
    let supervised = members.into_iter().map(|member| {
        let (end, ended) = watch::channel(false);
        Supervised::new(end, gateway.control.spawn(member.run(ended)))
    });
    Ok(Some((supervised.collect(), members_tls)))
}

impl FailOver {
    fn new(
        gateway: &Gateway,
        cluster: &Cluster,
        shard: &str,
        upstream: &Upstream,
        leads: watch::Sender<bool>,
        follows: watch::Receiver<Option<Arc<EngineState>>>,
    ) -> Result<Option<Self>, Error> {
        let config = &gateway.config;
        let of_shard = named(shard);
        let (Some(plan), Some((lease, kept))) = (
            Plan::of(config, of_shard)?,
            gateway.store.lease(shard, places(cluster)),
        ) else {
            return Ok(None);
        };
        Ok(Some(Self {
            shard: shard.to_owned(),
            preferred: match of_shard {
                None => Preferred::Any,
                own if own == cluster.name.as_deref() => Preferred::Here,
                Some(_) => Preferred::Elsewhere,
            },
            lease,
            kept: Arc::new(AsyncMutex::new(kept)),
            plan,
            upstream: upstream.clone(),
            address: address(cluster),
            longest: config.longest_message().unwrap_or_default(),
            leads,
            metrics: Arc::clone(&gateway.metrics),
            // Those of the main engine are its own: what others have seen of them may be older.
            follows: of_shard.map_or_else(|| watch::channel(None).1, |_| follows),
            pause: Duration::ZERO,
            silences: 0,
            others: Vec::new(),
        }))
    }
}

/// The places of flows as text, the same at all members that have the same; empty: no flow has one.
fn places(cluster: &Cluster) -> String {
    if cluster.places.tabs.is_empty() {
        return String::new();
    }
    serde_json::to_string(&cluster.places).unwrap_or_default()
}

/// The name of a shard for the log; `None`: it is the main one.
fn named(shard: &str) -> Option<&str> {
    (!shard.is_empty()).then_some(shard)
}

fn address(cluster: &Cluster) -> String {
    let Cluster { host, port, .. } = cluster;
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

impl FailOver {
    /// Follows and leads in turn, until the gateway ends.
    async fn run(mut self, mut end: watch::Receiver<bool>) {
        while let Some(taken) = self.follow(&mut end).await {
            let (fence, of_shard) = (taken.fence, self.shard.clone());
            let shard = named(&of_shard);
            tracing::info!(fence, shard, "this gateway runs the engine");
            self.upstream.follow(Leader::Here);
            self.leads.send_replace(true);
            self.metrics.leads(&of_shard, true);
            let began = lease::now();
            let ended = self.lead(taken, &mut end).await;
            if lease::now().saturating_sub(began) >= SETTLED * 2_u32.pow(DOUBLED) {
                self.silences = 0;
            }
            self.leads.send_replace(false);
            self.metrics.leads(&of_shard, false);
            self.upstream.follow(Leader::Nobody);
            match ended {
                Ended::Wanted => {}
                Ended::GivenBack => {
                    tracing::info!(
                        fence,
                        shard,
                        "the member that is to run the engine has come back"
                    );
                }
                Ended::Lost(reason) => {
                    tracing::error!(fence, shard, %reason, "this gateway ran the engine and has ended it");
                    continue;
                }
                Ended::Silent => {
                    tracing::error!(
                        fence,
                        shard,
                        "the engine's process does not answer: another gateway may run it"
                    );
                    self.pause = lease::now() + PAUSE;
                    self.silences += 1;
                }
            }
            if let Err(error) = self.lease.release(fence).await {
                tracing::warn!(%error, "others can run the engine a few seconds later");
            }
        }
    }

    /// Sends requests to the member that holds the lease, until this one has taken it; `None`: the
    /// gateway ends.
    async fn follow(&mut self, end: &mut watch::Receiver<bool>) -> Option<Taken> {
        let mut last: Option<(Seen, Duration)> = None;
        let mut held_elsewhere = None;
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
                    self.ask_for(&seen, &mut held_elsewhere).await;
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
        let is_free = seen.holder.is_none() && self.preferred != Preferred::Elsewhere;
        let is_over = is_free || at.saturating_sub(since) >= TAKEN_AFTER;
        if !is_over || at < self.pause {
            return None;
        }
        let taken = match self.lease.take(seen, &self.address).await {
            Ok(None) => self.look_at_others(at).await.map(|()| None),
            taken => taken,
        };
        match taken {
            Ok(fence) => fence.map(|fence| Taken { fence, at }),
            Err(error) => {
                tracing::warn!(%error, "the engine's lease could not be taken");
                None
            }
        }
    }

    /// The lease could not be taken: another member was faster, or other shards are held by other
    /// places. What a member that is gone held of these is taken from it here, as no member of
    /// these places may be left to do that.
    async fn look_at_others(&mut self, now: Duration) -> Result<(), StoreError> {
        let others = self.lease.others().await?;
        let is_new = self.others.is_empty() && !others.is_empty();
        let known = std::mem::take(&mut self.others);
        for (shard, seen) in others {
            let since = known
                .iter()
                .find(|(before, _)| *before == (shard.clone(), seen.clone()));
            let since = since.map_or(now, |(_, since)| *since);
            if now.saturating_sub(since) >= TAKEN_AFTER {
                self.lease.clear(&shard, &seen).await?;
            }
            self.others.push(((shard, seen), since));
        }
        if is_new {
            tracing::warn!(
                shard = named(&self.shard),
                "the engine waits: other members run flows by other places, and cluster.place must be the same at all"
            );
        }
        Ok(())
    }

    /// Asks the member that runs the shard for it, if this one is to run it.
    async fn ask_for(&mut self, seen: &Seen, since: &mut Option<(i64, Duration)>) {
        if self.preferred != Preferred::Here || seen.holder.is_none() {
            return;
        }
        let now = lease::now();
        let settled = SETTLED * 2_u32.pow(self.silences.min(DOUBLED));
        match *since {
            Some((fence, began)) if fence == seen.fence => {
                if now.saturating_sub(began) >= settled
                    && let Err(error) = self.lease.want(seen).await
                {
                    tracing::warn!(%error, "another gateway could not be asked for the engine");
                }
            }
            _ => *since = Some((seen.fence, now)),
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
            let shard = named(&self.shard);
            tracing::info!(%holder, fence, shard, "another gateway runs the engine");
        }
    }
}
