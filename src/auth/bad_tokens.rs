//! Limits the bad tokens of an address within a fixed window. Good ones cost nothing and are never
//! refused: a client that shares an address with a guesser is not affected. IPv6 is counted by /64,
//! /56 and /48.
//!
//! Pure: the time is an argument. Nothing is kept over a restart: a token has 256 random bits, so
//! what this bounds is the work and the noise of guessing, not the chance.

use crate::config;
use limits::fixed_window::FixedWindows;
use limits::ip_prefix::IpPrefix;
use std::net::IpAddr;
use std::time::Duration;

/// The maximum number of addresses remembered (some 3 MiB). When all are in use, others are not
/// counted, so not refused.
const REMEMBERED: usize = 65_536;

/// The limit of bad tokens, and those of each address in its window.
pub(super) struct BadTokens {
    /// How many times as many as the setting allows.
    factor: u32,
    limit: u32,
    window: u64,
    addresses: FixedWindows<IpPrefix>,
}

impl BadTokens {
    pub(super) fn new(limits: &config::Throttle) -> Self {
        Self {
            factor: 1,
            limit: limits.bad_tokens_per_address,
            window: limits.window.as_secs(),
            addresses: FixedWindows::new(REMEMBERED),
        }
    }

    /// The limit of tokens that are looked up in a shared store: ten times that of bad ones. Beyond
    /// it a new token of another gateway is refused until its session has arrived by itself, in
    /// milliseconds; so the limit may be low, and only has to let through what honest clients of
    /// one address begin.
    pub(super) fn looked_up(limits: &config::Throttle) -> Self {
        let mut looked_up = Self::new(limits);
        looked_up.factor = 10;
        looked_up.limit(limits);
        looked_up
    }

    /// Replaces the limits; the tokens of the current windows stay counted.
    pub(super) fn limit(&mut self, limits: &config::Throttle) {
        self.limit = limits.bad_tokens_per_address.saturating_mul(self.factor);
        self.window = limits.window.as_secs();
    }

    /// Counts a bad token of an address. Returns how long the address has to wait if it is beyond
    /// the limit.
    pub(super) fn count(&mut self, address: IpAddr, now: u64) -> Option<Duration> {
        // The widest first: a /48 that has reached its limit takes no memory for the networks in
        // it.
        let mut levels = IpPrefix::of(address).levels().rev();
        levels.find_map(|(prefix, factor)| {
            let limit = self.limit.saturating_mul(factor);
            let admitted = self.addresses.admit(prefix, limit, self.window, now);
            admitted.err()
        })
    }

    /// Forgets windows that have ended.
    pub(super) fn sweep(&mut self, now: u64) {
        self.addresses.sweep(self.window, now);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn bad_tokens() -> BadTokens {
        BadTokens::new(&config::Throttle {
            per_user_and_address: 5,
            per_address: 50,
            per_user: 20,
            bad_tokens_per_address: 3,
            window: Duration::from_mins(10),
        })
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn more_than_the_limit_has_to_wait_until_the_window_ends() {
        let mut bad = bad_tokens();
        for now in [100, 200, 300] {
            assert_eq!(bad.count(ip("192.0.2.1"), now), None);
        }
        let wait = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(bad.count(ip("192.0.2.1"), 300), wait(400));
        assert_eq!(bad.count(ip("192.0.2.1"), 699), wait(1));
        assert_eq!(bad.count(ip("192.0.2.1"), 700), None, "a new window");
        assert_eq!(
            bad.count(ip("192.0.2.1"), 50),
            None,
            "the clock was set back"
        );
    }

    #[test]
    fn each_address_has_its_own_limit_and_an_ipv6_subscriber_is_one_address() {
        let mut bad = bad_tokens();
        for n in 1..=4 {
            bad.count(ip(&format!("2001:db8::{n}")), 0);
            bad.count(ip("192.0.2.1"), 0);
        }
        assert!(bad.count(ip("2001:db8::ffff"), 0).is_some());
        assert!(bad.count(ip("::ffff:192.0.2.1"), 0).is_some());
        assert!(bad.count(ip("2001:db8:0:1::1"), 0).is_none());
        assert!(bad.count(ip("192.0.2.2"), 0).is_none());
    }

    #[test]
    fn networks_around_a_64_have_larger_limits() {
        let mut bad = bad_tokens();
        let spent = |bad: &mut BadTokens, network: u32, host: u32| {
            let address = ip(&format!("2001:db8:0:{network:x}::{host:x}"));
            bad.count(address, 0).is_some()
        };
        // Twelve in a /56, from as many /64s; 24 in the /48.
        assert!((0..12).all(|n| !spent(&mut bad, n, 1)));
        assert!(spent(&mut bad, 13, 1), "a new /64 of the same /56");
        assert!((0..11).all(|n| !spent(&mut bad, 0x100 + n, 1)));
        assert!(spent(&mut bad, 0x200, 1), "a new /56 of the same /48");
        let known = bad.addresses.len();
        for network in 0x300..0x400 {
            assert!(spent(&mut bad, network, 1));
        }
        assert_eq!(bad.addresses.len(), known, "no memory for what is refused");
        assert!(bad.count(ip("2001:db8:1::1"), 0).is_none());
    }

    #[test]
    fn memory_is_bounded_and_windows_that_have_ended_are_forgotten() {
        let mut bad = bad_tokens();
        for n in 0..u32::try_from(REMEMBERED).unwrap() + 10 {
            bad.count(IpAddr::V4(n.into()), 0);
        }
        assert_eq!(bad.addresses.len(), REMEMBERED);
        bad.count(ip("192.0.2.1"), 600);
        assert_eq!(bad.addresses.len(), 1);
    }
}
