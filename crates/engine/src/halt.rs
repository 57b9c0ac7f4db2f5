//! Stops flows whose queue, or the memory of the program, would grow without end.
//!
//! Their waiting messages are dropped and counted, and their nodes close as in a deployment. The
//! next deployment starts them again.

use crate::event_loop::{Change, ChangeRequest, Thread};
use crate::instance::Instance;
use crate::memory_budget::Usage;
use crate::stopped_flows::{Halt, Reason, StoppedFlow};
use events::Event;
use rustc_hash::FxHashMap;
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::time::Instant;

/// How long editors show the notification, milliseconds. Our choice: the nodes' status stays.
const NOTIFICATION: u32 = 60_000;

impl Thread {
    /// Relieves the queue and the memory: lets sources pause or go on, and stops flows that grow
    /// without end.
    pub(super) fn relieve(&mut self, now: Instant) {
        if self.state.pressure.any() {
            for group in self.state.queue.filled() {
                self.load.pause(group);
            }
            for group in self.state.queue.check(now) {
                self.stop_flows(group, Reason::Queue);
            }
        }
        let Some(usage) = self.state.memory.check(now) else {
            return;
        };
        self.state.pressure.set_exhausted(usage != Usage::Normal);
        let largest = self.state.queue.largest();
        let bytes = largest.map_or(0, |group| self.state.queue.size(group).bytes());
        let queues = &self.shared.largest_queues;
        let is_largest = queues.set(self.number, bytes);
        if usage == Usage::Exceeded
            && let Some(group) = largest.filter(|_| is_largest)
            && self.state.memory.is_worthwhile(bytes)
            && queues.may_drop(now)
        {
            self.stop_flows(group, Reason::Memory);
            self.state.memory.pause(now);
        }
    }

    /// Drops the messages that wait for a group of flows, and stops its nodes.
    fn stop_flows(&mut self, group: u32, reason: Reason) {
        let size = self.state.queue.size(group);
        let mut dropped: FxHashMap<u32, u64> = FxHashMap::default();
        for delivery in self.state.queue.empty(group) {
            *dropped.entry(delivery.slot).or_default() += 1;
        }
        for (slot, messages) in dropped {
            if let Some(Some(slot)) = self.slots.get(slot as usize) {
                self.kinds[slot.kind].0.dropped.increment(messages);
            }
        }
        let (mut nodes, mut tabs) = (Vec::new(), BTreeSet::new());
        for (slot, number) in self.slots.iter().zip(0..) {
            let Some(slot) = slot else { continue };
            // Config nodes of no flow serve other flows too.
            if self.state.queue.group(number) == group && !slot.info.container.z.is_empty() {
                nodes.push(Instance {
                    slot: number,
                    epoch: slot.epoch,
                });
                let root = slot
                    .info
                    .container
                    .path
                    .split('/')
                    .next()
                    .unwrap_or_default();
                tabs.insert(SmolStr::from(root));
            }
        }
        let flows = tabs.into_iter().map(|id| StoppedFlow {
            label: self.flow_label(&id),
            id,
            reason,
        });
        let halt = Halt {
            nodes,
            flows: flows.collect(),
            reason,
            size,
        };
        // Nothing waits for the end of it.
        let (request, _) = ChangeRequest::alone(Change::Halt(halt));
        self.begin_change(request);
    }

    fn flow_label(&self, id: &str) -> SmolStr {
        let tab = self.flows.get(id).map(|tab| tab.object());
        let label = tab.and_then(|tab| tab.get("label")?.as_str().map(SmolStr::from));
        label.unwrap_or_else(|| id.into())
    }

    /// Reports flows whose nodes have begun to close.
    pub(super) fn report_halt(&mut self, halt: &Halt) {
        let flows = &halt.flows;
        let labels: Vec<&str> = flows.iter().map(|flow| flow.label.as_str()).collect();
        let (messages, bytes) = (halt.size.messages, halt.size.bytes());
        let reason = halt.reason;
        tracing::error!(
            target: "flow",
            flows = labels.join(", "),
            %reason,
            messages,
            bytes,
            "flows stopped: {}; the next deployment starts them again",
            match reason {
                Reason::Queue => "their queue did not get shorter while their sources paused",
                Reason::Memory => "the memory limit is exceeded and their queue is the largest",
            }
        );
        self.metrics.stopped(flows.len(), reason);
        let status =
            json!({ "fill": "red", "shape": "ring", "text": format!("stopped: {reason}") });
        for node in &halt.nodes {
            if let Some(Some(slot)) = self.slots.get(node.slot as usize) {
                let id = slot.info.id.clone();
                let status = Some(status.clone());
                self.stopped_nodes.push(id.clone());
                self.state.events.publish(Event::Status { id, status });
            }
        }
        let ids = flows.iter().map(|flow| flow.id.clone());
        self.stopped_flows.extend(ids);
        self.shared.stopped().extend_from_slice(flows);
        let stopped = self.shared.stopped().clone();
        let list: Vec<Json> = stopped.iter().map(StoppedFlow::to_json).collect();
        // The stock editor shows the text as HTML: no labels in it.
        self.state.events.publish(Event::StoppedFlows(json!({
            "type": "warning",
            "timeout": NOTIFICATION,
            "text": "Flows were stopped because too many messages waited for them. The next deployment starts them again.",
            "flows": list,
        })));
    }

    /// Stopped flows are about to start again, or were removed.
    pub(super) fn forget_stopped(&mut self) {
        if self.stopped_nodes.is_empty() {
            return;
        }
        let own = std::mem::take(&mut self.stopped_flows);
        let mut stopped = self.shared.stopped();
        stopped.retain(|flow| !own.contains(&flow.id));
        let is_last = stopped.is_empty();
        drop(stopped);
        for id in std::mem::take(&mut self.stopped_nodes) {
            let status = None;
            self.state.events.publish(Event::Status { id, status });
        }
        if is_last {
            self.state.events.publish(Event::StoppedFlows(json!({})));
        }
    }
}
