//! The time for the expiry of tokens: the system's, but never behind what has passed since the
//! program started. Setting the clock back gives no token a longer life.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// When it was first asked, by both clocks.
static FIRST: LazyLock<(Duration, Instant)> = LazyLock::new(|| (system(), Instant::now()));

/// The time since 1970.
pub fn unix_time() -> Duration {
    let (then, since) = *FIRST;
    // The system's clock may be set forward, and counts while the machine sleeps.
    system().max(then + since.elapsed())
}

fn system() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
