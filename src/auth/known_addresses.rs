//! The addresses from which users have signed in before: a guesser elsewhere does not slow them down.
//!
//! Pure: the time is an argument. Bounded: only a right password adds an address, and the newest of each user are kept.

use super::throttle::{Pair, UserKey};
use crate::store::AddressRow;
use std::collections::HashMap;

/// How long an address stays known after the last sign-in from there: 90 days. Our choice: a user back from a long
/// leave is still known.
pub(super) const KNOWN_FOR: u64 = 90 * DAY;

/// Addresses of one user. Our choice: more than one person or a few programs use in that time.
pub(super) const PER_USER: usize = 64;

/// An address that is used again is written down again after a day, so that not every sign-in is a write.
const REFRESH: u64 = DAY;

const DAY: u64 = 24 * 60 * 60;

/// When each user last signed in from where.
#[derive(Default)]
pub(super) struct KnownAddresses(HashMap<UserKey, Vec<(Pair, u64)>>);

impl KnownAddresses {
    /// Takes up what the store kept. A time in the future (the clock was set back) counts as now.
    pub(super) fn remember(&mut self, rows: &[AddressRow], now: u64) {
        for row in rows {
            if let Some(pair) = Pair::parse(&row.user, &row.address) {
                self.add(pair, row.at.min(now));
            }
        }
    }

    pub(super) fn contains(&self, pair: &Pair, now: u64) -> bool {
        self.last(pair)
            .is_some_and(|at| at.saturating_add(KNOWN_FOR) > now)
    }

    /// A sign-in has succeeded. Returns whether that is to be written down.
    pub(super) fn succeeded(&mut self, pair: Pair, now: u64) -> bool {
        let fresh = self
            .last(&pair)
            .is_some_and(|at| at.saturating_add(REFRESH) > now);
        if !fresh {
            self.add(pair, now);
        }
        !fresh
    }

    /// Forgets addresses that were not used for too long.
    pub(super) fn sweep(&mut self, now: u64) {
        self.0.retain(|_, addresses| {
            addresses.retain(|(_, at)| at.saturating_add(KNOWN_FOR) > now);
            !addresses.is_empty()
        });
    }

    fn last(&self, pair: &Pair) -> Option<u64> {
        let addresses = self.0.get(&pair.user)?;
        let known = addresses.iter().find(|(other, _)| other == pair)?;
        Some(known.1)
    }

    fn add(&mut self, pair: Pair, at: u64) {
        let addresses = self.0.entry(pair.user).or_default();
        addresses.retain(|(other, _)| *other != pair);
        if addresses.len() >= PER_USER {
            let oldest = addresses.iter().enumerate().min_by_key(|(_, (_, at))| *at);
            if let Some((index, _)) = oldest {
                addresses.swap_remove(index);
            }
        }
        addresses.push((pair, at));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn pair(user: &str, address: &str) -> Pair {
        Pair::new(user, address.parse().unwrap())
    }

    #[test]
    fn an_address_is_known_to_its_user_only_and_for_90_days() {
        let mut known = KnownAddresses::default();
        let ann = pair("ann", "192.0.2.1");
        assert!(known.succeeded(ann, 100));
        assert!(known.contains(&ann, 100 + KNOWN_FOR - 1));
        assert!(!known.contains(&ann, 100 + KNOWN_FOR));
        assert!(!known.contains(&pair("bob", "192.0.2.1"), 100));
        assert!(!known.contains(&pair("ann", "192.0.2.2"), 100));
        known.sweep(100 + KNOWN_FOR);
        assert!(known.0.is_empty());
    }

    #[test]
    fn an_address_is_written_down_once_a_day() {
        let mut known = KnownAddresses::default();
        let ann = pair("ann", "192.0.2.1");
        assert!(known.succeeded(ann, 0));
        assert!(!known.succeeded(ann, DAY - 1));
        assert!(known.succeeded(ann, DAY));
        assert!(known.contains(&ann, DAY + KNOWN_FOR - 1));
    }

    #[test]
    fn the_newest_addresses_of_each_user_are_kept() {
        let mut known = KnownAddresses::default();
        let ann = |n: u32| Pair::new("ann", IpAddr::V4(n.into()));
        let many = u32::try_from(PER_USER).unwrap();
        for n in 0..=many {
            known.succeeded(ann(n), n.into());
        }
        let now = many.into();
        assert!(!known.contains(&ann(0), now), "the oldest");
        assert!((1..=many).all(|n| known.contains(&ann(n), now)));
        assert_eq!(known.0[&ann(0).user].len(), PER_USER);
    }

    #[test]
    fn rows_are_read_back_and_odd_ones_are_skipped() {
        let mut known = KnownAddresses::default();
        let ann = pair("ann", "2001:db8::1");
        let odd = AddressRow {
            address: "nowhere".into(),
            ..ann.address_row(5)
        };
        known.remember(&[odd, ann.address_row(500)], 100);
        assert!(known.contains(&pair("ann", "2001:db8::2"), 100 + KNOWN_FOR - 1));
        assert!(
            !known.contains(&ann, 100 + KNOWN_FOR),
            "not from the future"
        );
    }
}
