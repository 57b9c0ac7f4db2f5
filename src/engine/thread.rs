//! The engine's thread: takes commands, fires timers, delivers messages, breadth first.

use super::http::Exchange;
use super::message::Message;
use super::node::{Host, Info, Level, Node, Wake};
use super::world::{Delivery, Finished, Instance, Item, World};
use super::{Error, RunState, Shared, context, socket};
use crate::flows::{Credentials, FlowSet, Plan};
use crate::metrics::{Metrics, NodeType};
use rustc_hash::FxHashMap;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Messages delivered, at most, before the thread looks for commands, timers and finished futures again.
const ROUND: usize = 256;
/// The thread looks at the clock after so many messages, so that the look costs little beside them.
const MESSAGES_PER_LOOK: usize = 8;
/// A round that has taken this long ends early: slow nodes hold commands and timers up by eight messages, not by 256.
const LONGEST_ROUND: Duration = Duration::from_millis(5);

/// What the rest of the program asks of the thread.
pub(super) enum Command {
    Change(Change, oneshot::Sender<()>),
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
    },
    Socket {
        instance: Instance,
        connection: u64,
        event: socket::Event,
    },
    Context {
        ask: context::Request,
        answer: oneshot::Sender<Result<Json, Error>>,
    },
}

/// A change of what runs; one at a time.
pub(super) enum Change {
    Apply {
        plan: Plan,
        flows: Arc<FlowSet>,
        credentials: Arc<Credentials>,
    },
    Run(RunState),
    Close,
}

/// A place for a running node. The same id keeps its slot for as long as the node runs.
pub(super) struct Slot {
    /// `None`: it failed to start, or panicked.
    pub node: Option<Box<dyn Node>>,
    pub info: Rc<Info>,
    pub wires: Box<[Box<[u32]>]>,
    pub epoch: u32,
    pub watched: bool,
    /// Whether it is a config node: stopped last.
    pub config: bool,
    /// Index into the counts by type.
    pub kind: usize,
}

/// Everything the thread owns.
pub(super) struct Thread {
    pub world: World,
    pub slots: Vec<Option<Slot>>,
    pub free: Vec<u32>,
    pub epochs: u32,
    pub flows: Arc<FlowSet>,
    pub credentials: Arc<Credentials>,
    pub shared: Arc<Shared>,
    pub metrics: Arc<Metrics>,
    /// Types that ran, and the messages each took since the last report.
    pub kinds: Vec<(NodeType, u64)>,
    pub kind_index: FxHashMap<SmolStr, usize>,
    /// The change whose nodes are closing.
    pub closing: Option<(Change, oneshot::Sender<()>)>,
    pub waiting: VecDeque<(Change, oneshot::Sender<()>)>,
    pub closed: mpsc::UnboundedSender<()>,
}

/// Where the thread hears from others.
pub(super) struct Inbox {
    pub commands: mpsc::UnboundedReceiver<Command>,
    pub finished: mpsc::UnboundedReceiver<Finished>,
    pub closed: mpsc::UnboundedReceiver<()>,
}

impl Thread {
    /// A thread with nothing running.
    pub(super) fn new(
        world: World,
        shared: Arc<Shared>,
        metrics: Arc<Metrics>,
        closed: mpsc::UnboundedSender<()>,
    ) -> Self {
        Self {
            world,
            slots: Vec::new(),
            free: Vec::new(),
            epochs: 0,
            flows: Arc::default(),
            credentials: Arc::default(),
            shared,
            metrics,
            kinds: Vec::new(),
            kind_index: FxHashMap::default(),
            closing: None,
            waiting: VecDeque::new(),
            closed,
        }
    }

    /// Runs until told to close.
    pub(super) async fn run(mut self, mut inbox: Inbox) {
        loop {
            self.world.read_clock();
            if self.hear(&mut inbox).is_break() {
                return;
            }
            for (timer, instance) in self.world.due() {
                self.wake(instance, Wake::Timer(timer));
            }
            self.deliver();
            self.world.save_contexts();
            if self.world.is_idle() {
                self.count_messages();
                if self.wait(&mut inbox).await.is_break() {
                    return;
                }
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes everything that has arrived.
    fn hear(&mut self, inbox: &mut Inbox) -> ControlFlow<()> {
        while let Ok(command) = inbox.commands.try_recv() {
            self.command(command);
        }
        while let Ok(finished) = inbox.finished.try_recv() {
            self.wake(finished.instance, Wake::Finished(finished.output));
        }
        while inbox.closed.try_recv().is_ok() {
            self.finish_change()?;
        }
        ControlFlow::Continue(())
    }

    /// Sleeps until something arrives or a timer is due.
    async fn wait(&mut self, inbox: &mut Inbox) -> ControlFlow<()> {
        let due = self.world.next_due();
        let timer = async {
            match due {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = inbox.commands.recv() => match command {
                Some(command) => {
                    self.world.read_clock();
                    self.command(command);
                }
                None => return ControlFlow::Break(()),
            },
            Some(finished) = inbox.finished.recv() => {
                self.world.read_clock();
                self.wake(finished.instance, Wake::Finished(finished.output));
            }
            Some(()) = inbox.closed.recv() => self.finish_change()?,
            () = timer => {}
        }
        ControlFlow::Continue(())
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Change(change, done) => self.begin_change(change, done),
            Command::Inject {
                id,
                message,
                answer,
            } => {
                // One after the other, however fast they come.
                self.deliver();
                let slot = self.running(&id).ok_or(Error::NoSuchNode);
                // The client may be gone; the message goes its way all the same.
                let _ = answer.send(slot.map(|slot| {
                    let mut message = message;
                    self.world.name(&mut message);
                    self.world.push(slot, message);
                }));
            }
            Command::Debug {
                ids,
                active,
                answer,
            } => {
                // What was injected before is shown, or not, as it was then.
                self.deliver();
                let slots: Vec<u32> = ids.iter().filter_map(|id| self.running(id)).collect();
                let found = if slots.len() == ids.len() {
                    Ok(())
                } else {
                    Err(Error::NoSuchNode)
                };
                for slot in slots {
                    self.visit(slot, |node, host| node.wake(Wake::Active(active), host));
                }
                let _ = answer.send(found);
            }
            Command::Call { instance, exchange } => self.wake(instance, Wake::Request(exchange)),
            Command::Socket {
                instance,
                connection,
                event,
            } => self.wake(instance, Wake::Socket(connection, event)),
            Command::Context { ask, answer } => {
                let info = self.world.info_of(&ask.id);
                let mut contexts = self.world.contexts.borrow_mut();
                let _ = answer.send(ask.answer(&mut contexts, info.as_deref()));
            }
        }
    }

    fn running(&self, id: &str) -> Option<u32> {
        let slot = *self.world.directory.get(id)?;
        self.slots
            .get(slot as usize)?
            .as_ref()?
            .node
            .is_some()
            .then_some(slot)
    }

    fn deliver(&mut self) {
        let began = Instant::now();
        for n in 0..ROUND {
            if n > 0 && n % MESSAGES_PER_LOOK == 0 && began.elapsed() >= LONGEST_ROUND {
                return;
            }
            let Some(Delivery { slot, item }) = self.world.next() else {
                return;
            };
            match item {
                Item::Message(message) => self.receive(slot, message),
                Item::Call(message) => {
                    let waiting = self.world.queue.len();
                    self.receive(slot, message);
                    let made = self.world.queue.len() - waiting;
                    self.world.queue.rotate_right(made);
                }
                Item::Wake(wake) => self.visit(slot, |node, host| node.wake(*wake, host)),
            }
        }
    }

    fn receive(&mut self, slot: u32, message: Message) {
        let place = self.slots.get(slot as usize).and_then(Option::as_ref);
        let Some(kind) = place.map(|s| s.kind) else {
            return;
        };
        self.kinds[kind].1 += 1;
        self.visit(slot, |node, host| node.receive(message, host));
    }

    /// Wakes a node unless it is no longer the one that asked for it.
    fn wake(&mut self, instance: Instance, wake: Wake) {
        if self.runs(instance) {
            self.visit(instance.slot, |node, host| node.wake(wake, host));
        }
    }

    /// Whether this very node still runs.
    pub(super) fn runs(&self, instance: Instance) -> bool {
        let slot = self
            .slots
            .get(instance.slot as usize)
            .and_then(Option::as_ref);
        slot.is_some_and(|s| s.epoch == instance.epoch)
    }

    /// Calls a node. One that panics is taken out; the others go on.
    pub(super) fn visit(&mut self, slot: u32, act: impl FnOnce(&mut dyn Node, &mut Host<'_>)) {
        let Some((place, mut host)) = self.place_and_host(slot) else {
            return;
        };
        let Some(node) = place.as_mut() else { return };
        if catch_unwind(AssertUnwindSafe(|| act(node.as_mut(), &mut host))).is_err() {
            *place = None;
            let text =
                "the node failed inside and was stopped; the next deployment starts it again";
            host.log(Level::Error, text);
        }
    }

    /// A slot's place for its node, and the host that serves it.
    pub(super) fn place_and_host(
        &mut self,
        slot: u32,
    ) -> Option<(&mut Option<Box<dyn Node>>, Host<'_>)> {
        let taken = self.slots.get_mut(slot as usize)?.as_mut()?;
        let host = Host {
            world: &mut self.world,
            instance: Instance {
                slot,
                epoch: taken.epoch,
            },
            info: &taken.info,
            wires: &taken.wires,
            watched: taken.watched,
        };
        Some((&mut taken.node, host))
    }

    /// Adds what was counted since the last time to the metrics.
    fn count_messages(&mut self) {
        for (kind, messages) in &mut self.kinds {
            if *messages > 0 {
                kind.messages(*messages);
                *messages = 0;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;
    use crate::engine::env::Env;
    use crate::engine::node::Closing;
    use std::cell::Cell;
    use std::time::Duration;

    struct Panics;

    impl Node for Panics {
        fn receive(&mut self, _message: Message, _host: &mut Host<'_>) {
            panic!("boom");
        }
    }

    struct Counts(Rc<Cell<u32>>);

    impl Node for Counts {
        fn receive(&mut self, _message: Message, _host: &mut Host<'_>) {
            self.0.set(self.0.get() + 1);
        }
    }

    struct NeverCloses;

    impl Node for NeverCloses {
        fn receive(&mut self, _message: Message, _host: &mut Host<'_>) {}

        fn close(&mut self, _removed: bool, _host: &mut Host<'_>) -> Option<Closing> {
            Some(Box::pin(std::future::pending()))
        }
    }

    fn thread(nodes: Vec<Box<dyn Node>>) -> (Thread, mpsc::UnboundedReceiver<()>) {
        let mut config = crate::config::Config::parse(crate::config::DEFAULT, "", "".as_ref())
            .unwrap()
            .engine;
        config.close_timeout = Duration::from_millis(20);
        let metrics = Metrics::new();
        let shared = Arc::new(Shared {
            commands: mpsc::unbounded_channel().0,
            endpoints: crate::engine::http::Endpoints::default(),
            sockets: socket::Paths::default(),
            connections: std::sync::atomic::AtomicU64::new(0),
            events: crate::events::Events::default(),
            state: std::sync::atomic::AtomicU8::new(RunState::Start as u8),
            thread: std::sync::Mutex::default(),
        });
        let world = World::new(
            config,
            &shared,
            mpsc::unbounded_channel().0,
            Arc::clone(&metrics),
        );
        let (closed, closings) = mpsc::unbounded_channel();
        let mut thread = Thread::new(world, shared, metrics, closed);
        thread.kinds.push((thread.metrics.node_type("test"), 0));
        for (node, number) in nodes.into_iter().zip(0u32..) {
            let info = Rc::new(Info {
                id: format!("n{number}").into(),
                alias: format!("n{number}").into(),
                kind: "test".into(),
                name: None,
                z: "t".into(),
                path: "t".into(),
                groups: Rc::from([]),
                outputs: 0,
                env: Env::root(&crate::config::HiddenVariables::default()),
            });
            thread.world.infos.push(Some(Rc::clone(&info)));
            thread.world.directory.insert(info.id.clone(), number);
            thread.slots.push(Some(Slot {
                node: Some(node),
                info,
                wires: Box::default(),
                epoch: number,
                watched: false,
                config: false,
                kind: 0,
            }));
        }
        (thread, closings)
    }

    #[test]
    fn a_node_that_panics_is_taken_out_and_the_others_go_on() {
        let count = Rc::new(Cell::new(0));
        let (mut thread, _closings) =
            thread(vec![Box::new(Panics), Box::new(Counts(Rc::clone(&count)))]);
        for slot in [0, 1, 0, 1] {
            thread.world.push(slot, Message::default());
        }
        thread.deliver();
        assert_eq!(count.get(), 2);
        assert_eq!(thread.running("n0"), None);
        assert_eq!(thread.running("n1"), Some(1));
    }

    #[test]
    fn a_node_that_never_closes_holds_a_change_up_for_no_longer_than_the_limit() {
        let (mut thread, mut closings) = thread(vec![Box::new(NeverCloses)]);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let (done, changed) = oneshot::channel();
            thread.begin_change(Change::Run(RunState::Stop), done);
            assert_eq!(thread.running("n0"), None, "nothing reaches a closing node");
            closings.recv().await.unwrap();
            let _ = thread.finish_change();
            changed.await.unwrap();
        });
        assert!(thread.slots.iter().all(Option::is_none));
    }
}
