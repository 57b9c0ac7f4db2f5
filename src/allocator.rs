//! Memory that was needed for a moment goes back to the system.

use rustix::mm::{Advice, madvise};
use std::time::Duration;
use tokio::time::sleep;

/// When what was under way has ended. Our choice: the store forces files to disk a second after a deployment.
const SOON: Duration = Duration::from_millis(1500);

/// Gives back what this thread's allocations held and the allocator keeps, which does so by itself only while the thread is
/// busy: 24 MiB after a deployment of 10,000 nodes. So each thread that takes part in a deployment calls it. Takes some
/// milliseconds. Does nothing in a program with another allocator.
#[allow(
    unsafe_code,
    reason = "mimalloc has no other way; the call takes no pointer, and any thread may make it at any time"
)]
pub fn purge() {
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// The same now, and again when what is under way has ended: the connection still has the buffers of the request that it answers,
/// and other threads the former flow set. Of 10,000 nodes 1 to 3 MiB come with that.
pub fn purge_twice() {
    tokio::spawn(async {
        purge();
        sleep(SOON).await;
        purge();
    });
}

/// Unmaps the program's code and constants, of which serving needs a fraction of what the start has needed. What is in use is mapped
/// again at once, from the page cache or the program's file, which stays what it was while it runs (`MADV_DONTNEED`, madvise(2)).
/// Breakpoints of a debugger that are set already are lost.
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
