//! Restarts the process because its packages have changed: its nodes are stopped first; messages to
//! them wait from when the next one starts.

use super::{NodeHost, State};
use serde_json::Value as Json;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokio::sync::oneshot;

/// A restart that was asked for, and the settings of the next process.
pub(super) struct Reload {
    /// The node sets that are not loaded.
    disabled: RefCell<Vec<String>>,
    /// Whether the process is about to end for the next one.
    is_under_way: Cell<bool>,
    /// Those who wait until a process has loaded the packages.
    waiting: RefCell<Vec<oneshot::Sender<()>>>,
}

/// Why a process has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// For the next one.
    Reload,
    /// For any other reason.
    Failure,
}

impl Reload {
    pub(super) fn new(disabled: Vec<String>) -> Self {
        Self {
            disabled: RefCell::new(disabled),
            is_under_way: Cell::new(false),
            waiting: RefCell::default(),
        }
    }

    /// The node sets that are not loaded.
    pub(super) fn disabled(&self) -> Json {
        self.disabled.borrow().as_slice().into()
    }

    /// A process has loaded the packages. One that is about to end has not loaded those that are
    /// meant.
    pub(super) fn ready(&self) {
        if !self.is_under_way.get() {
            for waiting in self.waiting.take() {
                // It may not wait any more.
                let _ = waiting.send(());
            }
        }
    }

    /// The process has ended.
    pub(super) fn ended(&self) -> End {
        if self.is_under_way.take() {
            End::Reload
        } else {
            End::Failure
        }
    }
}

impl NodeHost {
    /// Ends the process once its nodes have closed. The next one loads the packages that are there
    /// then, also those that were left out, without these node sets; then `ready` is sent.
    pub(crate) fn reload(self: &Rc<Self>, disabled: Vec<String>, ready: oneshot::Sender<()>) {
        self.reload.disabled.replace(disabled);
        self.reload.waiting.borrow_mut().push(ready);
        let mut culprits = self.culprits.borrow_mut();
        culprits.take_back();
        self.served.set_left_out(culprits.left_out());
        drop(culprits);
        if self.reload.is_under_way.get() {
            return;
        }
        if self.state.get() == State::Down {
            // It starts now instead of after a while.
            return self.end.notify_one();
        }
        self.reload.is_under_way.set(true);
        let stopped = self.stop();
        self.state.set(State::Down);
        let host = Rc::clone(self);
        tokio::task::spawn_local(async move {
            if let Some(stopped) = stopped {
                stopped.await;
            }
            host.kill("its packages have changed");
        });
    }
}
