//! Unhandled rejections of promises: errors that would otherwise be silent.
//!
//! They are kept for the current turn: its node takes them at its end, when all pending jobs have
//! run.

use rquickjs::{Ctx, Persistent, Runtime, Value as JsValue};
use std::cell::RefCell;
use std::rc::Rc;

/// So many are remembered in one turn (ours): each keeps a promise alive, and each becomes an error
/// in the log.
const REMEMBERED: usize = 100;

type Kept = Persistent<JsValue<'static>>;

/// The rejections of the current turn that are not handled yet: promise and reason.
#[derive(Default)]
pub(super) struct Rejections(RefCell<Vec<(Kept, Kept)>>);

impl Rejections {
    /// Hears of every rejection in this runtime from now on.
    pub(super) fn of(runtime: &Runtime) -> Rc<Self> {
        let rejections = Rc::new(Self::default());
        let unhandled = Rc::clone(&rejections);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(
            move |ctx, promise, reason, is_handled| {
                unhandled.track(&ctx, promise, is_handled, reason);
            },
        )));
        rejections
    }

    fn track<'js>(
        &self,
        ctx: &Ctx<'js>,
        promise: JsValue<'js>,
        is_handled: bool,
        reason: JsValue<'js>,
    ) {
        let promise = Persistent::save(ctx, promise);
        let mut unhandled = self.0.borrow_mut();
        if !is_handled {
            if unhandled.len() < REMEMBERED {
                unhandled.push((promise, Persistent::save(ctx, reason)));
            }
        } else if let Some(at) = unhandled.iter().rposition(|(kept, _)| *kept == promise) {
            unhandled.remove(at);
        }
    }

    /// Takes the reasons of all unhandled rejections.
    pub(super) fn take(&self) -> Vec<Kept> {
        self.0
            .take()
            .into_iter()
            .map(|(_, reason)| reason)
            .collect()
    }
}
