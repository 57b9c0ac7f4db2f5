//! The order to end: finish what is under way, take nothing new. Given once, heard by everyone.

use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::Notify;

/// The order of one worker.
#[derive(Debug, Default)]
pub(super) struct Drain {
    patience: OnceLock<Duration>,
    begin: Notify,
}

impl Drain {
    /// Gives the order; what is not finished after `patience` is cut off. The first order counts.
    pub(super) fn begin(&self, patience: Duration) {
        let _ = self.patience.set(patience);
        self.begin.notify_waiters();
    }

    /// Whether the order has been given.
    pub(super) fn has_begun(&self) -> bool {
        self.patience.get().is_some()
    }

    /// Waits for the order; gives its patience.
    pub(super) async fn begun(&self) -> Duration {
        loop {
            let mut begin = pin!(self.begin.notified());
            begin.as_mut().enable();
            if let Some(patience) = self.patience.get() {
                return *patience;
            }
            begin.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_order_is_heard_before_and_after_it_is_given() {
        let drain = Drain::default();
        assert!(!drain.has_begun());
        let (early, ()) =
            tokio::join!(drain.begun(), async { drain.begin(Duration::from_secs(1)) });
        drain.begin(Duration::from_secs(2));
        assert_eq!(early, Duration::from_secs(1));
        assert_eq!(drain.begun().await, Duration::from_secs(1));
    }
}
