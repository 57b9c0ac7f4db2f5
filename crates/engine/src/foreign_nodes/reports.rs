//! Hands what the node host reports to the engine's nodes: its messages to those that they were
//! sent to, errors, status and completed messages to the catch, status and complete nodes.

use crate::event_loop::Thread;
use crate::log_level::Level;
use crate::log_lines::{MAX_TEXT, beginning};
use crate::metrics::RefusedFrame;
use crate::node_host::{Addressed, Event, NodeHost, Report, Role, Violation, What};
use crate::node_info::NodeInfo;
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;
use std::rc::Rc;
use value::{Failure, Message, Value};

impl Thread {
    /// Handles an event of the node host.
    pub(crate) fn node_host_event(&mut self, event: Event) {
        let Some(host) = self.state.node_host.clone() else {
            return;
        };
        if host.is_holding() {
            return host.hold(event);
        }
        match event {
            Event::Ready => self.start_foreign_nodes(&host),
            Event::Running => self.foreign_nodes_run(&host),
            Event::Down => {
                let status = host.trouble().unwrap_or_default();
                self.show_on_foreign_nodes(&status, |_| true);
            }
            Event::Lost(messages) => {
                let failure = Failure::error("the node host ended before it took the message");
                for Addressed { node, message } in messages {
                    if let Some(info) = self.state.info_of(&node) {
                        self.state.error(&info, &failure, Some(message));
                    }
                }
            }
            Event::Report(report) => self.node_host_report(&host, report),
        }
    }

    /// Handles what the node host has sent during a deployment.
    pub(super) fn release_held(&mut self, host: &Rc<NodeHost>) {
        for event in host.take_held() {
            self.node_host_event(event);
        }
        host.changed();
    }

    /// The targets of the foreign nodes that run, by their running ids.
    pub(super) fn foreign_targets(&self) -> FxHashMap<SmolStr, FxHashSet<SmolStr>> {
        let slots = self.slots.iter().flatten();
        let foreign = slots.filter(|slot| self.state.is_foreign(&slot.info));
        let targets = foreign.map(|slot| {
            let targets = slot.wires.by_output().flatten();
            let infos = targets.filter_map(|target| self.state.directory.info(*target));
            let ids = infos.map(|info| info.id.clone()).collect();
            (slot.info.id.clone(), ids)
        });
        targets.collect()
    }

    /// Shows a status on the foreign nodes of some types.
    pub(super) fn show_on_foreign_nodes(&mut self, status: &Value, of: impl Fn(&str) -> bool) {
        let infos = self.state.directory.infos();
        let is_meant = |info: &NodeInfo| self.state.is_foreign(info) && of(info.kind());
        let foreign: Vec<_> = infos.filter(|info| is_meant(info)).cloned().collect();
        for info in foreign {
            self.state.status(&info, status);
        }
    }

    fn node_host_report(&mut self, host: &NodeHost, report: Report) {
        let Report { node, what, .. } = report;
        let info = self.state.info_of(&node);
        if let Some(reason) = violation(host, &node, &what, info.is_some()) {
            let frame = match what {
                What::Message(..) => RefusedFrame::Message,
                _ => RefusedFrame::Report,
            };
            let kind = info.as_ref().map(|info| info.kind().as_str());
            return host.refuse(&Violation {
                frame,
                node: &node,
                kind,
                reason,
            });
        }
        let Some(info) = info else {
            if let (true, What::Log(level, value)) = (node.is_empty(), &what) {
                self.state.show_log_line(*level, value);
            }
            return unattributed(&node, what);
        };
        match what {
            What::Message(targets, message) => self.route(host, &info, &targets, &message),
            What::Error(failure, message) => self.state.error(&info, &failure, message),
            What::Status(status) => self.state.status(&info, &status),
            What::Complete(message) => self.state.complete(&info, &message),
            What::Log(level, value) => self.state.log(&info, level, &value),
        }
    }

    /// Queues a message for the nodes that it was sent to, if its sender is wired to them.
    fn route(
        &mut self,
        host: &NodeHost,
        from: &Rc<NodeInfo>,
        targets: &[SmolStr],
        message: &Message,
    ) {
        if let Err(failure) = message.check() {
            return self.state.error(from, &failure, Some(message.clone()));
        }
        for target in targets {
            let Some(slot) = self.state.directory.get(target) else {
                continue;
            };
            if !self.is_wired(from, slot) && !host.was_target(&from.id, target) {
                host.refuse(&Violation {
                    frame: RefusedFrame::Message,
                    node: target,
                    kind: Some(from.kind()),
                    reason: "its node is not wired to the target",
                });
                continue;
            }
            let mut copy = message.clone();
            self.state.ensure_msgid(&mut copy);
            self.state.push(slot, copy);
        }
    }

    /// Returns whether an output of a node is wired to the node in a slot.
    fn is_wired(&self, from: &NodeInfo, slot: u32) -> bool {
        let own = self.state.directory.get(&from.id);
        let own = own.and_then(|own| self.slots.get(own as usize)?.as_ref());
        own.is_some_and(|own| own.wires.by_output().any(|output| output.contains(&slot)))
    }
}

/// Why the host may not report this; `None`: it may. A node that no longer runs names nothing.
fn violation(host: &NodeHost, node: &str, what: &What, runs: bool) -> Option<&'static str> {
    let is_of_log = matches!(what, What::Error(..) | What::Log(..));
    let may = match host.role(node) {
        Some(Role::Foreign) => true,
        Some(Role::Instance) => is_of_log || matches!(what, What::Status(_)),
        Some(Role::Other) => is_of_log,
        None if node.is_empty() => matches!(what, What::Log(..)),
        None => !runs,
    };
    (!may).then_some("the node is not one that the node host runs")
}

/// Logs a report that is of no node that runs.
fn unattributed(node: &str, what: What) {
    let (level, value) = match what {
        What::Log(level, value) => (level, value),
        What::Error(failure, _) => (Level::Error, failure.to_value()),
        What::Message(..) | What::Status(_) | What::Complete(_) => return,
    };
    let text = value::coerce::to_text(&value);
    let text = beginning(&text, MAX_TEXT);
    match level {
        Level::Error => tracing::error!(target: "node_host", node, "{text}"),
        Level::Warn => tracing::warn!(target: "node_host", node, "{text}"),
        _ => tracing::debug!(target: "node_host", node, "{text}"),
    }
}
