//! The control runtime: one thread for decisions that take no time (sign-ins, leases, time-outs, the operations
//! listener), with blocking threads for hashes and files; and the work runtime, for deployments and whatever else takes
//! long.

use crate::allocator;
use std::convert::Infallible;
use std::io;
use std::num::NonZero;
use std::thread;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot::{Sender, channel};

/// Blocking threads besides those that hash passwords: files and the like. Threads are made when needed.
const BLOCKING: usize = 16;

/// The niceness added to a thread of the work runtime. Our choice: of a core that another thread wants too it gets a
/// quarter, as a thread that hashes does.
const NICER: i32 = 5;

/// Threads of the work runtime besides one for each processor. Our choice: a deployment that waits for its disk leaves the
/// processors to others.
const MORE_WORKERS: usize = 1;

/// The two runtimes; they end, with everything on them, when this is dropped.
pub(super) struct Control {
    pub(super) runtime: Handle,
    pub(super) work: Handle,
    _alive: Sender<Infallible>,
}

impl Control {
    /// Starts it with room for `hashing` password hashes at a time.
    pub(super) fn start(hashing: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(hashing.saturating_add(BLOCKING))
            .thread_name("control-blocking")
            .enable_all()
            .build()?;
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let work = Builder::new_multi_thread()
            .worker_threads(processors + MORE_WORKERS)
            .max_blocking_threads(BLOCKING)
            .thread_name("work")
            // Of this thread only: setpriority(2), "C library/kernel differences". Without it all goes on, slower.
            .on_thread_start(|| {
                let _ = rustix::process::nice(NICER);
            })
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let of_work = work.handle().clone();
        let (alive, dropped) = channel();
        let body = move || {
            runtime.spawn(allocator::give_back_free_memory());
            // Nothing is sent: it ends when the sender is dropped.
            let _ = runtime.block_on(dropped);
            work.shutdown_background();
            runtime.shutdown_background();
        };
        thread::Builder::new()
            .name("control".to_owned())
            .spawn(body)?;
        Ok(Self {
            runtime: handle,
            work: of_work,
            _alive: alive,
        })
    }
}
