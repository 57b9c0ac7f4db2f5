//! Asserts that work grows with its input and not with its square.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A shorter time does not show growth.
const FLOOR: Duration = Duration::from_millis(100);
/// Caches of a busy machine are cold at times: quadratic work fails every attempt.
const ATTEMPTS: usize = 5;

/// The processor time of this thread, which does not grow while the machine runs others.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

/// A text of `n` pieces.
pub fn pieces(n: usize, piece: impl Fn(usize) -> String) -> String {
    (0..n).map(piece).collect()
}

/// Asserts that the work on `input(4 * n)` takes at most six times as long as that on `input(n)`.
pub fn assert_scales<T>(n: usize, input: impl Fn(usize) -> T, work: impl Fn(T)) {
    let time = |n| {
        let input = input(n);
        let began = processor_time();
        work(input);
        processor_time().saturating_sub(began)
    };
    let mut times = Vec::new();
    for _ in 0..ATTEMPTS {
        let (few, many) = (time(n), time(4 * n));
        if many <= FLOOR.max(6 * few) {
            return;
        }
        times.push((few, many));
    }
    panic!("four times the input takes more than six times as long: {times:?}");
}
