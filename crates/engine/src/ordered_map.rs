//! A map in the order of insertion whose entries are removed in logarithmic time;
//! `IndexMap::shift_remove` takes linear time, and a deployment removes all nodes that use a broker
//! or a listener.

use rustc_hash::FxHashMap;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;

/// A map that gives its values in the order in which they were inserted.
pub(crate) struct OrderedMap<K, V> {
    values: BTreeMap<u64, V>,
    numbers: FxHashMap<K, u64>,
    inserted: u64,
}

impl<K, V> Default for OrderedMap<K, V> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            numbers: FxHashMap::default(),
            inserted: 0,
        }
    }
}

impl<K: Hash + Eq, V> OrderedMap<K, V> {
    /// Inserts a value behind all others; returns the one that it replaces.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.inserted += 1;
        self.values.insert(self.inserted, value);
        let replaced = self.numbers.insert(key, self.inserted)?;
        self.values.remove(&replaced)
    }

    /// Removes a value.
    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.values.remove(&self.numbers.remove(key)?)
    }

    /// The values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.values.values()
    }

    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether there is no value.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_in_the_order_of_insertion_and_a_replaced_one_comes_last() {
        let mut map = OrderedMap::default();
        for key in ["a", "b", "c"] {
            assert_eq!(map.insert(key, key), None);
        }
        assert_eq!(map.insert("a", "d"), Some("a"));
        assert_eq!((map.remove("b"), map.remove("b")), (Some("b"), None));
        assert!(map.values().eq(&["c", "d"]));
        assert_eq!((map.len(), map.is_empty()), (2, false));
    }
}
