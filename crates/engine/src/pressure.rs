//! Back-pressure to the sources of messages: which groups of flows are full, and the sources that
//! wait until they have room.
//!
//! The engine's thread decides which groups are full (`fair_queue`, `memory_budget`); tasks of
//! nodes, which run on the same thread, ask here before they read more.

use crate::settings::Settings;
use rustc_hash::FxHashSet;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The bytes that a message counts for besides its content, where a source weighs what it has read
/// before messages are made of it. Our choice: a message of a `tcp in` node with an empty payload
/// takes some 700 bytes.
pub(crate) const MESSAGE: usize = 1024;

/// Sources may hand over this part of `queue_bytes` before the engine's thread has taken it: that
/// much may come in after a group has become full. Our choice.
const IN_FLIGHT: usize = 8;

/// Which groups of flows are full.
pub(crate) struct Pressure {
    /// The group of each slot; slots beyond the end are in group 0.
    groups: RefCell<Rc<[u32]>>,
    full: RefCell<FxHashSet<u32>>,
    /// Whether the program needs almost all memory that it may have: then all groups count as full.
    exhausted: Cell<bool>,
    /// The groups that have foreign nodes.
    foreign: RefCell<FxHashSet<u32>>,
    /// Whether too much is on its way to the node host: then the groups that have foreign nodes
    /// count as full.
    host_full: Cell<bool>,
    /// Whether any group is full.
    any: Cell<bool>,
    changed: Notify,
    in_flight: InFlight,
}

/// Bounds the bytes that sources have read and the engine's thread has not taken; shared with the
/// threads of the gateway, which read for websocket listeners.
#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    bytes: Arc<Semaphore>,
    most: u32,
}

impl InFlight {
    pub(crate) fn new(settings: &Settings) -> Self {
        let most = (settings.queue_bytes / IN_FLIGHT).clamp(1, Semaphore::MAX_PERMITS);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        Self {
            bytes: Arc::new(Semaphore::new(most as usize)),
            most,
        }
    }

    /// Waits until this many bytes may be handed over. The permit is released when the engine's
    /// thread has taken them. More than the whole bound takes all of it.
    pub(crate) async fn claim(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let weight = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.most);
        // The semaphore is never closed.
        Arc::clone(&self.bytes)
            .acquire_many_owned(weight)
            .await
            .ok()
    }
}

impl Pressure {
    pub(crate) fn new(in_flight: InFlight) -> Rc<Self> {
        Rc::new(Self {
            groups: RefCell::default(),
            full: RefCell::default(),
            exhausted: Cell::new(false),
            foreign: RefCell::default(),
            host_full: Cell::new(false),
            any: Cell::new(false),
            changed: Notify::new(),
            in_flight,
        })
    }

    /// Returns whether any group is full.
    pub(crate) fn any(&self) -> bool {
        self.any.get()
    }

    /// Returns whether all groups count as full because memory is short.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted.get()
    }

    /// Returns whether the group of a slot is full.
    pub(crate) fn is_full(&self, slot: u32) -> bool {
        if !self.any.get() {
            return false;
        }
        let group = self
            .groups
            .borrow()
            .get(slot as usize)
            .copied()
            .unwrap_or(0);
        self.exhausted.get()
            || self.full.borrow().contains(&group)
            || (self.host_full.get() && self.foreign.borrow().contains(&group))
    }

    /// Returns whether a group that has foreign nodes is full by what waits in the engine.
    pub(crate) fn is_foreign_full(&self) -> bool {
        self.any.get()
            && (self.exhausted.get() || !self.full.borrow().is_disjoint(&self.foreign.borrow()))
    }

    /// Takes the groups that have foreign nodes from now on.
    pub(crate) fn set_foreign(&self, groups: FxHashSet<u32>) {
        self.foreign.replace(groups);
    }

    /// Lets the sources of groups that have foreign nodes wait, or go on.
    pub(crate) fn set_host_full(&self, full: bool) {
        if self.host_full.replace(full) != full {
            self.change();
        }
    }

    /// Waits until this many bytes may be handed to the engine's thread; see [`InFlight::claim`].
    pub(crate) async fn claim(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.in_flight.claim(bytes).await
    }

    /// The full groups, in order.
    pub(crate) fn full(&self) -> Vec<u32> {
        let mut full: Vec<u32> = self.full.borrow().iter().copied().collect();
        full.sort_unstable();
        full
    }

    /// Marks a group as full, or as no longer full.
    pub(crate) fn set_full(&self, group: u32, full: bool) {
        let mut groups = self.full.borrow_mut();
        let changes = if full {
            groups.insert(group)
        } else {
            groups.remove(&group)
        };
        drop(groups);
        if changes {
            self.change();
        }
    }

    /// Marks all groups as full, or only those that are.
    pub(crate) fn set_exhausted(&self, exhausted: bool) {
        if self.exhausted.replace(exhausted) != exhausted {
            self.change();
        }
    }

    /// Takes the groups that slots are in from now on. None of them is full.
    pub(crate) fn regroup(&self, groups: Rc<[u32]>) {
        *self.groups.borrow_mut() = groups;
        self.full.borrow_mut().clear();
        self.change();
    }

    /// Waits until some group becomes full, or is no longer.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn change(&self) {
        self.any
            .set(self.exhausted.get() || self.host_full.get() || !self.full.borrow().is_empty());
        self.changed.notify_waiters();
    }
}

/// A node that brings messages into its flow.
#[derive(Clone)]
pub(crate) struct Source {
    pressure: Rc<Pressure>,
    slot: u32,
    /// Messages dropped since the last report (`sources`).
    dropped: Rc<Cell<u64>>,
}

impl Source {
    pub(crate) fn new(pressure: Rc<Pressure>, slot: u32, dropped: Rc<Cell<u64>>) -> Self {
        Self {
            pressure,
            slot,
            dropped,
        }
    }

    /// Returns whether the node's flow is full: then the node is to read nothing more.
    pub(crate) fn is_full(&self) -> bool {
        self.pressure.is_full(self.slot)
    }

    /// Returns whether any flow is full; if not, none needs to be asked.
    pub(crate) fn is_any_full(&self) -> bool {
        self.pressure.any()
    }

    /// Waits until the node's flow is not full.
    pub(crate) async fn room(&self) {
        while self.is_full() {
            self.pressure.changed().await;
        }
    }

    /// Counts a message that cannot wait until the flow has room.
    pub(crate) fn drop_message(&self) {
        self.dropped.set(self.dropped.get() + 1);
    }

    /// Waits until what the node has read may be handed over; see [`InFlight::claim`].
    pub(crate) async fn claim(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.pressure.claim(bytes).await
    }

    /// Waits until some flow becomes full, or is no longer.
    pub(crate) async fn changed(&self) {
        self.pressure.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn pressure() -> Rc<Pressure> {
        let pressure = Pressure::new(InFlight::new(&Settings::default()));
        pressure.regroup(Rc::from([0, 1]));
        pressure
    }

    #[tokio::test]
    async fn a_source_waits_while_its_group_is_full() {
        let pressure = pressure();
        let source = |slot| Source::new(Rc::clone(&pressure), slot, Rc::default());
        pressure.set_full(1, true);
        source(0).room().await;
        let waits = source(1);
        let mut room = std::pin::pin!(waits.room());
        let early = tokio::time::timeout(Duration::from_millis(5), &mut room).await;
        assert!(early.is_err());
        pressure.set_full(1, false);
        room.await;
        assert!(!pressure.any());
    }

    #[tokio::test]
    async fn every_source_waits_while_memory_is_short() {
        let pressure = pressure();
        let source = Source::new(Rc::clone(&pressure), 0, Rc::default());
        pressure.set_full(1, true);
        pressure.set_exhausted(true);
        assert!(source.is_full());
        pressure.set_exhausted(false);
        source.room().await;
        assert!(pressure.any(), "group 1 is still full");
    }

    #[tokio::test]
    async fn bytes_on_their_way_to_the_engine_are_bounded() {
        let settings = Settings {
            queue_bytes: 8000,
            ..Settings::default()
        };
        let in_flight = InFlight::new(&settings);
        let first = in_flight.claim(600).await;
        let mut second = std::pin::pin!(in_flight.claim(1_000_000));
        let early = tokio::time::timeout(Duration::from_millis(5), &mut second).await;
        assert!(early.is_err());
        drop(first);
        assert_eq!(second.await.map(|permit| permit.num_permits()), Some(1000));
    }
}
