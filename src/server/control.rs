//! The control runtime: one thread for decisions that take no time (sign-ins, leases, time-outs,
//! the operations listener), with blocking threads for hashes and files; and the work runtime, for
//! deployments and whatever else takes long. It has one thread too, which gives back the memory
//! that a deployment needed, and blocking threads for what callers ask for at the same time.

use crate::allocator;
use std::io;
use std::thread;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch::{self, Receiver, Sender};

/// Blocking threads besides those that hash passwords: files and the like. Threads are made when
/// needed.
const BLOCKING: usize = 16;

/// The niceness added to a thread of the work runtime. Our choice: of a core that another thread
/// wants too it gets a quarter, as a thread that hashes does.
const NICER: i32 = 5;

/// The two runtimes; they end, with everything on them, when this is dropped.
pub(super) struct Control {
    pub(super) runtime: Handle,
    pub(super) work: Handle,
    _alive: Sender<()>,
}

impl Control {
    /// Starts it with room for `hashing` password hashes at a time.
    pub(super) fn start(hashing: usize) -> io::Result<Self> {
        let mut control = runtime("control-blocking", hashing.saturating_add(BLOCKING));
        let mut work = runtime("work-blocking", BLOCKING);
        work.on_thread_start(be_nicer);
        let (alive, dropped) = watch::channel(());
        let control = run("control", control.build()?, dropped.clone(), || {})?;
        let work = run("work", work.build()?, dropped, be_nicer)?;
        Ok(Self {
            runtime: control,
            work,
            _alive: alive,
        })
    }
}

fn runtime(blocking: &str, threads: usize) -> Builder {
    let mut runtime = Builder::new_current_thread();
    runtime
        .max_blocking_threads(threads)
        .thread_name(blocking)
        .enable_all();
    runtime
}

/// Runs a runtime on a thread of its own, which begins with `begin`, until the sender is dropped.
fn run(name: &str, runtime: Runtime, mut dropped: Receiver<()>, begin: fn()) -> io::Result<Handle> {
    let handle = runtime.handle().clone();
    let body = move || {
        begin();
        runtime.spawn(allocator::give_back_free_memory());
        // Nothing is sent: the error is the end.
        let _ = runtime.block_on(dropped.changed());
        runtime.shutdown_background();
    };
    thread::Builder::new().name(name.to_owned()).spawn(body)?;
    Ok(handle)
}

/// Of this thread only: setpriority(2), "C library/kernel differences". Without it all goes on,
/// slower.
fn be_nicer() {
    let _ = rustix::process::nice(NICER);
}
