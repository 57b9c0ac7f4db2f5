//! `inject`: makes messages by timer, by cron expression, at start, or when asked
//! (docs/reference/node-red-engine.md §4.3).

use crate::expression::typed::{Typed, text_of};
use crate::node::{BoxedNode, Build, Host, Node, Wake, boxed};
use crate::node_context::NodeContext;
use chrono::{DateTime, Local};
use croner::Cron;
use croner::parser::{CronParser, Seconds};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::time::Duration;
use value::{Failure, Message, Path, Value, coerce, json};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    props: Option<Vec<Prop>>,
    repeat: Json,
    crontab: Json,
    once: Json,
    once_delay: Json,
    topic: Json,
    payload: Json,
    payload_type: Option<SmolStr>,
}

/// One property of the message to be made.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Prop {
    p: SmolStr,
    v: Option<Json>,
    vt: Option<SmolStr>,
}

/// The maximum interval, in seconds: the limit of Node.js' timers
/// (docs/reference/node-red-engine.md §4.3).
const MAX_REPEAT: f64 = 2_147_483.0;

/// Seconds between start and the message of `once`, unless set.
const ONCE_DELAY: f64 = 0.1;

struct Inject {
    assignments: Vec<Assignment>,
    once: Option<Duration>,
    repeat: Repeat,
    /// The moment that the cron timer waits for, milliseconds since 1970. The wall clock may be a
    /// little behind it when the timer is due; it must not be waited for again.
    due: f64,
}

/// A property to set. A path or value that cannot be parsed fails on each message.
struct Assignment {
    /// An expression of no text: nothing is set.
    skipped: bool,
    path: Result<Path, Failure>,
    value: Result<Typed, Failure>,
}

enum Repeat {
    Never,
    Every(Duration),
    Cron(Box<Cron>),
    /// The interval is refused when the node starts; the node itself still works by hand.
    TooLong,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let repeat = repeat(&properties)?;
    let once =
        matches!(properties.once, Json::Bool(true)).then(|| once_delay(&properties.once_delay));
    let assignments = assignments(&with_legacy(properties));
    Ok(boxed(Inject {
        assignments,
        once,
        repeat,
        due: 0.0,
    }))
}

impl Inject {
    /// Sets the timer of the next repeated message.
    fn schedule(&mut self, host: &mut Host<'_>) {
        match &self.repeat {
            Repeat::Every(interval) => {
                host.after(*interval);
            }
            Repeat::Cron(cron) => {
                let now = host.now();
                if let Some(moment) = next(cron, now.max(self.due)) {
                    self.due = moment;
                    host.after(Duration::from_secs_f64((moment - now).max(0.0) / 1000.0));
                }
            }
            Repeat::TooLong => host.error(Failure::text("Interval too large"), None),
            Repeat::Never => {}
        }
    }
}

impl Node for Inject {
    fn start(&mut self, host: &mut Host<'_>) {
        for assignment in &self.assignments {
            if let Err(failure) = &assignment.value
                && failure.name.is_empty()
            {
                host.error(invalid_expression(failure), None);
            }
        }
        match self.once {
            Some(delay) => {
                host.after(delay);
            }
            None => self.schedule(host),
        }
    }

    fn receive(&mut self, mut message: Message, host: &mut Host<'_>) {
        let eval = host.context();
        let made = match message.take("__user_inject_props__") {
            Value::Array(props) => fill(&user_props(&props), &mut message, &eval),
            _ => fill(&self.assignments, &mut message, &eval),
        };
        match made {
            Ok(()) => host.pass(message),
            Err(failure) => host.error(failure, Some(message)),
        }
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        if matches!(wake, Wake::Timer(_)) {
            self.schedule(host);
            let source = host.source();
            if source.is_full() {
                source.drop_message();
            } else {
                self.receive(Message::default(), host);
            }
        }
    }
}

fn once_delay(delay: &Json) -> Duration {
    let seconds = coerce::text_to_number(&text_of(delay));
    let seconds = if delay.is_null() || seconds.is_nan() {
        ONCE_DELAY
    } else {
        seconds.max(0.0)
    };
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

fn repeat(properties: &Properties) -> Result<Repeat, Failure> {
    let seconds = coerce::text_to_number(&text_of(&properties.repeat));
    if seconds > MAX_REPEAT {
        return Ok(Repeat::TooLong);
    }
    // Node.js raises shorter intervals to one millisecond.
    if seconds > 0.0 {
        return Ok(Repeat::Every(Duration::from_secs_f64(seconds.max(0.001))));
    }
    let expression = text_of(&properties.crontab);
    if expression.is_empty() {
        return Ok(Repeat::Never);
    }
    let parser = CronParser::builder().seconds(Seconds::Optional).build();
    let cron = parser
        .parse(&expression)
        .map_err(|e| Failure::error(format!("Invalid cron expression: {e}")))?;
    Ok(Repeat::Cron(Box::new(cron)))
}

/// The expression's next moment in local time, milliseconds since 1970.
fn next(cron: &Cron, after: f64) -> Option<f64> {
    #[expect(clippy::cast_possible_truncation, reason = "the clock's milliseconds")]
    let after = DateTime::from_timestamp_millis(after as i64)?.with_timezone(&Local);
    let next = cron.find_next_occurrence(&after, false).ok()?;
    Some(next.timestamp_millis() as f64)
}

/// The properties of flows made before `props` existed, or that leave values out of it.
fn with_legacy(properties: Properties) -> Vec<Prop> {
    let Properties {
        props,
        payload,
        payload_type,
        topic,
        ..
    } = properties;
    let text = Some(SmolStr::new_static("str"));
    let Some(mut props) = props else {
        let payload = Prop {
            p: "payload".into(),
            v: Some(payload),
            vt: payload_type,
        };
        return vec![
            payload,
            Prop {
                p: "topic".into(),
                v: Some(topic),
                vt: text,
            },
        ];
    };
    for prop in props.iter_mut().filter(|prop| prop.v.is_none()) {
        if prop.p == "payload" {
            prop.v = Some(payload.clone());
            prop.vt.clone_from(&payload_type);
        } else if prop.p == "topic" && prop.vt == text {
            prop.v = Some(topic.clone());
        }
    }
    props
}

fn assignments(props: &[Prop]) -> Vec<Assignment> {
    let named = props.iter().filter(|prop| !prop.p.is_empty());
    named.map(assignment).collect()
}

fn assignment(prop: &Prop) -> Assignment {
    let kind = prop.vt.as_deref().unwrap_or("str");
    let text = Json::from("");
    let value = prop.v.as_ref().unwrap_or(&text);
    Assignment {
        skipped: kind == "jsonata" && text_of(value).is_empty(),
        path: Path::parse_message(&prop.p),
        value: Typed::parse(kind, value).map_err(|failure| match kind {
            // The parse error of an expression is reported by its message alone, without its name.
            "jsonata" => Failure::text(failure.message),
            _ => failure,
        }),
    }
}

fn invalid_expression(failure: &Failure) -> Failure {
    Failure::text(format!("Invalid JSONata expression: {}", failure.message))
}

/// The properties that a caller of `POST /inject/:id` gives instead of the node's own.
fn user_props(props: &[Value]) -> Vec<Assignment> {
    let props = props
        .iter()
        .map(|prop| serde_json::from_value(json::to_tree(prop)).unwrap_or_default());
    assignments(&props.collect::<Vec<Prop>>())
}

/// Evaluates the properties in order, each with the results of those before it. All failures are
/// reported together, and then nothing is sent.
fn fill(
    assignments: &[Assignment],
    message: &mut Message,
    eval: &NodeContext,
) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for assignment in assignments.iter().filter(|a| !a.skipped) {
        let value = match &assignment.value {
            Ok(typed) => typed
                .evaluate(eval, message)
                .map_err(|failure| match typed {
                    Typed::Jsonata(_) => invalid_expression(&failure),
                    _ => failure,
                }),
            Err(failure) => Err(failure.clone()),
        };
        match (value, &assignment.path) {
            (Ok(value), Ok(path)) => {
                if let Err(failure) = path.write_message(message, value) {
                    failures.push(failure.to_string());
                }
            }
            (Err(failure), _) => failures.push(failure.to_string()),
            (_, Err(failure)) => failures.push(failure.to_string()),
        }
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(Failure::text(failures.join("; ")))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn injected(properties: &str) -> Result<String, Failure> {
        let properties: Properties = serde_json::from_str(properties).unwrap();
        let mut message = Message::default();
        fill(
            &assignments(&with_legacy(properties)),
            &mut message,
            &NodeContext::for_tests(),
        )?;
        Ok(format!("{:?}", message.to_value()))
    }

    #[test]
    fn injected_payloads_match_the_golden_results() {
        let payload = |kind: &str, value: &str| {
            let props = serde_json::json!({"props": [{"p": "payload", "v": value, "vt": kind}]});
            injected(&props.to_string()).unwrap()
        };
        assert_eq!(payload("num", "0x10"), r#"{"payload": 16}"#);
        assert_eq!(payload("bool", "TRUE"), r#"{"payload": true}"#);
        assert_eq!(payload("bin", "[65,66]"), r#"{"payload": Buffer(b"AB")}"#);
        assert_eq!(payload("date", "YYYY"), r#"{"payload": "2026"}"#);
        assert_eq!(payload("jsonata", "$sum([1,2])"), r#"{"payload": 3}"#);
        assert_eq!(payload("msg", "missing"), "{}");
    }

    #[test]
    fn payload_and_topic_may_be_properties_of_the_node() {
        let old = r#"{"payload":"hi","payloadType":"str","topic":"t"}"#;
        assert_eq!(injected(old).unwrap(), r#"{"payload": "hi", "topic": "t"}"#);
        let mixed = r#"{"props":[{"p":"payload"},{"p":"topic","vt":"str"}],"payload":"1","payloadType":"num","topic":"t"}"#;
        assert_eq!(injected(mixed).unwrap(), r#"{"payload": 1, "topic": "t"}"#);
    }

    #[test]
    fn later_properties_see_earlier_ones_and_failures_are_reported_together() {
        let props = r#"{"props":[{"p":"a.b","v":"2","vt":"num"},{"p":"payload","v":"a.b*2","vt":"jsonata"}]}"#;
        assert_eq!(injected(props).unwrap(), r#"{"a": {"b": 2}, "payload": 4}"#);
        let wrong = r#"{"props":[{"p":"x","v":"a.b","vt":"msg"},{"p":"y","v":"c.d","vt":"msg"}]}"#;
        let message = injected(wrong).unwrap_err().message;
        assert!(
            message.starts_with("TypeError: ") && message.contains("; TypeError: "),
            "{message}"
        );
    }

    #[test]
    #[allow(clippy::float_cmp, reason = "whole milliseconds")]
    fn intervals_have_a_maximum_and_cron_has_five_or_six_fields() {
        let repeat_of = |properties: &str| repeat(&serde_json::from_str(properties).unwrap());
        assert!(matches!(
            repeat_of(r#"{"repeat":"2147484"}"#),
            Ok(Repeat::TooLong)
        ));
        assert!(
            matches!(repeat_of(r#"{"repeat":"0.5"}"#), Ok(Repeat::Every(d)) if d.as_millis() == 500)
        );
        assert!(matches!(
            repeat_of(r#"{"repeat":"","crontab":""}"#),
            Ok(Repeat::Never)
        ));
        assert!(repeat_of(r#"{"crontab":"x"}"#).is_err());
        for (expression, seconds) in [("*/5 * * * *", 295), ("10 * * * * *", 5)] {
            let Ok(Repeat::Cron(cron)) = repeat(&Properties {
                crontab: expression.into(),
                ..Properties::default()
            }) else {
                panic!("{expression}")
            };
            let now = 1_795_203_905_000.0;
            let moment = next(&cron, now).unwrap();
            assert_eq!(moment - now, f64::from(seconds) * 1000.0, "{expression}");
            assert!(next(&cron, moment).unwrap() > moment, "{expression}");
        }
    }

    #[test]
    fn the_delay_of_once_has_a_default() {
        assert_eq!(once_delay(&Json::Null), Duration::from_millis(100));
        assert_eq!(once_delay(&Json::from("2")), Duration::from_secs(2));
        assert_eq!(once_delay(&Json::from(0)), Duration::ZERO);
    }
}
