//! Permissions that a caller has and may not use at the moment: from another network, or without a
//! recent second factor.

use super::permission::{covers, part_of, parts_overlap};
use crate::config::{Conditions, Networks};
use smol_str::SmolStr;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A permission that is withheld.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Withheld {
    /// Its name, which also covers others (`write`, `*`).
    name: SmolStr,
    /// Why.
    reason: WithheldReason,
}

/// Why a permission is withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WithheldReason {
    /// The client's address is in none of the networks of the permission.
    Network,
    /// The second factor was given for longer ago than this.
    SecondFactorOld(Duration),
    /// There is no second factor.
    NoSecondFactor,
}

impl Withheld {
    /// Why a permission is withheld by one of these, of one for some flows for any of them; `None`:
    /// it is not, or the permission is for all flows and withheld for some only.
    pub(super) fn find(list: &[Self], need: &str) -> Option<WithheldReason> {
        let covering = |withheld: &&Self| {
            covers(std::slice::from_ref(&withheld.name), need)
                || parts_overlap(&withheld.name, need)
        };
        list.iter().find(covering).map(|withheld| withheld.reason)
    }

    /// The same for the flows that fit, of a permission that can be limited to flows.
    pub(super) fn find_part(
        list: &[Self],
        need: &str,
        fits: impl Fn(&str) -> bool,
    ) -> Option<WithheldReason> {
        let fitting = |withheld: &&Self| part_of(&withheld.name, need).is_some_and(&fits);
        list.iter().find(fitting).map(|withheld| withheld.reason)
    }

    /// Those of a caller at this address and time, who has given a second factor at the time
    /// `factor`.
    pub(super) fn of(
        conditions: &Conditions,
        factor: Option<u64>,
        address: IpAddr,
        now: u64,
    ) -> Arc<[Self]> {
        let outside = |networks: &Arc<Networks>| !networks.contains(address);
        let networks = conditions.networks.iter();
        let networks = networks.filter(|(_, networks)| outside(networks));
        let networks = networks.map(|(name, _)| Self {
            name: SmolStr::new(name),
            reason: WithheldReason::Network,
        });
        let after = conditions.step_up_after;
        let lacks = match factor {
            None => Some(WithheldReason::NoSecondFactor),
            Some(given) if now.saturating_sub(given) < after.as_secs() => None,
            Some(_) => Some(WithheldReason::SecondFactorOld(after)),
        };
        let stepped = conditions.step_up.iter().filter_map(|name| {
            Some(Self {
                name: SmolStr::new(name),
                reason: lacks?,
            })
        });
        networks.chain(stepped).collect()
    }
}
