//! Memory that was needed for a moment goes back to the system.

use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};
use parking_lot::Mutex;
use rustix::mm::{Advice, madvise};
use std::ffi::c_long;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{MissedTickBehavior, interval};

/// The interval at which free memory goes back: mimalloc's own delay (`mi_option_purge_delay`,
/// 1,000 ms).
const INTERVAL: Duration = Duration::from_secs(1);

/// A thread that works no longer than this in an [`INTERVAL`] rests, so that what it gives back is
/// not needed again at once. Our choice.
const RESTS: Duration = Duration::from_millis(20);

/// A thread that has worked no longer than this has nothing to give back: waking for it takes
/// microseconds.
const NOTHING: Duration = Duration::from_millis(1);

/// `mi_option_purge_delay` of mimalloc.h, in milliseconds; 0: at once.
const PURGE_DELAY: mi_option_t = 15;

/// How many [`AtOnce`] there are, and the delay before the first one.
static AT_ONCE: Mutex<(usize, c_long)> = Mutex::new((0, 0));

/// Gives back at once what this thread's allocations held and the allocator keeps. Takes some
/// milliseconds after much work. Does nothing in a program with another allocator.
#[allow(
    unsafe_code,
    reason = "mimalloc has no other way; the call takes no pointer, and any thread may make it at any time"
)]
pub fn purge() {
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// Gives back what the thread of this runtime has freed: all when it rests, otherwise what has been
/// free for a second. mimalloc itself looks at what a thread has freed only while that thread
/// allocates: after a deployment of 10,000 nodes 24 MiB stayed, after 8 bodies of 4 MiB 10 to 18.
/// So each thread wakes for it once a second, and does next to nothing if there is nothing.
pub async fn give_back_free_memory() {
    let metrics = Handle::current().metrics();
    let busy = || metrics.worker_total_busy_duration(0);
    let (mut before, mut given_back) = (busy(), busy());
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = busy();
        if now.saturating_sub(before) > RESTS {
            collect_expired();
        } else if now.saturating_sub(given_back) > NOTHING {
            purge();
            given_back = busy();
        }
        before = now;
    }
}

#[allow(unsafe_code, reason = "as above")]
fn collect_expired() {
    unsafe { libmimalloc_sys::mi_collect(false) }
}

/// While there is one, memory goes back as soon as it is free. So what a deployment leaves does not
/// stand, half empty, on pages that it has needed for something else: of 10,000 nodes 1 to 2 MiB.
/// Not for always: the buffers of large bodies would be mapped again and again, which makes a
/// request of 64 KiB a tenth dearer.
pub struct AtOnce(());

impl AtOnce {
    /// Begins it.
    pub fn begin() -> Self {
        let mut known = AT_ONCE.lock();
        if known.0 == 0 {
            known.1 = purge_delay(0);
        }
        known.0 += 1;
        Self(())
    }
}

impl Drop for AtOnce {
    fn drop(&mut self) {
        let mut known = AT_ONCE.lock();
        known.0 -= 1;
        if known.0 == 0 {
            purge_delay(known.1);
        }
    }
}

/// Sets mimalloc's delay; returns the one before.
#[allow(
    unsafe_code,
    reason = "options are numbers that any thread may read and write at any time"
)]
fn purge_delay(delay: c_long) -> c_long {
    unsafe {
        let before = mi_option_get(PURGE_DELAY);
        mi_option_set(PURGE_DELAY, delay);
        before
    }
}

/// Unmaps the program's code and constants, of which serving needs a fraction of what the start has
/// needed. What is in use is mapped again at once, from the page cache or the program's file, which
/// stays what it was while it runs (`MADV_DONTNEED`, madvise(2)). Breakpoints of a debugger that
/// are set already are lost.
#[allow(
    unsafe_code,
    reason = "no wrapper knows that the range has only pages of the file: from the beginning of the program to the end of its code \
              (end(3)) the linker puts segments that nothing may write, so no page has a content of its own that would be lost"
)]
pub fn unmap_program() {
    unsafe extern "C" {
        safe static __executable_start: u8;
        safe static etext: u8;
    }
    let (start, end) = (&raw const __executable_start, &raw const etext);
    let length = end.addr().saturating_sub(start.addr());
    // Without it, more of the program stays mapped.
    let _ = unsafe { madvise(start.cast_mut().cast(), length, Advice::LinuxDontNeed) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_at_once_until_the_last_one_ends() {
        let now = || {
            let now = purge_delay(0);
            purge_delay(now);
            now
        };
        let usual = now();
        assert_eq!(usual, 1_000, "the option is another one in this mimalloc");
        let first = AtOnce::begin();
        let second = AtOnce::begin();
        drop(first);
        assert_eq!(now(), 0);
        drop(second);
        assert_eq!(now(), usual);
    }
}
