//! A list of wakers: tasks that wait for the same change register, and are all woken when it
//! happens.
//!
//! A task that registers before it checks for the change cannot miss it.

use super::sync_shim::Mutex;
use std::task::Waker;

/// The wakers of these tasks.
#[derive(Debug, Default)]
pub(super) struct Wakers(Mutex<Slots>);

/// A task keeps its slot until it is removed, so that registering again takes no search.
#[derive(Debug, Default)]
struct Slots {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

/// Slots that are kept when all are free. Our choice.
const KEPT: usize = 64;

impl Wakers {
    /// Registers a task, or its present waker. `slot` is `None` at first, and belongs to this list
    /// from then on.
    pub(super) fn register(&self, slot: &mut Option<usize>, waker: &Waker) {
        let before = self.lock(|slots| {
            let index = *slot.get_or_insert_with(|| slots.take());
            match &mut slots.wakers[index] {
                Some(known) if known.will_wake(waker) => None,
                known => known.replace(waker.clone()),
            }
        });
        // Outside of the lock: dropping the last waker of a task may drop the task, and a watch in
        // it.
        drop(before);
    }

    /// Removes a task.
    pub(super) fn remove(&self, slot: usize) {
        let waker = self.lock(|slots| {
            let waker = slots.wakers[slot].take();
            slots.free.push(slot);
            if slots.free.len() == slots.wakers.len() && slots.wakers.len() > KEPT {
                *slots = Slots::default();
            }
            waker
        });
        drop(waker);
    }

    /// Wakes all. Each has to register again.
    pub(super) fn wake(&self) {
        let wakers: Vec<_> =
            self.lock(|slots| slots.wakers.iter_mut().filter_map(Option::take).collect());
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock<T>(&self, change: impl FnOnce(&mut Slots) -> T) -> T {
        change(&mut self.0.lock())
    }
}

impl Slots {
    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.wakers.push(None);
            self.wakers.len() - 1
        })
    }
}
