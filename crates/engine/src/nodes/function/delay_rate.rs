//! Lets so many messages through in a time; the others wait their turn or are dropped.

use super::delay::{Depth, Wish, asked, blue, interval};
use crate::node::{Closing, Host, Node, TimerId, Wake};
use std::collections::VecDeque;
use value::{Failure, Message, Object, Value};

/// Messages that wait for their turn.
pub(super) struct Rate {
    /// Milliseconds from one message to the next.
    every: f64,
    /// Whether messages may change that.
    by_message: bool,
    /// `Some`: messages beyond the rate are dropped, not queued; true: they go to the second output.
    drops: Option<bool>,
    waiting: VecDeque<Message>,
    /// The next turn; `None`: the next message passes at once.
    turn: Option<TimerId>,
    /// When the last message passed, where others are dropped; milliseconds since 1970.
    passed: Option<f64>,
    depth: Depth,
}

impl Rate {
    pub(super) fn new(every: f64, by_message: bool, drops: Option<bool>) -> Self {
        Self {
            every,
            by_message,
            drops,
            waiting: VecDeque::new(),
            turn: None,
            passed: None,
            depth: Depth::default(),
        }
    }

    /// The next turn is a whole interval from now.
    fn wait(&mut self, host: &mut Host<'_>) {
        self.stop(host);
        self.turn = Some(host.after(interval(self.every)));
    }

    fn stop(&mut self, host: &mut Host<'_>) {
        if let Some(turn) = self.turn.take() {
            host.cancel(turn);
        }
    }

    /// Takes over the rate that the message brings: milliseconds from one to the next.
    fn change(&mut self, message: &Message, host: &mut Host<'_>) {
        let Some(every) = asked(message, self.every).filter(|_| self.by_message) else {
            return;
        };
        self.every = every;
        if self.turn.is_some() && self.drops.is_none() {
            self.wait(host);
        }
    }

    fn hold(&mut self, mut message: Message, host: &mut Host<'_>) {
        let most = host.config().message_buffer;
        if most > 0 && self.waiting.len() >= most {
            self.waiting.clear();
            let failure = Failure::error("too many pending messages in delay node");
            return host.error(failure, Some(message));
        }
        message.take("flush");
        if matches!(message.get("toFront"), Value::Bool(true)) {
            self.waiting.push_front(message);
        } else {
            self.waiting.push_back(message);
        }
        self.depth.changed(host);
    }

    fn flush(&mut self, count: usize, host: &mut Host<'_>) {
        let count = count.min(self.waiting.len());
        for message in self.waiting.drain(..count) {
            host.pass(message);
        }
        self.depth.hidden();
        host.status(blue("dot", self.waiting.len()));
        if count > 0 {
            self.wait(host);
        } else {
            // The next message passes at once (observed).
            self.stop(host);
        }
    }

    fn clear(&mut self, host: &mut Host<'_>) {
        self.waiting.drain(..).for_each(|m| host.done(m));
        self.passed = None;
        self.stop(host);
    }

    /// Passes the message if it is time, else drops it.
    fn pass_or_drop(&mut self, message: Message, aside: bool, host: &mut Host<'_>) {
        let now = host.now();
        if self.passed.is_none_or(|at| now - at > self.every) {
            self.passed = Some(now);
            return host.pass(message);
        }
        let finished = host.watched().then(|| message.clone());
        if aside {
            host.send(1, message);
        }
        if let Some(message) = finished {
            host.done(message);
        }
    }
}

impl Node for Rate {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let wish = Wish::of(&message);
        self.change(&message, host);
        if let (Some(aside), false) = (self.drops, wish.reset) {
            return self.pass_or_drop(message, aside, host);
        }
        if wish.reset || wish.flush.is_some() {
            if !wish.only && !wish.reset {
                self.hold(message, host);
            } else {
                host.done(message);
            }
            if let Some(count) = wish.flush {
                self.flush(count, host);
            }
            if wish.reset {
                self.clear(host);
                self.depth.hidden();
                host.status(blue("ring", 0));
            }
        } else if self.turn.is_none() {
            self.wait(host);
            host.pass(message);
        } else {
            self.hold(message, host);
        }
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        let Wake::Timer(timer) = wake else { return };
        if self.depth.show(timer, self.waiting.len(), host) || self.turn != Some(timer) {
            return;
        }
        self.turn = None;
        if let Some(message) = self.waiting.pop_front() {
            self.wait(host);
            host.pass(message);
            self.depth.changed(host);
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.clear(host);
        host.status(Value::object(Object::default()));
        None
    }
}
