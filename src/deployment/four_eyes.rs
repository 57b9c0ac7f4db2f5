//! Four eyes: a change that needs approval becomes a proposal instead of a deployment, and a
//! proposal that another user approves becomes one.
//!
//! All of it happens under the deploy lock, so a proposal is decided once.

use super::approval::{Approval, may_approve};
use super::permit::{permissions, still_permitted, who};
use super::proposal_error::ProposalError;
use super::{Authorized, Deployments, Error, name};
use crate::audit::Event;
use crate::auth::Permissions;
use crate::policy::{self, Deployment, Verdict, WRITE, Who};
use crate::store::{Added, Decision, NewProposal, Proposal, ProposalState};
use flows::{Credentials, DeploymentType};
use serde_json::json;

/// The credentials of a submission.
#[derive(Debug, Default)]
pub(super) struct SentCredentials {
    /// Those that are merged with those that are kept.
    pub(super) merged: Credentials,
    /// Those that replace them.
    pub(super) replacing: Credentials,
}

/// A change that is about to be deployed.
pub(super) struct Draft<'a> {
    /// The revision that it changes.
    pub(super) base: &'a str,
    /// Its deployment type.
    pub(super) kind: DeploymentType,
    /// The change, as the policy sees it.
    pub(super) asked: Deployment<'a>,
    /// Its credentials.
    pub(super) sent: &'a SentCredentials,
}

impl Deployments {
    /// Lets a change go on that needs no approval or has one. Any other becomes a proposal, which
    /// is the error. `judged`: the permissions by which the policy has allowed it.
    pub(super) async fn four_eyes(
        &self,
        draft: Draft<'_>,
        judged: &Permissions,
        by: &mut Authorized<'_>,
    ) -> Result<(), Error> {
        if let Some(approval) = by.approval {
            may_approve(by.watch.caller(), &approval.proposal)?;
            self.proposer_may(approval, &draft.asked)?;
            return self.is_unchanged(&approval.proposal, by.now).await;
        }
        let caller = permissions(by.watch.caller());
        let policy = self.policy.load_full();
        let needed = policy::needs_approval(&policy, who(by.watch.caller(), &caller), &draft.asked);
        let Some(needed) = needed else {
            return Ok(());
        };
        if by.actor.user.is_empty() {
            return self.allowed(Verdict(vec![policy::unproposable(needed)]));
        }
        still_permitted(judged, by.watch, None)?;
        Err(self.propose(&draft, by).await?)
    }

    /// Keeps a change as a proposal. One that the user has proposed already is that proposal.
    async fn propose(&self, draft: &Draft<'_>, by: &Authorized<'_>) -> Result<Error, Error> {
        let (actor, now) = (by.actor, by.now);
        let limits = self.policy.load().approval.clone();
        let entry = Proposal {
            number: 0,
            runtime: self.runtime_name().to_owned(),
            state: ProposalState::Open,
            user: actor.user.clone(),
            owner: by.owner().to_owned(),
            how: actor.by.clone(),
            address: actor.address.map_or_else(String::new, |a| a.to_string()),
            at: now,
            expires: now.saturating_add(limits.lifetime.as_secs()),
            kind: name(draft.kind).to_owned(),
            base: draft.base.to_owned(),
            message: by.message.to_owned(),
            decided_by: String::new(),
            decided_at: None,
            reason: String::new(),
            rev: String::new(),
        };
        let mut facts = json!({ "type": entry.kind, "base": entry.base });
        if !entry.message.is_empty() {
            facts["message"] = entry.message.as_str().into();
        }
        let new = NewProposal {
            entry,
            before: draft.asked.before.to_json(),
            after: draft.asked.after.to_json(),
            credentials: draft.sent.merged.clone(),
            replacing: draft.sent.replacing.clone(),
        };
        let added = self.store.add_proposal(new, limits).await;
        let number = match added.map_err(Error::Store)?.map_err(ProposalError::from)? {
            Added::New(number) => number,
            Added::Same(number) => return Ok(Error::Proposed(number)),
        };
        facts["proposal"] = number.into();
        self.name_upstream(&mut facts);
        let recorded = self.audit.durable(Event::Propose, actor, now, facts).await;
        if let Err(unavailable) = recorded {
            let removed = self.store.remove_proposal(number).await;
            if let Err(error) = removed {
                tracing::error!(%error, number, "a proposal that could not be recorded stays open");
            }
            return Err(unavailable.into());
        }
        Ok(Error::Proposed(number))
    }

    /// Refuses a proposal whose user may not change this any more. Types that the runtime lacks
    /// were checked before.
    fn proposer_may(&self, approval: &Approval, asked: &Deployment<'_>) -> Result<(), Error> {
        let who = Who {
            user: &approval.proposal.user,
            permissions: &approval.judged,
        };
        let asked = Deployment {
            types: None,
            ..*asked
        };
        let verdict = policy::verdict(&self.policy.load(), who, &asked);
        if approval.judged.cover_some(WRITE) && verdict.0.is_empty() {
            return Ok(());
        }
        Err(ProposalError::Proposer {
            user: approval.proposal.user.clone(),
            reason: verdict,
        }
        .into())
    }

    /// Refuses a proposal that was decided, has expired or got another base since the approval
    /// began.
    async fn is_unchanged(&self, proposal: &Proposal, now: u64) -> Result<(), Error> {
        let current = self.open_proposal(proposal.number, now).await?;
        if current.base == proposal.base {
            Ok(())
        } else {
            Err(ProposalError::Rebased.into())
        }
    }

    /// Closes the proposal that was deployed, if it was one. It has happened: a failure is logged,
    /// and the proposal is stale.
    pub(super) async fn close_approved(&self, rev: &str, by: &Authorized<'_>) {
        let Some(approval) = by.approval else { return };
        let number = approval.proposal.number;
        let decision = Decision {
            state: ProposalState::Approved,
            by: by.actor.user.clone(),
            at: by.now,
            reason: String::new(),
            rev: rev.to_owned(),
        };
        if let Err(error) = self.store.decide_proposal(number, decision).await {
            tracing::error!(%error, number, "a proposal that is deployed stays open");
        }
        let mut facts = json!({ "rev": rev });
        approval.name_in(&mut facts);
        self.name_upstream(&mut facts);
        self.audit
            .record(Event::ProposalApprove, by.actor, by.now, facts);
    }
}
