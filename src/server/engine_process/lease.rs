//! Ends the engine's process when its lease does, also where no event loop looks at it.

use engine::lease;
use std::io;
use std::thread;
use std::time::Duration;

/// The time between two looks, at most: a sleep does not go on while the machine sleeps. Our
/// choice.
const LOOK: Duration = Duration::from_millis(50);

/// Watches the lease from now on.
pub(super) fn watch() -> io::Result<()> {
    let watch = || {
        while let Some(left) = lease::left() {
            lease::check();
            thread::park_timeout(left.min(LOOK));
        }
    };
    let thread = thread::Builder::new().name("lease".to_owned());
    thread.spawn(watch).map(drop)
}
