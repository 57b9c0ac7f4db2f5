//! A sliding window: limits the events of each key within the time up to now, attempts under way
//! included. Bounded in memory.
//!
//! Time is passed in, in seconds. Callers decide what a key is, and its limit.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// Why an attempt may not begin now.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too many events: until the oldest that counts leaves the window.
    Blocked(Duration),
    /// The limit is not reached, but the attempts under way might reach it: retry when one is
    /// decided.
    Busy,
}

impl Refused {
    /// Of two limits that must both admit: the longer block, and a block before an attempt under
    /// way.
    pub fn stricter(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(Self::Blocked(one)), Some(Self::Blocked(other))) => {
                Some(Self::Blocked(one.max(other)))
            }
            (Some(blocked @ Self::Blocked(_)), _) | (_, Some(blocked @ Self::Blocked(_))) => {
                Some(blocked)
            }
            (Some(Self::Busy), _) | (_, Some(Self::Busy)) => Some(Self::Busy),
            (None, None) => None,
        }
    }
}

/// The time that counts: seconds up to now.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Its length.
    pub length: u64,
    /// Its end.
    pub now: u64,
}

impl Window {
    /// The time for which an event of that time still counts; `None`: no longer.
    fn left(self, at: u64) -> Option<Duration> {
        let left = at.saturating_add(self.length).saturating_sub(self.now);
        (left > 0).then(|| Duration::from_secs(left))
    }
}

/// The events of one key.
#[derive(Debug, Default)]
struct Events {
    /// Oldest first; as many as the limit asks for.
    times: Vec<u64>,
    under_way: u32,
}

impl Events {
    fn add(&mut self, at: u64, most: usize, window: Window) {
        self.times.retain(|&at| window.left(at).is_some());
        // Attempts are decided in another order than they began.
        let index = self.times.partition_point(|&other| other <= at);
        self.times.insert(index, at);
        self.times
            .drain(..self.times.len().saturating_sub(most.max(1)));
    }

    fn counts(&self, window: Window) -> bool {
        self.under_way > 0 || self.times.iter().any(|&at| window.left(at).is_some())
    }

    fn count(&self, window: Window) -> usize {
        let times = self.times.iter();
        times.filter(|&&at| window.left(at).is_some()).count()
    }
}

/// The windows of a limited number of keys.
///
/// When there are too many keys, an eighth of them is forgotten at once, because the search takes
/// some milliseconds: those with the fewest events, of these the ones whose last event is the
/// longest ago. So to push out a key, an attacker needs as many events of each of that many others.
#[derive(Debug)]
pub struct SlidingWindows<K> {
    capacity: usize,
    keys: HashMap<K, Events>,
}

impl<K: Copy + Eq + Hash> SlidingWindows<K> {
    /// Remembers at most `capacity` keys.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            keys: HashMap::new(),
        }
    }

    /// Whether, and for how long, an attempt of this key may not begin.
    pub fn refused(&self, key: &K, limit: u32, window: Window) -> Option<Refused> {
        let limit = effective_limit(limit);
        let events = self.keys.get(key)?;
        let left: Vec<Duration> = events
            .times
            .iter()
            .filter_map(|&at| window.left(at))
            .collect();
        if left.len() >= limit {
            // When this one leaves the window, one less than the limit remains.
            return left.get(left.len() - limit).copied().map(Refused::Blocked);
        }
        let under_way = usize::try_from(events.under_way).unwrap_or(usize::MAX);
        (left.len().saturating_add(under_way) >= limit).then_some(Refused::Busy)
    }

    /// An attempt begins; it counts until it is decided.
    pub fn begin(&mut self, key: K, window: Window) {
        self.events(key, window).under_way += 1;
    }

    /// An attempt is decided.
    pub fn decided(&mut self, key: &K) {
        let Some(events) = self.keys.get_mut(key) else {
            return;
        };
        events.under_way = events.under_way.saturating_sub(1);
        if events.under_way == 0 && events.times.is_empty() {
            self.keys.remove(key);
        }
    }

    /// The events of a key within the window.
    pub fn count(&self, key: &K, window: Window) -> usize {
        self.keys.get(key).map_or(0, |events| events.count(window))
    }

    /// Adds an event; the newest `most` of a key are kept.
    pub fn add(&mut self, key: K, at: u64, most: usize, window: Window) {
        self.events(key, window).add(at, most, window);
    }

    /// Forgets the events of a key; returns whether there were any.
    pub fn clear(&mut self, key: &K) -> bool {
        let events = self.keys.get_mut(key);
        events.is_some_and(|events| !std::mem::take(&mut events.times).is_empty())
    }

    /// Forgets what no longer counts.
    pub fn sweep(&mut self, window: Window) {
        self.keys.retain(|_, events| events.counts(window));
    }

    fn events(&mut self, key: K, window: Window) -> &mut Events {
        if self.keys.len() >= self.capacity && !self.keys.contains_key(&key) {
            self.make_room(window);
        }
        self.keys.entry(key).or_default()
    }

    fn make_room(&mut self, window: Window) {
        self.sweep(window);
        if self.keys.len() < self.capacity {
            return;
        }
        let mut idle: Vec<_> = self
            .keys
            .iter()
            .filter(|(_, events)| events.under_way == 0)
            .map(|(key, events)| (events.count(window), events.times.last().copied(), *key))
            .collect();
        let forgotten = self.capacity / 8;
        if idle.len() > forgotten {
            // Fewest events first, then those whose last event is the longest ago.
            idle.select_nth_unstable_by_key(forgotten, |&(count, last, _)| (count, last));
            idle.truncate(forgotten);
        }
        for (_, _, key) in idle {
            self.keys.remove(&key);
        }
    }
}

/// A limit as a number of events: one at least.
pub fn effective_limit(limit: u32) -> usize {
    usize::try_from(limit.max(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: usize = 65_536;

    fn window(now: u64) -> Window {
        Window { length: 600, now }
    }

    #[test]
    fn a_sweep_forgets_failures_outside_the_window() {
        let mut windows = SlidingWindows::new(CAPACITY);
        windows.add("old", 0, 9, window(0));
        windows.add("young", 1, 9, window(1));
        windows.begin("under way", window(0));
        windows.sweep(window(600));
        let mut kept: Vec<_> = windows.keys.keys().copied().collect();
        kept.sort_unstable();
        assert_eq!(kept, ["under way", "young"]);
    }

    #[test]
    fn events_are_in_order_whatever_the_order_they_are_added_in() {
        let mut windows = SlidingWindows::new(CAPACITY);
        windows.add("x", 20, 9, window(20));
        windows.add("x", 10, 9, window(20));
        let first_leaves = Refused::Blocked(Duration::from_secs(590));
        assert_eq!(windows.refused(&"x", 2, window(20)), Some(first_leaves));
    }

    #[test]
    fn memory_is_bounded_and_keys_with_many_events_are_kept() {
        let mut windows = SlidingWindows::new(CAPACITY);
        let full = CAPACITY as u64;
        let window = |now| Window {
            length: full * 4,
            now,
        };
        // The oldest of all, but with two events.
        windows.add(u64::MAX, 0, 9, window(0));
        windows.add(u64::MAX, 0, 9, window(0));
        for key in 0..full * 2 {
            windows.add(key, key, 9, window(key));
            assert!(windows.keys.len() <= CAPACITY);
        }
        let now = window(full * 2);
        assert_eq!(windows.count(&u64::MAX, now), 2);
        assert_eq!(windows.count(&0, now), 0, "the longest ago is forgotten");
        assert_eq!(windows.count(&(full * 2 - 1), now), 1);
        assert!(windows.keys.len() > CAPACITY - CAPACITY / 8 - 1);
    }

    #[test]
    fn of_one_key_the_newest_events_are_kept() {
        let mut windows = SlidingWindows::new(CAPACITY);
        for now in 0..500 {
            windows.add("x", now, 3, window(now));
        }
        assert_eq!(windows.keys["x"].times, [497, 498, 499]);
        let until_two_are_left = Refused::Blocked(Duration::from_secs(598));
        let refused = windows.refused(&"x", 3, window(499));
        assert_eq!(refused, Some(until_two_are_left));
    }

    #[test]
    fn an_attempt_without_an_event_leaves_no_key() {
        let mut windows = SlidingWindows::new(CAPACITY);
        windows.begin("x", window(0));
        windows.decided(&"x");
        assert!(windows.keys.is_empty());
    }
}
