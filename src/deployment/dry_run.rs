//! The dry run of a deployment: what would refuse it, what is suspicious in it, and what it would stop, start and rewire.
//!
//! Changes nothing and waits for no deployment, so another one may come between it and the deployment itself.

use super::candidate::proposed;
use super::permit::{permissions, who};
use super::{Active, Deployments, Error, Request, plan_of};
use crate::auth::AuthWatch;
use crate::policy::{self, Deployment, Verdict, Violation};
use flows::{Finding, Plan, Submission, lint};
use smol_str::SmolStr;
use std::pin::pin;

/// The result of a dry run.
#[derive(Debug)]
pub struct Checked {
    /// The active revision.
    pub rev: String,
    /// Whether the submission names another one.
    pub stale: bool,
    /// The violations of the policy.
    pub verdict: Verdict,
    /// The changes that make it a proposal, which another user has to approve.
    pub approval: Option<Violation>,
    /// The findings in the flow set that would be active.
    pub findings: Vec<Finding>,
    /// The steps.
    pub plan: Plan,
}

impl Deployments {
    /// Checks a submission for the caller of the watch. `now`: seconds since 1970.
    pub async fn dry_run(
        &self,
        submission: Submission,
        kind: flows::DeploymentType,
        watch: &mut AuthWatch,
        now: u64,
    ) -> Result<Checked, Error> {
        let before = self.current(watch).await?;
        let types = watch.during(pin!(self.runtime.types())).await??;
        let stale = submission
            .rev
            .as_ref()
            .is_some_and(|sent| *sent != before.rev);
        let named = submission.rev.is_some();
        let request = Request::Flows { submission, kind };
        let permissions = permissions(watch.caller());
        let who = who(watch.caller(), &permissions);
        let mut verdict = self.closed(now);
        if !named {
            verdict
                .0
                .extend(policy::without_rev(&self.policy.load(), who).0);
        }
        let next = match proposed(request, &before, &permissions) {
            Ok(next) => next.ok_or(Error::Runtime)?,
            Err(Error::Policy(refused)) => {
                verdict.0.extend(refused.0);
                return Ok(Checked {
                    rev: before.rev.clone(),
                    stale,
                    verdict,
                    approval: None,
                    findings: Vec::new(),
                    plan: Plan::default(),
                });
            }
            Err(error) => return Err(error),
        };
        let after = Active::new(next.flows, next.credentials, None);
        let asked = Deployment {
            types: Some(&*types),
            ..Deployment::new(&before.flows, &after.flows, &next.sent)
        };
        let found = policy::verdict(&self.policy.load(), who, &asked);
        let approval = policy::needs_approval(&self.policy.load(), who, &asked);
        let (was, is) = (before.sight(&permissions), after.sight(&permissions));
        verdict.0.extend(found.naming_only(|id| !was.hides(id)).0);
        let sets = [&*before.flows, &*after.flows];
        let restart = policy::restarted(&permissions, kind, sets);
        let kind = policy::deployment_type(&permissions, kind);
        let is_seen = |id: &SmolStr| !was.hides(id) && !is.hides(id);
        Ok(Checked {
            rev: before.rev.clone(),
            stale,
            approval,
            verdict,
            findings: lint(&is.shown(), Some(&*types)),
            plan: seen(plan_of(sets, &next.sent, kind, restart), is_seen),
        })
    }
}

/// The steps with the nodes that the caller sees.
fn seen(mut plan: Plan, sees: impl Fn(&SmolStr) -> bool) -> Plan {
    plan.stop.retain(|stop| sees(&stop.id));
    plan.start.retain(&sees);
    plan.rewire.retain(&sees);
    plan
}
