//! Asserts that work grows with its input and not with its square.

use std::time::{Duration, Instant};

/// A shorter time does not show growth.
const FLOOR: Duration = Duration::from_millis(100);
/// The machine may be busy: quadratic work fails every attempt.
const ATTEMPTS: usize = 5;

/// A text of `n` pieces.
pub fn pieces(n: usize, piece: impl Fn(usize) -> String) -> String {
    (0..n).map(piece).collect()
}

/// Asserts that the work on `input(4 * n)` takes at most six times as long as that on `input(n)`.
pub fn assert_scales<T>(n: usize, input: impl Fn(usize) -> T, work: impl Fn(T)) {
    let time = |n| {
        let input = input(n);
        let began = Instant::now();
        work(input);
        began.elapsed()
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
