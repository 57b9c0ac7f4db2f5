//! Limits messages to a rate; the others are queued or dropped.

use super::delay_queue::{Control, DepthStatus, interval, queue_status, requested_interval};
use crate::node::{Closing, Host, Node, TimerId, Wake};
use std::collections::VecDeque;
use value::{Failure, Message, Object, Value};

/// A queue from which one message is sent in each interval.
pub(super) struct Rate {
    /// Milliseconds from one message to the next.
    every: f64,
    /// True if messages may change that.
    by_message: bool,
    /// `Some`: messages beyond the rate are dropped, not queued; true: they go to the second
    /// output.
    drops: Option<bool>,
    waiting: VecDeque<Message>,
    /// The end of the interval; `None`: the next message passes at once.
    timer: Option<TimerId>,
    /// When the last message passed, where others are dropped; milliseconds since 1970.
    passed: Option<f64>,
    depth: DepthStatus,
}

impl Rate {
    pub(super) fn new(every: f64, by_message: bool, drops: Option<bool>) -> Self {
        Self {
            every,
            by_message,
            drops,
            waiting: VecDeque::new(),
            timer: None,
            passed: None,
            depth: DepthStatus::default(),
        }
    }

    /// An interval begins.
    fn wait(&mut self, host: &mut Host<'_>) {
        self.stop(host);
        self.timer = Some(host.after(interval(self.every)));
    }

    fn stop(&mut self, host: &mut Host<'_>) {
        if let Some(timer) = self.timer.take() {
            host.cancel(timer);
        }
    }

    /// Takes over the rate that the message brings: milliseconds from one to the next.
    fn change(&mut self, message: &Message, host: &mut Host<'_>) {
        let Some(every) = requested_interval(message, self.every).filter(|_| self.by_message)
        else {
            return;
        };
        self.every = every;
        if self.timer.is_some() && self.drops.is_none() {
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
        host.status(queue_status("dot", self.waiting.len()));
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
        let control = Control::of(&message);
        self.change(&message, host);
        if let (Some(aside), false) = (self.drops, control.reset) {
            return self.pass_or_drop(message, aside, host);
        }
        if control.reset || control.flush.is_some() {
            if !control.only && !control.reset {
                self.hold(message, host);
            } else {
                host.done(message);
            }
            if let Some(count) = control.flush {
                self.flush(count, host);
            }
            if control.reset {
                self.clear(host);
                self.depth.hidden();
                host.status(queue_status("ring", 0));
            }
        } else if self.timer.is_none() {
            self.wait(host);
            host.pass(message);
        } else {
            self.hold(message, host);
        }
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        let Wake::Timer(timer) = wake else { return };
        if self.depth.show(timer, self.waiting.len(), host) || self.timer != Some(timer) {
            return;
        }
        self.timer = None;
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
