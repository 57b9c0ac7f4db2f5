//! A broker: the nodes that use it, their subscriptions, and the orders to its
//! [connection](super::connection).

use super::application_message::{Publish, Received, SubscriptionOptions};
use super::settings::{Options, Settings};
use super::topic;
use crate::node::{Closing, Host, Mailbox, Task};
use crate::nodes;
use crate::ordered_map::OrderedMap;
use crate::pressure::Source;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use value::{Failure, Value};

/// The time-out for an orderly end of a connection, before it is aborted. 2 s, as in Node-RED.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The state of a broker's connection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Phase {
    Disconnected,
    Connecting,
    Connected,
}

/// A notification to a node that uses the broker.
pub(super) enum BrokerEvent {
    /// The connection is in another phase: a status.
    Phase(Phase),
    /// A message arrived that the node subscribed to, to be read as this datatype.
    Received {
        received: Rc<Received>,
        datatype: SmolStr,
    },
    /// The request with this number is done, or failed.
    Done {
        number: u64,
        result: Result<(), Failure>,
    },
    /// The connection that the request with this number wanted closed is closed.
    Disconnected {
        number: u64,
        /// The settings to connect again with, if it asked for that.
        reconnect: Option<Map<String, Json>>,
    },
}

/// A request of a node, by its number; the node waits until it is completed.
pub(super) struct Ticket {
    pub(super) mailbox: Mailbox<BrokerEvent>,
    pub(super) number: u64,
}

impl Ticket {
    /// Completes the request: it is done, or failed.
    pub(super) fn complete(self, result: Result<(), Failure>) {
        let number = self.number;
        self.mailbox.send(BrokerEvent::Done { number, result });
    }
}

/// A line that the broker node writes to the log.
pub(super) struct LogLine(pub(super) String);

/// A topic to which nodes subscribed since the start.
struct Topic {
    /// The identifier of subscriptions to it, from 1.
    number: u32,
    subscriptions: usize,
}

/// One node's subscription.
struct Subscription {
    topic: String,
    /// The identifier of the subscription.
    number: u32,
    mailbox: Mailbox<BrokerEvent>,
    source: Source,
    datatype: SmolStr,
    options: SubscriptionOptions,
}

/// A broker, as the `mqtt-broker` node publishes it to the nodes that use it.
pub(super) struct Broker {
    options: RefCell<Options>,
    settings: RefCell<Rc<Settings>>,
    /// The id of its `tls-config`; empty: none.
    pub(super) tls: SmolStr,
    pub(super) reconnect: Duration,
    /// Set when the node starts.
    log: OnceCell<Mailbox<LogLine>>,
    phase: Cell<Phase>,
    /// By the node's id.
    users: RefCell<OrderedMap<SmolStr, Mailbox<BrokerEvent>>>,
    /// By the node's id and the topic.
    subscriptions: RefCell<OrderedMap<(SmolStr, String), Subscription>>,
    topics: RefCell<FxHashMap<String, Topic>>,
    /// Topics that nodes left without unsubscribing: they unsubscribe when they come back with
    /// another.
    left: RefCell<FxHashMap<SmolStr, Vec<String>>>,
    waiting: RefCell<Vec<Ticket>>,
    /// The connection's orders and task.
    link: RefCell<Option<(mpsc::UnboundedSender<Order>, Task)>>,
}

/// An order to the connection's task.
pub(super) enum Order {
    Publish(Publish, Option<Ticket>),
    Subscribe(String, SubscriptionOptions),
    Unsubscribe(String),
    /// Disconnect when everything is acknowledged.
    Close(oneshot::Sender<()>),
}

impl Broker {
    /// A broker that is not connected.
    pub(super) fn new(options: Options, tls: SmolStr, reconnect: Duration) -> Self {
        let settings = Rc::new(options.settings());
        Self {
            options: RefCell::new(options),
            settings: RefCell::new(settings),
            tls,
            reconnect,
            log: OnceCell::new(),
            phase: Cell::new(Phase::Disconnected),
            users: RefCell::default(),
            subscriptions: RefCell::default(),
            topics: RefCell::default(),
            left: RefCell::default(),
            waiting: RefCell::default(),
            link: RefCell::default(),
        }
    }

    /// Sends lines for the log to this mailbox from now on.
    pub(super) fn log_to(&self, mailbox: Mailbox<LogLine>) {
        self.log.get_or_init(|| mailbox);
    }

    pub(super) fn settings(&self) -> Rc<Settings> {
        Rc::clone(&self.settings.borrow())
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.get()
    }

    pub(super) fn is_v5(&self) -> bool {
        self.settings().version == 5
    }

    /// Registers a node that uses the broker. True: the connection is to be opened, as it is the
    /// first one.
    pub(super) fn register(&self, host: &Host<'_, BrokerEvent>) -> bool {
        let first = {
            let mut users = self.users.borrow_mut();
            users.insert(host.info().id.clone(), host.mailbox());
            users.len() == 1
        };
        first && self.settings().auto_connect && self.can_connect()
    }

    /// A node stops using it. When the last one is removed for good, the connection ends.
    pub(super) fn deregister(&self, id: &str, removed: bool) -> Option<Closing> {
        let last = {
            let mut users = self.users.borrow_mut();
            users.remove(id);
            users.is_empty()
        };
        (removed && last && self.phase.get() == Phase::Connected).then(|| self.disconnect())
    }

    pub(super) fn can_connect(&self) -> bool {
        self.phase.get() == Phase::Disconnected
    }

    /// Applies the settings in a message, for the next connection.
    pub(super) fn set(&self, changes: &Map<String, Json>) {
        let mut options = self.options.borrow_mut();
        options.overlay(changes);
        *self.settings.borrow_mut() = Rc::new(options.settings());
    }

    /// A connection begins: its task, where its orders are sent, and the request that waits for it.
    pub(super) fn attach(
        &self,
        orders: mpsc::UnboundedSender<Order>,
        task: Task,
        ticket: Option<Ticket>,
    ) {
        self.waiting.borrow_mut().extend(ticket);
        self.enter(Phase::Connecting);
        self.link.replace(Some((orders, task)));
    }

    /// Aborts the connection, if there is one: its task holds the broker, and the broker the task.
    pub(super) fn abort(&self) {
        if self.phase.get() != Phase::Disconnected {
            self.link.take();
        }
    }

    /// Ends the connection, after the close message.
    pub(super) fn disconnect(&self) -> Closing {
        let connected = self.phase.get() == Phase::Connected;
        let Some((orders, task)) = self.link.take() else {
            return Box::pin(std::future::ready(()));
        };
        self.enter(Phase::Disconnected);
        if !connected {
            return task.end();
        }
        if let Some(close) = &self.settings().close {
            // The receiver lives as long as the task.
            let _ = orders.send(Order::Publish(close.clone(), None));
        }
        let (done, over) = oneshot::channel();
        let _ = orders.send(Order::Close(done));
        Box::pin(async move {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, over).await;
            task.end().await;
        })
    }

    /// Publishes, if connected; false: not connected, and the message is dropped without an error,
    /// as in Node-RED.
    pub(super) fn publish(&self, publish: Publish, ticket: Ticket) -> bool {
        self.phase.get() == Phase::Connected && self.order(Order::Publish(publish, Some(ticket)))
    }

    /// Subscribes a node to a topic.
    pub(super) fn subscribe(
        &self,
        topic: &str,
        options: SubscriptionOptions,
        datatype: &str,
        host: &mut Host<'_, BrokerEvent>,
    ) {
        let node = host.info().id.clone();
        let left = self.left.borrow_mut().remove(&node).unwrap_or_default();
        for old in left.iter().filter(|old| *old != topic) {
            self.unsubscribe_if_unused(old);
        }
        let subscription = Subscription {
            topic: topic.to_owned(),
            number: self.number(topic),
            mailbox: host.mailbox(),
            source: host.source(),
            datatype: datatype.into(),
            options: options.clone(),
        };
        let mut subscriptions = self.subscriptions.borrow_mut();
        let key = (node, topic.to_owned());
        if subscriptions.insert(key, subscription).is_none() {
            self.count(topic, 1);
        }
        drop(subscriptions);
        if self.phase.get() == Phase::Connected {
            self.order(Order::Subscribe(topic.to_owned(), options));
        }
    }

    /// Ends a node's subscription. If it is to stay at the broker, it is remembered for when the
    /// node comes back.
    pub(super) fn unsubscribe(&self, topic: &str, node: &str, removed: bool) {
        let key = (SmolStr::from(node), topic.to_owned());
        if self.subscriptions.borrow_mut().remove(&key).is_some() {
            self.count(topic, -1);
        }
        if removed || self.settings().auto_unsubscribe {
            self.unsubscribe_if_unused(topic);
        } else {
            let mut left = self.left.borrow_mut();
            left.entry(key.0).or_default().push(key.1);
        }
    }

    fn unsubscribe_if_unused(&self, topic: &str) {
        let topics = self.topics.borrow();
        let used = topics.get(topic).is_some_and(|t| t.subscriptions > 0);
        if !used && self.phase.get() == Phase::Connected {
            self.order(Order::Unsubscribe(topic.to_owned()));
        }
    }

    fn order(&self, order: Order) -> bool {
        let link = self.link.borrow();
        link.as_ref()
            .is_some_and(|(orders, _)| orders.send(order).is_ok())
    }

    /// The identifier of subscriptions to this topic, from 1.
    pub(super) fn number(&self, topic: &str) -> u32 {
        let mut topics = self.topics.borrow_mut();
        if let Some(known) = topics.get(topic) {
            return known.number;
        }
        let number = u32::try_from(topics.len() + 1).unwrap_or(u32::MAX);
        let new = Topic {
            number,
            subscriptions: 0,
        };
        topics.insert(topic.to_owned(), new);
        number
    }

    /// Counts one subscription to a topic more or less.
    fn count(&self, topic: &str, change: isize) {
        if let Some(topic) = self.topics.borrow_mut().get_mut(topic) {
            topic.subscriptions = topic.subscriptions.saturating_add_signed(change);
        }
    }

    /// Enters a phase and notifies all users.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        for mailbox in self.users.borrow().values() {
            mailbox.send(BrokerEvent::Phase(phase));
        }
        if phase == Phase::Connected {
            for ticket in self.waiting.take() {
                ticket.complete(Ok(()));
            }
        }
    }

    /// The subscriptions of all nodes, for a new connection.
    pub(super) fn subscriptions(&self) -> Vec<(String, SubscriptionOptions)> {
        let subscriptions = self.subscriptions.borrow();
        let all = subscriptions.values();
        all.map(|s| (s.topic.clone(), s.options.clone())).collect()
    }

    /// Delivers a message to all nodes that subscribed to it.
    pub(super) fn deliver(&self, received: Received) {
        let received = Rc::new(received);
        for subscription in self.subscriptions.borrow().values() {
            let named = &received.subscriptions;
            let meant = named.is_empty() || named.contains(&subscription.number);
            if meant && topic::matches(&subscription.topic, &received.topic) {
                subscription.mailbox.send(BrokerEvent::Received {
                    received: Rc::clone(&received),
                    datatype: subscription.datatype.clone(),
                });
            }
        }
    }

    /// Returns whether the flow of a node with a subscription is full.
    pub(super) fn is_full(&self) -> bool {
        let subscriptions = self.subscriptions.borrow();
        let mut sources = subscriptions.values().map(|s| &s.source);
        sources.next().is_some_and(Source::is_any_full)
            && subscriptions.values().any(|s| s.source.is_full())
    }

    /// Waits until the flow of a node with a subscription is full; for ever if there is none.
    pub(super) async fn full(&self) {
        while !self.is_full() {
            let any = self
                .subscriptions
                .borrow()
                .values()
                .next()
                .map(|s| s.source.clone());
            match any {
                Some(source) => source.changed().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Waits until no flow of a node with a subscription is full.
    pub(super) async fn room(&self) {
        loop {
            let full = {
                let subscriptions = self.subscriptions.borrow();
                let full = subscriptions.values().find(|s| s.source.is_full());
                full.map(|s| s.source.clone())
            };
            match full {
                Some(source) => source.changed().await,
                None => return,
            }
        }
    }

    /// Writes a line to the log.
    pub(super) fn log(&self, words: &str) {
        let settings = self.settings();
        let at = if settings.own_id.is_empty() { "" } else { "@" };
        let whole = format!("{words}: {}{at}{}", settings.own_id, settings.url);
        if let Some(mailbox) = self.log.get() {
            mailbox.send(LogLine(whole));
        }
    }
}

/// The status of a node that uses the broker.
pub(super) fn status(phase: Phase) -> Value {
    let (fill, shape, text) = match phase {
        Phase::Disconnected => ("red", "ring", "node-red:common.status.disconnected"),
        Phase::Connecting => ("yellow", "ring", "node-red:common.status.connecting"),
        Phase::Connected => ("green", "dot", "node-red:common.status.connected"),
    };
    nodes::status(fill, shape, text)
}
