//! `delay`: holds messages back: each for a time, so many in a time, or one per topic in turns.

use super::delay_each::{Each, Time};
use super::delay_rate::Rate;
use super::delay_topics::Topics;
use crate::expression::typed::text_of;
use crate::node::{BoxedNode, Build, Host, TimerId, boxed};
use crate::nodes::common::noop::Noop;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::{SmolStr, ToSmolStr};
use std::time::Duration;
use value::{Failure, Message, Value, coerce};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    pause_type: SmolStr,
    timeout: Json,
    timeout_units: SmolStr,
    rate: Json,
    nb_rate_units: Json,
    rate_units: SmolStr,
    random_first: Json,
    random_last: Json,
    random_units: SmolStr,
    drop: bool,
    allowrate: bool,
    outputs: Json,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let time = number(&properties.timeout) * unit(&properties.timeout_units);
    let every = properties.every();
    Ok(match properties.pause_type.as_str() {
        "delayv" => boxed(Each::new(Time::OfMessage(time))),
        "random" => {
            let unit = unit(&properties.random_units);
            let ends = [&properties.random_first, &properties.random_last];
            let [first, last] = ends.map(|end| number(end).abs() * unit);
            boxed(Each::new(Time::Random(first.min(last), first.max(last))))
        }
        "rate" => boxed(Rate::new(every, properties.allowrate, properties.drops())),
        "queue" => boxed(properties.topics(false)),
        "timed" => boxed(properties.topics(true)),
        "delay" => boxed(Each::new(Time::Fixed(time))),
        // An unknown pause type lets nothing through.
        _ => boxed(Noop),
    })
}

impl Properties {
    /// Milliseconds from one message to the next.
    fn every(&self) -> f64 {
        let units = number(&self.nb_rate_units);
        let units = if units > 0.0 { units } else { 1.0 };
        unit(&self.rate_units) * units / number(&self.rate)
    }

    fn topics(&self, together: bool) -> Topics {
        Topics::new(self.every(), self.allowrate, together, self.aside())
    }

    /// Whether messages in between are dropped, and whether there is a second output for them.
    fn drops(&self) -> Option<bool> {
        self.drop.then(|| self.aside())
    }

    /// Whether there is a second output, for what does not go to the first.
    fn aside(&self) -> bool {
        number(&self.outputs).total_cmp(&2.0).is_eq()
    }
}

fn number(value: &Json) -> f64 {
    coerce::parse_float(&text_of(value))
}

/// Milliseconds of a unit; seconds are what Node-RED takes for anything else.
fn unit(name: &str) -> f64 {
    match name {
        "milliseconds" => 1.0,
        "minutes" | "minute" => 60_000.0,
        "hours" | "hour" => 3_600_000.0,
        "days" | "day" => 86_400_000.0,
        _ => 1000.0,
    }
}

/// A time from milliseconds; what is no time is none at all.
pub(super) fn duration(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default()
}

/// The time from one turn to the next: 1 ms at least, as timers of JavaScript have it.
pub(super) fn interval(ms: f64) -> Duration {
    duration(ms).max(Duration::from_millis(1))
}

/// The time from one turn to the next that a message asks for, if it is another.
pub(super) fn asked(message: &Message, every: f64) -> Option<f64> {
    let rate = coerce::parse_float(&coerce::to_text(message.get("rate")));
    (!rate.is_nan() && rate.total_cmp(&every).is_ne()).then_some(rate)
}

/// A blue status with a number.
pub(super) fn blue(shape: &'static str, count: usize) -> Value {
    Value::record([
        ("fill", "blue".into()),
        ("shape", shape.into()),
        ("text", count.to_smolstr().into()),
    ])
}

/// What a message asks of those that wait.
#[derive(Debug, PartialEq)]
pub(super) struct Wish {
    /// Forget them.
    pub reset: bool,
    /// Send so many of them at once.
    pub flush: Option<usize>,
    /// There is nothing else in the message: it is not held back itself.
    pub only: bool,
}

impl Wish {
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

/// How often the number of waiting messages is shown (observed).
const SHOWN_EVERY: Duration = Duration::from_millis(500);

/// Shows the number of waiting messages, now and then.
#[derive(Default)]
pub(super) struct Depth {
    timer: Option<TimerId>,
    shown: Option<usize>,
}

impl Depth {
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
            host.status(blue("dot", count));
        }
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use value::json;

    fn wish(text: &str) -> Wish {
        Wish::of(&Message::from_value(json::parse(text).unwrap()).unwrap())
    }

    #[test]
    fn a_rate_is_a_time_between_messages() {
        let every = |text: &str| serde_json::from_str::<Properties>(text).unwrap().every();
        assert_eq!(
            duration(every(r#"{"rate":"10","rateUnits":"second"}"#)).as_millis(),
            100
        );
        let text = r#"{"rate":2,"nbRateUnits":"3","rateUnits":"minute"}"#;
        assert_eq!(duration(every(text)).as_secs(), 90);
        assert_eq!(interval(every(r#"{"rate":"0"}"#)).as_millis(), 1);
    }

    #[test]
    fn messages_ask_for_reset_and_flush() {
        let plain = wish(r#"{"_msgid":"x","payload":1}"#);
        assert_eq!((plain.reset, plain.flush, plain.only), (false, None, false));
        assert_eq!(wish(r#"{"flush":2}"#).flush, Some(2));
        assert_eq!(wish(r#"{"flush":-1}"#).flush, Some(0));
        assert_eq!(wish(r#"{"flush":true}"#).flush, Some(usize::MAX));
        assert!(wish(r#"{"_msgid":"x","flush":1}"#).only);
        assert!(wish(r#"{"reset":true,"topic":"x"}"#).reset);
    }
}
