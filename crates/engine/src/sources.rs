//! The nodes that bring messages into flows, while their flow is full: the messages that they dropped are counted,
//! logged and shown as their status, as is the pause of the others.

use crate::log_level::Level;
use crate::node_info::NodeInfo;
use crate::pressure::{Pressure, Source};
use crate::report::label;
use crate::state::EngineState;
use events::Event;
use rustc_hash::FxHashMap;
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use value::Value;

/// The interval between two reports: a pause that is shorter is not shown. Our choice.
const REPORT: Duration = Duration::from_secs(1);
/// The interval between two lines of the log about the same node. Our choice.
const LOG: Duration = Duration::from_mins(1);

/// All sources, by the running id of their node.
#[derive(Default)]
pub(crate) struct Sources {
    nodes: FxHashMap<SmolStr, Reported>,
    /// When the next report is due; `None`: there is nothing to report.
    next: Option<Instant>,
}

/// A source, and what was reported about it.
struct Reported {
    info: Rc<NodeInfo>,
    source: Source,
    dropped: Rc<Cell<u64>>,
    /// Messages dropped in this pause, and those that no line of the log has counted.
    in_pause: u64,
    unlogged: u64,
    logged: Option<Instant>,
    /// The status that the node itself has.
    own: Option<Json>,
    /// The text shown in its place.
    shown: Option<String>,
}

impl Sources {
    /// Adds a source, or one more handle to it.
    pub(crate) fn add(
        &mut self,
        info: &Rc<NodeInfo>,
        slot: u32,
        pressure: &Rc<Pressure>,
    ) -> Source {
        let entry = self.nodes.entry(info.id.clone());
        let reported = entry.or_insert_with(|| {
            let dropped = Rc::<Cell<u64>>::default();
            Reported {
                info: Rc::clone(info),
                source: Source::new(Rc::clone(pressure), slot, Rc::clone(&dropped)),
                dropped,
                in_pause: 0,
                unlogged: 0,
                logged: None,
                own: None,
                shown: None,
            }
        });
        reported.source.clone()
    }

    /// Removes a source; messages that it dropped are counted and logged.
    pub(crate) fn remove(&mut self, id: &str) -> Option<(Rc<NodeInfo>, u64)> {
        let removed = self.nodes.remove(id)?;
        let dropped = removed.unlogged + removed.dropped.take();
        (dropped > 0).then_some((removed.info, dropped))
    }

    /// Keeps the status that a node itself has; whether another one is shown in its place.
    pub(crate) fn keep_status(&mut self, id: &str, status: impl FnOnce() -> Option<Json>) -> bool {
        let Some(reported) = self.nodes.get_mut(id) else {
            return false;
        };
        reported.own = status();
        reported.shown.is_some()
    }

    /// When the next report is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }
}

impl Reported {
    /// Counts what was dropped since the last report; gives that number.
    fn collect(&mut self) -> u64 {
        let dropped = self.dropped.take();
        self.unlogged += dropped;
        self.in_pause = if self.source.is_full() {
            self.in_pause + dropped
        } else {
            0
        };
        dropped
    }

    /// The status to show in place of the node's own.
    fn text(&self) -> Option<String> {
        self.source.is_full().then(|| match self.in_pause {
            0 => "paused".to_owned(),
            dropped => format!("paused, {dropped} dropped"),
        })
    }

    /// The number of dropped messages that a line of the log is due for.
    fn due_for_log(&mut self, now: Instant) -> Option<u64> {
        let late = self.logged.is_none_or(|logged| now >= logged + LOG);
        if self.unlogged == 0 || !late {
            return None;
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

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
                let kind = self.metrics.node_type(label(&reported.info.kind));
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
            let kind = self.metrics.node_type(label(&info.kind));
            kind.dropped.increment(dropped);
            self.log_dropped(&info, dropped);
        }
    }

    fn log_dropped(&self, info: &NodeInfo, dropped: u64) {
        let text = format!("{dropped} messages dropped: the flow is full");
        self.log(info, Level::Warn, &Value::from(text));
    }
}
