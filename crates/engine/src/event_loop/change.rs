//! A change of what runs, as a thread is asked for it.

use crate::RunState;
use crate::stopped_flows::Halt;
use crate::threads::rendezvous::Rendezvous;
use flows::{Credentials, FlowSet, Plan};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A change of what runs; one at a time.
pub(crate) enum Change {
    Apply {
        plan: Plan,
        flows: Arc<FlowSet>,
        credentials: Arc<Credentials>,
    },
    Run(RunState),
    /// The engine stops flows by itself.
    Halt(Halt),
    Close,
}

/// A change, and who waits for it.
pub(crate) struct ChangeRequest {
    pub change: Change,
    /// Sent when the change is live.
    pub done: oneshot::Sender<()>,
    /// The rendezvous of the threads, if all make the change; `None`: this one alone does.
    pub rendezvous: Option<Rendezvous>,
}

impl ChangeRequest {
    /// A change that one thread makes, and the receiver of its end.
    pub(crate) fn alone(change: Change) -> (Self, oneshot::Receiver<()>) {
        Self::with(change, None)
    }

    /// A thread's part of a change that all make together, and the receiver of its end.
    pub(crate) fn with(
        change: Change,
        rendezvous: Option<Rendezvous>,
    ) -> (Self, oneshot::Receiver<()>) {
        let (done, ended) = oneshot::channel();
        let request = Self {
            change,
            done,
            rendezvous,
        };
        (request, ended)
    }
}
