//! Queues the newest message of each topic and sends one of them, or all, in each interval.

use super::delay_queue::{Control, DepthStatus, interval, requested_interval};
use crate::node::{Closing, Host, Node, TimerId, Wake};
use indexmap::IndexMap;
use smol_str::SmolStr;
use value::{Failure, Message, Object, Value, coerce};

/// The newest message of each topic.
pub(super) struct Topics {
    /// The interval in milliseconds.
    every: f64,
    /// True if messages may change that.
    by_message: bool,
    /// All topics are sent together.
    together: bool,
    /// True if replaced messages go to the second output.
    aside: bool,
    waiting: IndexMap<SmolStr, Message>,
    /// The end of the interval.
    timer: Option<TimerId>,
    depth: DepthStatus,
}

/// The topic of messages that have none; they get it (observed).
const NONE: SmolStr = SmolStr::new_static("_none_");

impl Topics {
    pub(super) fn new(every: f64, by_message: bool, together: bool, aside: bool) -> Self {
        Self {
            every,
            by_message,
            together,
            aside,
            waiting: IndexMap::new(),
            timer: None,
            depth: DepthStatus::default(),
        }
    }

    /// Takes over the rate that the message brings, as an interval in milliseconds.
    fn change(&mut self, message: &Message, host: &mut Host<'_>) {
        let Some(every) = requested_interval(message, self.every).filter(|_| self.by_message)
        else {
            return;
        };
        self.every = every;
        if let Some(timer) = self.timer.replace(host.after(interval(every))) {
            host.cancel(timer);
        }
    }

    /// Takes the place of an earlier message of the topic, or the last one.
    fn hold(&mut self, mut message: Message, host: &mut Host<'_>) {
        if !coerce::truthy(message.get("topic")) {
            message.set(SmolStr::new_static("topic"), NONE);
        }
        message.take("flush");
        let topic = coerce::to_text(message.get("topic"));
        let most = host.config().message_buffer;
        if most > 0 && self.waiting.len() >= most && !self.waiting.contains_key(&topic) {
            self.waiting.clear();
            let failure = Failure::error("too many pending messages in delay node");
            return host.error(failure, Some(message));
        }
        if let Some(earlier) = self.waiting.insert(topic, message) {
            if self.aside {
                host.send(1, earlier.clone());
            }
            host.done(earlier);
        }
        self.depth.changed(host);
    }

    fn send(&mut self, count: usize, host: &mut Host<'_>) {
        let count = count.min(self.waiting.len());
        for (_, message) in self.waiting.drain(..count) {
            host.pass(message);
        }
    }

    fn clear(&mut self, host: &mut Host<'_>) {
        self.waiting.drain(..).for_each(|(_, m)| host.done(m));
    }
}

impl Node for Topics {
    fn start(&mut self, host: &mut Host<'_>) {
        self.timer = Some(host.after(interval(self.every)));
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let control = Control::of(&message);
        self.change(&message, host);
        if control.reset {
            self.clear(host);
            self.depth.hidden();
            host.status(Value::record([("text", "reset".into())]));
            return host.done(message);
        }
        if control.flush.is_some() && control.only {
            host.done(message);
        } else {
            self.hold(message, host);
        }
        if let Some(count) = control.flush {
            self.send(count, host);
            self.depth.hidden();
            host.status(Value::object(Object::default()));
        }
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        let Wake::Timer(timer) = wake else { return };
        if self.depth.show(timer, self.waiting.len(), host) || self.timer != Some(timer) {
            return;
        }
        self.timer = Some(host.after(interval(self.every)));
        if !self.waiting.is_empty() {
            self.send(if self.together { usize::MAX } else { 1 }, host);
            self.depth.changed(host);
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.clear(host);
        host.status(Value::object(Object::default()));
        None
    }
}
