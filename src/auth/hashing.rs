//! Checks passwords on blocking threads, few at a time, in the order of a fair queue.
//!
//! So a storm of sign-ins takes neither the threads that serve requests nor all memory (each hash
//! needs 19 MiB). Their threads give way to all others.

use super::password::{Password, hash_password};
use crate::allocator;
use crypto::Secret;
use limits::fair_queue::{FairQueue, Turn};
use limits::ip_prefix::IpPrefix;
use std::cell::Cell;
use std::sync::Arc;

/// The niceness added to a thread that hashes. Our choice: of a core that another thread wants too
/// it gets a quarter. With 10, a tenth, sign-ins failed on an overloaded machine.
const NICER: i32 = 5;

thread_local!(static IS_NICE: Cell<bool> = const { Cell::new(false) });

/// The threads for hashing and the queue before them.
pub(super) struct Hashing(Arc<FairQueue>);

impl Hashing {
    /// Checks `at_a_time` passwords at a time, one at least.
    pub(super) fn new(at_a_time: usize) -> Self {
        Self(FairQueue::new(at_a_time))
    }

    /// Waits for a turn; `None` if too many wait, or for too long. `known`: the user has signed in
    /// from there before.
    pub(super) async fn turn(&self, prefix: IpPrefix, known: bool) -> Option<Turn> {
        self.0.turn(prefix, known).await
    }
}

/// Whether the attempt is the password. A check that breaks off is a no. If it is, and `renew` is
/// set, a new hash of it comes along.
pub(super) async fn verify(
    turn: Turn,
    password: Arc<Password>,
    renew: bool,
    attempt: Secret,
) -> (bool, Option<Secret>) {
    let check = tokio::task::spawn_blocking(move || {
        // It goes with the thread: a client that leaves does not make room before the work is done.
        let _held = turn;
        give_way();
        let right = password.verify(&attempt);
        // A hash that cannot be made now is made at another sign-in.
        let renewed = (right && renew).then(|| hash_password(&attempt).ok());
        // Now, because the thread may rest for long: 19 MiB more than the gateway needs otherwise.
        allocator::purge();
        (right, renewed.flatten())
    });
    check.await.unwrap_or((false, None))
}

/// Lowers the thread's priority for good: raising it again takes root, and a blocking thread does
/// nothing urgent.
fn give_way() {
    // Of this thread only: setpriority(2), "C library/kernel differences". Without it all goes on,
    // slower.
    if !IS_NICE.replace(true) {
        let _ = rustix::process::nice(NICER);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_hashing_threads_lower_their_priority() {
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
    async fn the_number_of_concurrent_hashes_is_limited() {
        let hashing = Hashing::new(1);
        let prefix = IpPrefix::of([192, 0, 2, 1].into());
        let busy = hashing.turn(prefix, false).await.unwrap();
        let check = async {
            let turn = hashing.turn(prefix, false).await.unwrap();
            let password = Arc::new(Password::Unusable);
            verify(turn, password, false, Secret::default()).await
        };
        let mut check = std::pin::pin!(check);
        let waited =
            tokio::time::timeout(std::time::Duration::from_millis(20), check.as_mut()).await;
        assert!(waited.is_err(), "it must wait for the one that runs");
        drop(busy);
        assert!(!check.await.0);
    }
}
