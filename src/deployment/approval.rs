//! The approval of a proposal: by whom, and with whose rights.

use super::proposal_error::ProposalError;
use crate::auth::{AuthMethod, Caller, Lapsed, Permissions};
use crate::policy::Verdict;
use crate::store::{Proposal, Revision};
use serde_json::Value as Json;
use std::fmt;

/// The approval of a proposal, while it is deployed.
pub struct Approval {
    pub(super) proposal: Proposal,
    /// The permissions of the user who proposed it, at the beginning.
    pub(super) judged: Permissions,
    /// Those of now; `None`: the user is gone.
    now: Box<dyn Fn() -> Option<Permissions> + Send + Sync>,
}

impl Approval {
    /// Begins the approval of a proposal. `now` gives the permissions of its user; `None`: the user
    /// is gone.
    pub(super) fn begin(
        proposal: Proposal,
        now: impl Fn() -> Option<Permissions> + Send + Sync + 'static,
    ) -> Result<Self, ProposalError> {
        let Some(judged) = now() else {
            return Err(ProposalError::Proposer {
                user: proposal.user,
                reason: Verdict::default(),
            });
        };
        Ok(Self {
            proposal,
            judged,
            now: Box::new(now),
        })
    }

    /// Whether the user who proposed it has the same permissions still.
    pub(super) fn still_permitted(&self) -> Result<(), Lapsed> {
        if (self.now)().as_ref() == Some(&self.judged) {
            Ok(())
        } else {
            Err(Lapsed::Permission)
        }
    }

    /// Adds the proposal to the fields of an audit record.
    pub(super) fn name_in(&self, facts: &mut Json) {
        facts["proposal"] = self.proposal.number.into();
        facts["proposed_by"] = self.proposal.user.as_str().into();
    }

    /// Makes the entry of the history that of the user who proposed the change, and names the one
    /// who approved it.
    pub(super) fn sign(&self, entry: &mut Revision) {
        let (number, approver) = (self.proposal.number, std::mem::take(&mut entry.user));
        entry.message = [self.proposal.message.as_str(), &entry.message]
            .into_iter()
            .filter(|message| !message.is_empty())
            .collect::<Vec<_>>()
            .join(" / ");
        entry.how = format!(
            "{}; proposal {number}, approved by {approver} ({})",
            self.proposal.how, entry.how
        );
        entry.user.clone_from(&self.proposal.user);
        entry.address.clone_from(&self.proposal.address);
    }
}

/// Refuses an approval by the user of the proposal, or by the user who made the service token of
/// the proposal, and by callers who are no users. A service token has no user, so it could be one
/// more pair of the same eyes.
pub(super) fn may_approve(
    caller: Option<&Caller>,
    proposal: &Proposal,
) -> Result<(), ProposalError> {
    let is_user = caller.is_some_and(|caller| match &caller.known {
        AuthMethod::Anonymous | AuthMethod::Gateway => false,
        AuthMethod::Token(session) => !session.is_service_token(),
        AuthMethod::Certificate(_) => true,
    });
    if !is_user {
        return Err(ProposalError::NoUser);
    }
    let is_own = |user: &str| {
        [&proposal.user, &proposal.owner]
            .into_iter()
            .any(|own| own == user)
    };
    if caller.is_some_and(|caller| is_own(&caller.user)) {
        return Err(ProposalError::Own);
    }
    Ok(())
}

impl fmt::Debug for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approval")
            .field("proposal", &self.proposal)
            .finish_non_exhaustive()
    }
}
