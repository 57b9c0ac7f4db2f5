//! The types that `auth` shares between threads, over locks and atomics that shuttle controls: a
//! map of shards that are locked one after the other, and a pointer that is swapped.

pub(super) use shuttle::sync::atomic::{AtomicBool, AtomicU64};

use shuttle::sync::{self, MutexGuard, RwLock};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::sync::Arc;

/// Few enough that keys share one, and enough that not all do.
const SHARDS: usize = 2;

pub(super) struct DashMap<K, V, S> {
    shards: [RwLock<HashMap<K, V>>; SHARDS],
    hasher: S,
}

/// A key with its value.
pub(super) struct Pair<K, V>(K, V);

/// The place of a key, there or not.
pub(super) struct Entry<'m, K, V>(&'m RwLock<HashMap<K, V>>, K);

impl<K: Eq + Hash, V> Entry<'_, K, V> {
    pub(super) fn or_insert(self, value: V) {
        self.0.write().unwrap().entry(self.1).or_insert(value);
    }
}

impl<K, V: Clone, S: BuildHasher> DashMap<K, V, S>
where
    K: Copy + Eq + Hash,
{
    fn shard(&self, key: &K) -> &RwLock<HashMap<K, V>> {
        &self.shards[usize::try_from(self.hasher.hash_one(key) % 2).unwrap()]
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.shard(key).read().unwrap().get(key).cloned()
    }

    pub(super) fn entry(&self, key: K) -> Entry<'_, K, V> {
        Entry(self.shard(&key), key)
    }

    pub(super) fn remove(&self, key: &K) -> Option<(K, V)> {
        self.shard(key).write().unwrap().remove_entry(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Pair<K, V>> {
        self.shards.iter().flat_map(|shard| {
            let shard = shard.read().unwrap();
            let pairs: Vec<_> = shard.iter().map(|(k, v)| Pair(*k, v.clone())).collect();
            pairs
        })
    }

    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }
}

impl<K, V, S: Default> Default for DashMap<K, V, S> {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| RwLock::new(HashMap::new())),
            hasher: S::default(),
        }
    }
}

impl<K, V> Pair<K, V> {
    pub(super) fn key(&self) -> &K {
        &self.0
    }
}

impl<K, V> Deref for Pair<K, V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.1
    }
}

/// `Mutex` of `parking_lot` as far as it is used.
#[derive(Debug, Default)]
pub(super) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// `ArcSwap` as far as it is used.
pub(super) struct ArcSwap<T>(RwLock<Arc<T>>);

impl<T> ArcSwap<T> {
    pub(super) fn from_pointee(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    pub(super) fn load(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap())
    }

    pub(super) fn load_full(&self) -> Arc<T> {
        self.load()
    }

    pub(super) fn store(&self, value: Arc<T>) {
        *self.0.write().unwrap() = value;
    }

    pub(super) fn rcu(&self, change: impl Fn(&Arc<T>) -> T) {
        let mut held = self.0.write().unwrap();
        let changed = change(&held);
        *held = Arc::new(changed);
    }
}
