//! The throttle of password guessing: failures of a user and address, of an address, and of a user,
//! each in a sliding window.
//!
//! Pure: the time is an argument, nothing is awaited or written. Failures of a user and address,
//! and of an address, count for the /64, the /56 and the /48 of an IPv6 address. Failures of a user
//! from all addresses slow down addresses that the user has not signed in from before (see
//! `user_throttle`), so a client elsewhere locks no user out.

use super::known_addresses::{KnownAddresses, KnownPrefixes};
use super::pair::Pair;
use super::user_throttle::UserThrottle;
use crate::config;
use crate::store::{AddressRow, FailureRow};
use limits::ip_prefix::IpPrefix;
use limits::sliding_window::{Refused, SlidingWindows, Window, effective_limit};
use std::time::Duration;

/// Keys remembered in each sliding window (some 10 MiB). To push out a key, an attacker has to fail
/// as often with each of that many others. At 20 ms a hash and two at a time, even one failure of
/// each IPv4 address takes 11 minutes, longer than the default window. A failure over IPv6 adds up
/// to three keys (/64, /56, /48): from 22,000 different /48s it takes 4 minutes, and keys with a
/// single failure can be pushed out within the window.
const REMEMBERED: usize = 65_536;

/// Failures of sign-in, the sign-ins under way, and the addresses of users.
pub(super) struct Throttle {
    limits: config::Throttle,
    pairs: SlidingWindows<Pair>,
    addresses: SlidingWindows<IpPrefix>,
    users: UserThrottle,
    known: KnownAddresses,
}

/// A sign-in under way. It counts as a failure until it is decided, so that concurrent ones cannot
/// exceed the limit.
#[derive(Debug)]
pub(super) struct Slot(Pair);

/// The consequences of a failure.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed {
    /// The next attempt of this user from this address is refused.
    pub(super) locked: bool,
    /// From now on the user counts as being guessed from many addresses.
    pub(super) guessed: bool,
}

/// The effects of a success that must be stored.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passed {
    /// There were failures, which do not count any more.
    pub(super) cleared: bool,
    /// The address is to be remembered as the user's.
    pub(super) remember: bool,
}

impl Throttle {
    pub(super) fn new(limits: config::Throttle) -> Self {
        Self {
            limits,
            pairs: SlidingWindows::new(REMEMBERED),
            addresses: SlidingWindows::new(REMEMBERED),
            users: UserThrottle::new(REMEMBERED),
            known: KnownAddresses::default(),
        }
    }

    /// Replaces the limits; they apply to remembered failures too.
    pub(super) fn limit(&mut self, limits: config::Throttle) {
        self.limits = limits;
    }

    /// Takes up what the store kept. A time in the future (the clock was set back) counts as now.
    pub(super) fn remember(&mut self, failures: &[FailureRow], known: &[AddressRow], now: u64) {
        for row in failures {
            if let Some(pair) = Pair::parse(&row.user, &row.address) {
                self.count(pair, row.at.min(now), now);
            }
        }
        self.known.remember(known, now);
    }

    /// The prefixes from which users have signed in before.
    pub(super) fn known_prefixes(&self) -> KnownPrefixes {
        self.known.prefixes()
    }

    /// Whether a sign-in may wait for its turn, or how long it has to stay away; and whether the
    /// user has signed in from there before. Nothing counts yet.
    pub(super) fn admit(&mut self, pair: Pair, now: u64) -> Result<bool, Duration> {
        match self.refused(pair, now) {
            Some(Refused::Blocked(wait)) => Err(wait),
            Some(Refused::Busy) | None => Ok(self.known.contains(&pair, now)),
        }
    }

    /// Begins a sign-in, unless there were too many failures. Being refused counts for nothing.
    pub(super) fn begin(&mut self, pair: Pair, now: u64) -> Result<Slot, Refused> {
        if let Some(refused) = self.refused(pair, now) {
            return Err(refused);
        }
        let window = self.window(now);
        for (prefix, _) in pair.prefix.levels() {
            self.pairs.begin(Pair { prefix, ..pair }, window);
            self.addresses.begin(prefix, window);
        }
        self.users.begin(pair.of_subscriber(), window);
        Ok(Slot(pair))
    }

    /// The sign-in failed.
    pub(super) fn failed(&mut self, slot: Slot, now: u64) -> Failed {
        let pair = self.decided(slot);
        let guessed = self.count(pair, now, now);
        Failed {
            locked: matches!(self.refused_there(pair, now), Some(Refused::Blocked(_))),
            guessed,
        }
    }

    /// The sign-in succeeded: its pair is as new, and its address is known. The failures of the
    /// address stay, else one good account would buy guesses at all others; those of the networks
    /// around it may belong to other clients.
    pub(super) fn passed(&mut self, slot: Slot, now: u64) -> Passed {
        let pair = self.decided(slot);
        Passed {
            cleared: self.pairs.clear(&pair),
            remember: self.known.succeeded(pair, now),
        }
    }

    /// The failures of a pair count no more: a sign-in at another gateway has succeeded.
    pub(super) fn clear(&mut self, pair: &Pair) {
        self.pairs.clear(pair);
    }

    /// Forgets what no longer counts.
    pub(super) fn sweep(&mut self, now: u64) {
        let window = self.window(now);
        self.pairs.sweep(window);
        self.addresses.sweep(window);
        self.users.sweep(self.limits.per_user, window);
        self.known.sweep(now);
    }

    /// Why a sign-in may not go on now.
    fn refused(&mut self, pair: Pair, now: u64) -> Option<Refused> {
        let there = self.refused_there(pair, now);
        if matches!(there, Some(Refused::Blocked(_))) || self.known.contains(&pair, now) {
            return there;
        }
        let window = self.window(now);
        let subscriber = pair.of_subscriber();
        let own = self.pairs.count(&subscriber, window);
        let limit = self.limits.per_user;
        let anywhere = self.users.refused(subscriber, own, limit, window);
        Refused::stricter(there, anywhere)
    }

    /// The same by the failures of the address. For a user who has signed in from there before,
    /// those of the networks around it do not count.
    fn refused_there(&self, pair: Pair, now: u64) -> Option<Refused> {
        let window = self.window(now);
        let levels = if self.known.contains(&pair, now) {
            1
        } else {
            usize::MAX
        };
        let refusals = pair.prefix.levels().take(levels).map(|(prefix, factor)| {
            let limit = |limit: u32| limit.saturating_mul(factor);
            let pair = Pair { prefix, ..pair };
            let of_pair = limit(self.limits.per_user_and_address);
            let of_address = limit(self.limits.per_address);
            Refused::stricter(
                self.pairs.refused(&pair, of_pair, window),
                self.addresses.refused(&prefix, of_address, window),
            )
        });
        refusals.fold(None, Refused::stricter)
    }

    fn window(&self, now: u64) -> Window {
        Window {
            length: self.limits.window.as_secs(),
            now,
        }
    }

    fn decided(&mut self, Slot(pair): Slot) -> Pair {
        for (prefix, _) in pair.prefix.levels() {
            self.pairs.decided(&Pair { prefix, ..pair });
            self.addresses.decided(&prefix);
        }
        self.users.decided(pair.user);
        pair
    }

    /// Returns whether the user counts as being guessed from now on.
    fn count(&mut self, pair: Pair, at: u64, now: u64) -> bool {
        let window = self.window(now);
        for (prefix, factor) in pair.prefix.levels() {
            let most = |limit: u32| effective_limit(limit.saturating_mul(factor));
            let of_pair = most(self.limits.per_user_and_address);
            let of_address = most(self.limits.per_address);
            let pair = Pair { prefix, ..pair };
            self.pairs.add(pair, at, of_pair, window);
            self.addresses.add(prefix, at, of_address, window);
        }
        self.users.add(pair.user, at, self.limits.per_user, window)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::time::Duration;

    fn limits(per_user_and_address: u32, per_address: u32) -> config::Throttle {
        config::Throttle {
            per_user_and_address,
            per_address,
            per_user: 1000,
            bad_tokens_per_address: 100,
            window: Duration::from_mins(10),
        }
    }

    fn pair(user: &str, address: &str) -> Pair {
        Pair::new(user, address.parse().unwrap())
    }

    fn fail(throttle: &mut Throttle, pair: Pair, now: u64) {
        let slot = throttle.begin(pair, now).unwrap();
        throttle.failed(slot, now);
    }

    fn blocked(seconds: u64) -> Refused {
        Refused::Blocked(Duration::from_secs(seconds))
    }

    #[test]
    fn the_sixth_attempt_is_refused_until_the_first_failure_leaves_the_window() {
        let mut throttle = Throttle::new(limits(5, 50));
        let ann = pair("ann", "192.0.2.1");
        for now in 1000..1005 {
            fail(&mut throttle, ann, now);
        }
        assert_eq!(throttle.begin(ann, 1005).unwrap_err(), blocked(595));
        assert_eq!(
            throttle.begin(ann, 1599).unwrap_err(),
            blocked(1),
            "asking again extends nothing"
        );
        fail(&mut throttle, ann, 1600);
        assert_eq!(
            throttle.begin(ann, 1600).unwrap_err(),
            blocked(1),
            "the second failure leaves at 1601"
        );
    }

    #[test]
    fn failures_lock_out_neither_other_addresses_nor_other_users() {
        let mut throttle = Throttle::new(limits(5, 50));
        for _ in 0..5 {
            fail(&mut throttle, pair("ann", "192.0.2.1"), 0);
        }
        assert!(throttle.begin(pair("ann", "192.0.2.1"), 0).is_err());
        assert!(throttle.begin(pair("ann", "192.0.2.2"), 0).is_ok());
        assert!(throttle.begin(pair("bob", "192.0.2.1"), 0).is_ok());
    }

    #[test]
    fn one_address_that_tries_many_users_is_refused() {
        let mut throttle = Throttle::new(limits(5, 50));
        for n in 0..50 {
            fail(&mut throttle, pair(&format!("user{n}"), "192.0.2.1"), n);
        }
        assert_eq!(
            throttle.begin(pair("ann", "192.0.2.1"), 50).unwrap_err(),
            blocked(550)
        );
        assert!(throttle.begin(pair("ann", "192.0.2.2"), 50).is_ok());
    }

    #[test]
    fn the_longer_of_two_blocks_is_reported() {
        let mut throttle = Throttle::new(limits(1, 2));
        fail(&mut throttle, pair("ann", "192.0.2.1"), 0);
        fail(&mut throttle, pair("bob", "192.0.2.1"), 100);
        assert_eq!(
            throttle.begin(pair("bob", "192.0.2.1"), 100).unwrap_err(),
            blocked(600)
        );
        assert_eq!(
            throttle.begin(pair("ann", "192.0.2.1"), 100).unwrap_err(),
            blocked(500)
        );
    }

    #[test]
    fn an_ipv6_address_counts_as_its_64_and_a_mapped_one_as_ipv4() {
        let mut throttle = Throttle::new(limits(1, 50));
        fail(&mut throttle, pair("ann", "2001:db8:0:1::1"), 0);
        assert!(
            throttle
                .begin(pair("ann", "2001:db8:0:1:ffff::2"), 0)
                .is_err()
        );
        assert!(throttle.begin(pair("ann", "2001:db8:0:2::1"), 0).is_ok());
        assert_eq!(pair("ann", "::ffff:192.0.2.1"), pair("ann", "192.0.2.1"));
    }

    #[test]
    fn a_success_clears_its_pair_but_not_its_address() {
        let mut throttle = Throttle::new(limits(3, 4));
        let ann = pair("ann", "192.0.2.1");
        fail(&mut throttle, ann, 0);
        fail(&mut throttle, ann, 0);
        let slot = throttle.begin(ann, 0).unwrap();
        let passed = throttle.passed(slot, 0);
        assert!(passed.cleared && passed.remember, "the first time");
        let slot = throttle.begin(ann, 0).unwrap();
        assert_eq!(throttle.passed(slot, 0), Passed::default());
        fail(&mut throttle, ann, 1);
        fail(&mut throttle, ann, 2);
        assert_eq!(
            throttle.begin(ann, 3).unwrap_err(),
            blocked(597),
            "four failures of the address"
        );
    }

    #[test]
    fn sign_ins_under_way_count_until_they_are_decided() {
        let mut throttle = Throttle::new(limits(5, 50));
        let ann = pair("ann", "192.0.2.1");
        let mut slots: Vec<_> = std::iter::from_fn(|| throttle.begin(ann, 0).ok()).collect();
        assert_eq!(slots.len(), 5);
        assert_eq!(throttle.begin(ann, 0).unwrap_err(), Refused::Busy);
        throttle.passed(slots.pop().unwrap(), 0);
        slots.push(throttle.begin(ann, 0).unwrap());
        for slot in slots {
            throttle.failed(slot, 0);
        }
        assert_eq!(throttle.begin(ann, 0).unwrap_err(), blocked(600));
    }

    #[test]
    fn failures_are_kept_as_rows_and_count_after_a_restart() {
        let (v4, v6) = (pair("ann", "192.0.2.1"), pair("ann", "2001:db8::1"));
        assert_eq!(v4.failure_row(7).address, "192.0.2.1");
        assert_eq!(v6.failure_row(7).address, "2001:db8::/64");
        assert!(!v4.failure_row(7).user.contains("ann"));
        let mut throttle = Throttle::new(limits(1, 50));
        throttle.remember(&[v4.failure_row(100), v6.failure_row(999)], &[], 200);
        assert_eq!(throttle.begin(v4, 200).unwrap_err(), blocked(500));
        assert_eq!(
            throttle.begin(v6, 200).unwrap_err(),
            blocked(600),
            "a time in the future is now"
        );
    }

    #[test]
    fn an_invalid_failure_row_is_skipped() {
        let mut throttle = Throttle::new(limits(1, 50));
        let row = FailureRow {
            user: "ann".into(),
            address: "nowhere".into(),
            at: 0,
        };
        throttle.remember(&[row], &[], 0);
        assert!(throttle.begin(pair("ann", "192.0.2.1"), 0).is_ok());
    }

    #[test]
    fn wider_prefixes_have_larger_limits_per_user_and_address() {
        let mut throttle = Throttle::new(limits(2, 1000));
        let ann = |network: u32| pair("ann", &format!("2001:db8:0:{network:x}::1"));
        // Each of another /64: eight of one /56, sixteen of the /48.
        for network in 0..8 {
            fail(&mut throttle, ann(network), 0);
        }
        assert_eq!(throttle.begin(ann(8), 0).unwrap_err(), blocked(600));
        for network in 0x100..0x108 {
            fail(&mut throttle, ann(network), 0);
        }
        assert_eq!(throttle.begin(ann(0x200), 0).unwrap_err(), blocked(600));
        assert!(throttle.begin(pair("ann", "2001:db8:1::1"), 0).is_ok());
        assert!(throttle.begin(pair("bob", "2001:db8::1"), 0).is_ok());
    }

    #[test]
    fn wider_prefixes_have_larger_limits_per_address() {
        let mut throttle = Throttle::new(limits(5, 2));
        let at = |n: u32| pair(&format!("user{n}"), &format!("2001:db8:0:{n:x}::1"));
        (0..8).for_each(|n| fail(&mut throttle, at(n), 0));
        assert_eq!(throttle.begin(at(8), 0).unwrap_err(), blocked(600));
        (0x100..0x108).for_each(|n| fail(&mut throttle, at(n), 0));
        assert_eq!(throttle.begin(at(0x200), 0).unwrap_err(), blocked(600));
        let known = at(0xffff);
        throttle.remember(&[], &[known.address_row(0)], 0);
        assert!(throttle.begin(known, 0).is_ok(), "its own /64 did nothing");
    }

    #[test]
    fn a_user_under_password_guessing_waits_only_at_unknown_addresses() {
        let mut throttle = Throttle::new(config::Throttle {
            per_user: 3,
            ..limits(5, 50)
        });
        let home = pair("ann", "192.0.2.1");
        let slot = throttle.begin(home, 0).unwrap();
        assert!(throttle.passed(slot, 0).remember);
        let reported: Vec<_> = (2..5)
            .map(|n| {
                let slot = throttle.begin(pair("ann", &format!("192.0.2.{n}")), 0);
                throttle.failed(slot.unwrap(), 0)
            })
            .collect();
        let quiet = Failed::default();
        let guessed = Failed {
            guessed: true,
            ..quiet
        };
        assert_eq!(reported, [quiet, quiet, guessed]);
        assert_eq!(throttle.admit(home, 0), Ok(true));
        assert!(throttle.begin(home, 0).is_ok());
        let away = pair("ann", "192.0.2.9");
        assert_eq!(throttle.admit(away, 0), Err(Duration::from_secs(1)));
        assert_eq!(throttle.admit(away, 1), Ok(false));
        let slot = throttle.begin(away, 1).unwrap();
        assert!(
            throttle.begin(away, 1).is_err(),
            "one attempt for each wait"
        );
        throttle.passed(slot, 1);
        assert_eq!(throttle.admit(away, 1), Ok(true), "known from now on");
        assert_eq!(throttle.admit(pair("bob", "192.0.2.2"), 1), Ok(false));
    }

    #[test]
    fn guessed_users_and_known_addresses_survive_a_restart() {
        let mut throttle = Throttle::new(config::Throttle {
            per_user: 2,
            ..limits(5, 50)
        });
        let failures = [2, 3].map(|n| pair("ann", &format!("192.0.2.{n}")).failure_row(0));
        let home = pair("ann", "192.0.2.1");
        throttle.remember(&failures, &[home.address_row(0)], 10);
        assert_eq!(throttle.admit(home, 10), Ok(true));
        let away = throttle.admit(pair("ann", "192.0.2.9"), 10);
        assert_eq!(away, Err(Duration::from_secs(1)));
    }

    #[test]
    fn lower_limits_apply_to_recorded_failures() {
        let mut throttle = Throttle::new(limits(5, 50));
        let ann = pair("ann", "192.0.2.1");
        for now in [0, 10, 20] {
            fail(&mut throttle, ann, now);
        }
        throttle.limit(limits(2, 50));
        assert_eq!(
            throttle.begin(ann, 20).unwrap_err(),
            blocked(590),
            "until one failure is left"
        );
        throttle.limit(limits(0, 0));
        assert_eq!(
            throttle.begin(ann, 20).unwrap_err(),
            blocked(600),
            "a limit is one at least"
        );
    }
}
