//! Limits of requests: of a user or service token everywhere, and of each caller at a `[[route]]`.
//!
//! Each is a token bucket in a concurrent map; a request takes one shard of it. An IPv6 address
//! counts with its /64, /56 and /48. Where there is no room for another caller, those who used the
//! least of their limits are forgotten: they have a whole limit again, and one who has used up a
//! limit is remembered. Addresses displace no users.

use crate::config::{RateLimit, Route};
use dashmap::DashMap;
use limits::ip_prefix::IpPrefix;
use limits::token_bucket::{Rate, TokenBucket};
use parking_lot::Mutex;
use smol_str::SmolStr;
use std::net::IpAddr;
use std::time::Duration;

/// Users remembered, and addresses. Our choice: about 10 MiB each.
const CALLERS: usize = 65_536;
/// Callers forgotten at a time, at least. Our choice: a search for them takes about a millisecond.
const FORGOTTEN: usize = CALLERS / 8;

/// The buckets of all callers.
#[derive(Default)]
pub struct RateLimits {
    users: Buckets,
    addresses: Buckets,
}

/// The requests that count together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Counted {
    /// Those of a user or a service token.
    User(SmolStr),
    /// Those of one caller at the route of this path, upstream and methods.
    Route(SmolStr, Client),
}

/// One caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// By name.
    User(SmolStr),
    /// By address, where there is no name.
    Address(IpPrefix),
}

#[derive(Default)]
struct Buckets {
    all: DashMap<Counted, Bucket>,
    /// Held while callers are forgotten.
    forgetting: Mutex<()>,
}

struct Bucket {
    limit: RateLimit,
    tokens: TokenBucket,
}

/// The state of a limit after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitState {
    /// The limit.
    pub limit: RateLimit,
    /// Requests that are left now.
    pub left: u64,
    /// The time until all of them are.
    pub full: Duration,
    /// `None`: the request is within the limit; else the time until the next one is.
    pub wait: Option<Duration>,
}

impl Counted {
    /// One caller at a route; `user` is empty for a caller without a name.
    pub fn at_route(route: &Route, user: &SmolStr, address: IpAddr) -> Self {
        let upstream = route.upstream.as_deref().unwrap_or_default();
        let methods = route.methods.join(",");
        let client = if user.is_empty() {
            Client::Address(IpPrefix::of(address))
        } else {
            Client::User(user.clone())
        };
        Self::Route(
            format!("{} {upstream} {methods}", route.path).into(),
            client,
        )
    }
}

impl RateLimits {
    /// Counts a request at a time in milliseconds.
    pub fn count(&self, counted: Counted, limit: RateLimit, now: u64) -> LimitState {
        match counted {
            Counted::Route(route, Client::Address(address)) => {
                self.count_address(&route, address, limit, now)
            }
            named => self.users.take(named, limit, now),
        }
    }

    /// Counts a request with each network around its address. The widest comes first, so that one
    /// that is over its limit adds no more buckets. A request that one of them refuses counts for
    /// none.
    fn count_address(
        &self,
        route: &SmolStr,
        address: IpPrefix,
        limit: RateLimit,
        now: u64,
    ) -> LimitState {
        let counted = |prefix| Counted::Route(route.clone(), Client::Address(prefix));
        let mut least: Option<LimitState> = None;
        for (prefix, factor) in address.levels().rev() {
            let of_network = RateLimit {
                requests: limit.requests.saturating_mul(factor.into()),
                ..limit
            };
            let state = self.addresses.take(counted(prefix), of_network, now);
            if state.wait.is_some() {
                let wider = address
                    .levels()
                    .rev()
                    .take_while(|(wider, _)| *wider != prefix);
                wider.for_each(|(wider, _)| self.addresses.give_back(&counted(wider)));
                return LimitState { limit, ..state };
            }
            least = least
                .filter(|least| least.left < state.left)
                .or(Some(state));
        }
        let state = least.unwrap_or(LimitState {
            limit,
            left: limit.requests,
            full: Duration::ZERO,
            wait: None,
        });
        LimitState { limit, ..state }
    }
}

impl Buckets {
    fn take(&self, counted: Counted, limit: RateLimit, now: u64) -> LimitState {
        if let Some(mut bucket) = self.all.get_mut(&counted) {
            return bucket.take(limit, now);
        }
        if self.all.len() >= CALLERS {
            self.make_room(now);
        }
        let fresh = || Bucket::new(limit, now);
        let mut bucket = self.all.entry(counted).or_insert_with(fresh);
        bucket.take(limit, now)
    }

    /// Takes a request back that did not count.
    fn give_back(&self, counted: &Counted) {
        if let Some(mut bucket) = self.all.get_mut(counted) {
            bucket.tokens.add(1);
        }
    }

    /// Forgets callers whose limits are whole again, and those who used the least of theirs.
    fn make_room(&self, now: u64) {
        let Some(_forgetting) = self.forgetting.try_lock() else {
            return;
        };
        self.all.retain(|_, bucket| bucket.used(now) > 0);
        let Some(over) = (self.all.len() + FORGOTTEN).checked_sub(CALLERS) else {
            return;
        };
        let mut used: Vec<_> = self.all.iter_mut().map(|mut b| b.used(now)).collect();
        let Some(last) = over.min(used.len()).checked_sub(1) else {
            return;
        };
        let most = *used.select_nth_unstable(last).1;
        let mut left = over;
        self.all.retain(|_, bucket| {
            let is_forgotten = left > 0 && bucket.used(now) <= most;
            left -= usize::from(is_forgotten);
            !is_forgotten
        });
    }
}

impl Bucket {
    fn new(limit: RateLimit, now: u64) -> Self {
        let rate = Rate {
            tokens: limit.requests,
            period: millis(limit.period),
        };
        Self {
            limit,
            tokens: TokenBucket::new(limit.requests, rate, now),
        }
    }

    /// Takes a token; another limit than before begins anew.
    fn take(&mut self, limit: RateLimit, now: u64) -> LimitState {
        if self.limit != limit {
            *self = Self::new(limit, now);
        }
        self.tokens.refill(now);
        let taken = self.tokens.take(1);
        let time_to = |tokens| Duration::from_millis(self.tokens.time_to(tokens));
        LimitState {
            limit: self.limit,
            left: self.tokens.tokens(),
            full: time_to(self.limit.requests),
            wait: (!taken).then(|| time_to(1)),
        }
    }

    /// The millionths of the limit that are used; 0 if it is whole.
    fn used(&mut self, now: u64) -> u64 {
        self.tokens.refill(now);
        let used = self.limit.requests.saturating_sub(self.tokens.tokens());
        used.saturating_mul(1_000_000)
            .div_ceil(self.limit.requests.max(1))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const LIMIT: RateLimit = RateLimit {
        requests: 2,
        period: Duration::from_secs(1),
    };

    fn user(name: &str) -> Counted {
        Counted::User(name.into())
    }

    #[test]
    fn requests_over_the_limit_wait_for_the_next_token() {
        let limits = RateLimits::default();
        let count = |name: &str, now| {
            let quota = limits.count(user(name), LIMIT, now);
            (quota.left, quota.wait.map(|wait| wait.as_millis()))
        };
        assert_eq!(count("ann", 1000), (1, None));
        assert_eq!(count("ann", 1000), (0, None));
        assert_eq!(count("ann", 1100), (0, Some(400)));
        assert_eq!(
            count("bob", 1100),
            (1, None),
            "another user is not affected"
        );
        assert_eq!(count("ann", 1500), (0, None));
        assert_eq!(count("ann", 9000), (1, None));
    }

    #[test]
    fn another_limit_begins_anew() {
        let limits = RateLimits::default();
        for _ in 0..3 {
            limits.count(user("ann"), LIMIT, 0);
        }
        let more = RateLimit {
            requests: 5,
            ..LIMIT
        };
        assert_eq!(limits.count(user("ann"), more, 0).left, 4);
    }

    fn address(text: &str) -> Counted {
        let prefix = IpPrefix::of(text.parse().unwrap());
        Counted::Route("/open".into(), Client::Address(prefix))
    }

    #[test]
    fn twenty_networks_of_one_subscriber_share_a_limit_and_a_stranger_has_a_whole_one() {
        let limits = RateLimits::default();
        let count = |text: &str| limits.count(address(text), LIMIT, 0);
        let admitted = (0..20).flat_map(|n| [n; 5]).filter(|n| {
            let state = count(&format!("2001:db8:0:{n:x}::1"));
            assert_eq!(state.limit, LIMIT);
            state.wait.is_none()
        });
        assert_eq!(admitted.count(), 8, "four times the limit of a /64");
        let of_the_48 =
            (1..100).filter(|n| count(&format!("2001:db8:0:{n:x}00::1")).wait.is_none());
        assert_eq!(of_the_48.count(), 8, "eight times the limit in all");
        assert_eq!(count("2001:db8:1::1").left, 1);
        assert_eq!(count("192.0.2.1").left, 1);
        assert!(
            limits.addresses.all.len() == 26,
            "refused networks are not remembered"
        );
    }

    #[test]
    fn a_request_that_a_narrow_network_refuses_counts_for_no_wider_one() {
        let limits = RateLimits::default();
        for _ in 0..50 {
            limits.count(address("2001:db8::1"), LIMIT, 0);
        }
        let other = limits.count(address("2001:db8:0:1::1"), LIMIT, 0);
        assert_eq!((other.left, other.wait), (1, None));
    }

    #[test]
    fn strangers_find_room_and_one_who_used_up_a_limit_stays_remembered() {
        let limits = RateLimits::default();
        let busy = address("192.0.2.1");
        let ann = user("ann");
        for _ in 0..3 {
            limits.count(busy.clone(), LIMIT, 0);
            limits.count(ann.clone(), LIMIT, 0);
        }
        for n in 0..2 * u32::try_from(CALLERS).unwrap() {
            let text = IpAddr::from(n.to_be_bytes()).to_string();
            let state = limits.count(address(&text), LIMIT, 0);
            assert!(state.wait.is_none() || text == "192.0.2.1", "{text}");
        }
        assert!(limits.addresses.all.len() <= CALLERS);
        assert!(limits.count(busy, LIMIT, 1).wait.is_some());
        assert!(limits.count(ann, LIMIT, 1).wait.is_some());
        limits.count(address("198.51.100.1"), LIMIT, 9000);
        limits.addresses.make_room(9000);
        assert_eq!(limits.addresses.all.len(), 1);
    }
}
