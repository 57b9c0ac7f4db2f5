//! Deployments of a runtime behind us: turn, revision, policy, send, and the history.

use super::candidate::proposed;
use super::four_eyes::Draft;
use super::outcome;
use super::permit::{permissions, still_permitted};
use super::phases::Phases;
use super::upstream_history::{ChangedFlows, Found, unread};
use super::{Active, Authorized, Deployments, Error, Request, Runtime, StartContext, name};
use crate::audit::Event;
use crate::auth::{AuthWatch, Lapsed, Permissions};
use crate::metrics::Phase;
use crate::policy::{self, Deployment};
use crate::upstream::{self, Change, Changed, Outcome};
use arc_swap::{ArcSwap, ArcSwapOption};
use flows::running::check_elements;
use flows::{Credentials, DeploymentType, FlowSet, Patch};
use parking_lot::Mutex as Lock;
use serde_json::{Value, json};
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Mutex, watch};

/// A change of the upstream's flows.
#[derive(Debug)]
pub struct Forward {
    /// The change to send.
    pub change: Change,
    /// The purpose of the change.
    pub purpose: Purpose,
    /// True if the body of the change is still to be made: the whole flow set, of a caller who sees
    /// some flows.
    pub merges: bool,
}

/// A change that the upstream has answered.
#[derive(Debug)]
pub struct Forwarded {
    /// The upstream's answer.
    pub changed: Changed,
    /// The id of a flow that was added by a caller who sees some flows.
    pub flow: Option<String>,
}

/// The purpose of a change, for the audit log.
#[derive(Debug)]
pub enum Purpose {
    /// Other flows.
    Flows(Request),
    /// Starting or stopping all flows.
    State(Value),
}

impl Deployments {
    pub(super) fn in_front_of(
        runtime: Runtime,
        StartContext {
            store,
            audit,
            metrics,
            ..
        }: StartContext,
    ) -> Self {
        let nothing = Active::new(
            FlowSet::default(),
            Credentials::default(),
            Some(String::new()),
        );
        Self {
            deploy_lock: Mutex::new(None),
            active: watch::Sender::new(Arc::new(nothing)),
            seen_there: ArcSwapOption::default(),
            set_aside: Lock::new(None),
            changes: watch::Sender::new(None),
            runtime,
            shard: None,
            policy: ArcSwap::default(),
            freeze: ArcSwapOption::default(),
            store,
            audit,
            metrics,
        }
    }

    /// Sends one change to its end, whatever becomes of the caller. Must run as a task of the
    /// control runtime. An error of the upstream leaves open whether it has happened; only a change
    /// that was refused for the gateway's token, and so has not happened, is sent again.
    pub async fn forward(
        &self,
        forward: Forward,
        mut by: Authorized<'_>,
        clock: fn() -> Instant,
    ) -> Result<Forwarded, Error> {
        let Some(upstream) = self.runtime.upstream() else {
            return Err(Error::Runtime);
        };
        let kind = name(forward.purpose.kind());
        let mut phases = Phases::begin(&self.metrics, kind, clock, by.trace);

        // turn
        let mut known = self.turn_of(by.watch).await?;
        self.permit_now(by.now)?;
        phases.end(Phase::Wait);

        // revision: the upstream's own, asked for anew, because others may have deployed there
        let rev = forward.purpose.rev().map(str::to_owned);
        let judged = permissions(by.watch.caller());
        forward.still_fits(&judged)?;
        let old = self.base(&forward.purpose, &mut known, &mut by).await?;

        // policy
        let (begin, done, mut facts) = forward.purpose.account(kind);
        let changes_flows = matches!(forward.purpose, Purpose::Flows(_));
        let (change, flows) = self
            .permitted(forward, old.clone(), &judged, &mut by)
            .await?;
        outcome::said(&mut facts, &by);
        if let Some(flows) = &flows {
            outcome::counts(&mut facts, &flows.patch.counts);
        }
        phases.end(Phase::Plan);

        // account: recorded before it happens; if that fails the change is refused, as
        // `audit.on_failure` requires
        facts["upstream"] = upstream.name().into();
        facts["before"] = json!(rev.as_ref().or(known.as_ref()));
        let recorded = self.audit.durable(begin, by.actor, by.now, facts.clone());
        recorded.await?;

        // intent: the history may fail when the upstream has made the change
        if let (Some(flows), Some(old)) = (&flows, &old) {
            self.intend(kind, &old.rev, flows, &by).await?;
        }

        // send: until the upstream answers, the active revision is unknown
        known.check().await?;
        still_permitted(&judged, by.watch, by.approval)?;
        let before = known.take();
        let changed = upstream.apply(change).await;
        if !matches!(&changed, Ok(changed) if matches!(changed.outcome, Outcome::Done(_))) {
            // Without an answer the change may have happened: others cannot tell, and it is found
            // as an outside edit.
            self.forget_intent().await;
        }
        let changed = changed?;
        phases.end(Phase::Apply);

        *known = self.learned(&changed.outcome, before);
        let flow = flows.as_ref().and_then(|flows| flows.flow.clone());
        if let Outcome::Done(rev) = &changed.outcome {
            facts["rev"] = json!(rev);
            let change = changes_flows.then_some((kind, flows));
            // It has happened: its beginning is recorded, and a failure to record its end is
            // logged.
            let recorded = self.audit.durable(done, by.actor, by.now, facts);
            let followed = self.follow_up(old, rev.clone(), change, &by);
            *known = tokio::join!(recorded, followed).1;
        }
        Ok(Forwarded { changed, flow })
    }

    /// The flow set that is to be changed, if it is known; an error: it is another one than the
    /// change names.
    async fn base(
        &self,
        purpose: &Purpose,
        known: &mut Option<String>,
        by: &mut Authorized<'_>,
    ) -> Result<Option<Arc<Active>>, Error> {
        if let Purpose::Flows(Request::Flows { submission, .. }) = purpose {
            self.permit_rev(submission, by.watch)?;
        }
        let Some(found) = self.found(purpose, by.watch).await? else {
            return Ok(None);
        };
        self.notice_outside_edit(known, &found, by.actor, by.now)
            .await?;
        self.compare(purpose.rev(), &found.rev)?;
        Ok(found.active)
    }

    /// What follows a change that has happened: its proposal is closed, the history has it, and its
    /// flows are watched. Answers the revision, if it is known.
    async fn follow_up(
        &self,
        before: Option<Arc<Active>>,
        rev: Option<String>,
        change: Option<(&str, Option<ChangedFlows>)>,
        by: &Authorized<'_>,
    ) -> Option<String> {
        self.close_approved(rev.as_deref().unwrap_or_default(), by)
            .await;
        if let (Some(rev), Some((_, Some(changed)))) = (&rev, &change)
            && changed.is_exact
        {
            self.sent_there(&changed.flows, rev);
        }
        let rev = match change {
            Some((kind, flows)) => self.keep_change(kind, rev, flows, by).await,
            None => rev,
        };
        self.tell_change_there(before, rev.as_deref(), by).await;
        rev
    }

    /// The flow set that the upstream has now, if the revision, the policy or the history needs it.
    /// The history alone holds up no change.
    async fn found(
        &self,
        purpose: &Purpose,
        watch: &mut AuthWatch,
    ) -> Result<Option<Found>, Error> {
        let Some(upstream) = self.runtime.upstream() else {
            return Err(Error::Runtime);
        };
        let is_needed = purpose.rev().is_some() || (purpose.is_shown() && self.compares(watch));
        let is_kept = self.store.keeps_upstreams() && matches!(purpose, Purpose::Flows(_));
        if !is_needed && !is_kept {
            return Ok(None);
        }
        match watch.during(pin!(self.found_there(upstream))).await? {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_needed => Err(error.into()),
            Err(error) => {
                unread(upstream, &error);
                Ok(None)
            }
        }
    }

    /// The revision that the upstream has now, as far as its answer tells.
    fn learned(&self, outcome: &Outcome, before: Option<String>) -> Option<String> {
        match outcome {
            Outcome::Done(rev) => rev.clone(),
            Outcome::Stale => {
                self.metrics.revision_conflict();
                None
            }
            Outcome::Refused => before,
        }
    }

    /// Refuses another revision than the active one.
    fn compare(&self, rev: Option<&str>, active: &str) -> Result<(), Error> {
        if rev.is_some_and(|rev| rev != active) {
            self.metrics.revision_conflict();
            let active = active.to_owned();
            return Err(Error::Stale { active });
        }
        Ok(())
    }

    /// The change as it is to be sent, and what it leads to, if that is known; refuses what the
    /// policy does not allow.
    async fn permitted(
        &self,
        forward: Forward,
        old: Option<Arc<Active>>,
        judged: &Permissions,
        by: &mut Authorized<'_>,
    ) -> Result<(Change, Option<ChangedFlows>), Error> {
        let Purpose::Flows(request) = forward.purpose else {
            self.permit_state(by.watch)?;
            return Ok((forward.change, None));
        };
        if let Request::Flows { submission, .. } = &request {
            check_elements(&submission.flows)?;
        }
        let Some(old) = self.readable(&request, old, by)? else {
            return Ok((forward.change, None));
        };
        let mut flows = self.permit_there(request, &old, judged, by).await?;
        let change = match &mut flows {
            Some(flows) if forward.merges => {
                flows.is_exact = true;
                forward.change.with_body(flows.as_body(&old.rev))
            }
            _ => forward.change,
        };
        Ok((change, flows))
    }

    /// The flow set before, if the change is compared with it; an error: it must be, and cannot be
    /// read. The upstream alone knows what it reads from its storage again.
    fn readable(
        &self,
        request: &Request,
        old: Option<Arc<Active>>,
        by: &Authorized<'_>,
    ) -> Result<Option<Arc<Active>>, Error> {
        self.permit_reload(request, by.watch)?;
        let compares = self.is_compared(by) && !matches!(request, Request::Reload);
        match old {
            None if compares => Err(upstream::Error::Unexpected("its flows cannot be read").into()),
            old => Ok(old),
        }
    }

    /// Returns whether a rule needs the flow set before. That of a proposal is its base.
    fn is_compared(&self, by: &Authorized<'_>) -> bool {
        by.approval.is_some() || self.compares(by.watch)
    }

    /// Refuses what the policy does not allow; answers what the change leads to.
    async fn permit_there(
        &self,
        request: Request,
        old: &Active,
        judged: &Permissions,
        by: &mut Authorized<'_>,
    ) -> Result<Option<ChangedFlows>, Error> {
        let kind = request.kind();
        let is_exact = matches!(request, Request::Flows { .. });
        let next = match proposed(request, old, judged) {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(None),
            // Without rules it is the upstream that refuses a change of a flow that is not there.
            Err(_) if !self.is_compared(by) => return Ok(None),
            Err(error) => return Err(error),
        };
        let active = Active::new(next.flows, Credentials::default(), None);
        let types = self.types_for(old, &active, by.watch).await?;
        let asked = Deployment {
            types: types.as_deref(),
            ..Deployment::new(&old.flows, &active.flows, &next.sent)
        };
        self.permit(old, &asked, by.watch)?;
        let draft = Draft {
            base: &old.rev,
            kind,
            asked,
            sent: &next.submitted,
        };
        self.four_eyes(draft, judged, by).await?;
        Ok(Some(ChangedFlows {
            patch: Patch::between(&old.flows, &active.flows),
            flows: active.flows,
            sent: next.sent,
            submitted: next.submitted,
            is_exact,
            flow: next.flow,
        }))
    }
}

impl Forward {
    /// The change was prepared for a caller of these permissions; others need another one.
    fn still_fits(&self, permissions: &Permissions) -> Result<(), Lapsed> {
        let kind = self.purpose.kind();
        let is_flows = self.purpose.is_shown();
        let fits = self.merges == (is_flows && permissions.reads_some_flows())
            && policy::deployment_type(permissions, kind) == kind;
        if fits {
            Ok(())
        } else {
            Err(Lapsed::Permission)
        }
    }
}

impl Purpose {
    /// The deployment type.
    fn kind(&self) -> DeploymentType {
        match self {
            Self::Flows(request) => request.kind(),
            Self::State(_) => DeploymentType::Flows,
        }
    }

    /// The revision that must be active for it.
    fn rev(&self) -> Option<&str> {
        match self {
            Self::Flows(Request::Flows { submission, .. }) => submission.rev.as_deref(),
            Self::Flows(_) | Self::State(_) => None,
        }
    }

    /// Returns whether the change shows the flow set that it leads to.
    fn is_shown(&self) -> bool {
        !matches!(self, Self::Flows(Request::Reload) | Self::State(_))
    }

    /// The events of its begin and its end, and their facts.
    fn account(&self, kind: &str) -> (Event, Event, Value) {
        match self {
            Self::Flows(_) => (Event::DeployBegin, Event::Deploy, json!({ "type": kind })),
            Self::State(state) => {
                let facts = json!({ "state": state });
                (Event::StateBegin, Event::State, facts)
            }
        }
    }
}
