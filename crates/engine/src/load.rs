//! The load of each group of joined flows, and how late timers fire, for monitoring. The engine's
//! thread writes, the page of metrics reads; neither waits for the other.

use arc_swap::ArcSwap;
use smol_str::SmolStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The upper bounds of the buckets of [`Lateness`], in seconds. Our choice: from the resolution of
/// timers to a flow that stands still.
pub const LATENESS_SECONDS: [f64; 10] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0];

/// The load of the engine.
#[derive(Debug, Default)]
pub struct Load {
    /// Of each group of joined flows; a deployment replaces the list.
    pub flows: ArcSwap<Vec<Arc<FlowLoad>>>,
    /// Of timers.
    pub lateness: Lateness,
}

/// The load of a group of flows that wires, links or link calls join. The engine's thread is its
/// only writer.
#[derive(Debug)]
pub struct FlowLoad {
    /// The id of its first tab in the flow set, `global` for global config nodes, or `other`.
    pub flow: SmolStr,
    waiting_messages: AtomicU64,
    waiting_bytes: AtomicU64,
    pauses: AtomicU64,
    busy_nanos: AtomicU64,
}

impl FlowLoad {
    /// An idle one.
    pub fn new(flow: SmolStr) -> Arc<Self> {
        Arc::new(Self {
            flow,
            waiting_messages: AtomicU64::new(0),
            waiting_bytes: AtomicU64::new(0),
            pauses: AtomicU64::new(0),
            busy_nanos: AtomicU64::new(0),
        })
    }

    /// Messages and requests that wait for its nodes.
    pub fn waiting_messages(&self) -> u64 {
        self.waiting_messages.load(Relaxed)
    }

    /// Bytes of the messages that wait, about.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Relaxed)
    }

    /// How often its sources have paused because too much waited.
    pub fn pauses(&self) -> u64 {
        self.pauses.load(Relaxed)
    }

    /// The time that the calls of its nodes took.
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_nanos.load(Relaxed))
    }

    pub(crate) fn clear_waiting(&self) {
        self.waiting_messages.store(0, Relaxed);
        self.waiting_bytes.store(0, Relaxed);
    }

    pub(crate) fn add_waiting(&self, messages: u64, bytes: u64) {
        add(&self.waiting_messages, messages);
        add(&self.waiting_bytes, bytes);
    }

    pub(crate) fn add_pause(&self) {
        add(&self.pauses, 1);
    }

    pub(crate) fn add_busy(&self, time: Duration) {
        add(&self.busy_nanos, nanos(time));
    }
}

/// How late timers fired: a histogram.
#[derive(Debug, Default)]
pub struct Lateness {
    /// By [`LATENESS_SECONDS`]; the last one is for all that were later.
    buckets: [AtomicU64; LATENESS_SECONDS.len() + 1],
    nanos: AtomicU64,
}

impl Lateness {
    /// Adds a timer.
    pub(crate) fn record(&self, late: Duration) {
        let seconds = late.as_secs_f64();
        let bucket = LATENESS_SECONDS.iter().position(|bound| seconds <= *bound);
        add(&self.buckets[bucket.unwrap_or(LATENESS_SECONDS.len())], 1);
        add(&self.nanos, nanos(late));
    }

    /// The number of timers in each bucket.
    pub fn buckets(&self) -> [u64; LATENESS_SECONDS.len() + 1] {
        self.buckets.each_ref().map(|timers| timers.load(Relaxed))
    }

    /// The time that all timers together were late.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Relaxed))
    }
}

/// Adds as the only writer: without a locked instruction.
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Relaxed) + more, Relaxed);
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_counted_by_how_late_they_were() {
        let lateness = Lateness::default();
        for micros in [0, 1000, 1001, 6_000_000] {
            lateness.record(Duration::from_micros(micros));
        }
        assert_eq!(lateness.buckets(), [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(lateness.sum(), Duration::from_micros(6_002_001));
    }
}
