//! Requests to http-in nodes that wait for the engine, by the group of flows that they are for.

use crate::http::Exchange;
use crate::instance::Instance;
use limits::quota::Grant;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The interval between searches of the waiting requests for those of disconnected clients. Our
/// choice: ten thousand take a millisecond.
pub(super) const SWEEP: Duration = Duration::from_millis(100);

/// A request, its node, and its place among the requests that may wait.
pub(crate) struct Call {
    pub instance: Instance,
    pub exchange: Box<Exchange>,
    /// Held until the request is passed on.
    pub _permit: Grant,
}

/// The requests that wait, by group; groups without any are not kept.
#[derive(Default)]
pub(crate) struct Calls {
    waiting: FxHashMap<u32, VecDeque<Call>>,
    /// When those of disconnected clients were last dropped.
    swept: Option<Instant>,
}

impl Calls {
    /// Adds a request behind those of its group.
    pub(super) fn push(&mut self, group: u32, call: Call) {
        self.waiting.entry(group).or_default().push_back(call);
    }

    /// Takes the oldest request of a group.
    pub(super) fn pop(&mut self, group: u32) -> Option<Call> {
        let waiting = self.waiting.get_mut(&group)?;
        let call = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&group);
        }
        call
    }

    /// The groups with requests.
    pub(super) fn groups(&self) -> Vec<u32> {
        self.waiting.keys().copied().collect()
    }

    /// Returns whether no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The number of requests of a group.
    pub(super) fn of(&self, group: u32) -> usize {
        self.waiting.get(&group).map_or(0, VecDeque::len)
    }

    /// The number of requests that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// Drops the requests of clients that are gone wherever they wait, so that they take no places
    /// from others.
    pub(super) fn sweep(&mut self, now: Instant) {
        if self.is_empty() || self.swept.is_some_and(|swept| now < swept + SWEEP) {
            return;
        }
        self.swept = Some(now);
        self.waiting.retain(|_, waiting| {
            waiting.retain(|call| !call.exchange.responder.is_abandoned());
            !waiting.is_empty()
        });
    }

    /// Moves every request to the group that its node has now.
    pub(crate) fn regroup(&mut self, group: impl Fn(u32) -> u32) {
        for call in std::mem::take(&mut self.waiting).into_values().flatten() {
            self.push(group(call.instance.slot), call);
        }
    }
}
