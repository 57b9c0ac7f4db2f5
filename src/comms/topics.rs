//! Publishes the messages of flowgate's engine to editors, in batches, with retained messages
//! (docs/reference/node-red-admin-api.md §4).
//!
//! One task of the control runtime serialises each batch once, whatever the number of editors. All
//! of them receive all topics; a subscription only repeats retained messages. A flood of messages
//! of debug nodes or packages loses its oldest ones, so that the newest is sent within two seconds.

use super::outbox::{Frame, Level, Outbox};
use super::topic_filter::Pattern;
use bytes::Bytes;
use events::{Event, Limits, Listener};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value as Json, json};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// From a batch's first message to its sending, and between batches
/// (docs/reference/node-red-admin-api.md §4).
const PAUSE: Duration = Duration::from_millis(50);
/// Messages of a frame (docs/reference/node-red-admin-api.md §4).
const BATCH: usize = 50;

/// Messages of debug nodes and packages that wait to be sent; and as many of all other events. Our
/// choice: what is sent in three quarters of a second, so that both are sent in less than two; the
/// sidebar shows the newest 100.
const WAITING: usize = 15 * BATCH;
/// Batches between reports of lost messages during a flood, our choice: those of a second.
const REPORT_INTERVAL: u32 = 20;

/// Topics of packages that are retained, and the bytes of each message. Our choice: packages retain
/// a state of each of their config nodes, most often a few words; the memory is bounded.
const RETAINED_TOPICS: usize = 500;
const RETAINED_BYTES: usize = 16 << 10;

const STATE: &str = "notification/runtime-state";
const STOPPED: &str = "notification/stopped-flows";
const DEPLOY: &str = "notification/runtime-deploy";

/// The retained messages, and the receiving editors.
pub struct Topics {
    board: Mutex<Retained>,
    listener: Option<Listener>,
}

#[derive(Default)]
struct Retained {
    /// Messages as they are sent.
    state: Option<Arc<str>>,
    stopped: Option<Arc<str>>,
    deploy: Option<Arc<str>>,
    status: BTreeMap<SmolStr, Arc<str>>,
    packages: BTreeMap<SmolStr, Arc<str>>,
    editors: Vec<Outbox>,
}

impl Topics {
    /// What may wait of an engine's events, in about this many bytes.
    pub fn limits(bytes: usize) -> Limits {
        Limits {
            bytes,
            events: WAITING,
        }
    }

    /// Of an engine, or none.
    pub fn new(listener: Option<Listener>) -> Arc<Self> {
        if let Some(listener) = &listener {
            listener.want_debug(false);
        }
        Arc::new(Self {
            board: Mutex::default(),
            listener,
        })
    }

    /// Publishes the engine's events to editors, for ever.
    pub async fn tell(self: Arc<Self>) {
        let Some(listener) = &self.listener else {
            return;
        };
        let mut lost = 0;
        let mut unreported = 0;
        loop {
            listener.news().await;
            sleep(PAUSE).await;
            let alone = self.board().editors.is_empty();
            let most = if alone { usize::MAX } else { BATCH };
            let next_batch = listener.drain(most);
            lost += next_batch.lost;
            unreported = REPORT_INTERVAL.min(unreported + 1);
            if lost > 0 && (next_batch.is_last || unreported >= REPORT_INTERVAL) {
                let text = lost_note(lost);
                self.board().send(&[Message {
                    text,
                    may_be_lost: false,
                }]);
                (lost, unreported) = (0, 0);
            }
            self.publish(next_batch.events);
        }
    }

    /// Adds a receiving editor.
    pub(super) fn join(&self, editor: Outbox) {
        self.board().editors.push(editor);
        if let Some(listener) = &self.listener {
            listener.want_debug(true);
        }
    }

    /// Removes a receiving editor.
    pub(super) fn leave(&self, editor: &Arc<Level>) {
        let mut board = self.board();
        board.editors.retain(|other| !other.belongs_to(editor));
        if board.editors.is_empty()
            && let Some(listener) = &self.listener
        {
            listener.want_debug(false);
        }
    }

    /// Frames with what is retained of these topics.
    pub(super) fn retained(&self, pattern: &Pattern) -> Vec<Bytes> {
        let messages: Vec<Arc<str>> = {
            let board = self.board();
            let runtime = [
                (STATE, &board.state),
                (STOPPED, &board.stopped),
                (DEPLOY, &board.deploy),
            ];
            let runtime = runtime
                .into_iter()
                .filter(|(topic, _)| pattern.covers(topic));
            let runtime = runtime.filter_map(|(_, message)| message.clone());
            let covered = |(id, _): &(&SmolStr, _)| pattern.covers(&format!("status/{id}"));
            let status = board.status.iter().filter(covered);
            let packages = board.packages.iter();
            let packages = packages.filter(|(topic, _)| pattern.covers(topic));
            runtime
                .chain(status.map(|(_, message)| Arc::clone(message)))
                .chain(packages.map(|(_, message)| Arc::clone(message)))
                .collect()
        };
        let texts: Vec<&str> = messages.iter().map(AsRef::as_ref).collect();
        texts.chunks(BATCH).map(frame).collect()
    }

    fn publish(&self, events: Vec<Event>) {
        // Written without the lock.
        let retentions: Vec<Retention> = events.into_iter().map(Retention::of).collect();
        let mut board = self.board();
        let messages: Vec<Message> = retentions
            .into_iter()
            .filter_map(|r| board.keep(r))
            .collect();
        for batch in messages.chunks(BATCH) {
            board.send(batch);
        }
    }

    fn board(&self) -> MutexGuard<'_, Retained> {
        self.board.lock()
    }
}

/// A message as it is sent.
struct Message {
    text: Arc<str>,
    /// True if an editor that is too slow may lose it.
    may_be_lost: bool,
}

/// An event as it is sent, and what of it is retained.
enum Retention {
    State(Arc<str>),
    Stopped(Arc<str>),
    Deploy(Arc<str>),
    Status(SmolStr, Arc<str>),
    /// An empty status: as in Node-RED, sent only if there was another one.
    NoStatus(SmolStr),
    Debug(Arc<str>),
    NodeSets(Arc<str>),
    /// Of a package; retained instead of the one before, or not.
    Package(SmolStr, bool, Arc<str>),
}

impl Retention {
    fn of(event: Event) -> Self {
        match event {
            Event::RuntimeState(data) => Self::State(message(STATE, &data)),
            Event::StoppedFlows(data) => Self::Stopped(message(STOPPED, &data)),
            Event::RuntimeDeploy { revision } => {
                Self::Deploy(message(DEPLOY, &json!({ "revision": revision })))
            }
            Event::Status { id, status } => match status.as_ref().and_then(shown_status) {
                Some(shown) => {
                    let message = message(&format!("status/{id}"), &shown);
                    Self::Status(id, message)
                }
                None => Self::NoStatus(id),
            },
            Event::NodeSets { change, data } => {
                Self::NodeSets(message(&format!("notification/node/{change}"), &data))
            }
            Event::Debug(data) => Self::Debug(message("debug", &data)),
            Event::Package {
                topic,
                data,
                retain,
            } => {
                let text = package_message(&topic, &data);
                Self::Package(topic, retain, text)
            }
        }
    }
}

impl Retained {
    /// Retains what is to be retained; gives what is to be sent.
    fn keep(&mut self, retention: Retention) -> Option<Message> {
        let text = match retention {
            Retention::Debug(text) => {
                return Some(Message {
                    text,
                    may_be_lost: true,
                });
            }
            Retention::Package(topic, retain, text) => {
                self.packages.remove(&topic);
                let has_room = self.packages.len() < RETAINED_TOPICS;
                if retain && has_room && text.len() <= RETAINED_BYTES {
                    self.packages.insert(topic, Arc::clone(&text));
                }
                return Some(Message {
                    text,
                    may_be_lost: true,
                });
            }
            Retention::NodeSets(text) => text,
            Retention::State(text) => self.state.insert(text).clone(),
            Retention::Stopped(text) => self.stopped.insert(text).clone(),
            Retention::Deploy(text) => self.deploy.insert(text).clone(),
            Retention::Status(id, text) => {
                self.status.insert(id, Arc::clone(&text));
                text
            }
            Retention::NoStatus(id) => {
                self.status.remove(&id)?;
                message(&format!("status/{id}"), &Json::Object(Map::new()))
            }
        };
        Some(Message {
            text,
            may_be_lost: false,
        })
    }

    /// Sends one frame to all editors, and removes those that are too slow.
    fn send(&mut self, messages: &[Message]) {
        if self.editors.is_empty() {
            return;
        }
        let frame = divisible(messages);
        self.editors.retain(|editor| editor.put(frame.clone()));
    }
}

/// A node's status as editors expect it; `None` if it is empty (observed on 4.1.15).
fn shown_status(status: &Json) -> Option<Json> {
    let says = |value: &Json| match value {
        Json::Null | Json::Bool(false) => false,
        Json::String(text) => !text.is_empty(),
        Json::Number(number) => number.as_f64() != Some(0.0),
        Json::Bool(true) | Json::Array(_) | Json::Object(_) => true,
    };
    let part = |key: &'static str| Some((key.to_owned(), status.get(key)?.clone()));
    let shown: Map<String, Json> = ["text", "fill", "shape"]
        .into_iter()
        .filter_map(part)
        .collect();
    shown.values().any(says).then_some(Json::Object(shown))
}

fn message(topic: &str, data: &Json) -> Arc<str> {
    format!("{{\"topic\":{},\"data\":{data}}}", Json::from(topic)).into()
}

/// `data`: JSON, or nothing.
fn package_message(topic: &str, data: &str) -> Arc<str> {
    let topic = Json::from(topic);
    match data {
        "" => format!("{{\"topic\":{topic}}}"),
        data => format!("{{\"topic\":{topic},\"data\":{data}}}"),
    }
    .into()
}

fn lost_note(count: u64) -> Arc<str> {
    let text = format!("{count} messages were lost: there were too many at a time");
    let format = format!("string[{}]", text.len());
    // As a warning of no node: level 30 (docs/reference/node-red-admin-api.md §4).
    let data = json!({ "level": 30, "id": "", "type": "flowgate", "msg": text, "format": format });
    message("debug", &data)
}

/// A report of lost messages, as a frame of its own.
pub(super) fn loss(count: u64) -> Bytes {
    frame(&[&lost_note(count)])
}

fn frame(messages: &[&str]) -> Bytes {
    format!("[{}]", messages.join(",")).into()
}

/// A frame of which messages of debug nodes and packages may be lost.
fn divisible(messages: &[Message]) -> Frame {
    let all: Vec<&str> = messages.iter().map(|m| &*m.text).collect();
    let rest = messages.iter().filter(|m| !m.may_be_lost);
    let rest: Vec<&str> = rest.map(|m| &*m.text).collect();
    match all.len() - rest.len() {
        0 => Frame::whole(frame(&all)),
        debug if rest.is_empty() => Frame::with_debug(frame(&all), debug as u64, Bytes::new()),
        debug => Frame::with_debug(frame(&all), debug as u64, frame(&rest)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::super::outbox::{Outgoing, Waiting, outbox};
    use super::*;
    use events::Events;

    fn status(id: &str, status: Option<Json>) -> Event {
        let id = id.into();
        Event::Status { id, status }
    }

    /// The events of an engine, and the topics that publish them.
    fn engine() -> (Events, Arc<Topics>) {
        let events = Events::default();
        let topics = Topics::new(Some(events.listen(Topics::limits(1 << 20))));
        (events, topics)
    }

    fn editor(topics: &Topics) -> Waiting {
        let (editor, waiting) = outbox(1 << 20);
        topics.join(editor);
        waiting
    }

    async fn next_batch(editor: &mut Waiting) -> Vec<Json> {
        match editor.next().await {
            Outgoing::Frame(text) => serde_json::from_slice(&text).unwrap(),
            Outgoing::Lost(count) => panic!("{count} messages were lost"),
        }
    }

    /// The retained messages, by topic.
    fn retained(topics: &Topics, pattern: &str) -> Vec<(String, Json)> {
        let pattern = Pattern::parse(pattern.to_owned()).unwrap();
        let frames = topics.retained(&pattern).into_iter();
        let messages =
            frames.flat_map(|frame| serde_json::from_slice::<Vec<Json>>(&frame).unwrap());
        messages
            .map(|mut m| (m["topic"].as_str().unwrap().to_owned(), m["data"].take()))
            .collect()
    }

    #[tokio::test]
    async fn the_last_messages_of_packages_are_retained_if_they_want_it() {
        let (events, topics) = engine();
        let publish = |topic: &str, data: &str, retain: bool| {
            let (topic, data) = (topic.into(), data.into());
            events.publish(Event::Package {
                topic,
                data,
                retain,
            });
        };
        publish("a/one", "1", true);
        publish("a/two", "2", true);
        publish("a/two", "3", false);
        publish("a/none", "", true);
        publish(
            "a/long",
            &format!("\"{}\"", "x".repeat(RETAINED_BYTES)),
            true,
        );
        publish("b", "[4]", true);
        let mut editor = editor(&topics);
        let task = tokio::spawn(Arc::clone(&topics).tell());
        assert_eq!(next_batch(&mut editor).await.len(), 6);
        let one = |data| {
            vec![
                ("a/none".to_owned(), Json::Null),
                ("a/one".to_owned(), data),
            ]
        };
        assert_eq!(retained(&topics, "a/#"), one(json!(1)));
        assert_eq!(retained(&topics, "b"), [("b".to_owned(), json!([4]))]);
        for n in 0..2 * RETAINED_TOPICS {
            publish(&format!("many/{n}"), "1", true);
        }
        while topics.board().packages.len() < RETAINED_TOPICS {
            next_batch(&mut editor).await;
        }
        assert_eq!(retained(&topics, "many/#").len(), RETAINED_TOPICS - 3);
        task.abort();
    }

    #[tokio::test]
    async fn a_burst_is_sent_in_batches_of_fifty() {
        let (events, topics) = engine();
        let (mut one, mut other) = (editor(&topics), editor(&topics));
        for n in 0..123 {
            events.publish(Event::Debug(json!({ "msg": n })));
        }
        let task = tokio::spawn(Arc::clone(&topics).tell());
        for editor in [&mut one, &mut other] {
            let mut next = 0;
            for length in [50, 50, 23] {
                let batch = next_batch(editor).await;
                assert_eq!(batch.len(), length);
                for message in batch {
                    assert_eq!(
                        (&message["topic"], &message["data"]["msg"]),
                        (&json!("debug"), &json!(next))
                    );
                    next += 1;
                }
            }
        }
        task.abort();
    }

    #[tokio::test]
    async fn the_newest_message_is_retained_and_an_empty_status_is_not() {
        let (events, topics) = engine();
        let task = tokio::spawn(Arc::clone(&topics).tell());
        let mut editor = editor(&topics);
        let text =
            |text: &str| Some(json!({ "fill": "red", "text": text, "source": { "id": "a" } }));
        events.publish(Event::RuntimeState(json!({ "state": "stop" })));
        events.publish(Event::RuntimeState(json!({ "state": "start" })));
        events.publish(Event::RuntimeDeploy {
            revision: "r1".to_owned(),
        });
        events.publish(status("a", text("old")));
        events.publish(status("b", text("gone")));
        events.publish(status("a", text("new")));
        events.publish(status("b", None));
        events.publish(status("c", Some(json!({ "text": "" }))));
        let sent = next_batch(&mut editor).await;
        let topic = |message: &Json| message["topic"].as_str().unwrap().to_owned();
        let sent: Vec<String> = sent.iter().map(topic).collect();
        let runtime = [STATE, STATE, DEPLOY];
        assert_eq!(sent[..3], runtime);
        assert_eq!(sent[3..], ["status/a", "status/b", "status/a", "status/b"]);
        let of_a = (
            "status/a".to_owned(),
            json!({ "text": "new", "fill": "red" }),
        );
        for pattern in ["status/#", "+/a"] {
            assert_eq!(retained(&topics, pattern), std::slice::from_ref(&of_a));
        }
        assert_eq!(
            retained(&topics, "notification/#"),
            [
                (STATE.to_owned(), json!({ "state": "start" })),
                (DEPLOY.to_owned(), json!({ "revision": "r1" })),
            ]
        );
        assert!(retained(&topics, "#").is_empty());
        task.abort();
    }

    #[tokio::test]
    async fn the_newest_message_of_a_flood_is_sent_within_two_seconds_and_losses_are_counted() {
        let (events, topics) = engine();
        let mut editor = editor(&topics);
        for n in 0..200_000 {
            events.publish(Event::Debug(json!({ "msg": n })));
            events.publish(status("a", Some(json!({ "text": n.to_string() }))));
        }
        let task = tokio::spawn(Arc::clone(&topics).tell());
        let (mut shown, mut lost, mut newest, mut frames) = (0, 0, 0, 0);
        while newest < 199_999 || shown + lost < 200_000 {
            frames += 1;
            for message in next_batch(&mut editor).await {
                match &message["data"]["msg"] {
                    Json::Number(n) => {
                        assert!(n.as_u64() > Some(newest));
                        newest = n.as_u64().unwrap();
                        shown += 1;
                    }
                    Json::String(note) => {
                        lost += note.split(' ').next().unwrap().parse::<u64>().unwrap();
                    }
                    _ => {}
                }
            }
        }
        assert!(frames * PAUSE < Duration::from_secs(2), "{frames} frames");
        assert_eq!(shown + lost, 200_000);
        task.abort();
    }

    #[tokio::test]
    async fn lost_messages_are_reported_when_the_last_batch_is_full() {
        let (events, topics) = engine();
        let mut editor = editor(&topics);
        for n in 0..WAITING + 7 {
            events.publish(Event::Debug(json!({ "msg": n })));
        }
        let task = tokio::spawn(Arc::clone(&topics).tell());
        let reported =
            async { while !next_batch(&mut editor).await[0]["data"]["msg"].is_string() {} };
        let reported = tokio::time::timeout(Duration::from_secs(20), reported).await;
        assert!(reported.is_ok());
        task.abort();
    }

    #[tokio::test]
    async fn lost_debug_messages_are_reported_and_none_are_made_without_editors() {
        let events = Events::default();
        let topics = Topics::new(Some(events.listen(Topics::limits(1_000))));
        assert!(!events.wants_debug());
        let mut editor = editor(&topics);
        assert!(events.wants_debug());
        for n in 0..100 {
            events.publish(Event::Debug(json!({ "msg": n })));
        }
        let task = tokio::spawn(Arc::clone(&topics).tell());
        let note = next_batch(&mut editor).await;
        let text = note[0]["data"]["msg"].as_str().unwrap();
        assert!(text.starts_with("97 messages were lost"), "{text}");
        let newest = next_batch(&mut editor).await;
        assert_eq!((newest.len(), &newest[2]["data"]["msg"]), (3, &json!(99)));
        task.abort();
        topics.leave(&editor.level());
        assert!(!events.wants_debug());
    }
}
