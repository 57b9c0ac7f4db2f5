//! Proposals: changes that wait for the approval of another user. Reads, rejects, withdraws,
//! rebases and expires them; [`super::four_eyes`] makes and approves them.

use super::approval::Approval;
use super::permit::permissions;
use super::proposal_error::ProposalError;
use super::{Authorized, Deployments, Error};
use crate::audit::{Actor, Audit, Event};
use crate::auth::Permissions;
use crate::policy::APPROVE;
use crate::store::{self, Decision, Proposal, ProposalContent, ProposalState, Store};
use flows::{Side, Submission, rebase};
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::collections::HashSet;

/// The end of an open proposal that is not deployed.
#[derive(Debug)]
pub enum Closing {
    /// A user who may approve it rejects it, for a reason.
    Reject(String),
    /// The user who made it takes it back.
    Withdraw,
}

impl Deployments {
    /// The name under which the store has the proposals for this runtime.
    pub fn runtime_name(&self) -> &str {
        let upstream = self.runtime.upstream();
        upstream.map_or("", crate::upstream::Upstream::name)
    }

    /// One proposal.
    pub async fn proposal(&self, number: u64) -> Result<Proposal, Error> {
        let found = self.store.proposal(self.runtime_name(), number).await;
        Ok(found.map_err(Error::Store)?.ok_or(ProposalError::NoSuch)?)
    }

    /// The same, if it is open.
    pub(super) async fn open_proposal(&self, number: u64, now: u64) -> Result<Proposal, Error> {
        let proposal = self.proposal(number).await?;
        let state = match proposal.state {
            ProposalState::Open if proposal.expires <= now => ProposalState::Expired,
            state => state,
        };
        if state == ProposalState::Open {
            Ok(proposal)
        } else {
            Err(ProposalError::Closed(state).into())
        }
    }

    /// The content of a proposal.
    pub async fn proposal_content(&self, number: u64) -> Result<ProposalContent, Error> {
        let content = self.store.proposal_content(number).await;
        content.map_err(Error::Store)
    }

    /// Begins the approval of an open proposal: it, and what is to be deployed. `permissions` gives
    /// those of a user.
    pub async fn approval(
        &self,
        number: u64,
        now: u64,
        permissions: impl Fn(&str) -> Option<Permissions> + Send + Sync + 'static,
    ) -> Result<(Approval, Submission), Error> {
        let proposal = self.open_proposal(number, now).await?;
        let content = self.proposal_content(number).await?;
        let (_, flows) = content.sets().map_err(Error::Store)?;
        let (credentials, replacing) = content.credentials.ok_or(ProposalError::Locked)?;
        let submission = Submission {
            flows,
            credentials,
            replacing,
            rev: Some(proposal.base.clone()),
        };
        let user = proposal.user.clone();
        let approval = Approval::begin(proposal, move || permissions(&user))?;
        Ok((approval, submission))
    }

    /// Ends an open proposal without deploying it.
    pub async fn close_proposal(
        &self,
        number: u64,
        closing: Closing,
        Authorized {
            actor, watch, now, ..
        }: Authorized<'_>,
    ) -> Result<(), Error> {
        let _lock = self.turn_of(watch).await?;
        let proposal = self.open_proposal(number, now).await?;
        let (event, state, reason) = match closing {
            Closing::Reject(reason) => (Event::ProposalReject, ProposalState::Rejected, reason),
            Closing::Withdraw if proposal.user != actor.user => {
                return Err(ProposalError::NotYours.into());
            }
            Closing::Withdraw => {
                let state = ProposalState::Withdrawn;
                (Event::ProposalWithdraw, state, String::new())
            }
        };
        let mut facts = self.facts(&proposal);
        if !reason.is_empty() {
            facts["reason"] = reason.as_str().into();
        }
        self.audit.durable(event, actor, now, facts).await?;
        watch.check()?;
        let decision = Decision {
            state,
            by: actor.user.clone(),
            at: now,
            reason,
            rev: String::new(),
        };
        let decided = self.store.decide_proposal(number, decision).await;
        if decided.map_err(Error::Store)? {
            Ok(())
        } else {
            Err(ProposalError::Closed(ProposalState::Expired).into())
        }
    }

    /// Puts the changes of an open proposal onto the active flow set; answers its base.
    pub async fn rebase_proposal(
        &self,
        number: u64,
        Authorized {
            actor, watch, now, ..
        }: Authorized<'_>,
    ) -> Result<String, Error> {
        let _lock = self.turn_of(watch).await?;
        let proposal = self.open_proposal(number, now).await?;
        let approves = permissions(watch.caller()).cover(APPROVE);
        if proposal.user != actor.user && !approves {
            return Err(ProposalError::NotYours.into());
        }
        let active = self.current(watch).await?;
        let rev = active.rev.clone();
        if rev == proposal.base {
            return Ok(rev);
        }
        let content = self.proposal_content(number).await?;
        let (before, after) = content.sets().map_err(Error::Store)?;
        let sent = content.credential_ids().ok_or(ProposalError::Locked)?;
        let theirs = self
            .store
            .credentials_since(self.runtime_name(), &proposal.base);
        let theirs = theirs.await.map_err(Error::Store)?;
        let side = |flows, credentials| Side { flows, credentials };
        let (ours, theirs) = (side(&after, &sent), side(&active.flows, &theirs));
        let rebased = rebase(&before, ours, theirs).map_err(ProposalError::from)?;
        let mut facts = self.facts(&proposal);
        facts["base"] = rev.as_str().into();
        facts["before"] = proposal.base.into();
        self.audit
            .durable(Event::ProposalRebase, actor, now, facts)
            .await?;
        watch.check()?;
        let (before, after) = (active.flows.to_json(), rebased.to_json());
        let store = &self.store;
        let kept = store.rebase_proposal(number, rev.clone(), before, after);
        kept.await.map_err(Error::Store)?;
        Ok(rev)
    }

    fn facts(&self, proposal: &Proposal) -> Json {
        let mut facts = json!({ "proposal": proposal.number, "proposed_by": proposal.user });
        self.name_upstream(&mut facts);
        facts
    }

    /// Adds the upstream, if there is one, to the fields of an audit record.
    pub(super) fn name_upstream(&self, facts: &mut Json) {
        if let Some(upstream) = self.runtime.upstream() {
            facts["upstream"] = upstream.name().into();
        }
    }
}

/// Closes the proposals that have been open for too long. `now`: seconds since 1970.
pub async fn expire_proposals(store: &Store, audit: &Audit, now: u64) -> Result<(), store::Error> {
    for proposal in store.expire_proposals(now).await? {
        let mut facts = json!({ "proposal": proposal.number, "proposed_by": proposal.user });
        if !proposal.runtime.is_empty() {
            facts["upstream"] = proposal.runtime.into();
        }
        audit.record(Event::ProposalExpire, &Actor::program(), now, facts);
    }
    Ok(())
}

impl ProposalContent {
    /// The elements whose credentials are sent; `None`: they cannot be decrypted.
    pub fn credential_ids(&self) -> Option<HashSet<SmolStr>> {
        let (merged, replacing) = self.credentials.as_ref()?;
        let ids = merged.nodes.keys().chain(replacing.nodes.keys());
        Some(ids.cloned().collect())
    }
}
