//! Deployments of a runtime behind us: turn, revision, send. Nothing of its flows is kept here.

use super::outcome;
use super::{Active, Authorized, Deployments, Error, Phases, Runtime, StartContext, name};
use crate::audit::{Actor, Event};
use crate::metrics::Phase;
use crate::upstream::{Change, Changed, Outcome, Upstream};
use bytes::Bytes;
use flows::{Credentials, DeploymentType, FlowSet, Submission};
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
    /// The revision that must be active for it.
    pub rev: Option<String>,
    /// The deployment type.
    pub kind: DeploymentType,
    /// The purpose of the change.
    pub purpose: Purpose,
}

/// The purpose of a change, for the audit log.
#[derive(Debug)]
pub enum Purpose {
    /// Other flows; `None`: known only to the upstream.
    Flows(Option<FlowSet>),
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
        Authorized { actor, watch, now }: Authorized<'_>,
        clock: fn() -> Instant,
    ) -> Result<Changed, Error> {
        let Some(upstream) = self.runtime.upstream() else {
            return Err(Error::Runtime);
        };
        let kind = name(forward.kind);
        let mut phases = Phases {
            metrics: &self.metrics,
            kind,
            clock,
            since: clock(),
        };

        // turn
        let mut known = self.lock(watch).await?;
        phases.end(Phase::Wait);

        // revision: the upstream's own, asked for anew, because others may have deployed there
        let old = match &forward.rev {
            Some(rev) => {
                let (active, flows) = watch.during(pin!(upstream.revision())).await??;
                if known.as_ref().is_some_and(|known| *known != active) {
                    self.record_outside_edit(upstream, &active, actor, now);
                }
                *known = Some(active.clone());
                self.compare(rev, active, &flows)?
            }
            None => None,
        };
        phases.end(Phase::Plan);

        // account: recorded before it happens; if that fails the change is refused, as `audit.on_failure` requires
        let (begin, done, mut facts) = forward.purpose.account(kind, old.as_ref());
        facts["upstream"] = upstream.name().into();
        facts["before"] = json!(forward.rev.as_ref().or(known.as_ref()));
        self.audit.durable(begin, actor, now, facts.clone()).await?;

        watch.check()?;

        // send: until the upstream answers, the active revision is unknown
        let before = known.take();
        let changed = upstream.apply(forward.change).await?;
        phases.end(Phase::Apply);

        match &changed.outcome {
            Outcome::Done(rev) => {
                known.clone_from(rev);
                facts["rev"] = json!(rev);
                // It has happened: its beginning is recorded, and a failure to record its end is logged.
                let _ = self.audit.durable(done, actor, now, facts).await;
            }
            Outcome::Stale => self.metrics.revision_conflict(),
            Outcome::Refused => *known = before,
        }
        Ok(changed)
    }

    fn record_outside_edit(&self, upstream: &Upstream, active: &str, actor: &Actor, now: u64) {
        tracing::warn!(
            upstream = upstream.name(),
            rev = active,
            "the upstream's flows were changed by someone else"
        );
        let facts = json!({ "rev": active, "upstream": upstream.name() });
        self.audit.record(Event::OutsideEdit, actor, now, facts);
    }

    /// Refuses another revision than the active one; returns the active flow set, if it can be read.
    fn compare(&self, rev: &str, active: String, flows: &Bytes) -> Result<Option<FlowSet>, Error> {
        if rev != active {
            self.metrics.revision_conflict();
            return Err(Error::Stale { active });
        }
        Ok(Submission::v2(&FlowSet::default(), flows)
            .ok()
            .map(|active| active.flows))
    }
}

impl Purpose {
    /// The events of its begin and its end, and their facts.
    fn account(&self, kind: &str, old: Option<&FlowSet>) -> (Event, Event, Value) {
        match self {
            Self::Flows(new) => {
                let mut facts = json!({ "type": kind });
                if let (Some(old), Some(new)) = (old, new) {
                    outcome::counts(&mut facts, old, new);
                }
                (Event::DeployBegin, Event::Deploy, facts)
            }
            Self::State(state) => {
                let facts = json!({ "state": state });
                (Event::StateBegin, Event::State, facts)
            }
        }
    }
}
