//! The engine's thread: takes commands, fires timers, delivers messages, breadth first.

mod calls;
mod change;
mod load_meter;
mod slot;
mod start;

pub(crate) use change::{Change, ChangeRequest};
pub(crate) use slot::Slot;
use start::Inbox;
pub(crate) use start::Start;

use super::http::Exchange;
use super::node::{DynNode, Host};
use super::{Error, Part, Shared, context, lease, node_host, profiler};
use crate::delivery::{Delivery, Item, Wake};
use crate::instance::Instance;
use crate::mailbox::NodeEvent;
use crate::metrics::{Metrics, NodeType};
use crate::state::EngineState;
use crate::ws_endpoints;
use calls::{Call, Calls};
use flows::{Credentials, FlowSet};
use limits::quota::Grant;
use load_meter::LoadMeter;
use rustc_hash::FxHashMap;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use value::{Message, budget};

/// Messages delivered, at most, before the thread looks for commands, timers and finished futures
/// again.
const ROUND: usize = 256;
/// The number of messages between two looks at the clock, so that a look costs little beside them.
const MESSAGES_PER_LOOK: usize = 8;
/// The time slice of a group of flows. A round that has taken this long ends early, and the next
/// one begins with another group: slow nodes delay commands, timers and other flows by eight
/// messages, not by 256. Our choice: a message takes some microseconds, and a round that finds
/// nothing else to do one.
const SLICE: Duration = Duration::from_millis(1);
/// Requests to http-in nodes wait while more messages of their flows than this do: the data that
/// flows make of requests, such as large pages, is then held for this many of them at a time, not
/// for all that clients have open.
const CALLS_AHEAD: usize = 32;
/// The interval between two additions to the metrics while flows are busy. Our choice: Prometheus
/// reads them less often.
const COUNT: Duration = Duration::from_secs(1);

/// A command of the rest of the program to the thread.
pub(crate) enum Command {
    Change(ChangeRequest),
    Inject {
        id: String,
        message: Message,
        answer: oneshot::Sender<Result<(), Error>>,
    },
    Debug {
        ids: Vec<String>,
        active: bool,
        answer: oneshot::Sender<Result<(), Error>>,
    },
    Call {
        instance: Instance,
        exchange: Box<Exchange>,
        permit: Grant,
    },
    Socket {
        instance: Instance,
        connection: u64,
        event: ws_endpoints::Event,
    },
    Context {
        ask: context::Request,
        answer: oneshot::Sender<Result<Json, Error>>,
    },
    Profile {
        duration: Duration,
        answer: profiler::Answer,
    },
    NodeHost(node_host::Event),
    ReloadPackages {
        disabled: Vec<String>,
        ready: oneshot::Sender<()>,
    },
}

/// Everything the thread owns.
pub(crate) struct Thread {
    pub state: EngineState,
    pub slots: Vec<Option<Slot>>,
    pub free: Vec<u32>,
    pub epochs: u32,
    pub flows: Arc<FlowSet>,
    pub credentials: Arc<Credentials>,
    pub shared: Arc<Shared>,
    /// The number of this thread; the first one has what there is once.
    pub number: usize,
    /// The part of the flow set that it runs; `None`: all of it.
    pub part: Option<Part>,
    pub metrics: Arc<dyn Metrics>,
    pub load: LoadMeter,
    /// Types that ran, and the messages each took since the last report.
    pub kinds: Vec<(NodeType, u64)>,
    pub kind_index: FxHashMap<SmolStr, usize>,
    /// The change whose nodes are closing.
    pub closing: Option<ChangeRequest>,
    pub waiting: VecDeque<ChangeRequest>,
    /// Requests to http-in nodes that were not passed on yet, each with its place among those that
    /// may wait.
    pub calls: Calls,
    /// When the messages were last added to the metrics.
    pub counted: Instant,
    /// The number of tabs with enabled flows.
    pub tabs: usize,
    /// True if the whole graph of the flow set was started.
    pub is_whole: bool,
    /// The flows that this thread has stopped, and their nodes, whose status says so.
    pub stopped_flows: Vec<SmolStr>,
    pub stopped_nodes: Vec<SmolStr>,
    pub closed: mpsc::UnboundedSender<()>,
}

impl Thread {
    /// A thread with nothing running.
    pub(super) fn new(
        state: EngineState,
        shared: Arc<Shared>,
        number: usize,
        metrics: Arc<dyn Metrics>,
        closed: mpsc::UnboundedSender<()>,
    ) -> Self {
        budget::set_usual(state.work_limits());
        Self {
            state,
            slots: Vec::new(),
            free: Vec::new(),
            epochs: 0,
            flows: Arc::default(),
            credentials: Arc::default(),
            shared,
            number,
            part: None,
            load: LoadMeter::new(metrics.load()),
            metrics,
            kinds: Vec::new(),
            kind_index: FxHashMap::default(),
            closing: None,
            waiting: VecDeque::new(),
            calls: Calls::default(),
            counted: Instant::now(),
            tabs: 0,
            is_whole: false,
            stopped_flows: Vec::new(),
            stopped_nodes: Vec::new(),
            closed,
        }
    }

    /// Runs until it is closed.
    async fn run(mut self, mut inbox: Inbox) {
        loop {
            self.state.read_clock();
            if self.drain_inbox(&mut inbox).is_break() {
                return;
            }
            self.admit_calls(CALLS_AHEAD);
            self.calls.sweep(Instant::now());
            for (timer, instance) in self.state.due() {
                self.load.timer(timer.0);
                self.wake(instance, Wake::Timer(timer));
            }
            self.deliver();
            self.load.leave();
            self.finish_profiles();
            self.state.save_contexts();
            let now = Instant::now();
            self.relieve(now);
            self.state.report_sources(now);
            let idle = self.state.is_idle() && self.are_calls_held();
            if idle || now >= self.counted + COUNT {
                self.publish(idle);
                self.counted = now;
            }
            if idle {
                if self.wait(&mut inbox).await.is_break() {
                    return;
                }
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes everything that has arrived.
    fn drain_inbox(&mut self, inbox: &mut Inbox) -> ControlFlow<()> {
        while let Ok(command) = inbox.commands.try_recv() {
            self.command(command);
        }
        while let Ok(event) = inbox.node_events.try_recv() {
            self.event(event);
        }
        while inbox.closed.try_recv().is_ok() {
            self.load.leave();
            self.finish_change()?;
        }
        ControlFlow::Continue(())
    }

    /// Passes requests to their nodes until this many messages of their flows wait; at least one of
    /// each group, whatever waits. Those of clients that are gone are dropped: no node has seen
    /// them.
    fn admit_calls(&mut self, most: usize) {
        for group in self.calls.groups() {
            if self.state.queue.is_held(group) && most != usize::MAX {
                continue;
            }
            while let Some(call) = self.calls.pop(group) {
                if call.exchange.responder.is_abandoned() {
                    continue;
                }
                self.wake(call.instance, Wake::Request(call.exchange));
                if self.state.queue.len(group) >= most {
                    break;
                }
            }
        }
    }

    /// Returns whether no request waits whose flow could take it.
    fn are_calls_held(&self) -> bool {
        let mut groups = self.calls.groups().into_iter();
        groups.all(|group| self.state.queue.is_held(group))
    }

    /// Sleeps until something arrives or a timer is due.
    async fn wait(&mut self, inbox: &mut Inbox) -> ControlFlow<()> {
        let due = self.state.next_due();
        let timer = async {
            match due {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = inbox.commands.recv() => match command {
                Some(command) => {
                    self.state.read_clock();
                    self.command(command);
                }
                None => return ControlFlow::Break(()),
            },
            Some(event) = inbox.node_events.recv() => {
                self.state.read_clock();
                self.event(event);
            }
            Some(()) = inbox.closed.recv() => self.finish_change()?,
            () = timer => {}
        }
        ControlFlow::Continue(())
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Change(request) => {
                // Requests that came before it reach the nodes that they were meant for.
                self.admit_calls(usize::MAX);
                self.load.leave();
                self.begin_change(request);
            }
            Command::Inject {
                id,
                message,
                answer,
            } => {
                let injected = self.inject(&id, message);
                // The client may be gone; the message goes its way all the same.
                let _ = answer.send(injected);
            }
            Command::Debug {
                ids,
                active,
                answer,
            } => {
                let _ = answer.send(self.set_debug(&ids, active));
            }
            Command::Call {
                instance,
                exchange,
                permit,
            } => {
                if self.state.pressure.is_full(instance.slot) {
                    return exchange.responder.refuse(Error::Full);
                }
                let group = self.state.queue.group(instance.slot);
                let call = Call {
                    instance,
                    exchange,
                    _permit: permit,
                };
                self.calls.push(group, call);
            }
            Command::Socket {
                instance,
                connection,
                event,
            } => self.wake(instance, Wake::Socket(connection, event)),
            Command::Context { ask, answer } => {
                let _ = answer.send(self.context(&ask));
            }
            Command::Profile { duration, answer } => {
                let now = Instant::now();
                self.state.profiler.begin(duration, now, answer);
            }
            Command::NodeHost(event) => self.node_host_event(event),
            Command::ReloadPackages { disabled, ready } => {
                if let Some(host) = &self.state.node_host {
                    host.reload(disabled, ready);
                }
            }
        }
    }

    fn set_debug(&mut self, ids: &[String], active: bool) -> Result<(), Error> {
        // Messages injected before are shown or not according to the earlier setting.
        self.deliver();
        let slots: Vec<u32> = ids.iter().filter_map(|id| self.running(id)).collect();
        for slot in &slots {
            self.with_node(*slot, |node, host| node.wake(Wake::Active(active), host));
        }
        if slots.len() == ids.len() {
            Ok(())
        } else {
            Err(Error::NoSuchNode)
        }
    }

    fn context(&self, ask: &context::Request) -> Result<Json, Error> {
        let info = self.state.info_of(&ask.id);
        let mut contexts = self.state.contexts.borrow_mut();
        ask.answer(&mut contexts, info.as_deref())
    }

    /// Queues a message for a node, unless its flow is full.
    fn inject(&mut self, id: &str, mut message: Message) -> Result<(), Error> {
        // One after the other, however fast they come.
        self.deliver();
        let slot = self.running(id).ok_or(Error::NoSuchNode)?;
        if self.state.pressure.is_full(slot) {
            return Err(Error::Full);
        }
        self.state.ensure_msgid(&mut message);
        self.state.push(slot, message);
        Ok(())
    }

    fn running(&self, id: &str) -> Option<u32> {
        let slot = self.state.directory.get(id)?;
        self.slots
            .get(slot as usize)?
            .as_ref()?
            .node
            .is_some()
            .then_some(slot)
    }

    /// Delivers for one round: the groups in turn, until one has used its time slice.
    fn deliver(&mut self) {
        let began = Instant::now();
        for n in 0..ROUND {
            if n % MESSAGES_PER_LOOK == 0 {
                lease::check();
                if n > 0 && began.elapsed() >= SLICE {
                    break;
                }
            }
            let Some(Delivery { slot, item, .. }) = self.state.next() else {
                return;
            };
            match item {
                Item::Message(message) => self.receive(slot, |n, h| n.receive(message, h)),
                Item::Script(message) => self.receive(slot, |n, h| n.receive_script(*message, h)),
                Item::Call(message) => {
                    let group = self.state.queue.group(slot);
                    let waiting = self.state.queue.len(group);
                    self.receive(slot, |node, host| node.receive(message, host));
                    let made = self.state.queue.len(group) - waiting;
                    self.state.queue.bring_forward(group, made);
                }
                Item::Wake(wake) => self.with_node(slot, |node, host| node.wake(*wake, host)),
            }
        }
        self.state.queue.end_slice();
    }

    /// Calls the node in a slot with a message.
    fn receive(&mut self, slot: u32, act: impl FnOnce(&mut dyn DynNode, &mut Host<'_>)) {
        let Some(Some(taken)) = self.slots.get_mut(slot as usize) else {
            return;
        };
        self.load.enter(self.state.queue.group(slot));
        self.kinds[taken.kind].1 += 1;
        taken.call(slot, 1, &mut self.state, act);
    }

    /// Wakes a node unless another one has its slot by now.
    fn wake(&mut self, instance: Instance, wake: Wake) {
        if self.runs(instance) {
            self.with_node(instance.slot, |node, host| node.wake(wake, host));
        }
    }

    /// Hands an event to its node unless that has closed.
    fn event(&mut self, NodeEvent { instance, event }: NodeEvent) {
        if self.runs(instance) {
            self.with_node(instance.slot, |node, host| node.event(event, host));
            // The node has held its flow until this event, and again if it has not finished with
            // it.
            self.state.queue.release(instance.slot);
        }
    }

    /// Returns whether this very node still runs.
    pub(super) fn runs(&self, instance: Instance) -> bool {
        let slot = self
            .slots
            .get(instance.slot as usize)
            .and_then(Option::as_ref);
        slot.is_some_and(|s| s.epoch == instance.epoch)
    }

    /// Calls a node, if one runs in this slot.
    pub(super) fn with_node(
        &mut self,
        slot: u32,
        act: impl FnOnce(&mut dyn DynNode, &mut Host<'_>),
    ) {
        if let Some(Some(taken)) = self.slots.get_mut(slot as usize) {
            self.load.enter(self.state.queue.group(slot));
            taken.call(slot, 0, &mut self.state, act);
        }
    }

    /// Brings the metrics up to date: a line for each.
    fn publish(&mut self, idle: bool) {
        self.count_messages();
        let (queue, calls) = (&self.state.queue, &self.calls);
        let waiting = |group| {
            let size = queue.size(group);
            (size.messages + calls.of(group), size.bytes())
        };
        self.load.publish(idle, waiting);
        if idle {
            // Until the thread looks again.
            self.shared.largest_queues.set(self.number, 0);
        }
    }

    /// Ends the profiles that are due.
    fn finish_profiles(&mut self) {
        if self.state.profiler.is_active() {
            let waiting = self.state.queue.total() + self.calls.len();
            let now = Instant::now();
            self.state.profiler.finish(now, waiting, &self.flows);
        }
    }

    /// Adds what was counted since the last time to the metrics.
    fn count_messages(&mut self) {
        for (kind, messages) in &mut self.kinds {
            if *messages > 0 {
                kind.messages.increment(*messages);
                *messages = 0;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests;
