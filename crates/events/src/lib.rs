//! The events that the engine publishes for editors while flows run, and the queues that carry them
//! from the engine's thread to the listeners.
//!
//! Publishing never waits. When a listener is slow, the oldest messages of debug nodes and packages
//! are lost and counted; of each node's status the newest is kept. So the newest message is not
//! late, and a listener's last state is right.

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// One thing that happened in the runtime, in the words of the editor's topics
/// (docs/reference/node-red-admin-api.md §4).
#[derive(Debug, Clone)]
pub enum Event {
    /// Topic `notification/runtime-state`: flows started, stopped, or cannot start.
    RuntimeState(Json),
    /// Topic `notification/runtime-deploy`: a deployment is live.
    RuntimeDeploy {
        /// The new revision.
        revision: String,
    },
    /// Topic `notification/stopped-flows`: the engine has stopped flows by itself; an empty object:
    /// they start again.
    StoppedFlows(Json),
    /// Topic `notification/node/<change>`: node sets were added, removed, enabled or disabled, or a
    /// package was upgraded.
    NodeSets {
        /// The last part of the topic: `added`, `removed`, `upgraded`, `enabled` or `disabled`.
        change: &'static str,
        /// What the editor gets with it.
        data: Json,
    },
    /// Topic `status/<id>`: a node's status; `None` clears it.
    Status {
        /// The node's id.
        id: SmolStr,
        /// `{fill, shape, text}` as the node gave it.
        status: Option<Json>,
    },
    /// Topic `debug`: a debug node's message, or a warning or error of any node.
    Debug(Json),
    /// A topic of a package's own (`RED.comms.publish`), for its part of the editor.
    Package {
        /// The topic.
        topic: SmolStr,
        /// JSON; empty: none.
        data: Arc<str>,
        /// True if editors that connect later get it too.
        retain: bool,
    },
}

/// Publishes events to listeners; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Events(Arc<Subscribers>);

#[derive(Debug, Default)]
struct Subscribers {
    queues: Mutex<Vec<Arc<Queue>>>,
    listeners: AtomicUsize,
    /// The number of them that want debug messages.
    debug_listeners: AtomicUsize,
}

/// Limits of the events that wait for a listener.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes, about.
    pub bytes: usize,
    /// Messages of debug nodes and packages; and of all other events as many.
    pub events: usize,
}

/// A subscription, until dropped.
#[derive(Debug)]
pub struct Listener {
    queue: Arc<Queue>,
    subscribers: Arc<Subscribers>,
}

/// The events that waited for a listener.
#[derive(Debug, Default)]
pub struct Batch {
    /// In the order in which they were published.
    pub events: Vec<Event>,
    /// Messages of debug nodes and packages that were lost before these, because too much was
    /// waiting.
    pub lost: u64,
    /// True if nothing waits after these.
    pub is_last: bool,
}

#[derive(Debug)]
struct Queue {
    waiting: Mutex<Waiting>,
    news: Notify,
    limits: Limits,
    wants_debug: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Messages of debug nodes and packages, which may be lost, and all other events, each with its
    /// number in the order of publication.
    messages: VecDeque<(u64, Event)>,
    others: VecDeque<(u64, Event)>,
    published: u64,
    /// Of `messages`, about.
    message_bytes: usize,
    /// Of each node the newest status since there was no room: newer than all that waits in
    /// `others`.
    late: HashMap<SmolStr, Option<Json>>,
    lost: u64,
}

impl Events {
    /// Gives an event to all listeners.
    pub fn publish(&self, event: Event) {
        let queues = self.0.queues();
        if let Some((last, others)) = queues.split_last() {
            for queue in others {
                queue.put(event.clone());
            }
            last.put(event);
        }
    }

    /// Returns whether there is a listener.
    pub fn has_listeners(&self) -> bool {
        self.0.listeners.load(Ordering::Relaxed) > 0
    }

    /// Returns whether a listener wants debug messages: making them costs more than publishing
    /// them.
    pub fn wants_debug(&self) -> bool {
        self.0.debug_listeners.load(Ordering::Relaxed) > 0
    }

    /// A listener to everything from now on, debug messages too.
    pub fn listen(&self, limits: Limits) -> Listener {
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            news: Notify::new(),
            limits,
            wants_debug: AtomicBool::new(true),
        });
        self.0.queues().push(Arc::clone(&queue));
        self.0.listeners.fetch_add(1, Ordering::Relaxed);
        self.0.debug_listeners.fetch_add(1, Ordering::Relaxed);
        Listener {
            queue,
            subscribers: Arc::clone(&self.0),
        }
    }
}

impl Limits {
    /// No limits, for listeners that keep up.
    pub const NONE: Self = Self {
        bytes: usize::MAX,
        events: usize::MAX,
    };
}

impl Subscribers {
    fn queues(&self) -> MutexGuard<'_, Vec<Arc<Queue>>> {
        self.queues.lock()
    }
}

impl Listener {
    /// Waits until events wait.
    pub async fn news(&self) {
        loop {
            {
                let waiting = self.queue.waiting();
                if waiting.has_news() {
                    return;
                }
            }
            self.queue.news.notified().await;
        }
    }

    /// The next events, as many as there are but at most `most`.
    pub fn drain(&self, most: usize) -> Batch {
        self.queue.waiting().take(most)
    }

    /// Wants debug messages, or (false) no longer.
    pub fn want_debug(&self, wanted: bool) {
        if self.queue.wants_debug.swap(wanted, Ordering::Relaxed) != wanted {
            if wanted {
                self.subscribers
                    .debug_listeners
                    .fetch_add(1, Ordering::Relaxed);
            } else {
                self.subscribers
                    .debug_listeners
                    .fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.want_debug(false);
        self.subscribers.listeners.fetch_sub(1, Ordering::Relaxed);
        self.subscribers
            .queues()
            .retain(|queue| !Arc::ptr_eq(queue, &self.queue));
    }
}

impl Queue {
    fn put(&self, event: Event) {
        if matches!(event, Event::Debug(_)) && !self.wants_debug.load(Ordering::Relaxed) {
            return;
        }
        self.waiting().put(event, self.limits);
        self.news.notify_one();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

impl Waiting {
    fn has_news(&self) -> bool {
        let Self {
            messages,
            others,
            late,
            ..
        } = self;
        !(messages.is_empty() && others.is_empty() && late.is_empty() && self.lost == 0)
    }

    fn put(&mut self, event: Event, limits: Limits) {
        self.published += 1;
        match event {
            Event::Debug(_) | Event::Package { .. } => {
                self.message_bytes += size(&event);
                self.messages.push_back((self.published, event));
            }
            Event::Status { id, status } if !self.late.is_empty() || self.is_full(limits) => {
                self.late.insert(id, status);
            }
            // Runtime-wide events are rare.
            event => self.others.push_back((self.published, event)),
        }
        while self.messages.len() > limits.events || self.bytes() > limits.bytes {
            // The newest is shown, however long.
            if self.messages.len() < 2 {
                break;
            }
            self.oldest_message();
            self.lost += 1;
        }
    }

    /// Returns whether a status must wait until others have been taken.
    fn is_full(&self, limits: Limits) -> bool {
        self.others.len() >= limits.events || self.others.len() * EVENT >= limits.bytes
    }

    fn bytes(&self) -> usize {
        self.message_bytes + self.others.len() * EVENT
    }

    fn take(&mut self, most: usize) -> Batch {
        if self.others.is_empty() {
            let late = std::mem::take(&mut self.late).into_iter();
            let late = late.map(|(id, status)| (self.published, Event::Status { id, status }));
            self.others.extend(late);
        }
        let most = most.min(self.messages.len() + self.others.len());
        let events = (0..most).map_while(|_| self.oldest()).collect();
        let lost = std::mem::take(&mut self.lost);
        let is_last = !self.has_news();
        Batch {
            events,
            lost,
            is_last,
        }
    }

    /// Takes the event that was published first.
    fn oldest(&mut self) -> Option<Event> {
        let other = self.others.front().map(|(number, _)| *number);
        let message = self.messages.front().map(|(number, _)| *number);
        if other.is_some_and(|other| message.is_none_or(|message| other < message)) {
            return Some(self.others.pop_front()?.1);
        }
        self.oldest_message()
    }

    fn oldest_message(&mut self) -> Option<Event> {
        let (_, message) = self.messages.pop_front()?;
        self.message_bytes -= size(&message);
        Some(message)
    }
}

/// About how many bytes an event takes beside the text of a message.
const EVENT: usize = 256;

/// About how many bytes a message of a debug node, whose `msg` is a text, or of a package takes.
fn size(message: &Event) -> usize {
    let text = match message {
        Event::Debug(data) => data.get("msg").and_then(Json::as_str).map_or(0, str::len),
        Event::Package { data, .. } => data.len(),
        _ => 0,
    };
    text + EVENT
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn debug(n: usize) -> Event {
        Event::Debug(json!({ "msg": n.to_string() }))
    }

    fn status(id: &str, text: &str) -> Event {
        Event::Status {
            id: id.into(),
            status: Some(json!({ "text": text })),
        }
    }

    /// `debug 1`, `a=x` and so on.
    fn descriptions(heard: &Batch) -> Vec<String> {
        let descriptions = heard.events.iter().map(|event| match event {
            Event::Debug(data) => format!("debug {}", data["msg"].as_str().unwrap_or_default()),
            Event::Status { id, status } => {
                let text = status.as_ref().and_then(|s| s["text"].as_str());
                format!("{id}={}", text.unwrap_or_default())
            }
            Event::RuntimeState(_) => "state".to_owned(),
            Event::StoppedFlows(_) => "stopped".to_owned(),
            Event::RuntimeDeploy { revision } => revision.clone(),
            Event::NodeSets { change, .. } => (*change).to_owned(),
            Event::Package { topic, .. } => topic.to_string(),
        });
        descriptions.collect()
    }

    /// Limits of bytes only.
    fn bytes(bytes: usize) -> Limits {
        Limits {
            bytes,
            ..Limits::NONE
        }
    }

    #[test]
    fn every_listener_receives_all_events_in_order() {
        let events = Events::default();
        let (one, other) = (events.listen(Limits::NONE), events.listen(Limits::NONE));
        events.publish(debug(1));
        events.publish(status("a", "x"));
        events.publish(debug(2));
        assert_eq!(descriptions(&one.drain(2)), ["debug 1", "a=x"]);
        assert_eq!(descriptions(&one.drain(2)), ["debug 2"]);
        assert_eq!(descriptions(&other.drain(9)), ["debug 1", "a=x", "debug 2"]);
        assert!(other.drain(9).events.is_empty());
    }

    #[test]
    fn a_flood_loses_debug_messages_but_never_the_last_status() {
        let events = Events::default();
        let listener = events.listen(bytes(2_000));
        for n in 0..1_000 {
            events.publish(debug(n));
            events.publish(status("a", &n.to_string()));
        }
        events.publish(Event::RuntimeDeploy {
            revision: "r2".to_owned(),
        });
        let first = listener.drain(usize::MAX);
        assert!(first.events.len() < 20 && first.lost > 900);
        let newest = descriptions(&first);
        assert!(newest.contains(&"debug 999".to_owned()), "{newest:?}");
        assert_eq!(descriptions(&first).last().map(String::as_str), Some("r2"));
        // A status published meanwhile does not overtake.
        events.publish(status("a", "newest"));
        assert_eq!(descriptions(&listener.drain(usize::MAX)), ["a=newest"]);
        events.publish(debug(7));
        let calm = listener.drain(usize::MAX);
        assert_eq!(
            (descriptions(&calm), calm.lost),
            (vec!["debug 7".to_owned()], 0)
        );
    }

    #[test]
    fn the_newest_events_wait_and_keep_their_order() {
        let events = Events::default();
        let limits = Limits {
            events: 3,
            ..Limits::NONE
        };
        let listener = events.listen(limits);
        for n in 0..6 {
            events.publish(debug(n));
            events.publish(status(&format!("s{n}"), "x"));
        }
        events.publish(status("s5", "y"));
        let batch = listener.drain(usize::MAX);
        assert_eq!(
            descriptions(&batch),
            ["s0=x", "s1=x", "s2=x", "debug 3", "debug 4", "debug 5"]
        );
        assert_eq!(batch.lost, 3);
        let mut late = descriptions(&listener.drain(usize::MAX));
        late.sort_unstable();
        assert_eq!(late, ["s3=x", "s4=x", "s5=y"]);
        assert!(!listener.queue.waiting().has_news());
    }

    #[test]
    fn a_message_longer_than_the_limit_is_shown() {
        let events = Events::default();
        let listener = events.listen(bytes(300));
        events.publish(Event::Debug(json!({ "msg": "long".repeat(1000) })));
        assert_eq!(listener.drain(9).events.len(), 1);
    }

    #[test]
    fn debug_messages_reach_only_listeners_that_want_them() {
        let events = Events::default();
        assert!(!events.has_listeners() && !events.wants_debug());
        let listener = events.listen(Limits::NONE);
        assert!(events.has_listeners() && events.wants_debug());
        listener.want_debug(false);
        assert!(events.has_listeners() && !events.wants_debug());
        events.publish(debug(1));
        assert!(listener.drain(9).events.is_empty());
        listener.want_debug(true);
        events.publish(debug(2));
        assert_eq!(descriptions(&listener.drain(9)), ["debug 2"]);
        drop(listener);
        assert!(!events.has_listeners() && !events.wants_debug());
    }
}
