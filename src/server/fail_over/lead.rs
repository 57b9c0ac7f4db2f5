//! A member that holds the lease of a shard: runs the engine's process, and renews the lease, until
//! it may or is to do so no longer.

use super::super::engine_process::{First, Member, supervise, wanted};
use super::{FailOver, HELD};
use crate::store::{Lease, Renewed};
use engine::lease;
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// The time between two renewals. Our choice.
const RENEWAL: Duration = Duration::from_millis(500);
/// The process is ended this long before its lease. Our choice: it need not end itself then.
const MARGIN: Duration = Duration::from_millis(300);
/// How long the process may be silent, which answers each renewal. Our choice: it is stopped, or
/// ends again and again.
const SILENT: Duration = Duration::from_secs(2);

/// A lease that was taken.
pub(super) struct Taken {
    pub(super) fence: i64,
    /// When it was asked for.
    pub(super) at: Duration,
}

impl FailOver {
    /// Runs the process while the lease can be renewed.
    pub(super) async fn lead(&mut self, taken: Taken, end: &mut watch::Receiver<bool>) -> Ended {
        let (until, lasts) = watch::channel(taken.at + HELD);
        let (heard, last_heard) = watch::channel(None);
        let (stop, mut stopped) = watch::channel(false);
        let (kept, plan, longest) = (&self.kept, &mut self.plan, self.longest);
        let restarts = self.metrics.engine_restarts();
        // Before the state is read: what changes meanwhile is followed.
        let mut follows = self.follows.clone();
        follows.mark_unchanged();
        let mut run = pin!(async {
            let state = kept.lock().await.all().await;
            let state = match state {
                Ok(state) => state,
                Err(error) => return Ended::Lost(format!("its state cannot be read: {error}")),
            };
            plan.member = Some(Member {
                fence: taken.fence,
                until: lasts,
                state: Mutex::new(Some(state)),
                heard,
                follows,
                kept: Arc::clone(kept),
                longest,
            });
            supervise(plan, &mut stopped, First::default(), &restarts).await;
            Ended::Wanted
        });
        let mut gives_back = false;
        loop {
            let is_stopping = *stop.borrow();
            let renewed = renew(
                &mut self.lease,
                taken.fence,
                is_stopping,
                &until,
                &last_heard,
            );
            tokio::select! {
                ended = &mut run => return if gives_back { Ended::GivenBack } else { ended },
                ended = renewed => match ended {
                    // It closes its flows while it still may run them.
                    Ended::GivenBack => gives_back = true,
                    ended => return ended,
                },
                () = wanted(end), if !is_stopping => {}
            }
            stop.send_replace(true);
        }
    }
}

/// Why a member leads no longer.
pub(super) enum Ended {
    /// The gateway ends.
    Wanted,
    /// The member that is to run the shard has asked for it.
    GivenBack,
    /// It may hold the lease no longer, or could not begin.
    Lost(String),
    /// Its process does not answer.
    Silent,
}

/// Renews the lease until that is of no use any more, or until another member asks for it, if the
/// process is not ended already.
async fn renew(
    lease: &mut Lease,
    fence: i64,
    is_stopping: bool,
    until: &watch::Sender<Duration>,
    heard: &watch::Receiver<Option<Duration>>,
) -> Ended {
    loop {
        sleep(RENEWAL).await;
        let heard = *heard.borrow();
        if heard.is_some_and(|heard| lease::now().saturating_sub(heard) >= SILENT) {
            return Ended::Silent;
        }
        let at = lease::now();
        let left = until.borrow().saturating_sub(MARGIN).saturating_sub(at);
        let failure = tokio::select! {
            renewed = lease.renew(fence) => match renewed {
                Ok(Renewed::Wanted) if !is_stopping => return Ended::GivenBack,
                Ok(Renewed::Held | Renewed::Wanted) => {
                    until.send_replace(at + HELD);
                    continue;
                }
                Ok(Renewed::Lost) => return Ended::Lost("another gateway has taken the lease".to_owned()),
                Err(error) => error.to_string(),
            },
            () = sleep(left) => "the shared database does not answer".to_owned(),
        };
        if lease::now() + MARGIN >= *until.borrow() {
            return Ended::Lost(format!("its lease could not be renewed: {failure}"));
        }
    }
}
