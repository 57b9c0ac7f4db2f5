//! Deployments of a runtime behind us: turn, revision, policy, send, and the history.

use super::candidate::proposed;
use super::outcome;
use super::permit::{permissions, still_permitted};
use super::upstream_history::{Found, Led, unread};
use super::{Active, Authorized, Deployments, Error, Phases, Request, Runtime, StartContext, name};
use crate::audit::Event;
use crate::auth::AuthWatch;
use crate::metrics::Phase;
use crate::policy::Proposal;
use crate::upstream::{self, Change, Changed, Outcome};
use arc_swap::{ArcSwap, ArcSwapOption};
use flows::{Counts, Credentials, DeploymentType, FlowSet, Patch};
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
        by: Authorized<'_>,
        clock: fn() -> Instant,
    ) -> Result<Changed, Error> {
        let Some(upstream) = self.runtime.upstream() else {
            return Err(Error::Runtime);
        };
        let kind = name(forward.purpose.kind());
        let mut phases = Phases::begin(&self.metrics, kind, clock);

        // turn
        let mut known = self.lock(by.watch).await?;
        self.permit_now(by.now)?;
        phases.end(Phase::Wait);

        // revision: the upstream's own, asked for anew, because others may have deployed there
        let rev = forward.purpose.rev().map(str::to_owned);
        if let Purpose::Flows(Request::Flows { submission, .. }) = &forward.purpose {
            self.permit_rev(submission, by.watch)?;
        }
        let judged = permissions(by.watch.caller());
        let found = self.found(&forward.purpose, by.watch).await?;
        if let Some(found) = &found {
            let noticed = (&mut *known, found);
            self.notice_outside_edit(upstream, noticed, by.actor, by.now)
                .await;
            self.compare(rev.as_deref(), &found.rev)?;
        }

        // policy
        let (begin, done, mut facts) = forward.purpose.account(kind);
        let old = found.and_then(|found| found.flows);
        let changes_flows = matches!(forward.purpose, Purpose::Flows(_));
        let mut led = None;
        if let Purpose::Flows(request) = forward.purpose
            && let Some(judged) = self.permit_there(request, old, by.watch).await?
        {
            outcome::counts(&mut facts, &judged.0);
            led = Some(judged.1);
        }
        phases.end(Phase::Plan);

        // account: recorded before it happens; if that fails the change is refused, as `audit.on_failure` requires
        outcome::message(&mut facts, by.message);
        facts["upstream"] = upstream.name().into();
        facts["before"] = json!(rev.as_ref().or(known.as_ref()));
        self.audit
            .durable(begin, by.actor, by.now, facts.clone())
            .await?;

        // send: until the upstream answers, the active revision is unknown
        still_permitted(&judged, by.watch)?;
        let before = known.take();
        let changed = upstream.apply(forward.change).await?;
        phases.end(Phase::Apply);

        *known = self.learned(&changed.outcome, before);
        if let Outcome::Done(rev) = &changed.outcome {
            facts["rev"] = json!(rev);
            // It has happened: its beginning is recorded, and a failure to record its end is logged.
            let _ = self.audit.durable(done, by.actor, by.now, facts).await;
            if changes_flows {
                let change = (kind, rev.clone(), led);
                *known = self.keep_change(upstream, change, &by).await;
            }
        }
        Ok(changed)
    }

    /// The flow set that the upstream has now, if the revision, the policy or the history needs it. The history alone
    /// holds up no change.
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
        match watch.during(pin!(upstream.revision())).await? {
            Ok(found) => Ok(Some(Found::parse(found))),
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

    /// Refuses what the policy does not allow; answers how much the change changes and what it leads to, if the flow set
    /// before is known. The upstream alone knows what it reads from its storage again.
    async fn permit_there(
        &self,
        request: Request,
        old: Option<Arc<FlowSet>>,
        watch: &mut AuthWatch,
    ) -> Result<Option<(Counts, Led)>, Error> {
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
        let is_exact = matches!(request, Request::Flows { .. });
        let next = match proposed(request, &old, &Credentials::default()) {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(None),
            // Without rules it is the upstream that refuses a change of a flow that is not there.
            Err(_) if !compares => return Ok(None),
            Err(error) => return Err(error),
        };
        let proposal = Proposal::new(&old, &next.flows, &next.sent, kind);
        self.permit(proposal, watch).await?;
        let led = Led {
            flows: Arc::new(next.flows),
            sent: next.sent,
            is_exact,
        };
        Ok(Some((Patch::between(&old, &led.flows).counts, led)))
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
