//! The parts that the modes of a delay node share: intervals, the messages that control the queue,
//! and its status.

use crate::node::{Host, TimerId};
use smol_str::ToSmolStr;
use std::time::Duration;
use value::{Message, Value, coerce};

/// A duration from milliseconds; zero if it is negative or no number.
pub(super) fn duration(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default()
}

/// The interval between two messages: 1 ms at least, as timers of JavaScript have it.
pub(super) fn interval(ms: f64) -> Duration {
    duration(ms).max(Duration::from_millis(1))
}

/// The interval that a message sets as `msg.rate`, if it is another.
pub(super) fn requested_interval(message: &Message, every: f64) -> Option<f64> {
    let rate = coerce::parse_float(&coerce::to_text(message.get("rate")));
    (!rate.is_nan() && rate.total_cmp(&every).is_ne()).then_some(rate)
}

/// The status that shows the number of queued messages.
pub(super) fn queue_status(shape: &'static str, count: usize) -> Value {
    Value::record([
        ("fill", "blue".into()),
        ("shape", shape.into()),
        ("text", count.to_smolstr().into()),
    ])
}

/// The changes of the queue that a message requests.
#[derive(Debug, PartialEq)]
pub(super) struct Control {
    /// `msg.reset`: the queue is emptied.
    pub reset: bool,
    /// `msg.flush`: this number of messages is sent at once.
    pub flush: Option<usize>,
    /// The message has no other properties: it is not queued itself.
    pub only: bool,
}

impl Control {
    pub(super) fn of(message: &Message) -> Self {
        let properties = message.properties();
        let flush = properties.get("flush").map(|flush| match flush {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "negative counts are 0"
            )]
            Value::Number(n) => *n as usize,
            _ => usize::MAX,
        });
        Self {
            reset: properties.contains_key("reset"),
            flush,
            only: properties
                .keys()
                .all(|key| matches!(key.as_str(), "_msgid" | "flush" | "reset")),
        }
    }
}

/// The interval at which the number of queued messages is shown (observed).
const SHOWN_EVERY: Duration = Duration::from_millis(500);

/// Shows the number of queued messages, at most once in [`SHOWN_EVERY`].
#[derive(Default)]
pub(super) struct DepthStatus {
    timer: Option<TimerId>,
    shown: Option<usize>,
}

impl DepthStatus {
    /// The number has changed: it is shown soon.
    pub(super) fn changed(&mut self, host: &mut Host<'_>) {
        if self.timer.is_none() {
            self.timer = Some(host.after(SHOWN_EVERY));
        }
    }

    /// Another status was shown.
    pub(super) fn hidden(&mut self) {
        self.shown = None;
    }

    /// Shows the number if this timer is the one to do so.
    pub(super) fn show(&mut self, timer: TimerId, count: usize, host: &mut Host<'_>) -> bool {
        if self.timer != Some(timer) {
            return false;
        }
        self.timer = None;
        if self.shown != Some(count) {
            self.shown = Some(count);
            host.status(queue_status("dot", count));
        }
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use value::json;

    fn control(text: &str) -> Control {
        Control::of(&Message::from_value(json::parse(text).unwrap()).unwrap())
    }

    #[test]
    fn a_message_may_reset_and_flush_the_queue() {
        let plain = control(r#"{"_msgid":"x","payload":1}"#);
        assert_eq!((plain.reset, plain.flush, plain.only), (false, None, false));
        assert_eq!(control(r#"{"flush":2}"#).flush, Some(2));
        assert_eq!(control(r#"{"flush":-1}"#).flush, Some(0));
        assert_eq!(control(r#"{"flush":true}"#).flush, Some(usize::MAX));
        assert!(control(r#"{"_msgid":"x","flush":1}"#).only);
        assert!(control(r#"{"reset":true,"topic":"x"}"#).reset);
    }
}
