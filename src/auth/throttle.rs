//! The brake on guessed passwords: failures per user and address, and per address, within a window.
//!
//! Pure: the time is an argument, nothing is awaited or written. A user is blocked only at the address where the
//! failures came from, so a stranger elsewhere locks nobody out.

use super::tally::{Refused, Tallies, Window};
use crate::config;
use crate::secret::sha256;
use crate::store::FailureRow;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Failures of sign-in, and the sign-ins under way.
pub(super) struct Throttle {
    limits: config::Throttle,
    pairs: Tallies<Pair>,
    addresses: Tallies<Network>,
}

/// Who tries to sign in, and from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Pair {
    /// Half of the SHA-256 of the name as sent: of one size however long the name, and no record of the passwords that
    /// people type into the wrong field.
    user: u128,
    network: Network,
}

/// A sign-in under way. It counts as a failure until it is decided, so that many at once cannot pass together.
#[derive(Debug)]
pub(super) struct Slot(Pair);

impl Throttle {
    pub(super) fn new(limits: config::Throttle) -> Self {
        Self {
            limits,
            pairs: Tallies::default(),
            addresses: Tallies::default(),
        }
    }

    /// Replaces the limits; what was remembered counts by the new ones.
    pub(super) fn limit(&mut self, limits: config::Throttle) {
        self.limits = limits;
    }

    /// Takes up failures that the store kept. A time in the future (the clock was set back) counts as now.
    pub(super) fn remember(&mut self, rows: &[FailureRow], now: u64) {
        for row in rows {
            if let Some(pair) = Pair::from_row(row) {
                self.count(pair, row.at.min(now), now);
            }
        }
    }

    /// Begins a sign-in, unless there were too many failures. Being refused leaves no trace.
    pub(super) fn begin(&mut self, pair: Pair, now: u64) -> Result<Slot, Refused> {
        let window = self.window(now);
        let of_pair = self
            .pairs
            .refused(&pair, self.limits.per_user_and_address, window);
        let of_address = self
            .addresses
            .refused(&pair.network, self.limits.per_address, window);
        if let Some(refused) = Refused::stricter(of_pair, of_address) {
            return Err(refused);
        }
        self.pairs.begin(pair, window);
        self.addresses.begin(pair.network, window);
        Ok(Slot(pair))
    }

    /// The sign-in failed. Returns whether that makes the next one wait.
    pub(super) fn failed(&mut self, slot: Slot, now: u64) -> bool {
        let pair = self.decided(slot);
        self.count(pair, now, now);
        let (limits, window) = (&self.limits, self.window(now));
        let of_pair = self
            .pairs
            .refused(&pair, limits.per_user_and_address, window);
        let of_address = self
            .addresses
            .refused(&pair.network, limits.per_address, window);
        matches!(
            Refused::stricter(of_pair, of_address),
            Some(Refused::Blocked(_))
        )
    }

    /// The sign-in succeeded: its pair is as new. What the address has against it stays, else one good account would
    /// buy guesses at all others. Returns whether there was something to forget.
    pub(super) fn passed(&mut self, slot: Slot) -> bool {
        let pair = self.decided(slot);
        self.pairs.clear(&pair)
    }

    /// Forgets what no longer counts.
    pub(super) fn sweep(&mut self, now: u64) {
        let window = self.window(now);
        self.pairs.sweep(window);
        self.addresses.sweep(window);
    }

    fn window(&self, now: u64) -> Window {
        Window {
            length: self.limits.window.as_secs(),
            now,
        }
    }

    fn decided(&mut self, Slot(pair): Slot) -> Pair {
        self.pairs.decided(&pair);
        self.addresses.decided(&pair.network);
        pair
    }

    fn count(&mut self, pair: Pair, at: u64, now: u64) {
        let window = self.window(now);
        self.pairs.add(pair, at, window);
        self.addresses.add(pair.network, at, window);
    }
}

impl Pair {
    pub(super) fn new(user: &str, address: IpAddr) -> Self {
        let digest = sha256(user.as_bytes());
        Self {
            user: digest
                .first_chunk()
                .map_or(0, |half| u128::from_be_bytes(*half)),
            network: Network::of(address),
        }
    }

    /// As the store keeps it.
    pub(super) fn row(&self, at: u64) -> FailureRow {
        FailureRow {
            user: format!("{:032x}", self.user),
            address: self.network.to_string(),
            at,
        }
    }

    fn from_row(row: &FailureRow) -> Option<Self> {
        let user = u128::from_str_radix(&row.user, 16).ok()?;
        Some(Self {
            user,
            network: Network::parse(&row.address)?,
        })
    }
}

/// An IPv4 address or an IPv6 /64, which is what one subscriber gets (RFC 6177 §2): whoever has one has all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Network(IpAddr);

impl Network {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => Self(IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64))),
            v4 @ IpAddr::V4(_) => Self(v4),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        text.strip_suffix("/64")
            .unwrap_or(text)
            .parse()
            .ok()
            .map(Self::of)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(v4) => write!(f, "{v4}"),
            IpAddr::V6(v6) => write!(f, "{v6}/64"),
        }
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
    fn a_stranger_elsewhere_locks_nobody_out() {
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
    fn of_two_blocks_the_longer_one_is_told() {
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
        assert!(throttle.passed(slot), "there was something to forget");
        let slot = throttle.begin(ann, 0).unwrap();
        assert!(!throttle.passed(slot), "nothing the second time");
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
        throttle.passed(slots.pop().unwrap());
        slots.push(throttle.begin(ann, 0).unwrap());
        for slot in slots {
            throttle.failed(slot, 0);
        }
        assert_eq!(throttle.begin(ann, 0).unwrap_err(), blocked(600));
    }

    #[test]
    fn failures_are_kept_as_rows_and_count_after_a_restart() {
        let (v4, v6) = (pair("ann", "192.0.2.1"), pair("ann", "2001:db8::1"));
        assert_eq!(v4.row(7).address, "192.0.2.1");
        assert_eq!(v6.row(7).address, "2001:db8::/64");
        assert!(!v4.row(7).user.contains("ann"));
        let mut throttle = Throttle::new(limits(1, 50));
        throttle.remember(&[v4.row(100), v6.row(999)], 200);
        assert_eq!(throttle.begin(v4, 200).unwrap_err(), blocked(500));
        assert_eq!(
            throttle.begin(v6, 200).unwrap_err(),
            blocked(600),
            "a time in the future is now"
        );
    }

    #[test]
    fn a_row_that_makes_no_sense_is_skipped() {
        let mut throttle = Throttle::new(limits(1, 50));
        let row = FailureRow {
            user: "ann".into(),
            address: "nowhere".into(),
            at: 0,
        };
        throttle.remember(&[row], 0);
        assert!(throttle.begin(pair("ann", "192.0.2.1"), 0).is_ok());
    }

    #[test]
    fn lower_limits_count_what_was_remembered() {
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
