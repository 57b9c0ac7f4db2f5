//! Measures the load of each group of flows: the clock is read when the thread goes from the nodes
//! of one group to those of another, not for each message.

use crate::load::{FlowLoad, Load};
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;
use std::sync::Arc;
use std::time::Instant;

/// Groups with series of their own, at most; all others count as `other`. Our choice: what a page
/// of metrics and a dashboard can show.
const MAX_SERIES: usize = 200;
/// The series of all groups beyond [`MAX_SERIES`].
const OTHER: &str = "other";
/// No group.
const NONE: u32 = u32::MAX;

/// The load of all groups.
pub(crate) struct LoadMeter {
    load: Arc<Load>,
    /// By group; groups beyond the end, and those that are no group's first flow, have none.
    flows: Vec<Option<Arc<FlowLoad>>>,
    /// The group whose nodes run.
    running: u32,
    /// Since when.
    since: Instant,
    /// True if a gauge of waiting messages is not 0.
    shows_waiting: bool,
}

impl LoadMeter {
    pub(super) fn new(load: Arc<Load>) -> Self {
        Self {
            load,
            flows: Vec::new(),
            running: NONE,
            since: Instant::now(),
            shows_waiting: false,
        }
    }

    /// A node of this group is about to be called.
    #[inline]
    pub(super) fn enter(&mut self, group: u32) {
        if group != self.running {
            self.switch(group);
        }
    }

    /// The thread turns to other things than nodes.
    pub(super) fn leave(&mut self) {
        if self.running != NONE {
            self.switch(NONE);
        }
    }

    fn switch(&mut self, group: u32) {
        let now = Instant::now();
        if let Some(flow) = self.flow(self.running) {
            flow.add_busy(now - self.since);
        }
        (self.running, self.since) = (group, now);
    }

    fn flow(&self, group: u32) -> Option<&Arc<FlowLoad>> {
        self.flows.get(group as usize)?.as_ref()
    }

    /// A timer fires that was due at this time.
    pub(super) fn timer(&self, due: Instant) {
        self.load.lateness.record(due.elapsed());
    }

    /// The sources of a group pause.
    pub(crate) fn pause(&self, group: u32) {
        if let Some(flow) = self.flow(group) {
            flow.add_pause();
        }
    }

    /// Brings gauges up to date. `waiting`: the messages and requests of a group, and the bytes of
    /// its messages.
    pub(super) fn publish(&mut self, idle: bool, waiting: impl Fn(u32) -> (usize, u64)) {
        self.clear();
        if idle {
            return;
        }
        for (flow, group) in self.flows.iter().zip(0..) {
            let (messages, bytes) = waiting(group);
            if let Some(flow) = flow.as_ref().filter(|_| messages > 0) {
                flow.add_waiting(messages as u64, bytes);
                self.shows_waiting = true;
            }
        }
    }

    /// No message waits.
    fn clear(&mut self) {
        if self.shows_waiting {
            self.flows
                .iter()
                .flatten()
                .for_each(|flow| flow.clear_waiting());
            self.shows_waiting = false;
        }
    }

    /// Measures these groups from now on: each by the number of its first flow, with that flow's
    /// id. A group of the same id goes on counting.
    pub(crate) fn regroup(&mut self, groups: &[(u32, SmolStr)]) {
        self.leave();
        self.clear();
        let before = self.load.flows.load_full();
        let mut named: FxHashMap<SmolStr, Arc<FlowLoad>> = before
            .iter()
            .map(|flow| (flow.flow.clone(), Arc::clone(flow)))
            .collect();
        let (mut listed, mut seen) = (Vec::new(), FxHashSet::default());
        self.flows.clear();
        for (nth, (group, flow)) in groups.iter().enumerate() {
            let flow = if nth < MAX_SERIES {
                flow.clone()
            } else {
                OTHER.into()
            };
            let load = named
                .entry(flow)
                .or_insert_with_key(|flow| FlowLoad::new(flow.clone()));
            if seen.insert(load.flow.clone()) {
                listed.push(Arc::clone(load));
            }
            self.flows.resize(*group as usize, None);
            self.flows.push(Some(Arc::clone(load)));
        }
        self.load.flows.store(Arc::new(listed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tab_with_the_id_other_shares_the_series_of_all_other_flows() {
        let load = Arc::<Load>::default();
        let mut meter = LoadMeter::new(Arc::clone(&load));
        let ids = (0..300u32).map(|n| match n {
            1 => OTHER.into(),
            n => format!("t{n}").into(),
        });
        meter.regroup(&(0..).zip(ids).collect::<Vec<_>>());
        meter.publish(false, |group| match group {
            1 | 250 => (1, 64),
            _ => (0, 0),
        });
        meter.pause(250);
        let flows = load.flows.load();
        assert_eq!(flows.len(), MAX_SERIES);
        let waiting = flows.iter().filter(|flow| flow.waiting_messages() > 0);
        let waiting: Vec<_> = waiting
            .map(|flow| (flow.flow.as_str(), flow.waiting_messages()))
            .collect();
        assert_eq!(waiting, [(OTHER, 2)]);
        let other = flows.iter().find(|flow| flow.flow == OTHER);
        let other = other.map(|flow| (flow.waiting_bytes(), flow.pauses()));
        assert_eq!(other, Some((128, 1)));
        meter.publish(true, |_| (0, 0));
        let is_clear = |flow: &Arc<FlowLoad>| flow.waiting_messages() + flow.waiting_bytes() == 0;
        assert!(flows.iter().all(is_clear));
    }
}
