//! Values that do not travel: those of the engine that the node host refers to, and those of the
//! host that messages here refer to. Both sides release what the other side no longer uses.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use value::{Failure, Handle};

/// Values of the engine that the host may refer to at a time. Our choice: as many requests wait for
/// flows at most, ten times over; the host releases them when its garbage collector finds that they
/// are unused.
pub(super) const MAX_LENT: usize = 100_000;

/// The values that do not travel.
#[derive(Default)]
pub(super) struct Handles {
    /// Values of the engine, by the number under which the host knows them.
    lent: RefCell<FxHashMap<u32, Handle>>,
    next: Cell<u32>,
    /// Numbers of host values that nothing here refers to any more. Replaced with each process: the
    /// next one knows none of these values.
    unused: RefCell<Arc<Mutex<Vec<u32>>>>,
}

/// A value in the node host.
struct HostValue {
    id: u32,
    unused: Arc<Mutex<Vec<u32>>>,
}

impl Drop for HostValue {
    fn drop(&mut self) {
        self.unused.lock().push(self.id);
    }
}

impl Handles {
    /// The kind and number under which the host knows a value; `None`: the value was in a process
    /// that has ended. Fails if the host refers to as many as it may.
    pub(super) fn lend(&self, handle: &Handle) -> Result<Option<(&'static str, u32)>, Failure> {
        if let Some(host) = handle.0.downcast_ref::<HostValue>() {
            let is_here = Arc::ptr_eq(&host.unused, &self.unused.borrow());
            return Ok(is_here.then_some(("host", host.id)));
        }
        let mut lent = self.lent.borrow_mut();
        if lent.len() >= MAX_LENT {
            return Err(Failure::error(
                "the node host refers to too many requests, or other values, of the engine",
            ));
        }
        let id = self.next.get();
        self.next.set(id.wrapping_add(1));
        lent.insert(id, handle.clone());
        Ok(Some(("engine", id)))
    }

    /// The value of the engine that the host knows under this number.
    pub(super) fn lent(&self, id: u32) -> Option<Handle> {
        self.lent.borrow().get(&id).cloned()
    }

    /// A reference to a value of the host.
    pub(super) fn of_host(&self, id: u32) -> Handle {
        let unused = Arc::clone(&self.unused.borrow());
        Handle(Arc::new(HostValue { id, unused }))
    }

    /// The host no longer uses these values of the engine.
    pub(super) fn release(&self, ids: &[u32]) {
        let mut lent = self.lent.borrow_mut();
        for id in ids {
            lent.remove(id);
        }
    }

    /// The values of the host that nothing here refers to any more, since the last call.
    pub(super) fn unused(&self) -> Vec<u32> {
        let unused = self.unused.borrow();
        std::mem::take(&mut *unused.lock())
    }

    /// The process has ended, and all references to its values with it.
    pub(super) fn clear(&self) {
        self.lent.borrow_mut().clear();
        self.unused.replace(Arc::default());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_the_host_is_released_when_no_message_refers_to_it() {
        let handles = Handles::default();
        let value = handles.of_host(7);
        assert_eq!(handles.lend(&value).unwrap(), Some(("host", 7)));
        let copy = value.clone();
        drop(value);
        assert!(handles.unused().is_empty());
        drop(copy);
        assert_eq!(handles.unused(), [7]);
        assert!(handles.unused().is_empty());
    }

    #[test]
    fn values_of_a_process_that_has_ended_are_gone() {
        let handles = Handles::default();
        let value = handles.of_host(7);
        let lent = handles.lend(&Handle(Arc::new(1))).unwrap().unwrap().1;
        handles.clear();
        assert_eq!(handles.lend(&value).unwrap(), None);
        assert!(handles.lent(lent).is_none());
        drop(value);
        assert!(handles.unused().is_empty());
    }

    #[test]
    fn what_the_host_refers_to_is_bounded() {
        let handles = Handles::default();
        let value = Handle(Arc::new(1));
        for _ in 0..MAX_LENT {
            handles.lend(&value).unwrap();
        }
        assert!(handles.lend(&value).is_err());
        handles.release(&[0]);
        assert!(handles.lend(&value).is_ok());
    }
}
