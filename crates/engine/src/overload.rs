//! The watch over a full group of flows: whether it ever gets shorter.
//!
//! The sources of a full group pause, so its queue gets shorter unless the flows themselves make
//! more messages than they consume: a loop that doubles, or messages that circle.

use std::time::{Duration, Instant};

/// Generations in succession that grow before a group is given up. Our choice: a flow that splits
/// large messages grows once or twice.
const GENERATIONS: u32 = 3;
/// A full group that has not become shorter for this long is given up. Our choice: six times the
/// limit of a function.
const PATIENCE: Duration = Duration::from_secs(30);
/// What sources had read before they paused arrives within this time. Our choice.
const SETTLE: Duration = Duration::from_secs(1);

/// The size of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// The deliveries that wait.
    pub messages: usize,
    /// The parts of their messages ([`value::Extent::parts`]).
    pub parts: u64,
}

impl Size {
    /// The bytes of the messages, about.
    pub(crate) fn bytes(self) -> u64 {
        self.parts.saturating_mul(value::PART as u64)
    }

    /// Returns whether it is half as large again as another one, in messages or bytes: each node
    /// that adds a property to its messages makes a queue grow a little.
    fn outgrows(self, other: Self) -> bool {
        self.messages > other.messages + other.messages / 2
            || self.parts > other.parts + other.parts / 2
    }
}

/// The watch over one full group.
#[derive(Debug)]
pub(crate) struct Overload {
    /// The size when the current generation began, and the number of deliveries taken when it ends.
    generation: Size,
    ends: u64,
    growing: u32,
    /// The size that is to be undercut before `due`.
    mark: Size,
    settled: Instant,
    due: Instant,
}

impl Overload {
    /// The group becomes full with this size, after that many deliveries were taken from it.
    pub(crate) fn new(size: Size, taken: u64, now: Instant) -> Self {
        Self {
            generation: size,
            ends: taken + size.messages as u64,
            growing: 0,
            mark: size,
            settled: now + SETTLE,
            due: now + SETTLE + PATIENCE,
        }
    }

    /// Returns whether the group is to be given up: it has grown for three generations, or has not
    /// become shorter for 30 s.
    pub(crate) fn is_lost(&mut self, size: Size, taken: u64, now: Instant) -> bool {
        if taken >= self.ends {
            let grew = size.outgrows(self.generation);
            self.growing = if grew { self.growing + 1 } else { 0 };
            self.generation = size;
            self.ends = taken + size.messages as u64;
        }
        if now < self.settled {
            self.mark = size;
        } else if now >= self.due {
            if size.messages >= self.mark.messages && size.parts >= self.mark.parts {
                return true;
            }
            self.mark = size;
            self.due = now + PATIENCE;
        }
        self.growing >= GENERATIONS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(messages: usize) -> Size {
        let parts = messages as u64 * 10;
        Size { messages, parts }
    }

    /// Returns whether the group is given up, for its sizes at the end of each generation.
    fn lost(sizes: &[usize]) -> bool {
        let now = Instant::now();
        let (mut taken, mut before) = (7, 1000);
        let mut overload = Overload::new(size(before), taken, now);
        sizes.iter().any(|messages| {
            taken += before as u64;
            before = *messages;
            overload.is_lost(size(before), taken, now)
        })
    }

    #[test]
    fn three_growing_generations_in_succession_are_too_many() {
        assert!(lost(&[2000, 4000, 8000]));
        assert!(!lost(&[2000, 4000]));
        assert!(!lost(&[2000, 4000, 4100, 8000, 16_000, 9000]));
    }

    #[test]
    fn a_generation_ends_when_all_that_waited_is_delivered() {
        let now = Instant::now();
        let mut overload = Overload::new(size(1000), 0, now);
        for taken in 1..1000 {
            let waiting = 1000 + usize::try_from(taken).unwrap_or_default();
            assert!(!overload.is_lost(size(waiting), taken, now));
        }
    }

    #[test]
    fn a_group_has_to_become_shorter_every_30_seconds() {
        let after = |seconds| Duration::from_secs(seconds);
        let now = Instant::now();
        let mut circles = Overload::new(size(1000), 0, now);
        assert!(!circles.is_lost(size(1000), 1, now + after(30)));
        assert!(circles.is_lost(size(1000), 2, now + after(31)));
        let mut slow = Overload::new(size(1000), 0, now);
        // What had been read before the pause comes in.
        assert!(!slow.is_lost(size(1100), 1, now + SETTLE / 2));
        for seconds in 1..200 {
            let left = 1100 - usize::try_from(seconds).unwrap_or_default();
            assert!(!slow.is_lost(size(left), seconds, now + after(seconds)));
        }
    }
}
