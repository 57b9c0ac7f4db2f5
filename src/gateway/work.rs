//! Turns for work that costs more than a millisecond: parsing, planning, comparing, searching flow
//! sets.
//!
//! The control thread and the workers do none of it. A few such tasks run at a time, on threads
//! that give way to all others; those who wait are bounded in number and served by turns, so that
//! one user does not hold up another.

use limits::fair_queue::{FairQueue, Turn};
use limits::party::Party;
use std::sync::Arc;
use std::thread::available_parallelism;
use tokio::runtime::Handle;

/// The runtime of such work, and the queue before it.
#[derive(Debug)]
pub struct Work {
    runtime: Handle,
    queue: Arc<FairQueue>,
}

impl Work {
    /// As many turns at a time as there are processors, two at least: one task that waits for an
    /// upstream must not be all that goes on.
    pub(super) fn new(runtime: Handle) -> Self {
        let turns = available_parallelism().map_or(2, |cores| cores.get().max(2));
        Self {
            runtime,
            queue: FairQueue::new(turns),
        }
    }

    /// Where it runs.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Waits for a turn; `None` if too many wait, or for too long.
    pub async fn turn(&self, party: Party) -> Option<Turn> {
        let known = party.is_user();
        self.queue.turn(party, known).await
    }
}
