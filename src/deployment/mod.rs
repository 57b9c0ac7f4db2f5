//! Deployments: lock, revision, policy, plan, store, apply, announce, in this order; by requests
//! and at the start.
//!
//! Nothing is changed until the new flow set is durable. Depends on no HTTP.

mod approval;
mod candidate;
mod current;
mod dry_run;
#[cfg(feature = "engine")]
mod engine_health;
mod forward;
mod four_eyes;
mod health;
mod outcome;
mod permit;
mod phases;
mod proposal_error;
mod proposals;
mod restore;
mod runtime;
mod shard;
mod turn;
mod upstream_history;

pub use approval::Approval;
pub use current::entity_tag;
pub use dry_run::{Checked, Judgement, judge_file};
pub use forward::{Forward, Forwarded, Purpose};
pub use health::{Change, Counts as HealthCounts};
pub use outcome::{failed, reason, refusal};
pub use proposal_error::ProposalError;
pub use proposals::{Closing, expire_proposals};
pub use restore::StartContext;
pub use runtime::Runtime;

use crate::audit::{Actor, Audit, Event, Unavailable};
use crate::auth::{AuthWatch, Lapsed};
use crate::config::{self, Policy};
use crate::metrics::{Metrics, Phase};
use crate::policy::{self, Deployment, Freeze, Verdict};
use crate::store::{self, OUTSIDE_EDIT, Record, Revision, Store};
use crate::traces::Trace;
use crate::upstream;
use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use candidate::next;
use flows::{
    Counts, Credentials, DeploymentType, FlowError, FlowSet, Malformed, Patch, Plan, Submission,
    diff, plan,
};
use four_eyes::Draft;
use parking_lot::Mutex as Lock;
use phases::Phases;
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::sync::{Mutex, oneshot, watch};

/// The authorized client of a change.
#[derive(Debug)]
pub struct Authorized<'a> {
    /// Its identity, for the audit log.
    pub actor: &'a Actor,
    /// Its authorization, checked again before the change.
    pub watch: &'a mut AuthWatch,
    /// The time of its request, in seconds since 1970.
    pub now: u64,
    /// What it says about the change; empty: nothing.
    pub message: &'a str,
    /// The proposal of another user that it approves with this change.
    pub approval: Option<&'a Approval>,
    /// The trace of its request, if that is recorded.
    pub trace: Option<&'a Trace>,
}

impl Authorized<'_> {
    /// The user whose change it is: of an approved proposal the one who made it, of a service token
    /// the one who made that; empty: an anonymous caller.
    pub(super) fn owner(&self) -> &str {
        let proposed = self
            .approval
            .map(|approval| approval.proposal.owner.as_str());
        let account = || self.watch.caller().map(|caller| caller.account().as_str());
        proposed.or_else(account).unwrap_or_default()
    }
}

/// The active flow set and its name.
#[derive(Debug)]
pub struct Active {
    /// The flow set.
    pub flows: Arc<FlowSet>,
    /// Its credentials.
    pub credentials: Arc<Credentials>,
    /// Its revision.
    pub rev: String,
    sights: current::Sights,
    /// What the engine runs of it, if that is not all.
    part: OnceLock<Arc<FlowSet>>,
}

/// Why a deployment did not happen. The active flow set is as before.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The submission names another revision than the active one.
    #[error("the flows have changed since: the active revision is {active}")]
    Stale {
        /// The active revision.
        active: String,
    },
    /// The submission is malformed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The policy refuses it.
    #[error(transparent)]
    Policy(#[from] Verdict),
    /// It needs the approval of another user, and waits for it as the proposal of this number.
    #[error("the change waits for the approval of another user as proposal {0}")]
    Proposed(u64),
    /// A proposal could not be made or decided.
    #[error(transparent)]
    Proposal(#[from] ProposalError),
    /// `reload`: the flow files are broken.
    #[error("the flow files are broken")]
    StorageInvalid(#[source] store::Error),
    /// It could not be made durable.
    #[error("the flows could not be stored")]
    Store(#[source] store::Error),
    /// A single flow of that id does not exist.
    #[error("no such flow")]
    NoSuchFlow,
    /// The runtime is gone.
    #[error("the runtime is gone")]
    Runtime,
    /// It could not be written down who does it.
    #[error(transparent)]
    Audit(#[from] Unavailable),
    /// The authorization has lapsed.
    #[error(transparent)]
    Lapsed(#[from] Lapsed),
    /// The upstream did not accept it, or did not report whether it has.
    #[error(transparent)]
    Upstream(#[from] upstream::Error),
}

/// A deployment asked for.
#[derive(Debug)]
pub enum Request {
    /// `POST /flows`.
    Flows {
        /// The submission.
        submission: Submission,
        /// The deployment type.
        kind: DeploymentType,
    },
    /// `POST /flows` with type `reload`.
    Reload,
    /// `POST /flow`: add one flow.
    AddFlow(Bytes),
    /// `PUT /flow/:id`.
    ReplaceFlow(String, Bytes),
    /// `DELETE /flow/:id`.
    RemoveFlow(String),
}

/// The result of a deployment.
#[derive(Debug)]
pub struct Deployed {
    /// The new revision.
    pub rev: String,
    /// The id of the flow added or replaced, for `/flow`.
    pub flow: Option<String>,
}

/// Takes deployments, one at a time.
pub struct Deployments {
    /// The deploy lock. In it: the revision that the upstream had after the last change of ours.
    deploy_lock: Mutex<Option<String>>,
    active: watch::Sender<Arc<Active>>,
    /// The flow set that the upstream had when it was last asked.
    seen_there: ArcSwapOption<current::Seen>,
    /// The revision that did not start, while the flow set before it is active.
    set_aside: Lock<Option<String>>,
    /// The deployment of users that was the last.
    changes: watch::Sender<Option<Arc<Change>>>,
    runtime: Runtime,
    /// The part of the flows that the engine runs; `None`: all of them.
    shard: Option<config::Shard>,
    policy: ArcSwap<Policy>,
    /// The freeze that an operator has commanded.
    freeze: ArcSwapOption<Freeze>,
    store: Store,
    audit: Audit,
    metrics: Arc<Metrics>,
}

/// The name of a deployment type for clients, metrics and history.
pub fn name(kind: DeploymentType) -> &'static str {
    match kind {
        DeploymentType::Full => "full",
        DeploymentType::Nodes => "nodes",
        DeploymentType::Flows => "flows",
        DeploymentType::Reload => "reload",
    }
}

/// The deployment type of this name; any other is full.
pub fn kind(name: &str) -> DeploymentType {
    let kinds = [
        DeploymentType::Nodes,
        DeploymentType::Flows,
        DeploymentType::Reload,
    ];
    let found = kinds.into_iter().find(|kind| self::name(*kind) == name);
    found.unwrap_or(DeploymentType::Full)
}

impl Deployments {
    /// The active flow set; never waits for a deployment.
    pub fn active(&self) -> Arc<Active> {
        Arc::clone(&self.active.borrow())
    }

    /// Tells whenever another flow set has become active.
    pub fn watch(&self) -> watch::Receiver<Arc<Active>> {
        self.active.subscribe()
    }

    /// Returns whether flows run.
    pub fn running(&self) -> bool {
        self.runtime.running()
    }

    /// `start`, `stop` or `safe`.
    pub fn state(&self) -> &'static str {
        self.runtime.state()
    }

    /// The flows that the engine has stopped by itself: `id`, `label`, `reason`.
    pub fn stopped_flows(&self) -> Vec<Json> {
        self.runtime.stopped_flows()
    }

    /// The revision that was set aside because it did not start, while the flow set before it is
    /// active.
    pub fn set_aside(&self) -> Option<String> {
        self.set_aside.lock().clone()
    }

    /// Runs one deployment to its end, whatever becomes of the caller. Must run as a task of the
    /// control runtime. An error leaves everything as it was; the caller records it, see
    /// [`refusal`].
    pub async fn deploy(
        &self,
        request: Request,
        mut by: Authorized<'_>,
        clock: fn() -> Instant,
    ) -> Result<Deployed, Error> {
        let mut phases = Phases::begin(&self.metrics, name(request.kind()), clock, by.trace);

        // turn
        let _lock = self.turn_of(by.watch).await?;
        self.permit_now(by.now)?;
        phases.end(Phase::Wait);

        // revision
        let before = self.active();
        self.permit_request(&request, &before, by.watch)?;

        // policy
        let judged = permit::permissions(by.watch.caller());
        let kind = request.kind();
        let next = next(request, &before, &judged, &self.store).await?;
        let active = Arc::new(Active::new(next.flows, next.credentials, None));
        let types = self.types_for(&before, &active, by.watch).await?;
        let asked = Deployment {
            types: types.as_deref(),
            ..Deployment::new(&before.flows, &active.flows, &next.sent)
        };
        self.permit(&before, &asked, by.watch)?;
        let draft = Draft {
            base: &before.rev,
            kind: policy::deployment_type(&judged, kind),
            asked,
            sent: &next.submitted,
        };
        self.four_eyes(draft, &judged, &mut by).await?;

        // plan
        let sets = [&*before.flows, &*active.flows];
        let restart = policy::restarted(&judged, kind, sets);
        let kind = policy::deployment_type(&judged, kind);
        let plan = self.plan([&before, &active], &next.sent, kind, restart);
        phases.end(Phase::Plan);

        // account and store
        if kind != DeploymentType::Reload {
            self.keep_outside_edit(by.actor, by.now).await?;
        }
        permit::still_permitted(&judged, by.watch, by.approval)?;
        self.account_and_store(&before, &active, kind, &by).await?;
        phases.end(Phase::Store);

        // apply: the stored flow set is active, even if the engine is gone
        if self.make_live(plan, &active).await.is_err() {
            let rev = &active.rev;
            tracing::error!(rev, "the flows are stored but could not be made live");
        }
        phases.end(Phase::Apply);

        let rev = active.rev.clone();
        self.announce(before, active, &by).await;
        let flow = next.flow;
        Ok(Deployed { rev, flow })
    }

    /// Tells editors, the watch over the flows and the proposal that was approved that other flows
    /// are active.
    async fn announce(&self, before: Arc<Active>, active: Arc<Active>, by: &Authorized<'_>) {
        let rev = active.rev.clone();
        let after = Arc::clone(&active.flows);
        self.active.send_replace(active);
        self.runtime.announce(&rev);
        let flows = |before: &FlowSet| policy::running_otherwise(before, &after);
        self.tell_change(before, &rev, flows, by);
        self.close_approved(&rev, by).await;
    }

    /// Records and stores a flow set, side by side: if it cannot be recorded it is taken back, as
    /// `audit.on_failure` requires. With both done, it is the one that every start finds.
    async fn account_and_store(
        &self,
        before: &Active,
        active: &Active,
        kind: DeploymentType,
        by: &Authorized<'_>,
    ) -> Result<(), Error> {
        let counts = Patch::between(&before.flows, &active.flows).counts;
        let mut record = active.record(by.actor, name(kind), Some(counts), by.now);
        by.message.clone_into(&mut record.revision.message);
        let mut facts = json!({ "type": name(kind), "rev": active.rev, "before": before.rev });
        outcome::counts(&mut facts, &counts);
        outcome::said(&mut facts, by);
        if let Some(approval) = by.approval {
            approval.sign(&mut record.revision);
        }
        let (permit, permitted) = oneshot::channel();
        let record_it = async {
            let recorded = self
                .audit
                .durable(Event::Deploy, by.actor, by.now, facts)
                .await;
            // If the store no longer waits for this, it has failed.
            let _ = permit.send(recorded.is_ok());
            recorded
        };
        let (recorded, stored) = tokio::join!(record_it, self.store.commit_if(record, permitted));
        recorded?;
        stored.map_err(Error::Store)?;
        Ok(())
    }

    /// Starts or stops all flows, and remembers it. The flow set and its revision stay.
    pub async fn set_running(
        &self,
        running: bool,
        Authorized {
            actor, watch, now, ..
        }: Authorized<'_>,
    ) -> Result<(), Error> {
        let state = if running { "start" } else { "stop" };
        let facts = json!({ "state": state });
        let held = self.turn_of(watch).await;
        let permitted = |watch: &AuthWatch| {
            self.permit_now(now)?;
            self.permit_state(watch)
        };
        let open = held.and_then(|held| permitted(watch).map(|()| held));
        let _lock = open.inspect_err(|_| {
            self.audit
                .record(Event::StateFail, actor, now, facts.clone());
        })?;
        self.audit
            .durable(Event::State, actor, now, facts.clone())
            .await?;
        let done = match watch.check() {
            Ok(()) => self.start_or_stop(running).await,
            Err(lapsed) => Err(lapsed.into()),
        };
        if done.is_err() {
            self.audit.record(Event::StateFail, actor, now, facts);
        }
        done
    }

    async fn start_or_stop(&self, running: bool) -> Result<(), Error> {
        let kept = self.store.save_running(running).await;
        kept.map_err(Error::Store)?;
        // A user who starts the flows wants them tried: the failed starts before do not count.
        self.store.forget_starts().await.map_err(Error::Store)?;
        self.runtime.set_running(running).await
    }

    /// The flows have run for as long as shows that they can: their starts do not count any more.
    /// Waits for ever if the engine does not answer.
    pub async fn settle(&self) -> Result<(), Error> {
        self.runtime.answer().await?;
        self.store.forget_starts().await.map_err(Error::Store)
    }

    /// Closes the flows, once every deployment that was asked for has ended. A start that comes to
    /// this end was a good one.
    pub async fn close(&self) {
        let _lock = self.deploy_lock.lock().await;
        self.runtime.close().await;
        if self.runtime.upstream().is_none()
            && let Err(error) = self.store.end_start().await
        {
            tracing::warn!(%error, "this start will count as failed");
        }
    }

    /// A deployment leaves safe mode, and is what was deployed last.
    async fn make_live(&self, plan: Plan, active: &Active) -> Result<(), Error> {
        let flows = Arc::clone(active.part(self.shard.as_ref()));
        let credentials = Arc::clone(&active.credentials);
        *self.set_aside.lock() = None;
        self.metrics.fallen_back(false);
        let safe = self.runtime.state() == "safe";
        self.runtime.apply(plan, flows, credentials).await?;
        if safe {
            let running = self.store.running().await.map_err(Error::Store)?;
            self.runtime.set_running(running).await?;
        }
        Ok(())
    }

    /// A `rev` that is sent must be the active one (docs/reference/admin-api.md §4.4, revision
    /// rules).
    fn check(&self, submission: &Submission, active: &Active) -> Result<(), Error> {
        match &submission.rev {
            Some(rev) if *rev != active.rev => {
                self.metrics.revision_conflict();
                Err(Error::Stale {
                    active: active.rev.clone(),
                })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Flow files that were edited meanwhile become a revision of the history before they are
    /// replaced.
    async fn keep_outside_edit(&self, actor: &Actor, now: u64) -> Result<(), Error> {
        let Some(edit) = self.store.edited_outside().await.map_err(Error::Store)? else {
            return Ok(());
        };
        let edit = Active::new(edit.flows, edit.credentials, None);
        let record = edit.record(&Actor::program(), OUTSIDE_EDIT, None, now);
        self.store.keep(record).await.map_err(Error::Store)?;
        tracing::warn!(
            rev = edit.rev,
            "the flow files were edited outside; this deployment replaces them, the edit is in the history"
        );
        self.audit
            .record(Event::OutsideEdit, actor, now, json!({ "rev": edit.rev }));
        Ok(())
    }
}

impl Active {
    /// Under the revision it has, or a fresh one.
    fn new(flows: FlowSet, credentials: Credentials, rev: Option<String>) -> Self {
        Self {
            rev: rev.unwrap_or_else(fresh_rev),
            flows: Arc::new(flows),
            credentials: Arc::new(credentials),
            sights: current::Sights::default(),
            part: OnceLock::new(),
        }
    }

    fn record(&self, actor: &Actor, kind: &str, counts: Option<Counts>, at: u64) -> Record {
        Record {
            revision: Revision {
                rev: self.rev.clone(),
                counts,
                ..entry(actor, kind, at)
            },
            flows: Arc::clone(&self.flows),
            credentials: Arc::clone(&self.credentials),
        }
    }
}

impl From<FlowError> for Error {
    fn from(error: FlowError) -> Self {
        match error {
            FlowError::Malformed(malformed) => Self::Malformed(malformed),
            FlowError::NoSuchFlow => Self::NoSuchFlow,
        }
    }
}

/// An entry of the history: who deploys what, and when.
fn entry(actor: &Actor, kind: &str, at: u64) -> Revision {
    Revision {
        user: actor.user.clone(),
        how: actor.by.clone(),
        address: actor.address.map_or_else(String::new, |a| a.to_string()),
        kind: kind.to_owned(),
        at,
        ..Revision::default()
    }
}

/// A name that no deployment had before, of an identical flow set neither
/// (docs/reference/admin-api.md §3): 64 hexadecimal digits, as Node-RED's are.
fn fresh_rev() -> String {
    crypto::hex(&crypto::random::<32>())
}

/// `restart`: tabs of which all nodes restart, whatever differs.
fn plan_of(
    [old, new]: [&FlowSet; 2],
    sent: &HashSet<SmolStr>,
    kind: DeploymentType,
    restart: HashSet<SmolStr>,
) -> Plan {
    let mut diff = diff(old, new, sent);
    diff.tabs.extend(restart);
    plan(old, new, &diff, kind)
}

#[cfg(all(test, feature = "engine"))]
mod tests;
