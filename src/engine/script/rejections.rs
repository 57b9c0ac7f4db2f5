//! Promises that were rejected while nobody waited for them: errors that would otherwise be silent.
//!
//! It knows no node: whose turn it is asks for them at the end of the turn, when all that was pending has run.

use rquickjs::{Ctx, Persistent, Runtime, Value as JsValue};
use std::cell::RefCell;
use std::rc::Rc;

/// So many are remembered in one turn (ours): each keeps a promise alive, and each becomes an error in the log.
const REMEMBERED: usize = 100;

type Kept = Persistent<JsValue<'static>>;

/// The rejections of the current turn that nobody has handled yet: promise and reason.
#[derive(Default)]
pub(super) struct Rejections(RefCell<Vec<(Kept, Kept)>>);

impl Rejections {
    /// Hears of every rejection in this runtime from now on.
    pub(super) fn of(runtime: &Runtime) -> Rc<Self> {
        let rejections = Rc::new(Self::default());
        let told = Rc::clone(&rejections);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(
            move |ctx, promise, reason, is_handled| {
                told.hear(&ctx, promise, is_handled, reason);
            },
        )));
        rejections
    }

    fn hear<'js>(
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

    /// The reasons of all that nobody has handled; they are forgotten.
    pub(super) fn take(&self) -> Vec<Kept> {
        self.0
            .take()
            .into_iter()
            .map(|(_, reason)| reason)
            .collect()
    }
}
