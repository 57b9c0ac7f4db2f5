//! Why a proposal cannot be made or decided, in sentences for its users.

use crate::policy::Verdict;
use crate::store::{ProposalState, TooMany};
use flows::RebaseError;
use smol_str::SmolStr;

/// Why a proposal cannot be made or decided.
#[derive(Debug, thiserror::Error)]
pub enum ProposalError {
    /// There is none of this number.
    #[error("there is no such proposal")]
    NoSuch,
    /// It was decided.
    #[error("the proposal is not open any more: it is {}", .0.name())]
    Closed(ProposalState),
    /// It got another base while it was approved.
    #[error("the proposal was rebased at the same time: read it again")]
    Rebased,
    /// The active flow set has other changes of these elements.
    #[error("the active flows have other changes of the same elements: {}; propose the change anew", list(.0))]
    Conflicts(Vec<SmolStr>),
    /// With its changes the active flows are none.
    #[error("the proposal cannot be rebased: {0}")]
    Malformed(flows::Malformed),
    /// It is approved by its own user.
    #[error("a proposal is approved by another user than the one who made it")]
    Own,
    /// It is approved by a service token, or by an anonymous caller.
    #[error("a proposal is approved by a user, not by a service token or an anonymous caller")]
    NoUser,
    /// The user who made it may not do this any more.
    #[error("{user}, who proposed it, may not change this any more{}", because(.reason))]
    Proposer {
        /// The user.
        user: String,
        /// The rules; empty: the user is gone, or may change nothing.
        reason: Verdict,
    },
    /// Another user's.
    #[error("only the user who made the proposal may do that; others can reject it")]
    NotYours,
    /// A limit.
    #[error(transparent)]
    TooMany(#[from] TooMany),
    /// Its credentials cannot be decrypted.
    #[error("the credentials of the proposal cannot be decrypted: propose it anew")]
    Locked,
}

/// The ids that a message shows. Our choice, as for policies.
const NAMED: usize = 5;

fn list(ids: &[SmolStr]) -> String {
    let named: Vec<&str> = ids.iter().take(NAMED).map(SmolStr::as_str).collect();
    match ids.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn because(reason: &Verdict) -> String {
    if reason.0.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    }
}

impl From<RebaseError> for ProposalError {
    fn from(error: RebaseError) -> Self {
        match error {
            RebaseError::Conflicts(ids) => Self::Conflicts(ids),
            RebaseError::Malformed(malformed) => Self::Malformed(malformed),
        }
    }
}
