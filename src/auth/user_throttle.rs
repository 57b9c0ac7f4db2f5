//! Slows down guesses of one user from many addresses, without locking the user out.
//!
//! With too many failures of a user, from all addresses together, an *episode* begins: addresses
//! that the user has not signed in from before wait (greylisting). The first attempt from such an
//! address is refused with a retry time; from then on one attempt is let through. So the user on a
//! new device is held up for a minute at most, whatever others do, and each address of a guesser
//! pays the same for every guess. Pure: the time is an argument.
//!
//! When too many addresses wait to be remembered, further ones wait for a time slot of their own,
//! which takes no memory: a keyed hash says when it begins. The failures are in a sliding window of
//! the `limits` crate; waiting is an algorithm of its own.

use super::pair::{Pair, UserKey};
use limits::sliding_window::{Refused, SlidingWindows, Window, effective_limit};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The longest first wait, in seconds. It doubles with each failure beyond the limit: 1, 2, 4 … 60.
/// Our choice: an acceptable wait for a person on a new device.
const MAX_FIRST_WAIT: u64 = 60;

/// Failures beyond the limit after which the first wait grows no more.
const GROWTH: usize = 6;

/// The maximum number of doublings of a wait: no window is longer than that.
const MAX_DOUBLINGS: usize = 17;

/// The time within which an address may come back after its wait, in seconds. Our choice: a person
/// can look at the clock and type a password.
const RETURN_WITHIN: u64 = 120;

/// The time for which a slot stays open, in seconds. Our choice: as long as the wait before it, so
/// that half of the new addresses wait while the memory is full.
const SLOT: u64 = MAX_FIRST_WAIT;

/// Addresses that wait, and users in an episode, at most (some 5 MiB). When full, those that wait
/// go on, and others have time slots.
const REMEMBERED: usize = 65_536;

/// Failures of users, and the addresses that wait.
pub(super) struct UserThrottle {
    failures: SlidingWindows<UserKey>,
    /// Users who are being guessed, as was reported.
    episodes: HashSet<UserKey>,
    /// When an address may sign in, in seconds.
    waiting: HashMap<Pair, u64>,
    /// When those that did not come back were last looked for.
    swept: u64,
    /// Until when addresses that are not remembered have time slots, in seconds.
    slots_until: u64,
    /// The key of the time slots.
    slots: RandomState,
}

impl UserThrottle {
    /// Counts the failures of at most `users`.
    pub(super) fn new(users: usize) -> Self {
        Self {
            failures: SlidingWindows::new(users),
            episodes: HashSet::new(),
            waiting: HashMap::new(),
            swept: 0,
            slots_until: 0,
            slots: RandomState::new(),
        }
    }

    /// Whether, and for how long, an address that the user has not signed in from must wait. `own`
    /// are its failures.
    pub(super) fn refused(
        &mut self,
        pair: Pair,
        own: usize,
        limit: u32,
        window: Window,
    ) -> Option<Refused> {
        if !self.is_guessed(pair.user, limit, window) {
            return self.failures.refused(&pair.user, limit, window);
        }
        let now = window.now;
        match self.waiting.get(&pair) {
            // Much later than any wait: the clock was set back.
            Some(&ready) if ready > now.saturating_add(window.length) => {}
            Some(&ready) if ready > now => {
                return Some(Refused::Blocked(Duration::from_secs(ready - now)));
            }
            Some(&ready) if now - ready <= RETURN_WITHIN => return None,
            _ => {}
        }
        let in_slot = now < self.slots_until && self.slots_until - now <= window.length + SLOT;
        let wait = if in_slot {
            self.until_slot(pair, own, window)
        } else {
            self.wait(pair.user, own, limit, window)
        };
        let wait = if wait == 0 || self.remember(pair, now.saturating_add(wait), now) {
            wait
        } else {
            let wait = self.until_slot(pair, own, window);
            // The slot must be there when the address comes back.
            let closes = now.saturating_add(wait).saturating_add(SLOT);
            self.slots_until = self.slots_until.max(closes);
            wait
        };
        (wait > 0).then(|| Refused::Blocked(Duration::from_secs(wait)))
    }

    /// The time until the next slot of an address; 0: it is open. Failures of others do not change
    /// it.
    fn until_slot(&self, pair: Pair, own: usize, window: Window) -> u64 {
        let closed = doubled(MAX_FIRST_WAIT, own).min(window.length).max(1);
        let cycle = closed + SLOT;
        let at = window.now.wrapping_add(self.slots.hash_one(pair)) % cycle;
        closed.saturating_sub(at)
    }

    /// An attempt begins; it uses up its wait.
    pub(super) fn begin(&mut self, pair: Pair, window: Window) {
        self.waiting.remove(&pair);
        self.failures.begin(pair.user, window);
    }

    /// An attempt is decided.
    pub(super) fn decided(&mut self, user: UserKey) {
        self.failures.decided(&user);
    }

    /// Adds a failure; returns whether an episode begins with it.
    pub(super) fn add(&mut self, user: UserKey, at: u64, limit: u32, window: Window) -> bool {
        let most = effective_limit(limit).saturating_add(GROWTH);
        self.failures.add(user, at, most, window);
        if !self.is_guessed(user, limit, window) {
            return false;
        }
        if self.episodes.len() >= REMEMBERED {
            self.end_episodes(limit, window);
        }
        self.episodes.len() < REMEMBERED && self.episodes.insert(user)
    }

    /// Forgets what no longer counts.
    pub(super) fn sweep(&mut self, limit: u32, window: Window) {
        self.failures.sweep(window);
        self.end_episodes(limit, window);
        self.sweep_waiting(window.now);
    }

    /// An episode ends when half the failures that began it have left the window, so that one
    /// guesser is one episode.
    fn is_guessed(&self, user: UserKey, limit: u32, window: Window) -> bool {
        self.failures.count(&user, window) >= effective_limit(limit)
            || (self.episodes.contains(&user) && self.is_over_half(user, limit, window))
    }

    fn is_over_half(&self, user: UserKey, limit: u32, window: Window) -> bool {
        self.failures.count(&user, window) > effective_limit(limit) / 2
    }

    /// Grows with the failures of the user up to a minute, and with those of the address up to the
    /// window.
    fn wait(&self, user: UserKey, own: usize, limit: u32, window: Window) -> u64 {
        let failures = self.failures.count(&user, window);
        let first = doubled(1, failures.saturating_sub(effective_limit(limit))).min(MAX_FIRST_WAIT);
        doubled(first, own).min(window.length).max(1)
    }

    /// Returns whether there was room.
    fn remember(&mut self, pair: Pair, ready: u64, now: u64) -> bool {
        if self.waiting.len() >= REMEMBERED && !self.waiting.contains_key(&pair) {
            // Once a second: the next refusal would find the same.
            if self.swept != now {
                self.sweep_waiting(now);
            }
            if self.waiting.len() >= REMEMBERED {
                return false;
            }
        }
        self.waiting.insert(pair, ready);
        true
    }

    fn sweep_waiting(&mut self, now: u64) {
        self.swept = now;
        self.waiting
            .retain(|_, ready| ready.saturating_add(RETURN_WITHIN) >= now);
    }

    fn end_episodes(&mut self, limit: u32, window: Window) {
        let mut episodes = std::mem::take(&mut self.episodes);
        episodes.retain(|user| self.is_over_half(*user, limit, window));
        self.episodes = episodes;
    }
}

fn doubled(wait: u64, times: usize) -> u64 {
    wait << times.min(MAX_DOUBLINGS)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;
    use limits::ip_prefix::IpPrefix;
    use std::net::IpAddr;

    const LIMIT: u32 = 4;

    fn at(now: u64) -> Window {
        Window { length: 600, now }
    }

    fn ann(n: u32) -> Pair {
        Pair::new("ann", IpAddr::V4(n.into()))
    }

    /// After these failures, all at the same time.
    fn guessed(failures: usize) -> UserThrottle {
        let mut throttle = UserThrottle::new(REMEMBERED);
        for n in 0..failures {
            let begins = throttle.add(ann(0).user, 0, LIMIT, at(0));
            assert_eq!(
                begins,
                n == effective_limit(LIMIT) - 1,
                "reported once: {n}"
            );
        }
        throttle
    }

    /// The seconds that an address has to wait; 0: none.
    fn wait(throttle: &mut UserThrottle, n: u32, own: usize, now: u64) -> u64 {
        match throttle.refused(ann(n), own, LIMIT, at(now)) {
            Some(Refused::Blocked(wait)) => wait.as_secs(),
            Some(Refused::Busy) => panic!("nothing is under way"),
            None => 0,
        }
    }

    #[test]
    fn the_first_wait_grows_with_the_failures_up_to_a_minute() {
        let waits = (3..14).map(|failures| wait(&mut guessed(failures), 1, 0, 0));
        assert_eq!(
            waits.collect::<Vec<_>>(),
            [0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
        );
    }

    #[test]
    fn each_failure_of_an_address_doubles_its_wait_up_to_the_window() {
        let waits = (0..6).map(|own| wait(&mut guessed(20), 1, own, 0));
        assert_eq!(waits.collect::<Vec<_>>(), [60, 120, 240, 480, 600, 600]);
        assert_eq!(wait(&mut guessed(20), 1, usize::MAX, 0), 600);
    }

    #[test]
    fn after_the_wait_one_attempt_is_let_through_and_the_next_waits_again() {
        let mut throttle = guessed(10);
        assert_eq!(wait(&mut throttle, 1, 0, 0), 60);
        assert_eq!(wait(&mut throttle, 1, 0, 20), 40, "asking extends nothing");
        assert_eq!(wait(&mut throttle, 2, 0, 50), 60, "each address waits");
        assert_eq!(wait(&mut throttle, 1, 0, 60), 0);
        assert_eq!(wait(&mut throttle, 1, 0, 180), 0, "two minutes to return");
        throttle.begin(ann(1), at(180));
        throttle.decided(ann(1).user);
        assert_eq!(wait(&mut throttle, 1, 1, 180), 120);
        assert_eq!(wait(&mut throttle, 2, 0, 231), 60, "too late");
    }

    #[test]
    fn an_episode_ends_when_half_its_failures_have_left_the_window() {
        let user = ann(0).user;
        let mut throttle = UserThrottle::new(REMEMBERED);
        for now in [0, 1, 2] {
            assert!(!throttle.add(user, now, LIMIT, at(now)));
        }
        assert!(throttle.add(user, 3, LIMIT, at(3)), "it begins");
        assert!(wait(&mut throttle, 1, 0, 600) > 0, "three are left");
        assert!(!throttle.add(user, 600, LIMIT, at(600)), "the same one");
        assert_eq!(wait(&mut throttle, 2, 0, 602), 0, "two are left");
        throttle.sweep(LIMIT, at(602));
        assert!(throttle.episodes.is_empty());
        assert!(!throttle.add(user, 602, LIMIT, at(602)));
        assert!(throttle.add(user, 602, LIMIT, at(602)), "another one");
    }

    #[test]
    fn a_clock_set_back_delays_sign_ins_only_briefly() {
        let mut throttle = UserThrottle::new(REMEMBERED);
        let later = at(1_000_000);
        for _ in 0..LIMIT {
            throttle.add(ann(0).user, 1_000_000, LIMIT, later);
        }
        assert!(throttle.refused(ann(1), 0, LIMIT, later).is_some());
        let wait = throttle.refused(ann(1), 0, LIMIT, at(5));
        assert_eq!(wait, Some(Refused::Blocked(Duration::from_secs(1))));
        assert_eq!(throttle.refused(ann(1), 0, LIMIT, at(6)), None);
    }

    #[test]
    fn memory_is_bounded_and_waiting_addresses_keep_their_turn() {
        let mut throttle = guessed(10);
        let many = u32::try_from(REMEMBERED).unwrap();
        for n in 0..many {
            assert_eq!(wait(&mut throttle, n, 0, 0), 60);
        }
        for n in many..many + 10 {
            assert!(wait(&mut throttle, n, 0, 0) <= 60);
        }
        assert_eq!(throttle.waiting.len(), REMEMBERED);
        assert_eq!(wait(&mut throttle, 0, 0, 60), 0);
        throttle.sweep(LIMIT, at(600));
        assert!(throttle.waiting.is_empty() && throttle.episodes.is_empty());
    }

    #[test]
    fn a_new_device_waits_at_most_a_minute_while_memory_is_full() {
        let many = u32::try_from(REMEMBERED).unwrap();
        let invented = Pair::new("invented", IpAddr::V4(0.into()));
        let strangers = (0..many + 100).map(|n| Pair {
            prefix: IpPrefix::of(IpAddr::V4(n.into())),
            ..invented
        });
        let strangers: Vec<_> = strangers.collect();
        let mut waits = Vec::new();
        for victim in many * 2..many * 2 + 12 {
            let mut throttle = guessed(10);
            for _ in 0..10 {
                throttle.add(invented.user, 0, LIMIT, at(0));
            }
            for stranger in &strangers {
                let _ = throttle.refused(*stranger, 0, LIMIT, at(0));
            }
            let first = wait(&mut throttle, victim, 0, 1);
            assert!(first <= 60, "{first}");
            throttle.add(ann(0).user, 1 + first, LIMIT, at(1 + first));
            // Those that waited have gone, and left room, for some of the victims.
            if victim % 2 == 0 {
                throttle.waiting.clear();
            }
            assert_eq!(wait(&mut throttle, victim, 0, 1 + first), 0, "{first}");
            waits.push(first);
        }
        assert!(waits.iter().any(|wait| *wait > 0), "there is a wait");
    }

    #[test]
    fn a_failure_in_a_time_slot_doubles_the_wait_for_the_next() {
        let throttle = UserThrottle::new(REMEMBERED);
        let longest = |own| {
            (0..2000)
                .map(|now| throttle.until_slot(ann(1), own, at(now)))
                .max()
        };
        let waits = (0..6).map(longest);
        let expected = [60, 120, 240, 480, 600, 600].map(Some);
        assert_eq!(waits.collect::<Vec<_>>(), expected);
    }
}
