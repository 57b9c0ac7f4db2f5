//! A fixed window: limits the number of events from the first of them until the window ends.
//!
//! Time is passed in, in seconds.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// The events since the window began.
#[derive(Debug)]
pub struct FixedWindow {
    began: u64,
    count: u32,
}

impl FixedWindow {
    /// Begins now, without events.
    pub fn new(now: u64) -> Self {
        Self {
            began: now,
            count: 0,
        }
    }

    /// Counts an event, in a new window if the current one of `length` has ended. Returns whether
    /// it is within the limit.
    pub fn admit(&mut self, limit: u32, length: u64, now: u64) -> bool {
        if self.left(length, now) == 0 {
            *self = Self::new(now);
        }
        self.count = self.count.saturating_add(1);
        self.count <= limit
    }

    /// Seconds until the window ends. One that begins in the future (the clock was set back) has
    /// ended.
    pub fn left(&self, length: u64, now: u64) -> u64 {
        match now.checked_sub(self.began) {
            Some(age) => length.saturating_sub(age),
            None => 0,
        }
    }

    /// After the clock was set back: the window begins now at the latest, and keeps its count.
    pub fn set_back(&mut self, now: u64) {
        self.began = self.began.min(now);
    }
}

/// The windows of a limited number of keys. When all are in use, further keys are not counted, so
/// never refused.
#[derive(Debug)]
pub struct FixedWindows<K> {
    capacity: usize,
    keys: HashMap<K, FixedWindow>,
    /// When windows that have ended were last looked for.
    swept: u64,
}

impl<K: Copy + Eq + Hash> FixedWindows<K> {
    /// Remembers at most `capacity` keys.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            keys: HashMap::new(),
            swept: 0,
        }
    }

    /// Counts an event of a key. An error: it is beyond the limit, until the window ends.
    pub fn admit(&mut self, key: K, limit: u32, length: u64, now: u64) -> Result<(), Duration> {
        if self.keys.len() >= self.capacity && !self.keys.contains_key(&key) {
            // Once a second: the next event would find the same.
            if self.swept != now {
                self.sweep(length, now);
            }
            if self.keys.len() >= self.capacity {
                return Ok(());
            }
        }
        let fresh = || FixedWindow::new(now);
        let window = self.keys.entry(key).or_insert_with(fresh);
        if window.admit(limit, length, now) {
            return Ok(());
        }
        Err(Duration::from_secs(window.left(length, now)))
    }

    /// Forgets windows that have ended.
    pub fn sweep(&mut self, length: u64, now: u64) {
        self.swept = now;
        self.keys.retain(|_, window| window.left(length, now) > 0);
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LENGTH: u64 = 600;

    #[test]
    fn more_than_the_limit_is_refused_until_the_window_ends() {
        let mut windows = FixedWindows::new(9);
        let mut admit = |now| windows.admit("x", 3, LENGTH, now);
        for now in [100, 200, 300] {
            assert_eq!(admit(now), Ok(()));
        }
        assert_eq!(admit(300), Err(Duration::from_secs(400)));
        assert_eq!(admit(699), Err(Duration::from_secs(1)));
        assert_eq!(admit(700), Ok(()), "a new window");
        assert_eq!(admit(50), Ok(()), "the clock was set back");
    }

    #[test]
    fn memory_is_bounded_and_windows_that_have_ended_are_forgotten() {
        let mut windows = FixedWindows::new(10);
        for key in 0..20 {
            assert_eq!(windows.admit(key, 1, LENGTH, 0), Ok(()));
        }
        assert_eq!(windows.len(), 10);
        assert!(windows.admit(0, 1, LENGTH, 0).is_err());
        assert_eq!(windows.admit(20, 1, LENGTH, LENGTH), Ok(()));
        assert_eq!(windows.len(), 1);
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_the_count() {
        let mut window = FixedWindow::new(1000);
        assert!(window.admit(1, LENGTH, 1000));
        window.set_back(500);
        assert!(!window.admit(1, LENGTH, 500));
        assert_eq!(window.left(LENGTH, 500), LENGTH);
    }

    proptest! {
        #[test]
        fn each_window_admits_its_limit(limit in 0_u32..20, steps in prop::collection::vec(0_u64..200, 1..200)) {
            let mut window = FixedWindow::new(0);
            let (mut now, mut began, mut admitted) = (0, 0, 0);
            for step in steps {
                now += step;
                if now >= began + LENGTH {
                    (began, admitted) = (now, 0);
                }
                let expected = admitted < limit;
                prop_assert_eq!(window.admit(limit, LENGTH, now), expected);
                admitted += u32::from(expected);
            }
        }
    }
}
