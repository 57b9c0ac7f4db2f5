//! Limits of requests: of a user or service token everywhere, and of each caller at a `[[route]]`.
//!
//! Each is a token bucket in a concurrent map; a request takes one shard of it. Callers whose buckets are full again are
//! forgotten. While more are remembered than there is room for, new ones share one bucket.

use crate::config::{RateLimit, Route};
use dashmap::DashMap;
use limits::ip_prefix::IpPrefix;
use limits::token_bucket::{Rate, TokenBucket};
use smol_str::SmolStr;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Callers remembered. Our choice: about 10 MiB.
const MAX_CALLERS: usize = 65_536;
/// The time between two searches for callers to forget, milliseconds. Our choice: a search takes about a millisecond.
const SWEEP: u64 = 1000;

/// The buckets of all callers.
#[derive(Default)]
pub struct RateLimits {
    buckets: DashMap<Counted, Bucket>,
    /// Their number, at least: two requests of a new caller may count it twice until the next sweep.
    callers: AtomicUsize,
    /// When full buckets were forgotten last, in milliseconds.
    swept: AtomicU64,
}

/// The requests that count together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Counted {
    /// Those of a user or a service token.
    User(SmolStr),
    /// Those of one caller at the route of this path, upstream and methods.
    Route(SmolStr, Client),
    /// Those of callers who are not remembered.
    Others(Duration, u64),
}

/// One caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// By name.
    User(SmolStr),
    /// By address, where there is no name; IPv6: by /64.
    Address(IpPrefix),
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
        if let Some(mut bucket) = self.buckets.get_mut(&counted) {
            return bucket.take(limit, now);
        }
        let counted = if self.callers.load(Ordering::Relaxed) < MAX_CALLERS {
            self.callers.fetch_add(1, Ordering::Relaxed);
            counted
        } else {
            self.sweep(now);
            Counted::Others(limit.period, limit.requests)
        };
        let fresh = || Bucket::new(limit, now);
        let mut bucket = self.buckets.entry(counted).or_insert_with(fresh);
        bucket.take(limit, now)
    }

    /// Forgets callers whose buckets are full.
    fn sweep(&self, now: u64) {
        let swept = self.swept.load(Ordering::Relaxed);
        let is_due = now.saturating_sub(swept) >= SWEEP;
        let exchange = |swept| {
            let order = Ordering::Relaxed;
            self.swept.compare_exchange(swept, now, order, order)
        };
        if is_due && exchange(swept).is_ok() {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
            self.callers.store(self.buckets.len(), Ordering::Relaxed);
        }
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

    fn is_full(&mut self, now: u64) -> bool {
        self.tokens.refill(now);
        self.tokens.tokens() == self.limit.requests
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
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

    #[test]
    fn memory_is_bounded_and_callers_beyond_it_share_one_bucket_until_others_are_forgotten() {
        let limits = RateLimits::default();
        for n in 0..MAX_CALLERS {
            limits.count(user(&n.to_string()), LIMIT, 5000);
        }
        let waits: Vec<bool> = (0..4)
            .map(|n| {
                limits
                    .count(user(&format!("new{n}")), LIMIT, 5001)
                    .wait
                    .is_some()
            })
            .collect();
        assert_eq!(waits, [false, false, true, true]);
        assert!(limits.buckets.len() <= MAX_CALLERS + 1);
        assert_eq!(
            limits.count(user("0"), LIMIT, 5001).left,
            0,
            "known callers have their own"
        );
        limits.count(user("late"), LIMIT, 9000);
        assert!(limits.buckets.len() < 3);
    }
}
