//! The delay before a process that has ended is started again: doubled from time to time, up to the
//! longest.

use std::time::Duration;

/// Our choice.
const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);

/// The delay of one process.
#[derive(Debug)]
pub struct RestartDelay(Duration);

impl Default for RestartDelay {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl RestartDelay {
    /// The next end counts as the first one.
    pub fn reset(&mut self) {
        self.0 = FIRST;
    }

    /// The delay before this start; that before the next one is longer.
    pub fn advance(&mut self) -> Duration {
        let delay = self.0;
        self.0 = (delay * 2).min(LONGEST);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_until_a_process_has_settled() {
        let mut delay = RestartDelay::default();
        let delays: Vec<_> = (0..9).map(|_| delay.advance().as_millis()).collect();
        assert_eq!(
            delays,
            [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]
        );
        delay.reset();
        assert_eq!(delay.advance(), FIRST);
    }
}
