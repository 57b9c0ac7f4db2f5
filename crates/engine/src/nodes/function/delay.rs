//! `delay`: delays messages: each for a time, limited to a rate, or the newest of each topic at
//! intervals.

use super::delay_each::{Each, Time};
use super::delay_rate::Rate;
use super::delay_topics::Topics;
use crate::expression::typed::text_of;
use crate::node::{BoxedNode, Build, Host, boxed};
use crate::nodes::common::noop::Noop;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use value::{Failure, coerce};

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

    /// Returns whether there is a second output, for what does not go to the first.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::delay_queue::{duration, interval};
    use super::*;

    #[test]
    fn a_rate_becomes_an_interval_between_messages() {
        let every = |text: &str| serde_json::from_str::<Properties>(text).unwrap().every();
        assert_eq!(
            duration(every(r#"{"rate":"10","rateUnits":"second"}"#)).as_millis(),
            100
        );
        let text = r#"{"rate":2,"nbRateUnits":"3","rateUnits":"minute"}"#;
        assert_eq!(duration(every(text)).as_secs(), 90);
        assert_eq!(interval(every(r#"{"rate":"0"}"#)).as_millis(), 1);
    }
}
