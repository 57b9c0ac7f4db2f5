//! `rbe`, shown as `filter`: lets a message through when its value has changed, or changed enough.

use crate::expression::typed::text_of;
use crate::node::{BoxedNode, Build, Host, Level, Node, boxed};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::cmp::Ordering;
use std::collections::HashMap;
use value::{Failure, Message, Object, Path, Value, coerce};

#[derive(Deserialize)]
#[serde(default)]
struct Properties {
    func: SmolStr,
    gap: Json,
    start: Json,
    inout: SmolStr,
    septopics: Option<bool>,
    property: SmolStr,
    topi: SmolStr,
}

impl Default for Properties {
    fn default() -> Self {
        Self {
            func: SmolStr::default(),
            gap: Json::Null,
            start: Json::Null,
            inout: SmolStr::default(),
            septopics: None,
            property: SmolStr::default(),
            topi: SmolStr::default(),
        }
    }
}

struct Filter {
    property: Path,
    /// `None`: all messages are compared with one another.
    topic: Option<Path>,
    test: Test,
    /// By topic: the value with which the next one is compared.
    last: HashMap<SmolStr, Value>,
}

enum Test {
    /// The value is another one; the first is let through or not.
    Changed { first: bool },
    /// The number has moved far enough, or not too far.
    Moved(Band),
}

struct Band {
    gap: Gap,
    /// Lets through what lies within the gap, not what lies beyond.
    narrow: bool,
    /// A value exactly at the gap counts as beyond it, in a narrow band too.
    inclusive: bool,
    /// The value with which the first one is compared; narrow bands only (observed).
    start: Option<f64>,
    /// Compares with the last input, not with the last output.
    with_input: bool,
}

enum Gap {
    Size(f64),
    /// Of what is compared with.
    Percent(f64),
}

/// The name that values go by without a topic.
const NO_TOPIC: SmolStr = SmolStr::new_static("_no_topic");

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    Ok(boxed(Filter::new(&build.properties()?)?))
}

impl Filter {
    fn new(properties: &Properties) -> Result<Self, Failure> {
        let path = |text: &SmolStr, default: &str| {
            let text = if text.is_empty() { default } else { text };
            Path::parse_message(text)
        };
        Ok(Self {
            property: path(&properties.property, "payload")?,
            topic: properties
                .septopics
                .unwrap_or(true)
                .then(|| path(&properties.topi, "topic"))
                .transpose()?,
            test: properties.test(),
            last: HashMap::new(),
        })
    }

    /// Whether the value is let through; the text of a warning if it is none to compare.
    fn lets_through(&mut self, topic: SmolStr, value: Value) -> Result<bool, &'static str> {
        match &self.test {
            Test::Changed { first } => {
                let last = self.last.get(&topic);
                let passes = match last {
                    Some(last) if coerce::deep_equal(last, &value) => return Ok(false),
                    // To Node-RED an object without properties is nothing new after what is none
                    // (observed).
                    last if is_bare(&value) && !last.is_some_and(is_object) => return Ok(false),
                    last => *first || last.is_some(),
                };
                self.last.insert(topic, value);
                Ok(passes)
            }
            Test::Moved(band) => {
                let n = coerce::parse_float(&coerce::to_text(&value));
                if n.is_nan() {
                    return Err("no number found in payload");
                }
                let last = self.last.get(&topic).and_then(Value::as_number);
                let first = band.narrow.then(|| band.start.unwrap_or(n));
                let passes = band.lets_through(last.or(first), n);
                if passes || band.with_input {
                    self.last.insert(topic, Value::Number(n));
                } else if let (None, Some(first)) = (last, first) {
                    self.last.insert(topic, Value::Number(first));
                }
                Ok(passes)
            }
        }
    }
}

impl Properties {
    fn test(&self) -> Test {
        let narrow = match self.func.as_str() {
            "rbei" => return Test::Changed { first: false },
            "deadband" | "deadbandEq" => false,
            "narrowband" | "narrowbandEq" => true,
            _ => return Test::Changed { first: true },
        };
        let gap = text_of(&self.gap);
        let size = Some(coerce::parse_float(&gap)).filter(|n| !n.is_nan());
        let size = size.unwrap_or_default();
        let start = coerce::parse_float(&text_of(&self.start));
        Test::Moved(Band {
            gap: if gap.ends_with('%') {
                Gap::Percent(size)
            } else {
                Gap::Size(size)
            },
            narrow,
            inclusive: self.func.ends_with("Eq"),
            start: (narrow && !start.is_nan()).then_some(start),
            with_input: self.inout == "in",
        })
    }
}

impl Band {
    fn lets_through(&self, last: Option<f64>, n: f64) -> bool {
        let Some(last) = last else { return true };
        let gap = match self.gap {
            Gap::Size(size) => size,
            Gap::Percent(percent) => (last * percent / 100.0).abs(),
        };
        match (n - last).abs().partial_cmp(&gap) {
            Some(Ordering::Greater) => !self.narrow,
            Some(Ordering::Less) => self.narrow,
            Some(Ordering::Equal) => self.narrow != self.inclusive,
            None => false,
        }
    }
}

fn is_object(value: &Value) -> bool {
    coerce::type_of(value) == "object"
}

fn is_bare(value: &Value) -> bool {
    value.as_object().is_some_and(Object::is_empty)
}

impl Node for Filter {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let topic = match &self.topic {
            Some(path) => path.read_message(&message),
            None => Value::Undefined,
        };
        if message.properties().contains_key("reset") {
            match &topic {
                // Whatever the topic's property is, `msg.topic` is what is forgotten (observed).
                Value::String(topic) if !topic.is_empty() => {
                    self.last.remove(&coerce::to_text(message.get("topic")));
                }
                _ => self.last.clear(),
            }
        }
        let value = self.property.read_message(&message);
        if value.is_undefined() {
            return;
        }
        let topic = if coerce::truthy(&topic) {
            coerce::to_text(&topic)
        } else {
            NO_TOPIC
        };
        // Node-RED's filter never reports a message as done (observed).
        match self.lets_through(topic, value) {
            Ok(true) => host.send(0, message),
            Ok(false) => {}
            Err(warning) => host.log(Level::Warn, warning),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use value::json;

    /// The values that are let through, of a list; `values` is JSON.
    fn passed(node: &str, values: &str) -> String {
        let mut filter = Filter::new(&serde_json::from_str(node).unwrap()).unwrap();
        let values = json::parse(values).unwrap();
        let passed = values.as_array().unwrap().iter();
        let passed = passed
            .filter(|v| filter.lets_through(NO_TOPIC, (*v).clone()) == Ok(true))
            .cloned()
            .collect();
        json::stringify(&Value::array(passed)).unwrap()
    }

    #[test]
    fn only_changes_pass() {
        let values = r#"[1,1,2,2,"2",{"a":1},{"a":1},{"a":2},[1],[1],true,true,null,null]"#;
        assert_eq!(
            passed(r#"{"func":"rbe"}"#, values),
            r#"[1,2,"2",{"a":1},{"a":2},[1],true,null]"#
        );
        assert_eq!(passed(r#"{"func":"rbei"}"#, "[1,1,2,2,3]"), "[2,3]");
    }

    #[test]
    fn a_deadband_passes_values_that_moved_far_enough() {
        let table = [
            (
                r#""deadband","gap":"5""#,
                r#"[0,2,4,5,6,9.9,10,15,20,16,14,"a","21 C"]"#,
                r#"[0,6,15,"21 C"]"#,
            ),
            (
                r#""deadbandEq","gap":"5""#,
                "[0,2,4,5,6,9.9,10,10.1,15]",
                "[0,5,10,15]",
            ),
            (
                r#""deadband","gap":"10%""#,
                "[100,105,110,111,100,99,-5,-6,0]",
                "[100,111,99,-5,-6,0]",
            ),
            (
                r#""deadband","gap":"5","inout":"in""#,
                "[3,0,6,9,20,22]",
                "[3,6,20]",
            ),
            (
                r#""deadband","gap":"5","start":"10""#,
                "[12,8,15,16,3]",
                "[12,3]",
            ),
            (r#""deadband","gap":"""#, "[1,1,2]", "[1,2]"),
        ];
        for (node, values, expected) in table {
            assert_eq!(
                passed(&format!(r#"{{"func":{node}}}"#), values),
                expected,
                "{node}"
            );
        }
    }

    #[test]
    fn a_narrowband_passes_values_that_did_not_move_too_far() {
        let table = [
            (
                r#""narrowband","gap":"5""#,
                "[0,2,10,5,6,11,100,8]",
                "[0,2,5,6,11,8]",
            ),
            (r#""narrowbandEq","gap":"5""#, "[0,5,10,20,15]", "[0]"),
            (
                r#""narrowband","gap":"5","start":"10""#,
                "[0,8,100,11]",
                "[8,11]",
            ),
            (
                r#""narrowband","gap":"5","inout":"in""#,
                "[0,2,10,12,13]",
                "[0,2,12,13]",
            ),
            (
                r#""narrowband","gap":"10%""#,
                "[100,105,200,210,103]",
                "[100,105,103]",
            ),
        ];
        for (node, values, expected) in table {
            assert_eq!(
                passed(&format!(r#"{{"func":{node}}}"#), values),
                expected,
                "{node}"
            );
        }
    }
}
