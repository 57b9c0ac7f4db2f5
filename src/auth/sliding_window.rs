//! Tallies of failures: who has how many within the window, and until when. Bounded in memory.
//!
//! Knows only keys and times; what a key is and what the limits are is the throttle's.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// Keys remembered at most (some 10 MiB). When they are too many, those with the fewest failures are forgotten, of
/// these the longest ago: to push out a key, an attacker has to fail as often with each of so many others. At 20 ms a
/// hash and two at a time, even one failure of each IPv4 address takes 11 minutes, longer than the default window. A
/// failure over IPv6 adds up to three keys (/64, /56, /48): from 22,000 different /48s it takes 4 minutes, and keys
/// with a single failure can be pushed out within the window.
const REMEMBERED: usize = 65_536;

/// Keys forgotten at a time, because looking for them takes some milliseconds.
const FORGOTTEN: usize = REMEMBERED / 8;

/// Why a sign-in may not go on now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Too many failures: until the oldest that counts leaves the window.
    Blocked(Duration),
    /// Not too many failures, but with the sign-ins under way they might be: ask again when one is decided.
    Busy,
}

impl Refused {
    /// Both must let go: the longer block, and a block before a sign-in under way.
    pub(super) fn stricter(one: Option<Self>, other: Option<Self>) -> Option<Self> {
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
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) length: u64,
    pub(super) now: u64,
}

impl Window {
    /// How long a failure of that time still counts; `None`: no longer.
    fn left(self, at: u64) -> Option<Duration> {
        let left = at.saturating_add(self.length).saturating_sub(self.now);
        (left > 0).then(|| Duration::from_secs(left))
    }
}

/// What one key has against it.
#[derive(Default)]
struct Tally {
    /// When it failed, oldest first; as many as the limit asks for.
    failures: Vec<u64>,
    under_way: u32,
}

impl Tally {
    fn add(&mut self, at: u64, most: usize, window: Window) {
        self.failures.retain(|&at| window.left(at).is_some());
        // sign-ins are decided in another order than they began
        let place = self.failures.partition_point(|&other| other <= at);
        self.failures.insert(place, at);
        self.failures
            .drain(..self.failures.len().saturating_sub(most.max(1)));
    }

    fn counts(&self, window: Window) -> bool {
        self.under_way > 0 || self.failures.iter().any(|&at| window.left(at).is_some())
    }

    fn count(&self, window: Window) -> usize {
        let failures = self.failures.iter();
        failures.filter(|&&at| window.left(at).is_some()).count()
    }
}

/// Tallies of at most [`REMEMBERED`] keys.
pub(super) struct Tallies<K>(HashMap<K, Tally>);

impl<K> Default for Tallies<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Copy + Eq + Hash> Tallies<K> {
    /// Whether, and for how long, something of this key may not begin.
    pub(super) fn refused(&self, key: &K, limit: u32, window: Window) -> Option<Refused> {
        let limit = size(limit);
        let tally = self.0.get(key)?;
        let left: Vec<Duration> = tally
            .failures
            .iter()
            .filter_map(|&at| window.left(at))
            .collect();
        if left.len() >= limit {
            // when this one leaves the window, one less than the limit remains
            return left.get(left.len() - limit).copied().map(Refused::Blocked);
        }
        let under_way = usize::try_from(tally.under_way).unwrap_or(usize::MAX);
        (left.len().saturating_add(under_way) >= limit).then_some(Refused::Busy)
    }

    /// Something begins; until it is decided it counts.
    pub(super) fn begin(&mut self, key: K, window: Window) {
        self.tally(key, window).under_way += 1;
    }

    /// What began is decided.
    pub(super) fn decided(&mut self, key: &K) {
        let Some(tally) = self.0.get_mut(key) else {
            return;
        };
        tally.under_way = tally.under_way.saturating_sub(1);
        if tally.under_way == 0 && tally.failures.is_empty() {
            self.0.remove(key);
        }
    }

    /// The failures of a key within the window.
    pub(super) fn count(&self, key: &K, window: Window) -> usize {
        self.0.get(key).map_or(0, |tally| tally.count(window))
    }

    /// Adds a failure; of a key, the newest `most` are kept.
    pub(super) fn add(&mut self, key: K, at: u64, most: usize, window: Window) {
        self.tally(key, window).add(at, most, window);
    }

    /// Forgets the failures of a key; returns whether there were any.
    pub(super) fn clear(&mut self, key: &K) -> bool {
        let tally = self.0.get_mut(key);
        tally.is_some_and(|tally| !std::mem::take(&mut tally.failures).is_empty())
    }

    /// Forgets what no longer counts.
    pub(super) fn sweep(&mut self, window: Window) {
        self.0.retain(|_, tally| tally.counts(window));
    }

    fn tally(&mut self, key: K, window: Window) -> &mut Tally {
        if self.0.len() >= REMEMBERED && !self.0.contains_key(&key) {
            self.make_room(window);
        }
        self.0.entry(key).or_default()
    }

    fn make_room(&mut self, window: Window) {
        self.sweep(window);
        if self.0.len() < REMEMBERED {
            return;
        }
        let mut idle: Vec<_> = self
            .0
            .iter()
            .filter(|(_, tally)| tally.under_way == 0)
            .map(|(key, tally)| (tally.count(window), tally.failures.last().copied(), *key))
            .collect();
        if idle.len() > FORGOTTEN {
            idle.select_nth_unstable_by(FORGOTTEN, by_weight);
            idle.truncate(FORGOTTEN);
        }
        for (_, _, key) in idle {
            self.0.remove(&key);
        }
    }
}

/// A limit as a number of failures: one at least.
pub(super) fn size(limit: u32) -> usize {
    usize::try_from(limit.max(1)).unwrap_or(usize::MAX)
}

/// Fewest failures first, then those whose last failure is the longest ago.
fn by_weight<K>(a: &(usize, Option<u64>, K), b: &(usize, Option<u64>, K)) -> Ordering {
    (a.0, a.1).cmp(&(b.0, b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(now: u64) -> Window {
        Window { length: 600, now }
    }

    #[test]
    fn a_sweep_forgets_what_no_longer_counts() {
        let mut tallies = Tallies::default();
        tallies.add("old", 0, 9, window(0));
        tallies.add("young", 1, 9, window(1));
        tallies.begin("under way", window(0));
        tallies.sweep(window(600));
        let mut kept: Vec<_> = tallies.0.keys().copied().collect();
        kept.sort_unstable();
        assert_eq!(kept, ["under way", "young"]);
    }

    #[test]
    fn failures_are_in_order_whatever_the_order_they_were_told_in() {
        let mut tallies = Tallies::default();
        tallies.add("x", 20, 9, window(20));
        tallies.add("x", 10, 9, window(20));
        let first_leaves = Refused::Blocked(Duration::from_secs(590));
        assert_eq!(tallies.refused(&"x", 2, window(20)), Some(first_leaves));
    }

    #[test]
    fn memory_is_bounded_and_keys_with_many_failures_are_kept() {
        let mut tallies = Tallies::default();
        let full = REMEMBERED as u64;
        let window = |now| Window {
            length: full * 4,
            now,
        };
        // The oldest of all, but with two failures.
        tallies.add(u64::MAX, 0, 9, window(0));
        tallies.add(u64::MAX, 0, 9, window(0));
        for key in 0..full * 2 {
            tallies.add(key, key, 9, window(key));
            assert!(tallies.0.len() <= REMEMBERED);
        }
        let now = window(full * 2);
        assert_eq!(tallies.count(&u64::MAX, now), 2);
        assert_eq!(tallies.count(&0, now), 0, "the longest ago is forgotten");
        assert_eq!(tallies.count(&(full * 2 - 1), now), 1);
        assert!(tallies.0.len() > REMEMBERED - FORGOTTEN - 1);
    }

    #[test]
    fn of_one_key_the_newest_failures_are_kept() {
        let mut tallies = Tallies::default();
        for now in 0..500 {
            tallies.add("x", now, 3, window(now));
        }
        assert_eq!(tallies.0["x"].failures, [497, 498, 499]);
        let until_two_are_left = Refused::Blocked(Duration::from_secs(598));
        let refused = tallies.refused(&"x", 3, window(499));
        assert_eq!(refused, Some(until_two_are_left));
    }

    #[test]
    fn a_sign_in_that_succeeds_leaves_no_key() {
        let mut tallies = Tallies::default();
        tallies.begin("x", window(0));
        tallies.decided(&"x");
        assert!(tallies.0.is_empty());
    }
}
