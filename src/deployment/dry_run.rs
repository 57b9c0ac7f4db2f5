//! The dry run of a deployment: what would refuse it, what is suspicious in it, and what it would
//! stop, start and rewire.
//!
//! Changes nothing and waits for no deployment, so another one may come between it and the
//! deployment itself.

use super::candidate::proposed;
use super::permit::{permissions, who};
use super::{Active, Deployments, Error, Request, plan_of};
use crate::auth::AuthWatch;
use crate::config::Policy;
use crate::policy::{self, Deployment, Types, Verdict, Violation, Who};
use flows::{Credentials, DeploymentType, Finding, FlowSet, Plan, Submission, lint};
use smol_str::SmolStr;
use std::collections::HashSet;
use std::pin::pin;

/// The result of a dry run.
#[derive(Debug)]
pub struct Checked {
    /// The active revision.
    pub rev: String,
    /// True if the submission names another one.
    pub stale: bool,
    /// What the policy says about it.
    pub judgement: Judgement,
    /// The steps.
    pub plan: Plan,
}

/// What the policy says about a submission, and what is suspicious in it.
#[derive(Debug)]
pub struct Judgement {
    /// The violations of the policy.
    pub verdict: Verdict,
    /// The changes that make it a proposal, which another user has to approve.
    pub approval: Option<Violation>,
    /// The findings in the flow set that would be active.
    pub findings: Vec<Finding>,
    /// The flow set that would be active, and the nodes whose credentials are sent; `None`: it is
    /// refused before.
    after: Option<(Active, HashSet<SmolStr>)>,
}

impl Deployments {
    /// Checks a submission for the caller of the watch. `now`: seconds since 1970.
    pub async fn dry_run(
        &self,
        submission: Submission,
        kind: DeploymentType,
        watch: &mut AuthWatch,
        now: u64,
    ) -> Result<Checked, Error> {
        let before = self.current(watch).await?;
        let types = watch.during(pin!(self.runtime.types())).await??;
        let sent = submission.rev.as_ref();
        let stale = sent.is_some_and(|sent| *sent != before.rev);
        let permissions = permissions(watch.caller());
        let who = who(watch.caller(), &permissions);
        let policy = self.policy.load();
        let mut refused = self.closed(now);
        if sent.is_none() {
            refused.0.extend(policy::without_rev(&policy, who).0);
        }
        let mut judgement = judge(&policy, who, &before, submission, Some(&*types))?;
        refused.0.append(&mut judgement.verdict.0);
        judgement.verdict = refused;
        let plan = judgement.after.as_ref().map(|(after, sent)| {
            let sets = [&*before.flows, &*after.flows];
            let restart = policy::restarted(&permissions, kind, sets);
            let kind = policy::deployment_type(&permissions, kind);
            let (was, is) = (before.sight(&permissions), after.sight(&permissions));
            let is_seen = |id: &SmolStr| !was.hides(id) && !is.hides(id);
            seen(plan_of(sets, sent, kind, restart), is_seen)
        });
        Ok(Checked {
            rev: before.rev.clone(),
            stale,
            judgement,
            plan: plan.unwrap_or_default(),
        })
    }
}

/// Judges a submission for a file of flows, without a runtime: neither its revision nor a freeze
/// counts.
pub fn judge_file(
    policy: &Policy,
    who: Who<'_>,
    before: FlowSet,
    submission: Submission,
    types: Option<&Types>,
) -> Result<Judgement, Error> {
    let before = Active::new(before, Credentials::default(), None);
    judge(policy, who, &before, submission, types)
}

/// Compares a submission with the policy as a deployment does: what its caller does not see stays
/// as it is.
fn judge(
    policy: &Policy,
    who: Who<'_>,
    before: &Active,
    submission: Submission,
    types: Option<&Types>,
) -> Result<Judgement, Error> {
    let request = Request::Flows {
        submission,
        kind: DeploymentType::Full,
    };
    let next = match proposed(request, before, who.permissions) {
        Ok(next) => next.ok_or(Error::Runtime)?,
        Err(Error::Policy(verdict)) => {
            return Ok(Judgement {
                verdict,
                approval: None,
                findings: Vec::new(),
                after: None,
            });
        }
        Err(error) => return Err(error),
    };
    let after = Active::new(next.flows, next.credentials, None);
    let asked = Deployment {
        types,
        ..Deployment::new(&before.flows, &after.flows, &next.sent)
    };
    let was = before.sight(who.permissions);
    let verdict = policy::verdict(policy, who, &asked);
    let mut verdict = verdict.naming_only(|id| !was.hides(id));
    let mut approval = policy::needs_approval(policy, who, &asked);
    if who.user.is_empty() {
        verdict.0.extend(approval.take().map(policy::unproposable));
    }
    let known = types.map(|types| types as &dyn Fn(&str) -> bool);
    Ok(Judgement {
        verdict,
        approval,
        findings: lint(&after.sight(who.permissions).shown(), known),
        after: Some((after, next.sent)),
    })
}

/// The steps with the nodes that the caller sees.
fn seen(mut plan: Plan, sees: impl Fn(&SmolStr) -> bool) -> Plan {
    plan.stop.retain(|stop| sees(&stop.id));
    plan.start.retain(&sees);
    plan.rewire.retain(&sees);
    plan
}
