//! The control runtime: one thread for what writes (deployments, sign-ins, the operations listener), and blocking
//! threads beside it.

use crate::allocator;
use std::convert::Infallible;
use std::io;
use std::thread;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot::{Sender, channel};

/// Blocking threads besides those that hash passwords: files and the like. Threads are made when needed.
const BLOCKING: usize = 16;

/// The runtime; ends, with everything on it, when this is dropped.
pub(super) struct Control {
    pub(super) runtime: Handle,
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
        let handle = runtime.handle().clone();
        let (alive, dropped) = channel();
        let body = move || {
            runtime.spawn(allocator::give_back_free_memory());
            // Nothing is sent: it ends when the sender is dropped.
            let _ = runtime.block_on(dropped);
            runtime.shutdown_background();
        };
        thread::Builder::new()
            .name("control".to_owned())
            .spawn(body)?;
        Ok(Self {
            runtime: handle,
            _alive: alive,
        })
    }
}
