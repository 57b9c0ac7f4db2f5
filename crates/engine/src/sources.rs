//! The nodes that bring messages into flows: the messages that they dropped while their flow was
//! full, and the status that shows it in place of their own.

use crate::node_info::NodeInfo;
use crate::pressure::{Pressure, Source};
use rustc_hash::FxHashMap;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The interval between two lines of the log about the same node. Our choice.
const LOG: Duration = Duration::from_mins(1);

/// All sources, by the running id of their node.
#[derive(Default)]
pub(crate) struct Sources {
    pub nodes: FxHashMap<SmolStr, Reported>,
    /// When the next report is due; `None`: there is nothing to report.
    pub next: Option<Instant>,
}

/// A source, and what was reported about it.
pub(crate) struct Reported {
    pub info: Rc<NodeInfo>,
    source: Source,
    dropped: Rc<Cell<u64>>,
    /// Messages dropped in this pause, and those that no line of the log has counted.
    in_pause: u64,
    pub unlogged: u64,
    logged: Option<Instant>,
    /// The status that the node itself has.
    pub own: Option<Json>,
    /// The text shown in its place.
    pub shown: Option<String>,
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
}

impl Reported {
    /// Counts what was dropped since the last report; gives that number.
    pub(crate) fn collect(&mut self) -> u64 {
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
    pub(crate) fn text(&self) -> Option<String> {
        self.source.is_full().then(|| match self.in_pause {
            0 => "paused".to_owned(),
            dropped => format!("paused, {dropped} dropped"),
        })
    }

    /// The number of dropped messages that a line of the log is due for.
    pub(crate) fn due_for_log(&mut self, now: Instant) -> Option<u64> {
        let late = self.logged.is_none_or(|logged| now >= logged + LOG);
        if self.unlogged == 0 || !late {
            return None;
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}
