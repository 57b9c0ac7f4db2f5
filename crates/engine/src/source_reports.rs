//! Reports about sources while flows are full: their status, the metrics and the log lines of
//! dropped messages.

use crate::log_level::Level;
use crate::node_info::NodeInfo;
use crate::report::label;
use crate::state::EngineState;
use events::Event;
use serde_json::json;
use std::rc::Rc;
use std::time::{Duration, Instant};
use value::Value;

/// The interval between two reports: a pause that is shorter is not shown. Our choice.
const REPORT: Duration = Duration::from_secs(1);

impl EngineState {
    /// Reports once a second what sources do while flows are full.
    pub(super) fn report_sources(&mut self, now: Instant) {
        if self.sources.next.is_none() && self.pressure.any() {
            self.sources.next = Some(now + REPORT);
        }
        if self.sources.next.is_none_or(|next| now < next) {
            return;
        }
        let mut lines = Vec::new();
        let mut pending = self.pressure.any();
        for (id, reported) in &mut self.sources.nodes {
            let dropped = reported.collect();
            if dropped > 0 {
                let kind = self.metrics.node_type(label(reported.info.kind()));
                kind.dropped.increment(dropped);
            }
            let text = reported.text();
            if text != reported.shown {
                let status = match &text {
                    Some(text) => Some(json!({ "fill": "yellow", "shape": "ring", "text": text })),
                    None => reported.own.clone(),
                };
                let id = id.clone();
                self.events.publish(Event::Status { id, status });
                reported.shown = text;
            }
            if let Some(dropped) = reported.due_for_log(now) {
                lines.push((Rc::clone(&reported.info), dropped));
            }
            pending |= reported.shown.is_some() || reported.unlogged > 0;
        }
        self.sources.next = pending.then_some(now + REPORT);
        for (info, dropped) in lines {
            self.log_dropped(&info, dropped);
        }
    }

    /// Removes the source of a node that has closed.
    pub(super) fn remove_source(&mut self, id: &str) {
        if let Some((info, dropped)) = self.sources.remove(id) {
            let kind = self.metrics.node_type(label(info.kind()));
            kind.dropped.increment(dropped);
            self.log_dropped(&info, dropped);
        }
    }

    fn log_dropped(&self, info: &NodeInfo, dropped: u64) {
        let text = format!("{dropped} messages dropped: the flow is full");
        self.log(info, Level::Warn, &Value::from(text));
    }
}
