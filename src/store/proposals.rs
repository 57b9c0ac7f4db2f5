//! Changes that wait for the approval of a second user, and what became of them.

use super::credentials;
use super::disk::Disk;
use super::{Error, Store, load};
use crate::config;
use flows::{Credentials, FlowSet};

/// The decided proposals of a runtime that are kept. Our choice: what users look back at; the audit
/// log has all.
const DECIDED_KEPT: usize = 100;

/// The state of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalState {
    /// It waits for approval.
    Open,
    /// It was approved and deployed.
    Approved,
    /// It was rejected.
    Rejected,
    /// Its user has taken it back.
    Withdrawn,
    /// It was open for too long.
    Expired,
}

/// A proposal, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// Its number; no two ever have the same.
    pub number: u64,
    /// The runtime that it is for: an upstream's name; empty: the own engine.
    pub runtime: String,
    /// Its state.
    pub state: ProposalState,
    /// The user who has proposed it.
    pub user: String,
    /// The user whose share it takes and who may not approve it: of one by a service token, the
    /// user who made that token.
    pub owner: String,
    /// How the user was identified, as in the audit log.
    pub how: String,
    /// The client's address; empty: none.
    pub address: String,
    /// Seconds since 1970.
    pub at: u64,
    /// When it expires, seconds since 1970.
    pub expires: u64,
    /// The deployment type.
    pub kind: String,
    /// The message of its user; empty: none.
    pub message: String,
    /// The revision that it changes.
    pub base: String,
    /// The user who has decided; empty: none.
    pub decided_by: String,
    /// When, in seconds since 1970.
    pub decided_at: Option<u64>,
    /// The reason of a rejection; empty: none.
    pub reason: String,
    /// The revision as which it was deployed; empty: none.
    pub rev: String,
}

/// A proposal to be kept.
#[derive(Debug)]
pub struct NewProposal {
    /// Number, state and decision do not count.
    pub entry: Proposal,
    /// The flow set that it changes, as JSON.
    pub before: String,
    /// The flow set to be active, as JSON.
    pub after: String,
    /// The credentials that are merged with those that are kept.
    pub credentials: Credentials,
    /// The credentials that replace those of their nodes.
    pub replacing: Credentials,
}

/// A proposal that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It is new, with this number.
    New(u64),
    /// The same change of the same user is open already, with this number.
    Same(u64),
}

/// The content of a proposal.
#[derive(Debug)]
pub struct ProposalContent {
    /// The flow set that it changes, as JSON.
    pub before: String,
    /// The flow set to be active, as JSON.
    pub after: String,
    /// The credentials that are merged with those that are kept, and those that replace them; both
    /// are empty once it is decided. `None`: no secret that flowgate has now decrypts them.
    pub credentials: Option<(Credentials, Credentials)>,
}

/// The decision about an open proposal.
#[derive(Debug)]
pub struct Decision {
    /// Its new state.
    pub state: ProposalState,
    /// The user; empty: the program.
    pub by: String,
    /// Seconds since 1970.
    pub at: u64,
    /// The reason; empty: none.
    pub reason: String,
    /// The revision deployed; empty: none.
    pub rev: String,
}

/// The proposals to be listed.
#[derive(Debug)]
pub struct ProposalFilter {
    /// Those for this runtime.
    pub runtime: String,
    /// Only those in this state.
    pub state: Option<ProposalState>,
    /// Only those with a lower number.
    pub before: Option<u64>,
    /// The most entries.
    pub limit: usize,
}

/// The limit that one more open proposal would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooMany {
    /// The number of one user.
    #[error("you have {0} open proposals, and no user may have more: withdraw one first")]
    OfUser(usize),
    /// The number in all.
    #[error("{0} proposals are open, and more may not be: one must be decided first")]
    InAll(usize),
    /// The bytes of one user.
    #[error(
        "your open proposals would have more than {0} bytes: withdraw one first, or propose less"
    )]
    BytesOfUser(usize),
    /// The bytes in all.
    #[error("the open proposals would have more than {0} bytes: one must be decided first")]
    BytesInAll(usize),
}

/// All states.
const STATES: [ProposalState; 5] = [
    ProposalState::Open,
    ProposalState::Approved,
    ProposalState::Rejected,
    ProposalState::Withdrawn,
    ProposalState::Expired,
];

impl ProposalState {
    /// Its name for clients and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Withdrawn => "withdrawn",
            Self::Expired => "expired",
        }
    }

    /// The state of this name.
    pub fn of(name: &str) -> Option<Self> {
        STATES.into_iter().find(|state| state.name() == name)
    }
}

impl ProposalContent {
    /// Both flow sets, parsed: the one that it changes, and the one to be active.
    pub fn sets(&self) -> Result<(FlowSet, FlowSet), Error> {
        let parsed = |text: &str| load::parse(text.as_bytes());
        Ok((parsed(&self.before)?, parsed(&self.after)?))
    }
}

impl Store {
    /// Keeps a proposal within the limits, unless its user has the same one open: of this type and
    /// base, and with these flows and credentials.
    pub async fn add_proposal(
        &self,
        new: NewProposal,
        limits: config::Approval,
    ) -> Result<Result<Added, TooMany>, Error> {
        self.owner
            .ask(move |disk| disk.add_proposal(&new, &limits))
            .await
    }

    /// Takes out a proposal that was not recorded.
    pub async fn remove_proposal(&self, number: u64) -> Result<(), Error> {
        self.owner
            .ask(move |disk| disk.database.remove_proposal(number))
            .await
    }

    /// Proposals, newest first.
    pub async fn proposals(&self, filter: ProposalFilter) -> Result<Vec<Proposal>, Error> {
        self.owner
            .ask(move |disk| disk.database.proposals(&filter))
            .await
    }

    /// One proposal for a runtime; `None`: there is none.
    pub async fn proposal(&self, runtime: &str, number: u64) -> Result<Option<Proposal>, Error> {
        let runtime = runtime.to_owned();
        self.owner
            .ask(move |disk| disk.database.proposal(&runtime, number))
            .await
    }

    /// Its content, which it must have.
    pub async fn proposal_content(&self, number: u64) -> Result<ProposalContent, Error> {
        self.owner
            .ask(move |disk| disk.proposal_content(number))
            .await
    }

    /// Decides a proposal, whose credentials are forgotten; answers whether it was open.
    pub async fn decide_proposal(&self, number: u64, decision: Decision) -> Result<bool, Error> {
        self.owner
            .ask(move |disk| {
                disk.database
                    .decide_proposal(number, &decision, DECIDED_KEPT)
            })
            .await
    }

    /// Gives an open proposal another base.
    pub async fn rebase_proposal(
        &self,
        number: u64,
        base: String,
        before: String,
        after: String,
    ) -> Result<(), Error> {
        let rebase = move |disk: &mut Disk| {
            let database = &mut disk.database;
            database.rebase_proposal(number, &base, &before, &after)
        };
        self.owner.ask(rebase).await
    }

    /// Closes the open proposals that have expired, and returns them. `now`: seconds since 1970.
    pub async fn expire_proposals(&self, now: u64) -> Result<Vec<Proposal>, Error> {
        self.owner
            .ask(move |disk| disk.database.expire_proposals(now))
            .await
    }
}

impl Disk {
    fn add_proposal(
        &mut self,
        new: &NewProposal,
        limits: &config::Approval,
    ) -> Result<Result<Added, TooMany>, Error> {
        if let Some(number) = self.same_proposal(new)? {
            return Ok(Ok(Added::Same(number)));
        }
        let sealed = [&new.credentials, &new.replacing].map(|sent| self.seal(sent));
        let [credentials, replacing] = sealed;
        let (credentials, replacing) = (credentials?, replacing?);
        let secret = |file: &Option<Vec<u8>>| file.as_ref().map_or(0, Vec::len);
        let sets = new.before.len() + new.after.len();
        let bytes = sets + secret(&credentials) + secret(&replacing);
        if let Some(too_many) = self.exceeded(&new.entry, bytes, limits)? {
            return Ok(Err(too_many));
        }
        let number =
            self.database
                .add_proposal(new, bytes, credentials.as_deref(), replacing.as_deref())?;
        Ok(Ok(Added::New(number)))
    }

    /// The open proposal that is this one.
    fn same_proposal(&self, new: &NewProposal) -> Result<Option<u64>, Error> {
        for number in self.database.proposals_like(&new.entry, &new.after)? {
            let kept = self.proposal_content(number)?.credentials;
            let is_same =
                |(merged, replacing)| merged == new.credentials && replacing == new.replacing;
            if kept.is_some_and(is_same) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// The limit that a proposal of this size exceeds.
    fn exceeded(
        &self,
        entry: &Proposal,
        bytes: usize,
        limits: &config::Approval,
    ) -> Result<Option<TooMany>, Error> {
        let all = self.database.open_proposals(&entry.runtime, None)?;
        let own = self
            .database
            .open_proposals(&entry.runtime, Some(&entry.owner))?;
        Ok(if own.0 >= limits.per_user {
            Some(TooMany::OfUser(own.0))
        } else if all.0 >= limits.open {
            Some(TooMany::InAll(all.0))
        } else if own.1.saturating_add(bytes) > limits.bytes_per_user {
            Some(TooMany::BytesOfUser(limits.bytes_per_user))
        } else if all.1.saturating_add(bytes) > limits.bytes {
            Some(TooMany::BytesInAll(limits.bytes))
        } else {
            None
        })
    }

    /// Credentials as the credentials file has them; `None`: there are none.
    fn seal(&self, sent: &Credentials) -> Result<Option<Vec<u8>>, Error> {
        if sent.nodes.is_empty() {
            return Ok(None);
        }
        let secret = match self.secrets()?.into_iter().next() {
            Some(secret) => secret,
            None => credentials::make_secret(&self.directory)?,
        };
        credentials::seal(sent, &secret).map(Some)
    }

    fn proposal_content(&self, number: u64) -> Result<ProposalContent, Error> {
        let stored = self.database.proposal_content(number)?;
        let secrets = self.secrets()?;
        let opened = |file: Option<Vec<u8>>| match file {
            None => Some(Credentials::default()),
            Some(file) => credentials::open(&file, &secrets).map(|opened| opened.credentials),
        };
        Ok(ProposalContent {
            before: stored.before,
            after: stored.after,
            credentials: opened(stored.credentials).zip(opened(stored.replacing)),
        })
    }
}
