//! Changes the running graph: carries out a plan's stops and waits for closing nodes
//! (docs/reference/node-red-engine.md §1.5, §1.6). The steps that follow are in `start`.

use super::{Part, RunState};
use crate::delivery::Delivery;
use crate::event_loop::{Change, ChangeRequest, Thread};
use crate::instance::Instance;
use crate::node_info::NodeInfo;
use crate::task::Closing;
use crate::threads::rendezvous::Arrival;
use events::Event;
use flows::{FlowSet, Plan};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

/// Slots of the nodes inside subflow instances: for each instance on a tab a list of them, linked
/// by slot.
struct Inside {
    first: Vec<u32>,
    next: Vec<u32>,
}

impl Inside {
    /// No slot: the end of a list.
    const END: u32 = u32::MAX;

    fn put_in_front(&mut self, instance: u32, slot: u32) {
        let first = &mut self.first[instance as usize];
        self.next[slot as usize] = std::mem::replace(first, slot);
    }

    /// The slots of the nodes inside this instance, in order.
    fn of(&self, instance: u32) -> impl Iterator<Item = u32> {
        let some = |slot: u32| (slot != Self::END).then_some(slot);
        let first = some(self.first[instance as usize]);
        std::iter::successors(first, move |slot| some(self.next[*slot as usize]))
    }
}

impl Thread {
    /// Stops what the change stops. It goes on in [`Self::finish_change`], at once or when the
    /// nodes have closed; if all threads make the change, when those of all have.
    pub(super) fn begin_change(&mut self, mut request: ChangeRequest) {
        if self.closing.is_some() {
            self.waiting.push_back(request);
            return;
        }
        let change = &request.change;
        let stops = self.stops(change);
        let node_host = self.change_node_host(change, &stops);
        let closings = self.stop(&stops);
        if let Change::Halt(halt) = change
            && !stops.is_empty()
        {
            self.report_halt(halt);
        }
        let arrival = self.arrival(&mut request);
        self.closing = Some(request);
        let closed = self.closed.clone();
        if closings.is_empty() && node_host.is_none() && arrival.is_none() {
            let _ = closed.send(());
            return;
        }
        let limit = self.state.config.close_timeout;
        tokio::task::spawn_local(async move {
            for (info, closing) in closings {
                if tokio::time::timeout(limit, closing).await.is_err() {
                    tracing::error!(target: "flow", node = %info.id, kind = %info.kind(), "Error stopping node: Close timed out");
                }
            }
            if let Some(changed) = node_host {
                changed.await;
            }
            if let Some(arrival) = arrival {
                arrival.await;
            }
            // The thread outlives its tasks.
            let _ = closed.send(());
        });
    }

    /// The arrival at the rendezvous with the other threads, to be awaited when everything has
    /// closed. Hands over the contexts that are theirs from now on.
    fn arrival(&self, request: &mut ChangeRequest) -> Option<impl Future<Output = ()> + use<>> {
        let rendezvous = request.rendezvous.as_mut()?;
        let shared = Arc::clone(rendezvous.shared());
        if self.number == 0 {
            let flows = match &request.change {
                Change::Apply { flows, .. } => flows,
                Change::Run(_) | Change::Halt(_) | Change::Close => &self.flows,
            };
            shared.set_missing(self.missing_types(flows));
        }
        let arrival: Arrival = rendezvous.arrival();
        let (contexts, number) = (Rc::clone(&self.state.contexts), self.number);
        Some(async move {
            let stays = |flow: &str| shared.placement.thread_of(flow) == number;
            let leaving = contexts.borrow_mut().take(&stays);
            shared.hand_over(leaving);
            arrival.wait().await;
        })
    }

    /// All threads have closed what they stop: takes over the part of the flow set that is this
    /// thread's from now on.
    fn take_over_part(&mut self, request: &ChangeRequest) {
        let Some(rendezvous) = &request.rendezvous else {
            return;
        };
        let shared = Arc::clone(rendezvous.shared());
        let mut contexts = self.state.contexts.borrow_mut();
        for moved in shared.take_over(self.number) {
            contexts.put(moved);
        }
        drop(contexts);
        let thread = self.number;
        self.part = Some(Part {
            change: shared,
            thread,
        });
    }

    /// The rest of a change, once everything that it stops has closed.
    pub(super) fn finish_change(&mut self) -> ControlFlow<()> {
        let Some(request) = self.closing.take() else {
            return ControlFlow::Continue(());
        };
        let in_place = self.in_place(&request.change);
        self.clear();
        self.take_over_part(&request);
        let ChangeRequest { change, done, .. } = request;
        match change {
            Change::Apply {
                flows, credentials, ..
            } => {
                self.state.contexts.borrow_mut().clean(&flows);
                self.flows = flows;
                self.credentials = credentials;
                match in_place {
                    Some(in_place) => self.start_in_place(in_place),
                    None => self.start(true),
                }
            }
            Change::Run(state) => {
                self.shared.set_state(state);
                self.start(false);
            }
            Change::Halt(_) => self.count_running(),
            Change::Close => {
                self.state.contexts.borrow_mut().close();
                let _ = done.send(());
                return ControlFlow::Break(());
            }
        }
        self.node_host_changed();
        // The caller may be gone; the change stands.
        let _ = done.send(());
        if let Some(request) = self.waiting.pop_front() {
            self.begin_change(request);
        }
        ControlFlow::Continue(())
    }

    /// Slots to stop, and whether their nodes are gone for good, in the order of
    /// docs/reference/node-red-engine.md §1.5.
    fn stops(&self, change: &Change) -> Vec<(u32, bool)> {
        match change {
            Change::Apply { plan, .. } if !plan.everything => self.planned(plan),
            Change::Apply { flows, .. } => self
                .all()
                .into_iter()
                .map(|slot| (slot, self.gone(slot, flows)))
                .collect(),
            Change::Halt(halt) => {
                let halted = |slot: &u32| {
                    let own = halt.nodes.iter().find(|node| node.slot == *slot);
                    own.is_some_and(|node| self.runs(*node))
                };
                let slots = self.all().into_iter().filter(halted);
                slots.map(|slot| (slot, false)).collect()
            }
            Change::Run(RunState::Start) => Vec::new(),
            Change::Run(RunState::Stop | RunState::Safe) | Change::Close => {
                self.all().into_iter().map(|slot| (slot, false)).collect()
            }
        }
    }

    fn planned(&self, plan: &Plan) -> Vec<(u32, bool)> {
        let mut inside = None;
        let mut stops = Vec::new();
        for stop in &plan.stop {
            let Some(slot) = self.state.directory.get(&stop.id) else {
                continue;
            };
            stops.push((slot, stop.removed));
            let is_instance = |info: &Rc<NodeInfo>| info.kind().starts_with("subflow:");
            if self.state.directory.info(slot).is_some_and(is_instance) {
                let inside = inside.get_or_insert_with(|| self.inside_instances());
                stops.extend(inside.of(slot).map(|slot| (slot, false)));
            }
        }
        stops
    }

    /// All slots: flows in order, the global one last; in each flow nodes first, config nodes last.
    pub(super) fn all(&self) -> Vec<u32> {
        let mut ranks: FxHashMap<&str, usize> = FxHashMap::default();
        let mut slots: Vec<(usize, bool, u32)> = Vec::new();
        for (slot, number) in self.slots.iter().zip(0..) {
            let Some(slot) = slot else { continue };
            let next = ranks.len();
            let rank = if slot.info.container.z.is_empty() {
                usize::MAX
            } else {
                *ranks.entry(&slot.info.container.z).or_insert(next)
            };
            slots.push((rank, slot.config, number));
        }
        slots.sort_unstable();
        slots.into_iter().map(|(_, _, slot)| slot).collect()
    }

    /// Slots of all nodes inside subflow instances, at any depth.
    fn inside_instances(&self) -> Inside {
        let mut inside = Inside {
            first: vec![Inside::END; self.slots.len()],
            next: vec![Inside::END; self.slots.len()],
        };
        // Nodes of one flow lie side by side.
        let mut last: Option<(&SmolStr, Option<u32>)> = None;
        // The last is put in front first.
        for (at, slot) in self.slots.iter().enumerate().rev() {
            let (Some(slot), Ok(number)) = (slot, u32::try_from(at)) else {
                continue;
            };
            let flow = &slot.info.container.z;
            let outermost = match last {
                Some((same, outermost)) if same == flow => outermost,
                _ => self
                    .outermost_instance(flow)
                    .and_then(|id| self.state.directory.get(id)),
            };
            last = Some((flow, outermost));
            if let Some(outermost) = outermost {
                inside.put_in_front(outermost, number);
            }
        }
        inside
    }

    /// The instance on a tab that a flow is, or lies in; `None` for a tab.
    fn outermost_instance<'a>(&'a self, mut flow: &'a SmolStr) -> Option<&'a SmolStr> {
        let around = |flow: &SmolStr| self.state.listeners.flow(flow)?.parent.as_ref();
        let mut outermost = None;
        while let Some((outer, _)) = around(flow) {
            outermost = Some(flow);
            flow = outer;
        }
        outermost
    }

    fn gone(&self, slot: u32, flows: &FlowSet) -> bool {
        let Some(Some(slot)) = self.slots.get(slot as usize) else {
            return false;
        };
        let disabled_tab = || {
            flows
                .get(&slot.info.container.z)
                .is_some_and(|t| t.disabled)
        };
        slot.info.id == *slot.info.alias()
            && flows
                .get(&slot.info.id)
                .is_none_or(|n| n.disabled || disabled_tab())
    }

    /// Closes nodes: out of the directory first, so that nothing reaches a closing node
    /// (docs/reference/node-red-engine.md §1.6).
    pub(super) fn stop(&mut self, stops: &[(u32, bool)]) -> Vec<(Rc<NodeInfo>, Closing)> {
        for (slot, _) in stops {
            self.state.directory.hide(*slot);
        }
        let mut closings = Vec::new();
        for &(slot, removed) in stops {
            let mut closing = None;
            self.with_node(slot, |node, host| closing = node.close(removed, host));
            let Some(Some(stopped)) = self.slots.get_mut(slot as usize) else {
                continue;
            };
            stopped.node = None;
            let info = Rc::clone(&stopped.info);
            if removed {
                // Clears the status in editors.
                self.state.events.publish(Event::Status {
                    id: info.id.clone(),
                    status: None,
                });
            }
            if let Some(closing) = closing {
                closings.push((info, closing));
            }
        }
        closings
    }

    /// Removes slots without a node: those of stopped and of failed nodes.
    pub(super) fn clear(&mut self) {
        let mut any = false;
        for (slot, number) in self.slots.iter_mut().zip(0u32..) {
            let Some(stopped) = slot.take_if(|s| s.node.is_none()) else {
                continue;
            };
            any = true;
            self.state.abort_tasks(Instance {
                slot: number,
                epoch: stopped.epoch,
            });
            if self.state.node_host.is_none() || !self.state.is_foreign(&stopped.info) {
                // The node host has started the foreign nodes again, which may have set values.
                self.state.contexts.borrow_mut().forget_node(&stopped.info);
            }
            self.state.shared.withdraw(&stopped.info.id);
            self.state.remove_source(&stopped.info.id);
            self.state.directory.clear(number);
            self.state.attached.set_taker(number, None);
            self.free.push(number);
        }
        if any {
            let mut timers = std::mem::take(&mut self.state.timers);
            timers.retain(|_, instance| self.runs(*instance));
            self.state.timers = timers;
            let slots = &self.slots;
            let runs = |d: &Delivery| slots.get(d.slot as usize).is_some_and(Option::is_some);
            self.state.queue.retain(runs);
            let endpoints = self.state.endpoints.get();
            let endpoints = endpoints.retained(|instance| self.runs(instance));
            self.state.endpoints.replace(endpoints);
            let sockets = self.state.sockets.get();
            let sockets = sockets.retained(|instance| self.runs(instance));
            self.state.sockets.replace(sockets);
            self.state.publish_endpoints();
        }
    }
}
