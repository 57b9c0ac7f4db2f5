//! The node host's part of a deployment. It stops and starts its nodes while the engine's own are
//! closed; the engine starts those when the host is done, or has failed.

use super::flow_set;
use crate::event_loop::{Change, ChangeRequest, Thread};
use crate::node_host::{self, Event, HostFlows, NodeHost};
use crate::nodes::is_foreign;
use crate::task::Closing;
use crate::{Engine, RunState};
use flows::{Credentials, FlowSet};
use rustc_hash::FxHashSet;
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::rc::Rc;
use value::Value;

impl Thread {
    /// Begins the node host's part of a change, and holds what it sends until
    /// [`Self::node_host_changed`]. The result is ready when the host is done; `None`: the change
    /// does not touch it.
    pub(crate) fn change_node_host(
        &mut self,
        change: &Change,
        stops: &[(u32, bool)],
    ) -> Option<Closing> {
        let host = self.state.node_host.clone()?;
        host.hold_events(self.foreign_targets());
        match change {
            Change::Apply { plan, flows, .. } => {
                self.find_hosted_functions(flows, plan.everything);
            }
            Change::Run(RunState::Start) => self.find_hosted_functions(&self.flows.clone(), true),
            Change::Run(_) | Change::Close | Change::Halt(_) => {}
        }
        for (slot, _) in stops {
            // Before new nodes of the host set values in the same contexts.
            let info = self.state.directory.info(*slot).cloned();
            if let Some(info) = info.filter(|info| self.state.is_foreign(info)) {
                self.state.contexts.borrow_mut().forget_node(&info);
            }
        }
        if let Change::Apply { plan, .. } = change {
            host.restart(plan);
            if plan.everything && host.take_back() {
                // The next process starts what runs then.
                return None;
            }
        }
        match change {
            Change::Apply {
                plan,
                flows,
                credentials,
            } if self.shared.state() == RunState::Start => {
                let kind = if plan.everything { "full" } else { "nodes" };
                self.deploy_to_node_host(&host, flows, credentials, kind)
            }
            Change::Run(RunState::Start) => {
                let (flows, credentials) = (self.flows.clone(), self.credentials.clone());
                self.deploy_to_node_host(&host, &flows, &credentials, "full")
            }
            Change::Run(RunState::Stop | RunState::Safe) | Change::Close => host.stop(),
            Change::Apply { .. } | Change::Halt(_) => None,
        }
    }

    /// The engine's own nodes run: handles what the node host has sent meanwhile.
    pub(crate) fn node_host_changed(&mut self) {
        if let Some(host) = self.state.node_host.clone() {
            host.may_start();
            self.watch_foreign_nodes(&host);
            self.release_held(&host);
        }
    }

    /// The types that neither the engine nor a package has.
    pub(crate) fn missing_types(&self, flows: &FlowSet) -> Vec<String> {
        let mut missing = Engine::missing_types(flows);
        if let Some(host) = &self.state.node_host {
            missing.retain(|kind| kind.starts_with("subflow:") || !host.may_have(kind));
        }
        missing
    }

    /// A process is ready: it starts the foreign nodes of the flow set that runs. What no package
    /// has is logged; the other nodes run on.
    pub(super) fn start_foreign_nodes(&mut self, host: &Rc<NodeHost>) {
        // Nodes show their own status as they start.
        self.show_on_foreign_nodes(&Value::Undefined, |_| true);
        if self.shared.state() != RunState::Start {
            return host.run();
        }
        self.start_if_types_were_missing();
        let (flows, credentials) = (self.flows.clone(), self.credentials.clone());
        let lacks = |kind: &&str| is_foreign(kind) && !host.has(kind);
        let kinds = flows.nodes().iter().map(|node| node.kind.as_str());
        let missing: BTreeSet<&str> = kinds.filter(lacks).collect();
        if !missing.is_empty() {
            let types = missing.iter().copied().collect::<Vec<_>>().join(", ");
            tracing::error!(target: "node_host", types, "nodes of these types do not run: no package has them");
            let status = node_host::trouble("no package has this type");
            self.show_on_foreign_nodes(&status, |kind| missing.contains(kind));
        }
        let running = self.select(host, &flows, &credentials);
        let (done, host) = (host.deploy(running, "full"), Rc::clone(host));
        tokio::task::spawn_local(async move {
            done.await;
            host.publish(Event::Running);
        });
    }

    /// Starts the flow set if it did not start for want of types that a package has by now.
    fn start_if_types_were_missing(&mut self) {
        let is_empty = self.flows.nodes().is_empty();
        if !self.is_whole && !is_empty && self.missing_types(&self.flows).is_empty() {
            let start = Change::Run(RunState::Start);
            if self.part.is_none() {
                return self.begin_change(ChangeRequest::alone(start).0);
            }
            // An error: the engine is being closed.
            let _ = self.shared.change(start);
        }
    }

    /// The first flow set of a process runs. If the engine has another one by now, that follows; if
    /// flows were stopped meanwhile, these stop.
    pub(super) fn foreign_nodes_run(&mut self, host: &Rc<NodeHost>) {
        let wanted = self.select(host, &self.flows, &self.credentials);
        let is_stopped = self.shared.state() != RunState::Start;
        if is_stopped || host.runs(&wanted) {
            host.run();
            if is_stopped && let Some(stopped) = host.stop() {
                tokio::task::spawn_local(stopped);
            }
            self.watch_foreign_nodes(host);
        } else if host.is_starting() {
            self.start_foreign_nodes(host);
        }
    }

    /// Tells the host which nodes' completed messages are wanted.
    pub(super) fn watch_foreign_nodes(&mut self, host: &NodeHost) {
        let slots = self.slots.iter().flatten();
        let watched: FxHashSet<SmolStr> = slots
            .filter(|slot| slot.watched && self.state.is_foreign(&slot.info))
            .map(|slot| slot.info.id.clone())
            .collect();
        host.watch(watched);
    }

    fn deploy_to_node_host(
        &self,
        host: &Rc<NodeHost>,
        flows: &FlowSet,
        credentials: &Credentials,
        kind: &str,
    ) -> Option<Closing> {
        if !host.is_running() {
            // The process starts what runs then.
            return None;
        }
        if !self.missing_types(flows).is_empty() {
            return host.stop();
        }
        let running = self.select(host, flows, credentials);
        // A full deployment restarts what has not changed, too.
        if host.runs(&running) && (kind == "nodes" || running.is_empty()) {
            return None;
        }
        Some(host.deploy(running, kind))
    }

    fn select(&self, host: &NodeHost, flows: &FlowSet, credentials: &Credentials) -> HostFlows {
        let hidden = &self.state.config.hide_env;
        let epochs = &host.epochs();
        let functions = &self.state.hosted_functions;
        let mut selected = flow_set::select(flows, credentials, epochs, functions, hidden);
        let is_missing = |kind: &str| is_foreign(kind) && !host.has(kind);
        if flows.nodes().iter().any(|node| is_missing(&node.kind)) {
            flow_set::leave_out(&mut selected, &is_missing);
        }
        selected
    }
}
