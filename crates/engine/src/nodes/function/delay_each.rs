//! Delays each message for a time: a fixed one, a random one, or its own.

use super::delay_queue::{Control, duration, queue_status};
use crate::node::{Closing, Host, Node, TimerId, Wake};
use std::collections::{BTreeMap, HashMap};
use value::{Message, Object, Value, coerce};

/// The delay, in milliseconds.
pub(super) enum Time {
    Fixed(f64),
    /// Between the two.
    Random(f64, f64),
    /// `msg.delay`, else this.
    OfMessage(f64),
}

/// A time longer than this is a long one.
const LONG_MS: f64 = 1000.0;

/// Messages, each with its own time.
pub(super) struct Each {
    time: Time,
    /// By the order of arrival.
    waiting: BTreeMap<u64, (TimerId, Message)>,
    timers: HashMap<TimerId, u64>,
    arrived: u64,
}

impl Time {
    fn of(&self, message: &Message) -> f64 {
        match self {
            Self::Fixed(ms) => *ms,
            Self::Random(first, last) => {
                let random = u32::from_le_bytes(crypto::random());
                first + (last - first) * f64::from(random) / f64::from(u32::MAX)
            }
            Self::OfMessage(default) => match message.get("delay") {
                Value::Undefined => *default,
                delay => {
                    let ms = coerce::parse_float(&coerce::to_text(delay));
                    if ms.is_nan() { *default } else { ms.max(0.0) }
                }
            },
        }
    }
}

impl Each {
    pub(super) fn new(time: Time) -> Self {
        Self {
            time,
            waiting: BTreeMap::new(),
            timers: HashMap::new(),
            arrived: 0,
        }
    }

    fn hold(&mut self, message: Message, host: &mut Host<'_>) {
        let timer = host.after(duration(self.time.of(&message)));
        self.timers.insert(timer, self.arrived);
        self.waiting.insert(self.arrived, (timer, message));
        self.arrived += 1;
        self.count(host);
    }

    /// Only times that messages bring, or that are long, are worth a status (observed).
    fn count(&self, host: &mut Host<'_>) {
        let shown = match self.time {
            Time::Fixed(ms) => ms > LONG_MS,
            Time::OfMessage(_) => true,
            Time::Random(..) => false,
        };
        if shown {
            host.status(queue_status("dot", self.waiting.len()));
        }
    }

    fn release(&self, message: Message, host: &mut Host<'_>) {
        if matches!(self.time, Time::OfMessage(_)) && self.waiting.is_empty() {
            host.status(Value::object(Object::default()));
        }
        self.count(host);
        host.pass(message);
    }

    fn flush(&mut self, count: usize, host: &mut Host<'_>) {
        for _ in 0..count {
            let Some((_, (timer, message))) = self.waiting.pop_first() else {
                break;
            };
            self.timers.remove(&timer);
            host.cancel(timer);
            self.release(message, host);
        }
        host.status(queue_status("dot", self.waiting.len()));
    }

    fn clear(&mut self, host: &mut Host<'_>) {
        self.timers.clear();
        for (timer, message) in std::mem::take(&mut self.waiting).into_values() {
            host.cancel(timer);
            host.done(message);
        }
    }
}

impl Node for Each {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let control = Control::of(&message);
        if control.reset {
            self.clear(host);
            host.status(queue_status("ring", 0));
            return host.done(message);
        }
        if control.flush.is_some() && control.only {
            host.done(message);
        } else {
            self.hold(message, host);
        }
        if let Some(count) = control.flush {
            self.flush(count, host);
        }
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        let Wake::Timer(timer) = wake else { return };
        let arrived = self.timers.remove(&timer);
        if let Some((_, message)) = arrived.and_then(|arrived| self.waiting.remove(&arrived)) {
            self.release(message, host);
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.clear(host);
        host.status(Value::object(Object::default()));
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests")]
mod tests {
    use super::*;

    fn own(delay: Value) -> f64 {
        let mut message = Message::with_payload(1.0);
        message.set("delay", delay);
        Time::OfMessage(150.0).of(&message)
    }

    #[test]
    fn a_message_may_override_the_delay() {
        assert_eq!(own(300.0.into()), 300.0);
        assert_eq!(own("100".into()), 100.0);
        assert_eq!(own((-5.0).into()), 0.0);
        assert_eq!(own("x".into()), 150.0);
        assert_eq!(own(Value::Undefined), 150.0);
    }

    #[test]
    fn a_random_delay_lies_between_its_bounds() {
        for _ in 0..100 {
            let ms = Time::Random(50.0, 60.0).of(&Message::default());
            assert!((50.0..=60.0).contains(&ms), "{ms}");
        }
    }
}
