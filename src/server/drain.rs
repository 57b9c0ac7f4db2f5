//! The drain signal of a worker: open requests are finished, new connections are not accepted.
//! Given once.

use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::Notify;

/// The order of one worker.
#[derive(Debug, Default)]
pub(super) struct Drain {
    timeout: OnceLock<Duration>,
    begin: Notify,
}

impl Drain {
    /// Begins the drain; connections that are open after `timeout` are cut off. The first call
    /// counts.
    pub(super) fn begin(&self, timeout: Duration) {
        let _ = self.timeout.set(timeout);
        self.begin.notify_waiters();
    }

    /// Returns whether the order has been given.
    pub(super) fn has_begun(&self) -> bool {
        self.timeout.get().is_some()
    }

    /// Waits for the drain; returns its time-out.
    pub(super) async fn begun(&self) -> Duration {
        loop {
            let mut begin = pin!(self.begin.notified());
            begin.as_mut().enable();
            if let Some(timeout) = self.timeout.get() {
                return *timeout;
            }
            begin.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_drain_is_seen_before_and_after_it_begins() {
        let drain = Drain::default();
        assert!(!drain.has_begun());
        let (early, ()) =
            tokio::join!(drain.begun(), async { drain.begin(Duration::from_secs(1)) });
        drain.begin(Duration::from_secs(2));
        assert_eq!(early, Duration::from_secs(1));
        assert_eq!(drain.begun().await, Duration::from_secs(1));
    }
}
