//! The least pace of a request body: an idle time-out, and a minimum rate after a grace period, as
//! in Apache's `mod_reqtimeout`. Only time spent waiting for the client counts. It is no limit of
//! the `limits` crate, because it demands a rate instead of capping one.

use crate::config::{Limits, Timeouts};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The least pace of a body.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The longest pause.
    idle: Duration,
    /// The time before the rate counts; without a rate, the total time. `None`: neither.
    grace: Option<Duration>,
    /// Bytes a second; 0: no minimum.
    rate: u64,
}

/// Watches the pace of one body.
#[derive(Debug)]
pub struct Pacer {
    pace: Pace,
    received: u64,
    /// Time spent waiting for the client, and the start of the current wait.
    waited: Duration,
    since: Option<Instant>,
    /// Made at the first wait.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    /// Of a body with an idle time-out and a minimum rate.
    pub fn new(timeouts: &Timeouts, limits: &Limits) -> Self {
        Self {
            idle: timeouts.body_idle,
            grace: (limits.body_rate > 0).then_some(timeouts.body_grace),
            rate: limits.body_rate,
        }
    }

    /// Of a body with a total time only.
    pub fn within(total: Duration) -> Self {
        Self {
            idle: total,
            grace: Some(total),
            rate: 0,
        }
    }

    /// The time left for the next piece.
    fn left(&self, received: u64, waited: Duration) -> Duration {
        let Some(grace) = self.grace else {
            return self.idle;
        };
        let earned = received.saturating_mul(1000).checked_div(self.rate);
        let allowed = grace.saturating_add(Duration::from_millis(earned.unwrap_or_default()));
        allowed.saturating_sub(waited).min(self.idle)
    }
}

impl Pacer {
    /// At the start of a body.
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            received: 0,
            waited: Duration::ZERO,
            since: None,
            timer: None,
        }
    }

    /// A piece was received.
    pub fn received(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes as u64);
        if let Some(since) = self.since.take() {
            self.waited = self.waited.saturating_add(since.elapsed());
        }
    }

    /// Waits for the client; ready when it is too slow.
    pub fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.since.is_none() {
            let now = Instant::now();
            let end = now + self.pace.left(self.received, self.waited);
            self.since = Some(now);
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(end),
                None => self.timer = Some(Box::pin(sleep_until(end))),
            }
        }
        match &mut self.timer {
            Some(timer) => timer.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const PACE: Pace = Pace {
        idle: Duration::from_mins(1),
        grace: Some(Duration::from_secs(10)),
        rate: 1024,
    };

    #[test]
    fn after_the_grace_period_each_kibibyte_earns_a_second() {
        assert_eq!(PACE.left(0, Duration::ZERO), 10 * SECOND);
        assert_eq!(PACE.left(0, 4 * SECOND), 6 * SECOND);
        assert_eq!(PACE.left(0, 11 * SECOND), Duration::ZERO);
        assert_eq!(PACE.left(5 << 10, 11 * SECOND), 4 * SECOND);
        assert_eq!(PACE.left(5 << 10, 15 * SECOND), Duration::ZERO);
    }

    #[test]
    fn a_pause_is_limited_however_much_was_received() {
        assert_eq!(PACE.left(u64::MAX, SECOND), 60 * SECOND);
    }

    #[test]
    fn without_a_rate_only_pauses_count() {
        let pace = Pace {
            grace: None,
            rate: 0,
            ..PACE
        };
        assert_eq!(pace.left(0, 1000 * SECOND), 60 * SECOND);
    }

    #[test]
    fn a_total_limit_ignores_the_received_bytes() {
        let pace = Pace::within(10 * SECOND);
        assert_eq!(pace.left(1 << 20, 9 * SECOND), SECOND);
        assert_eq!(pace.left(1 << 20, 10 * SECOND), Duration::ZERO);
    }

    #[tokio::test]
    async fn only_the_time_spent_waiting_for_the_client_counts() {
        let grace = Duration::from_millis(20);
        let mut pacer = Pacer::new(Pace {
            grace: Some(grace),
            ..PACE
        });
        // The upstream takes its time.
        tokio::time::sleep(2 * grace).await;
        pacer.received(1);
        assert!(pacer.waited < grace);
        std::future::poll_fn(|cx| pacer.poll_late(cx)).await;
        pacer.received(1);
        assert!(pacer.waited >= grace);
    }
}
