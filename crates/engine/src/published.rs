//! A table that the engine's thread changes and every worker reads without a lock.

use arc_swap::{ArcSwap, Guard};
use std::sync::Arc;

/// The workers' side; clones read the same table.
#[derive(Debug, Default)]
pub(crate) struct Published<T>(Arc<ArcSwap<T>>);

/// The engine's side: changes become visible together, so that a change of many entries copies the
/// table once.
#[derive(Debug)]
pub(crate) struct Publisher<T> {
    published: Published<T>,
    next: Arc<T>,
}

impl<T> Clone for Published<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Published<T> {
    /// The table as last published.
    pub(crate) fn load(&self) -> Guard<Arc<T>> {
        self.0.load()
    }

    /// The side that changes it; there is one.
    pub(crate) fn publisher(&self) -> Publisher<T> {
        Publisher {
            published: self.clone(),
            next: self.0.load_full(),
        }
    }
}

impl<T: Clone> Publisher<T> {
    /// The table with the changes that are not published yet.
    pub(crate) fn get(&self) -> &T {
        &self.next
    }

    /// The same, to change it. The first change since the last publication copies the table.
    pub(crate) fn change(&mut self) -> &mut T {
        Arc::make_mut(&mut self.next)
    }

    /// Replaces the table.
    pub(crate) fn replace(&mut self, table: T) {
        self.next = Arc::new(table);
    }

    /// Makes the changes visible.
    pub(crate) fn publish(&self) {
        if !Arc::ptr_eq(&self.published.load(), &self.next) {
            self.published.0.store(Arc::clone(&self.next));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_seen_together_when_they_are_published() {
        let table = Published::<Vec<u8>>::default();
        let mut publisher = table.publisher();
        publisher.change().push(1);
        publisher.change().push(2);
        assert!(table.load().is_empty());
        publisher.publish();
        assert_eq!(**table.load(), [1, 2]);
        let before = table.load();
        publisher.change().push(3);
        assert_eq!((before.len(), publisher.get().len()), (2, 3));
    }
}
