//! `approve` of `[policy]`, and the limits of the proposals that wait for approval.

use super::error::SpannedError;
use super::raw;
use super::setting::{Source, number};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);
const YEAR: Duration = Duration::from_hours(366 * 24);
const MIB: usize = 1 << 20;

/// The flows whose changes need a second user, and the limits of what waits for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Patterns of flows as in the permission `flows.write:FLOW`; `*`: every change. None: no
    /// change needs approval.
    pub flows: Vec<String>,
    /// How long a proposal is open.
    pub lifetime: Duration,
    /// The most open proposals of one user.
    pub per_user: usize,
    /// The most open proposals.
    pub open: usize,
    /// The most bytes of the open proposals of one user: their flow sets, before and after, and
    /// their credentials.
    pub bytes_per_user: usize,
    /// The same of all open proposals.
    pub bytes: usize,
}

impl Default for Approval {
    /// The lifetime is a working week with its week-end; the others are our choice: more than
    /// people can look at.
    fn default() -> Self {
        Self {
            flows: Vec::new(),
            lifetime: DAY * 7,
            per_user: 10,
            open: 100,
            bytes_per_user: 32 * MIB,
            bytes: 128 * MIB,
        }
    }
}

/// Converts the keys of a policy.
pub(super) fn approval(raw: &raw::Policy, source: &Source<'_>) -> Result<Approval, SpannedError> {
    const FLOW: &str = "the id or label of a flow, such as \"Line*\", or \"*\" for every change";
    let usual = Approval::default();
    let name = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let count = |entry: &raw::Entry, usual| number(entry.clone(), usual, 1..=100_000);
    let size = |entry: &raw::Entry, usual| source.size(entry.clone(), usual, 1..=1 << 40);
    Ok(Approval {
        flows: source
            .list(raw.approve.clone(), FLOW, name)?
            .unwrap_or_default(),
        lifetime: source.duration(raw.proposal_lifetime.clone(), usual.lifetime, SECOND..=YEAR)?,
        per_user: count(&raw.max_proposals_per_user, usual.per_user)?,
        open: count(&raw.max_proposals, usual.open)?,
        bytes_per_user: size(&raw.max_proposal_bytes_per_user, usual.bytes_per_user)?,
        bytes: size(&raw.max_proposal_bytes, usual.bytes)?,
    })
}
