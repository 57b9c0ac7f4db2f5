//! Applies the policy to a deployment: asks the runtime for what the rules need, and counts what
//! they refuse.

use super::approval::Approval;
use super::{Active, Deployments, Error, Request};
use crate::auth::{AuthWatch, Caller, Lapsed, Permissions};
use crate::config::Policy;
use crate::policy::{self, Deployment, Freeze, Types, Verdict, Who};
use flows::Submission;
use std::pin::pin;
use std::sync::Arc;

impl Deployments {
    /// Replaces the policy, for the deployments that have not begun.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(Arc::new(policy));
    }

    /// Begins or ends the freeze that an operator commands.
    pub fn set_freeze(&self, freeze: Option<Freeze>) {
        self.freeze.store(freeze.map(Arc::new));
    }

    /// Refuses every change while nothing may be deployed. `now`: seconds since 1970.
    pub(super) fn permit_now(&self, now: u64) -> Result<(), Error> {
        self.allowed(self.closed(now))
    }

    /// Whether a request may be tried at all: its revision is the active one, or the policy needs
    /// none.
    pub(super) fn permit_request(
        &self,
        request: &Request,
        before: &Active,
        watch: &AuthWatch,
    ) -> Result<(), Error> {
        self.permit_reload(request, watch)?;
        let Request::Flows { submission, .. } = request else {
            return Ok(());
        };
        self.check(submission, before)?;
        self.permit_rev(submission, watch)
    }

    /// Refuses a reload by a caller who may not change all flows.
    pub(super) fn permit_reload(&self, request: &Request, watch: &AuthWatch) -> Result<(), Error> {
        if !matches!(request, Request::Reload) {
            return Ok(());
        }
        let permissions = permissions(watch.caller());
        self.allowed(policy::reload(
            &self.policy.load(),
            who(watch.caller(), &permissions),
        ))
    }

    /// Refuses to start or stop all flows for a caller whose changes need approval.
    pub(super) fn permit_state(&self, watch: &AuthWatch) -> Result<(), Error> {
        let permissions = permissions(watch.caller());
        self.allowed(policy::start_or_stop(
            &self.policy.load(),
            who(watch.caller(), &permissions),
        ))
    }

    /// What refuses every change at this time, seconds since 1970: a freeze, or `read_only`.
    pub fn closed(&self, now: u64) -> Verdict {
        let freeze = self.freeze.load();
        policy::closed(&self.policy.load(), freeze.as_deref(), now)
    }

    /// Refuses a submission that names no revision, where it must.
    pub(super) fn permit_rev(
        &self,
        submission: &Submission,
        watch: &AuthWatch,
    ) -> Result<(), Error> {
        if submission.rev.is_some() {
            return Ok(());
        }
        let permissions = permissions(watch.caller());
        let verdict = policy::without_rev(&self.policy.load(), who(watch.caller(), &permissions));
        self.allowed(verdict)
    }

    /// Returns whether [`permit`](Self::permit) needs the active flow set.
    pub(super) fn compares(&self, watch: &AuthWatch) -> bool {
        let permissions = permissions(watch.caller());
        let (policy, who) = (self.policy.load(), who(watch.caller(), &permissions));
        policy.health.is_some()
            || policy::applies(&policy, who)
            || policy::approval_applies(&policy, who)
    }

    /// The types that the runtime has, if a rule for this caller needs them.
    pub(super) async fn types_for(
        &self,
        before: &Active,
        after: &Active,
        watch: &mut AuthWatch,
    ) -> Result<Option<Box<Types>>, Error> {
        let permissions = permissions(watch.caller());
        let (policy, who) = (self.policy.load_full(), who(watch.caller(), &permissions));
        if !policy::needs_types(&policy, who, &before.flows, &after.flows) {
            return Ok(None);
        }
        Ok(Some(watch.during(pin!(self.runtime.types())).await??))
    }

    /// Refuses a deployment that violates the policy.
    pub(super) fn permit(
        &self,
        before: &Active,
        asked: &Deployment<'_>,
        watch: &AuthWatch,
    ) -> Result<(), Error> {
        let policy = self.policy.load_full();
        let permissions = permissions(watch.caller());
        let verdict = policy::verdict(&policy, who(watch.caller(), &permissions), asked);
        let sight = before.sight(&permissions);
        self.allowed(verdict.naming_only(|id| !sight.hides(id)))
    }

    pub(super) fn allowed(&self, verdict: Verdict) -> Result<(), Error> {
        for rule in verdict.rules() {
            self.metrics.policy_violation(rule);
        }
        Ok(verdict.allowed()?)
    }
}

/// The authorization once more, right before the act: what was permitted was so by these
/// permissions, and not by those that the caller may have got since. The same of the user who
/// proposed it, if it is approved.
pub(super) fn still_permitted(
    by: &Permissions,
    watch: &mut AuthWatch,
    approval: Option<&Approval>,
) -> Result<(), Error> {
    watch.check()?;
    if permissions(watch.caller()) != *by {
        return Err(Lapsed::Permission.into());
    }
    Ok(approval.map_or(Ok(()), Approval::still_permitted)?)
}

pub(super) fn who<'a>(caller: Option<&'a Caller>, permissions: &'a Permissions) -> Who<'a> {
    Who {
        user: caller.map_or("", |caller| &caller.user),
        permissions,
    }
}

/// Those of the caller; without one, none.
pub(super) fn permissions(caller: Option<&Caller>) -> Permissions {
    caller.map_or_else(
        || Permissions::of(Arc::from([])),
        |caller| caller.permissions.clone(),
    )
}
