//! `range`: maps a number from one range to another.

use crate::expression::typed::text_of;
use crate::node::{BoxedNode, Build, Host, Level, Node, boxed};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use value::{Failure, Message, Path, Value, coerce};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    action: SmolStr,
    round: bool,
    minin: Json,
    maxin: Json,
    minout: Json,
    maxout: Json,
    property: Option<SmolStr>,
}

struct Range {
    property: Path,
    map: Map,
}

/// Two ranges and what happens outside of the first.
struct Map {
    from: (f64, f64),
    to: (f64, f64),
    round: bool,
    outside: Outside,
}

#[derive(Clone, Copy)]
enum Outside {
    Scale,
    Clamp,
    Roll,
    Drop,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let map = Map::new(&properties);
    let property = properties
        .property
        .filter(|p| !p.is_empty())
        .unwrap_or(SmolStr::new_static("payload"));
    Ok(boxed(Range {
        property: Path::parse_message(&property)?,
        map,
    }))
}

impl Map {
    fn new(properties: &Properties) -> Self {
        let number = |value: &Json| coerce::text_to_number(&text_of(value));
        let mut from = (number(&properties.minin), number(&properties.maxin));
        let mut to = (number(&properties.minout), number(&properties.maxout));
        if from.0 > from.1 {
            from = (from.1, from.0);
            to = (to.1, to.0);
        }
        if properties.round {
            to = (to.0.ceil(), to.1.floor());
        }
        let outside = match properties.action.as_str() {
            "clamp" => Outside::Clamp,
            "roll" => Outside::Roll,
            "drop" => Outside::Drop,
            _ => Outside::Scale,
        };
        Self {
            from,
            to,
            round: properties.round,
            outside,
        }
    }

    /// Maps a number to the target range; `None` if it is dropped.
    fn apply(&self, n: f64) -> Option<f64> {
        let (low, high) = self.from;
        let n = match self.outside {
            Outside::Drop if n < low || n > high => return None,
            Outside::Clamp if n < low => low,
            Outside::Clamp if n > high => high,
            Outside::Roll => {
                let width = high - low;
                ((n - low) % width + width) % width + low
            }
            _ => n,
        };
        let mapped = (n - low) / (high - low) * (self.to.1 - self.to.0) + self.to.0;
        // Math.round takes halves up.
        Some(if self.round {
            (mapped + 0.5).floor()
        } else {
            mapped
        })
    }
}

impl Node for Range {
    fn receive(&mut self, mut message: Message, host: &mut Host<'_>) {
        let value = match self.property.try_read_message(&message) {
            Ok(value) => value,
            Err(failure) => return host.error(failure, Some(message)),
        };
        if value.is_undefined() {
            return host.pass(message);
        }
        let n = coerce::to_number(&value);
        if n.is_nan() {
            host.log(
                Level::Info,
                Value::from(format!("Not a number: {}", coerce::to_text(&value))),
            );
            return host.done(message);
        }
        match self.map.apply(n) {
            Some(mapped) => {
                let mapped = Value::Number(mapped);
                match self.property.write_message(&mut message, mapped) {
                    Ok(_) => host.pass(message),
                    Err(failure) => host.error(failure, Some(message)),
                }
            }
            None => host.done(message),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn mapped(action: &str, n: f64) -> Option<f64> {
        let text = format!(
            r#"{{"action":"{action}","minin":"0","maxin":"10","minout":"0","maxout":"100"}}"#
        );
        Map::new(&serde_json::from_str(&text).unwrap()).apply(n)
    }

    #[test]
    fn values_outside_the_range_are_scaled_clamped_rolled_or_dropped() {
        assert_eq!(mapped("scale", 12.0), Some(120.0));
        assert_eq!(mapped("clamp", 12.0), Some(100.0));
        assert_eq!(mapped("clamp", -1.0), Some(0.0));
        assert_eq!(mapped("roll", 12.0), Some(20.0));
        assert_eq!(mapped("roll", -1.0), Some(90.0));
        assert_eq!(mapped("drop", 12.0), None);
        assert_eq!(mapped("drop", 5.0), Some(50.0));
    }

    #[test]
    fn swapped_ranges_are_normalized_and_rounding_stays_in_range() {
        let text =
            r#"{"action":"clamp","round":true,"minin":10,"maxin":0,"minout":0.5,"maxout":9.5}"#;
        let map = Map::new(&serde_json::from_str(text).unwrap());
        assert_eq!((map.from, map.to), ((0.0, 10.0), (10.0, 0.0)));
        assert_eq!(map.apply(2.26), Some(8.0));
    }
}
