//! `trigger`: sends one message at once and another when a time has passed, or the same again and
//! again.

use super::trigger_output::{Output, Type};
use crate::expression::eval_context::EvalContext;
use crate::expression::typed::text_of;
use crate::instance::timer_delay;
use crate::node::{BoxedNode, Build, Closing, Host, Node, TimerId, Wake, boxed};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::{SmolStr, ToSmolStr};
use std::collections::HashMap;
use value::{Failure, Message, Object, Path, Value, coerce, json};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    op1: Json,
    op2: Json,
    op1type: SmolStr,
    op2type: SmolStr,
    duration: Json,
    units: SmolStr,
    extend: Json,
    #[serde(rename = "overrideDelay")]
    override_delay: Json,
    reset: Json,
    bytopic: SmolStr,
    topic: SmolStr,
    outputs: Json,
}

/// The default duration in milliseconds, used if the node's is not a number (observed).
const DEFAULT_MS: f64 = 250.0;

/// The name of messages without a topic, or of all when topics do not matter.
const NO_TOPIC: SmolStr = SmolStr::new_static("_none");

struct Trigger {
    first: Output,
    second: Output,
    /// The output of the second message.
    second_output: usize,
    /// Its duration in milliseconds; 0: until it is reset.
    lasts: f64,
    /// The first message is sent again at this interval until it is reset.
    again: bool,
    /// A message meanwhile starts the time again.
    extend: bool,
    /// `msg.delay` sets the duration.
    by_message: bool,
    /// A payload that resets; empty: none.
    reset: SmolStr,
    topic: Option<Path>,
    triggered: HashMap<SmolStr, Triggered>,
    timers: HashMap<TimerId, SmolStr>,
}

/// The state of one triggered topic.
struct Triggered {
    timer: Option<TimerId>,
    /// The message to send when the time has expired: the second one, or the first again.
    message: Message,
    /// True if another message has started the time again.
    extended: bool,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let yes = |value: &Json| text_of(value) == "true";
    let topic = match properties.topic.as_str() {
        "" => "topic",
        topic => topic,
    };
    let topic = match properties.bytopic.as_str() {
        "topic" => Some(Path::parse_message(topic)?),
        _ => None,
    };
    let lasts = properties.lasts();
    let again = lasts < 0.0;
    Ok(boxed(Trigger {
        first: output(&properties.op1type, &properties.op1, "1"),
        second: output(&properties.op2type, &properties.op2, "0"),
        second_output: usize::from(text_of(&properties.outputs) == "2"),
        lasts: lasts.abs(),
        again,
        extend: yes(&properties.extend) && !again,
        by_message: coerce::truthy(&json::from_tree(&properties.override_delay)),
        reset: text_of(&properties.reset),
        topic,
        triggered: HashMap::new(),
        timers: HashMap::new(),
    }))
}

/// A message's output; the default replaces a value that is empty or zero.
fn output(kind: &str, value: &Json, default: &str) -> Output {
    if kind == "date" || coerce::truthy(&json::from_tree(value)) {
        Output::parse(kind, value)
    } else {
        Output::parse(kind, &Json::from(default))
    }
}

impl Properties {
    /// The duration in milliseconds; below zero: again and again.
    fn lasts(&self) -> f64 {
        let number = coerce::parse_float(&text_of(&self.duration));
        let unit = match self.units.as_str() {
            "s" => 1000.0,
            "min" => 60_000.0,
            "hr" => 3_600_000.0,
            _ => 1.0,
        };
        unit * if number.is_nan() { DEFAULT_MS } else { number }
    }
}

impl Trigger {
    fn topic(&self, message: &Message) -> SmolStr {
        match self.topic.as_ref().map(|path| path.read_message(message)) {
            Some(topic) if coerce::truthy(&topic) => coerce::to_text(&topic),
            _ => NO_TOPIC,
        }
    }

    fn resets(&self, message: &Message) -> bool {
        let payload = message.get("payload");
        let matches = !self.reset.is_empty() && !payload.is_nullish();
        message.properties().contains_key("reset")
            || (matches && coerce::to_text(payload) == self.reset)
    }

    /// The duration for this message in milliseconds; 0: until it is reset.
    fn duration(&self, message: &Message) -> f64 {
        match message.get("delay") {
            delay if self.by_message => {
                let own = coerce::parse_float(&coerce::to_text(delay));
                if own.is_nan() { self.lasts } else { own }
            }
            _ => self.lasts,
        }
    }

    /// Forgets what was triggered for a topic.
    fn stop(&mut self, topic: &SmolStr, host: &mut Host<'_>) {
        let stopped = self.triggered.remove(topic);
        if let Some(timer) = stopped.and_then(|t| t.timer) {
            self.timers.remove(&timer);
            host.cancel(timer);
        }
    }

    /// Keeps the message of a topic until its time has expired.
    fn keep(&mut self, topic: SmolStr, ms: f64, mut kept: Triggered, host: &mut Host<'_>) {
        kept.timer = (ms != 0.0).then(|| host.after(timer_delay(ms)));
        if let Some(timer) = kept.timer {
            self.timers.insert(timer, topic.clone());
        }
        self.triggered.insert(topic, kept);
    }

    /// The first message of a topic, or of the next round.
    fn trigger(&mut self, topic: SmolStr, message: Message, host: &mut Host<'_>) {
        let eval = host.context();
        let made = self
            .second
            .prepare(&eval, &message)
            .and_then(|second| Ok((self.first.make(&eval, &message)?, second)));
        let (first, second) = match made {
            Ok(made) => made,
            Err(failure) => return host.error(failure, Some(message)),
        };
        self.stop(&topic, host);
        let later = match &first {
            Some(first) if self.again => first.clone(),
            _ => second,
        };
        let kept = Triggered {
            timer: None,
            message: later,
            extended: false,
        };
        let ms = match first {
            None if self.again => 0.0,
            _ => self.duration(&message),
        };
        self.keep(topic, ms, kept, host);
        // It is done before the first is sent, with the payload already changed (observed on 4.1).
        if host.watched() {
            host.done(first.clone().unwrap_or(message));
        }
        self.show(host);
        if let Some(first) = first {
            host.send(0, first);
        }
    }

    /// Another message while the topic is triggered.
    fn meanwhile(&mut self, topic: &SmolStr, message: Message, host: &mut Host<'_>) {
        let latest = self.second.is(&Type::Latest);
        let ms = self.duration(&message);
        if self.extend && ms > 0.0 {
            let mut kept = message.clone();
            // The payload was fixed by the message that came first.
            if let (false, Some(before)) = (latest, self.triggered.get(topic)) {
                kept.set("payload", before.message.get("payload").clone());
            }
            self.stop(topic, host);
            let kept = Triggered {
                timer: None,
                message: kept,
                extended: true,
            };
            self.keep(topic.clone(), ms, kept, host);
        } else if latest && let Some(triggered) = self.triggered.get_mut(topic) {
            triggered.message = message.clone();
        }
        host.done(message);
    }

    /// The time has expired.
    fn fire(&mut self, topic: SmolStr, host: &mut Host<'_>) {
        let Some(mut triggered) = self.triggered.remove(&topic) else {
            return;
        };
        if self.again {
            if self.first.is_time() {
                // Whatever its form was at first (observed on 4.1).
                let now = Value::Number(host.context().now());
                triggered.message.set("payload", now);
            }
            let message = triggered.message.clone();
            let ms = self.duration(&message);
            self.keep(topic, ms, triggered, host);
            return host.send(0, message);
        }
        let (message, extended) = (triggered.message, triggered.extended);
        let made = self.second.finish(&host.context(), message, extended);
        if extended {
            self.show(host);
        }
        match made {
            Ok(Some(message)) => host.send(self.second_output, message),
            Ok(None) => {}
            Err((failure, message)) => host.error(failure, Some(message)),
        }
        if !extended {
            self.show(host);
        }
    }

    /// A blue dot while anything is triggered, with the number of topics if they are several.
    fn show(&self, host: &mut Host<'_>) {
        let blue = [("fill", "blue".into()), ("shape", "dot".into())];
        host.status(match self.triggered.len() {
            0 => Value::object(Object::default()),
            1 => Value::record(blue),
            n => {
                let [fill, shape] = blue;
                Value::record([fill, shape, ("text", n.to_smolstr().into())])
            }
        });
    }
}

impl Node for Trigger {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let topic = self.topic(&message);
        if self.resets(&message) {
            self.stop(&topic, host);
            self.show(host);
            return host.done(message);
        }
        if self.again || !self.triggered.contains_key(&topic) {
            self.trigger(topic, message, host);
        } else {
            self.meanwhile(&topic, message, host);
        }
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        let Wake::Timer(timer) = wake else { return };
        if let Some(topic) = self.timers.remove(&timer) {
            self.fire(topic, host);
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        host.status(Value::object(Object::default()));
        None
    }
}
