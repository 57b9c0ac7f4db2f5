//! Where passwords are checked: on blocking threads, few at a time, behind a queue that cannot grow without bound.
//!
//! So a storm of sign-ins takes neither the threads that serve requests nor all memory (each hash needs 19 MiB). Their
//! threads give way to all others: on two cores, with 50 sign-ins at a time, that halves what everybody else has to
//! wait.

use super::password::{Password, hash_password};
use crate::secret::Secret;
use std::cell::Cell;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many sign-ins may wait. At 20 ms a hash and two at a time the last one waits for 2.6 s; more would rather be
/// told to come back.
const QUEUE: usize = 256;

/// How much nicer than others a thread that hashes is. Our choice: of a core that both want it gets a tenth.
const NICER: i32 = 10;

thread_local!(static IS_NICE: Cell<bool> = const { Cell::new(false) });

/// The threads for hashing and the queue before them.
pub(super) struct Hashing {
    queue: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

/// A place in the queue, kept until the password is checked.
pub(super) struct Place {
    _held: OwnedSemaphorePermit,
}

impl Hashing {
    /// Checks `at_a_time` passwords at a time, one at least.
    pub(super) fn new(at_a_time: usize) -> Self {
        let at_a_time = at_a_time.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            queue: Arc::new(Semaphore::new(QUEUE)),
            running: Arc::new(Semaphore::new(at_a_time)),
        }
    }

    /// A place in the queue; `None` if it is full.
    pub(super) fn enter(&self) -> Option<Place> {
        Arc::clone(&self.queue)
            .try_acquire_owned()
            .ok()
            .map(|held| Place { _held: held })
    }

    /// Whether `attempt` is the password. A check that breaks off is a no. If it is, and `renew` is set, a new hash of
    /// it comes along.
    pub(super) async fn verify(
        &self,
        place: Place,
        (password, renew): (Arc<Password>, bool),
        attempt: Secret,
    ) -> (bool, Option<Secret>) {
        let Ok(running) = Arc::clone(&self.running).acquire_owned().await else {
            return (false, None);
        };
        let check = tokio::task::spawn_blocking(move || {
            // both go with the thread: whoever stops waiting does not make room before the work is done
            let _held = (place, running);
            give_way();
            let right = password.verify(&attempt);
            (right, (right && renew).then(|| hash_password(&attempt)))
        });
        check.await.unwrap_or((false, None))
    }
}

/// Lets all others go first. For good: nobody may take it back without root, and a blocking thread does nothing that is
/// in a hurry.
fn give_way() {
    // Of this thread only: setpriority(2), "C library/kernel differences". Without it all goes on, slower.
    if !IS_NICE.replace(true) {
        let _ = rustix::process::nice(NICER);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_bounded_and_a_place_is_given_back() {
        let hashing = Hashing::new(2);
        let mut places: Vec<_> = std::iter::from_fn(|| hashing.enter()).collect();
        assert_eq!(places.len(), QUEUE);
        places.pop();
        assert!(hashing.enter().is_some());
    }

    #[test]
    fn who_hashes_gives_way_and_nobody_else_does() {
        let nice = || rustix::process::nice(0).unwrap();
        let before = nice();
        let hashing = std::thread::spawn(move || {
            give_way();
            give_way();
            nice()
        });
        assert_eq!(hashing.join().unwrap(), (before + NICER).min(19));
        assert_eq!(nice(), before);
    }

    #[tokio::test]
    async fn no_more_hashes_run_at_a_time_than_allowed() {
        let hashing = Hashing::new(1);
        let busy = Arc::clone(&hashing.running).acquire_owned().await.unwrap();
        let check = hashing.verify(
            hashing.enter().unwrap(),
            (Arc::new(Password::Unusable), false),
            Secret::default(),
        );
        let mut check = std::pin::pin!(check);
        let waited =
            tokio::time::timeout(std::time::Duration::from_millis(20), check.as_mut()).await;
        assert!(waited.is_err(), "it must wait for the one that runs");
        drop(busy);
        assert!(!check.await.0);
    }
}
