//! The metrics of the editors' channels.

use super::labels::CommsEnd;
use super::register::{counter, gauge};
use metrics::{Counter, Gauge};
use metrics_exporter_prometheus::PrometheusRecorder;

/// Counters and gauges of editors' channels.
pub struct Comms {
    /// Not signed in; signed in.
    open: [Gauge; 2],
    ended: [Counter; CommsEnd::NAMES.len()],
    received: Counter,
    sent: Counter,
}

/// An open channel: counted until dropped.
#[must_use]
pub struct OpenChannel([Gauge; 2], bool);

impl Comms {
    pub(super) fn register(r: &PrometheusRecorder) -> Self {
        let open = |state| {
            let help = "Channels of editors open.";
            gauge(r, "flowgate_comms_connections", help, &[("state", state)])
        };
        let ended = |cause| {
            let help = "Channels of editors that have ended.";
            counter(r, "flowgate_comms_closed_total", help, &[("cause", cause)])
        };
        let frames = |direction| {
            let help = "Frames of editors' channels.";
            let labels = [("direction", direction)];
            counter(r, "flowgate_comms_frames_total", help, &labels)
        };
        Self {
            open: ["waiting", "active"].map(open),
            ended: CommsEnd::NAMES.map(ended),
            received: frames("in"),
            sent: frames("out"),
        }
    }

    /// A channel is open, not signed in, until the guard is dropped.
    pub fn opened(&self) -> OpenChannel {
        let [waiting, _] = &self.open;
        waiting.increment(1.0);
        OpenChannel(self.open.clone(), false)
    }

    /// A channel has ended.
    pub fn ended(&self, cause: CommsEnd) {
        self.ended[cause as usize].increment(1);
    }

    /// A frame has come from an editor.
    pub fn received(&self) {
        self.received.increment(1);
    }

    /// A frame has gone to an editor.
    pub fn sent(&self) {
        self.sent.increment(1);
    }
}

impl OpenChannel {
    /// It has signed in.
    pub fn is_active(&mut self) {
        if !self.1 {
            self.1 = true;
            let [waiting, active] = &self.0;
            waiting.decrement(1.0);
            active.increment(1.0);
        }
    }
}

impl Drop for OpenChannel {
    fn drop(&mut self) {
        self.0[usize::from(self.1)].decrement(1.0);
    }
}
