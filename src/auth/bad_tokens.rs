//! Limits the bad tokens of an address within a window. Good ones cost nothing and are never refused: a client that
//! shares an address with a guesser is not affected. IPv6 is counted by /64, /56 and /48.
//!
//! Pure: the time is an argument. Nothing is kept over a restart: a token has 256 random bits, so what this bounds is
//! the work and the noise of guessing, not the chance.

use crate::config;
use limits::ip_prefix::IpPrefix;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// How many addresses are remembered (some 3 MiB). When all are in use, others are not counted, so not refused.
const REMEMBERED: usize = 65_536;

/// What addresses have spent.
pub(super) struct Budget {
    limit: u32,
    window: u64,
    spent: HashMap<IpPrefix, Spent>,
    /// When budgets that are over were last looked for.
    swept: u64,
}

/// Of one address, since its window began.
struct Spent {
    began: u64,
    count: u32,
}

impl Budget {
    pub(super) fn new(limits: &config::Throttle) -> Self {
        Self {
            limit: limits.bad_tokens_per_address,
            window: limits.window.as_secs(),
            spent: HashMap::new(),
            swept: 0,
        }
    }

    /// Replaces the limits; what was spent stays spent.
    pub(super) fn limit(&mut self, limits: &config::Throttle) {
        self.limit = limits.bad_tokens_per_address;
        self.window = limits.window.as_secs();
    }

    /// An address has shown a bad token. Says how long it has to wait, if that was more than it may.
    pub(super) fn spend(&mut self, address: IpAddr, now: u64) -> Option<Duration> {
        // The widest first: a /48 that has spent its budget takes no memory for the networks in it.
        IpPrefix::of(address)
            .levels()
            .rev()
            .find_map(|(prefix, factor)| {
                let limit = self.limit.saturating_mul(factor);
                self.spend_one(prefix, limit, now)
            })
    }

    fn spend_one(&mut self, prefix: IpPrefix, limit: u32, now: u64) -> Option<Duration> {
        if self.spent.len() >= REMEMBERED && !self.spent.contains_key(&prefix) {
            // Once a second: the next bad token would find the same.
            if self.swept != now {
                self.sweep(now);
            }
            if self.spent.len() >= REMEMBERED {
                return None;
            }
        }
        let fresh = Spent {
            began: now,
            count: 0,
        };
        let window = self.window;
        let spent = self.spent.entry(prefix).or_insert(fresh);
        if spent.left(window, now) == 0 {
            (spent.began, spent.count) = (now, 0);
        }
        spent.count = spent.count.saturating_add(1);
        (spent.count > limit).then(|| Duration::from_secs(spent.left(window, now)))
    }

    /// Forgets what no longer counts.
    pub(super) fn sweep(&mut self, now: u64) {
        self.swept = now;
        let window = self.window;
        self.spent.retain(|_, spent| spent.left(window, now) > 0);
    }
}

impl Spent {
    /// Seconds until the window is over. One that begins in the future (the clock was set back) is over.
    fn left(&self, window: u64, now: u64) -> u64 {
        match now.checked_sub(self.began) {
            Some(age) => window.saturating_sub(age),
            None => 0,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget::new(&config::Throttle {
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
    fn more_than_the_budget_has_to_wait_until_the_window_is_over() {
        let mut budget = budget();
        for now in [100, 200, 300] {
            assert_eq!(budget.spend(ip("192.0.2.1"), now), None);
        }
        let wait = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(budget.spend(ip("192.0.2.1"), 300), wait(400));
        assert_eq!(budget.spend(ip("192.0.2.1"), 699), wait(1));
        assert_eq!(budget.spend(ip("192.0.2.1"), 700), None, "a new window");
        assert_eq!(
            budget.spend(ip("192.0.2.1"), 50),
            None,
            "the clock was set back"
        );
    }

    #[test]
    fn everybody_has_a_budget_of_his_own_and_an_ipv6_subscriber_is_one() {
        let mut budget = budget();
        for n in 1..=4 {
            budget.spend(ip(&format!("2001:db8::{n}")), 0);
            budget.spend(ip("192.0.2.1"), 0);
        }
        assert!(budget.spend(ip("2001:db8::ffff"), 0).is_some());
        assert!(budget.spend(ip("::ffff:192.0.2.1"), 0).is_some());
        assert!(budget.spend(ip("2001:db8:0:1::1"), 0).is_none());
        assert!(budget.spend(ip("192.0.2.2"), 0).is_none());
    }

    #[test]
    fn networks_around_a_64_have_larger_budgets() {
        let mut budget = budget();
        let spent = |budget: &mut Budget, network: u32, host: u32| {
            let address = ip(&format!("2001:db8:0:{network:x}::{host:x}"));
            budget.spend(address, 0).is_some()
        };
        // Twelve in a /56, from as many /64s; 24 in the /48.
        assert!((0..12).all(|n| !spent(&mut budget, n, 1)));
        assert!(spent(&mut budget, 13, 1), "a new /64 of the same /56");
        assert!((0..11).all(|n| !spent(&mut budget, 0x100 + n, 1)));
        assert!(spent(&mut budget, 0x200, 1), "a new /56 of the same /48");
        let known = budget.spent.len();
        for network in 0x300..0x400 {
            assert!(spent(&mut budget, network, 1));
        }
        assert_eq!(budget.spent.len(), known, "no memory for what is refused");
        assert!(budget.spend(ip("2001:db8:1::1"), 0).is_none());
    }

    #[test]
    fn memory_is_bounded_and_what_is_over_is_forgotten() {
        let mut budget = budget();
        for n in 0..u32::try_from(REMEMBERED).unwrap() + 10 {
            budget.spend(IpAddr::V4(n.into()), 0);
        }
        assert_eq!(budget.spent.len(), REMEMBERED);
        budget.spend(ip("192.0.2.1"), 600);
        assert_eq!(budget.spent.len(), 1);
    }
}
