//! The dry run of a deployment: what would refuse it, what is suspicious in it, and what it would stop, start and rewire.
//!
//! Changes nothing and waits for no deployment, so another one may come between it and the deployment itself.

use super::candidate::proposed;
use super::permit::{permissions, who};
use super::{Deployments, Error, Request, plan_of};
use crate::auth::AuthWatch;
use crate::policy::{self, Proposal, Verdict};
use crate::upstream;
use flows::{Credentials, Finding, FlowSet, Plan, Submission, lint};
use std::pin::pin;
use std::sync::Arc;

/// The result of a dry run.
#[derive(Debug)]
pub struct Checked {
    /// The active revision.
    pub rev: String,
    /// Whether the submission names another one.
    pub stale: bool,
    /// The violations of the policy.
    pub verdict: Verdict,
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
        let (rev, before, kept) = self.current(watch).await?;
        let types = watch.during(pin!(self.runtime.types())).await??;
        let stale = submission.rev.as_ref().is_some_and(|sent| *sent != rev);
        let named = submission.rev.is_some();
        let request = Request::Flows { submission, kind };
        let Some(next) = proposed(request, &before, &kept)? else {
            return Err(Error::Runtime);
        };
        let policy = self.policy.load_full();
        let permissions = permissions(watch.caller());
        let who = who(watch.caller(), &permissions);
        let mut verdict = self.closed(now);
        if !named {
            verdict.0.extend(policy::without_rev(&policy, who).0);
        }
        let proposal = Proposal {
            before: &before,
            after: &next.flows,
            sent: &next.sent,
            kind,
            types: Some(&*types),
        };
        verdict.0.extend(policy::verdict(&policy, who, &proposal).0);
        Ok(Checked {
            rev,
            stale,
            verdict,
            findings: lint(&next.flows, Some(&*types)),
            plan: plan_of(&before, &next.flows, &next.sent, kind),
        })
    }

    /// The active revision, flow set and credentials; an upstream is asked, and its credentials are not known.
    pub async fn current(
        &self,
        watch: &mut AuthWatch,
    ) -> Result<(String, Arc<FlowSet>, Arc<Credentials>), Error> {
        let Some(upstream) = self.runtime.upstream() else {
            let active = self.active();
            let (flows, kept) = (Arc::clone(&active.flows), Arc::clone(&active.credentials));
            return Ok((active.rev.clone(), flows, kept));
        };
        let (rev, flows) = watch.during(pin!(upstream.revision())).await??;
        let active = Submission::v2(&FlowSet::default(), &flows)
            .map_err(|_| upstream::Error::Unexpected("its flows cannot be read"))?;
        Ok((rev, Arc::new(active.flows), Arc::default()))
    }
}
