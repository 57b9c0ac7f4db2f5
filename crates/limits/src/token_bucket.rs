//! A token bucket: admits a burst of tokens at once, and further ones at a rate.
//!
//! Time is passed in; its unit is the caller's.

/// Tokens that may be taken now, and the rate at which they are added.
#[derive(Debug)]
pub struct TokenBucket {
    tokens: u64,
    burst: u64,
    rate: Rate,
    /// Until when the time has been counted.
    refilled: u64,
    /// The part of the next token that is earned, in `period`ths of a token.
    fraction: u64,
}

/// So many tokens in each period.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Tokens added in a period.
    pub tokens: u64,
    /// The period, one unit of time at least.
    pub period: u64,
}

impl TokenBucket {
    /// Full.
    pub fn new(burst: u64, rate: Rate, now: u64) -> Self {
        Self {
            tokens: burst,
            burst,
            rate,
            refilled: now,
            fraction: 0,
        }
    }

    /// Adds the tokens of the time since the last refill. A clock that was set back adds none.
    pub fn refill(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.refilled);
        self.refilled = now;
        if elapsed == 0 {
            return;
        }
        let period = u128::from(self.rate.period.max(1));
        let earned = u128::from(elapsed) * u128::from(self.rate.tokens) + u128::from(self.fraction);
        // Less than a period, which is a u64.
        self.fraction = u64::try_from(earned % period).unwrap_or_default();
        self.add(u64::try_from(earned / period).unwrap_or(u64::MAX));
    }

    /// Adds tokens, up to the burst.
    pub fn add(&mut self, tokens: u64) {
        self.tokens = self.tokens.saturating_add(tokens).min(self.burst);
    }

    /// Tokens that may be taken now.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The time until so many tokens are there, at the latest; none are more than the burst.
    pub fn time_to(&self, tokens: u64) -> u64 {
        let missing = u128::from(tokens.min(self.burst).saturating_sub(self.tokens));
        let period = u128::from(self.rate.period.max(1));
        let parts = (missing * period).saturating_sub(u128::from(self.fraction));
        let time = parts.div_ceil(u128::from(self.rate.tokens.max(1)));
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// Takes tokens. False: there are not enough, and none is taken.
    #[must_use]
    pub fn take(&mut self, tokens: u64) -> bool {
        let rest = self.tokens.checked_sub(tokens);
        self.tokens = rest.unwrap_or(self.tokens);
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_is_admitted_at_once_and_then_a_rate() {
        let rate = Rate {
            tokens: 2,
            period: 10,
        };
        let mut bucket = TokenBucket::new(3, rate, 100);
        assert!(bucket.take(3) && !bucket.take(1));
        bucket.refill(104);
        assert!(!bucket.take(1));
        bucket.refill(105);
        assert!(bucket.take(1) && !bucket.take(1));
        bucket.refill(1000);
        assert!(!bucket.take(4), "no more than the burst");
        assert!(bucket.take(3));
    }

    #[test]
    fn tokens_can_be_earned_and_given_back_up_to_the_burst() {
        let rate = Rate {
            tokens: 1,
            period: 10,
        };
        let mut bucket = TokenBucket::new(5, rate, 0);
        assert!(bucket.take(4));
        bucket.add(2);
        assert!(bucket.take(3) && !bucket.take(1));
        bucket.add(u64::MAX);
        assert!(bucket.take(5) && !bucket.take(1));
    }

    #[test]
    fn the_time_to_a_token_is_exact_and_never_too_short() {
        let rate = Rate {
            tokens: 3,
            period: 10,
        };
        let mut bucket = TokenBucket::new(6, rate, 0);
        assert_eq!((bucket.tokens(), bucket.time_to(6)), (6, 0));
        assert!(bucket.take(6));
        assert_eq!(
            (bucket.time_to(1), bucket.time_to(6), bucket.time_to(9)),
            (4, 20, 20)
        );
        bucket.refill(3);
        assert_eq!((bucket.tokens(), bucket.time_to(1)), (0, 1));
        bucket.refill(4);
        assert_eq!(bucket.tokens(), 1);
    }

    #[test]
    fn a_clock_that_is_set_back_adds_nothing() {
        let rate = Rate {
            tokens: 1,
            period: 1,
        };
        let mut bucket = TokenBucket::new(10, rate, 100);
        assert!(bucket.take(10));
        bucket.refill(50);
        assert!(!bucket.take(1));
        bucket.refill(51);
        assert!(bucket.take(1) && !bucket.take(1));
    }

    proptest! {
        /// However often it is refilled.
        #[test]
        fn no_more_is_admitted_than_the_burst_and_the_rate(
            (burst, tokens, period) in (0_u64..100, 0_u64..50, 1_u64..50),
            steps in prop::collection::vec((0_u64..20, 0_u64..20), 1..200),
        ) {
            let mut bucket = TokenBucket::new(burst, Rate { tokens, period }, 0);
            let (mut now, mut taken) = (0, 0);
            for (elapsed, wanted) in steps {
                now += elapsed;
                bucket.refill(now);
                if bucket.take(wanted) {
                    taken += wanted;
                }
                prop_assert!(taken <= burst + now * tokens / period);
            }
        }
    }
}
