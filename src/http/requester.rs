//! The client of a change of the flows, taken along by the task that outlives its request.

use super::request_context::RequestContext;
use crate::audit::Actor;
use crate::auth::AuthWatch;
use crate::deployment::{Approval, Authorized};
use crate::traces::Trace;

/// The client of a change.
pub(super) struct Requester {
    pub(super) actor: Actor,
    /// Seconds since 1970.
    pub(super) now: u64,
    watch: AuthWatch,
    message: String,
    approval: Option<Approval>,
    trace: Option<Trace>,
}

impl Requester {
    /// With what it says about the change, and the proposal that it approves with it.
    pub(super) fn of(
        ctx: &RequestContext<'_>,
        message: String,
        approval: Option<Approval>,
    ) -> Self {
        Self {
            actor: ctx.actor(),
            now: ctx.now,
            watch: ctx.detached_watch(),
            message,
            approval,
            trace: ctx.recorded_trace().cloned(),
        }
    }

    /// With nothing to say.
    pub(super) fn silent(ctx: &RequestContext<'_>) -> Self {
        Self::of(ctx, String::new(), None)
    }

    /// The trace of its request, if that is recorded.
    #[cfg(feature = "engine")]
    pub(super) fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    pub(super) fn authorized(&mut self) -> Authorized<'_> {
        Authorized {
            actor: &self.actor,
            watch: &mut self.watch,
            now: self.now,
            message: &self.message,
            approval: self.approval.as_ref(),
            trace: self.trace.as_ref(),
        }
    }
}
