//! The addresses from which users have signed in before: a guesser elsewhere does not slow them
//! down.
//!
//! Pure: the time is an argument. Bounded: only a right password adds an address, and the newest of
//! each user are kept.

use super::pair::{Pair, UserKey};
use super::sync_shim::DashMap;
use crate::store::AddressRow;
use limits::ip_prefix::IpPrefix;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The time for which an address stays known after the last sign-in from it: 90 days. Our choice: a
/// user back from a long leave is still known.
pub(super) const KNOWN_FOR: u64 = 90 * DAY;

/// Addresses of one user. Our choice: more than one person or a few programs use in that time.
pub(super) const PER_USER: usize = 64;

/// An address that is used again is written down again after a day, so that not every sign-in is a
/// write.
const REFRESH: u64 = DAY;

const DAY: u64 = 24 * 60 * 60;

/// When each user last signed in from where.
#[derive(Default)]
pub(super) struct KnownAddresses {
    users: HashMap<UserKey, Vec<(Pair, u64)>>,
    prefixes: KnownPrefixes,
}

/// The prefixes from which any user has signed in, each with the number of users. Readable without
/// the throttle's lock; clones share it.
#[derive(Clone, Default)]
pub(super) struct KnownPrefixes(Arc<DashMap<IpPrefix, usize>>);

impl KnownPrefixes {
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.0.contains_key(&IpPrefix::of(address))
    }

    fn add(&self, prefix: IpPrefix) {
        *self.0.entry(prefix).or_insert(0) += 1;
    }

    fn remove(&self, prefix: IpPrefix) {
        self.0.remove_if_mut(&prefix, |_, users| {
            *users = users.saturating_sub(1);
            *users == 0
        });
    }
}

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
        let prefixes = &self.prefixes;
        self.users.retain(|_, addresses| {
            addresses.retain(|(pair, at)| {
                let known = at.saturating_add(KNOWN_FOR) > now;
                if !known {
                    prefixes.remove(pair.prefix);
                }
                known
            });
            !addresses.is_empty()
        });
    }

    /// The prefixes of all users.
    pub(super) fn prefixes(&self) -> KnownPrefixes {
        self.prefixes.clone()
    }

    fn last(&self, pair: &Pair) -> Option<u64> {
        let addresses = self.users.get(&pair.user)?;
        let known = addresses.iter().find(|(other, _)| other == pair)?;
        Some(known.1)
    }

    fn add(&mut self, pair: Pair, at: u64) {
        let addresses = self.users.entry(pair.user).or_default();
        if let Some((_, last)) = addresses.iter_mut().find(|(other, _)| *other == pair) {
            *last = at;
            return;
        }
        if addresses.len() >= PER_USER {
            let oldest = addresses.iter().enumerate().min_by_key(|(_, (_, at))| *at);
            if let Some((index, _)) = oldest {
                let (forgotten, _) = addresses.swap_remove(index);
                self.prefixes.remove(forgotten.prefix);
            }
        }
        addresses.push((pair, at));
        self.prefixes.add(pair.prefix);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

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
        assert!(known.users.is_empty() && known.prefixes.0.is_empty());
    }

    #[test]
    fn a_prefix_is_known_as_long_as_any_user_has_it() {
        let mut known = KnownAddresses::default();
        let prefixes = known.prefixes();
        let has = |address: &str| prefixes.contains(address.parse().unwrap());
        known.succeeded(pair("ann", "2001:db8::1"), 0);
        known.succeeded(pair("ann", "2001:db8::2"), DAY);
        known.succeeded(pair("bob", "2001:db8::3"), 2 * DAY);
        assert!(has("2001:db8::9") && !has("2001:db8:0:1::1"));
        known.sweep(DAY + KNOWN_FOR);
        assert!(has("2001:db8::9"), "bob's");
        known.sweep(2 * DAY + KNOWN_FOR);
        assert!(!has("2001:db8::9"));
    }

    #[test]
    fn a_known_address_is_saved_at_most_once_a_day() {
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
        assert_eq!(known.users[&ann(0).user].len(), PER_USER);
        assert_eq!(known.prefixes.0.len(), PER_USER);
    }

    #[test]
    fn rows_are_read_back_and_invalid_ones_are_skipped() {
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
