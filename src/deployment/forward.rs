//! Deployments of a runtime behind us: turn, revision, send. Nothing of its flows is kept here.

use super::candidate::proposed;
use super::outcome;
use super::permit::{permissions, still_permitted};
use super::{Active, Authorized, Deployments, Error, Phases, Request, Runtime, StartContext, name};
use crate::audit::{Actor, Event};
use crate::auth::AuthWatch;
use crate::metrics::Phase;
use crate::policy::Proposal;
use crate::upstream::{self, Change, Changed, Outcome};
use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use flows::{Counts, Credentials, DeploymentType, FlowSet, Patch, Submission};
use serde_json::{Value, json};
use std::pin::pin;
use std::sync::{Arc, Mutex as Lock};
use std::time::Instant;
use tokio::sync::{Mutex, watch};

/// A change of the upstream's flows.
#[derive(Debug)]
pub struct Forward {
    /// The change to send.
    pub change: Change,
    /// The purpose of the change.
    pub purpose: Purpose,
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
            set_aside: Lock::new(None),
            runtime,
            policy: ArcSwap::default(),
            freeze: ArcSwapOption::default(),
            store,
            audit,
            metrics,
        }
    }

    /// Sends one change to its end, whatever becomes of the caller. Must run as a task of the control runtime. An error
    /// of the upstream leaves open whether it has happened; only a change that was refused for the gateway's token, and
    /// so has not happened, is sent again.
    pub async fn forward(
        &self,
        forward: Forward,
        Authorized {
            actor,
            watch,
            now,
            message,
        }: Authorized<'_>,
        clock: fn() -> Instant,
    ) -> Result<Changed, Error> {
        let Some(upstream) = self.runtime.upstream() else {
            return Err(Error::Runtime);
        };
        let kind = name(forward.purpose.kind());
        let mut phases = Phases::begin(&self.metrics, kind, clock);

        // turn
        let mut known = self.lock(watch).await?;
        self.permit_now(now)?;
        phases.end(Phase::Wait);

        // revision: the upstream's own, asked for anew, because others may have deployed there
        let rev = forward.purpose.rev().map(str::to_owned);
        if let Purpose::Flows(Request::Flows { submission, .. }) = &forward.purpose {
            self.permit_rev(submission, watch)?;
        }
        let judged = permissions(watch.caller());
        let old = if rev.is_some() || (forward.purpose.is_shown() && self.compares(watch)) {
            let (active, flows) = watch.during(pin!(upstream.revision())).await??;
            self.notice_outside_edit((&mut known, &active), actor, now);
            self.compare(rev.as_deref(), active, &flows)?
        } else {
            None
        };

        // policy
        let (begin, done, mut facts) = forward.purpose.account(kind);
        if let Purpose::Flows(request) = forward.purpose
            && let Some(counts) = self.permit_there(request, old.as_ref(), watch).await?
        {
            outcome::counts(&mut facts, &counts);
        }
        phases.end(Phase::Plan);

        // account: recorded before it happens; if that fails the change is refused, as `audit.on_failure` requires
        outcome::message(&mut facts, message);
        facts["upstream"] = upstream.name().into();
        facts["before"] = json!(rev.as_ref().or(known.as_ref()));
        self.audit.durable(begin, actor, now, facts.clone()).await?;

        // send: until the upstream answers, the active revision is unknown
        still_permitted(&judged, watch)?;
        let before = known.take();
        let changed = upstream.apply(forward.change).await?;
        phases.end(Phase::Apply);

        *known = self.learned(&changed.outcome, before);
        if let Outcome::Done(rev) = &changed.outcome {
            facts["rev"] = json!(rev);
            // It has happened: its beginning is recorded, and a failure to record its end is logged.
            let _ = self.audit.durable(done, actor, now, facts).await;
        }
        Ok(changed)
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

    /// Records that others have deployed there since the last change of ours, which is `known`.
    fn notice_outside_edit(
        &self,
        (known, active): (&mut Option<String>, &str),
        actor: &Actor,
        now: u64,
    ) {
        let before = known.replace(active.to_owned());
        let Some(upstream) = self.runtime.upstream() else {
            return;
        };
        if before.is_none_or(|before| before == active) {
            return;
        }
        tracing::warn!(
            upstream = upstream.name(),
            rev = active,
            "the upstream's flows were changed by someone else"
        );
        let facts = json!({ "rev": active, "upstream": upstream.name() });
        self.audit.record(Event::OutsideEdit, actor, now, facts);
    }

    /// Refuses another revision than the active one; returns the active flow set, if it can be read.
    fn compare(
        &self,
        rev: Option<&str>,
        active: String,
        flows: &Bytes,
    ) -> Result<Option<FlowSet>, Error> {
        if rev.is_some_and(|rev| rev != active) {
            self.metrics.revision_conflict();
            return Err(Error::Stale { active });
        }
        Ok(Submission::v2(&FlowSet::default(), flows)
            .ok()
            .map(|active| active.flows))
    }

    /// Refuses what the policy does not allow; answers how much the change changes, if the flow set before is known. The
    /// upstream alone knows what it reads from its storage again.
    async fn permit_there(
        &self,
        request: Request,
        old: Option<&FlowSet>,
        watch: &mut AuthWatch,
    ) -> Result<Option<Counts>, Error> {
        self.permit_reload(&request, watch)?;
        let compares = self.compares(watch) && !matches!(request, Request::Reload);
        let Some(old) = old else {
            return if compares {
                Err(upstream::Error::Unexpected("its flows cannot be read").into())
            } else {
                Ok(None)
            };
        };
        let kind = request.kind();
        let Some(next) = proposed(request, old, &Credentials::default())? else {
            return Ok(None);
        };
        let proposal = Proposal::new(old, &next.flows, &next.sent, kind);
        self.permit(proposal, watch).await?;
        Ok(Some(Patch::between(old, &next.flows).counts))
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

    /// Whether the change shows the flow set that it leads to.
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
