//! `link call`: hands a message to a link in node and waits for a link out in mode `return`.
//!
//! The way back is noted on the message itself (`_linkSource`), so calls can be nested.

use crate::expression::typed;
use crate::node::{BoxedNode, Build, Host, Node, TimerId, Wake, boxed};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use value::{Failure, Message, Value, coerce};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    links: Json,
    link_type: SmolStr,
    timeout: Json,
}

impl Default for Properties {
    fn default() -> Self {
        Self {
            links: Json::Null,
            link_type: SmolStr::default(),
            timeout: Json::from("30"),
        }
    }
}

/// The time-out for the returned message in seconds, unless the node sets another
/// (docs/reference/node-red-engine.md §3.3).
const DEFAULT_TIMEOUT: f64 = 30.0;

struct LinkCall {
    /// The link in node; `None`: each message names its own.
    target: Option<SmolStr>,
    timeout: Duration,
    waiting: HashMap<SmolStr, Call>,
    timers: HashMap<TimerId, SmolStr>,
}

struct Call {
    message: Message,
    timer: TimerId,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let dynamic = properties.link_type == "dynamic";
    let target = if dynamic {
        None
    } else {
        let first = match &properties.links {
            Json::Array(links) => links.first().unwrap_or(&Json::Null),
            other => other,
        };
        Some(typed::text_of(first))
    };
    let seconds = coerce::text_to_number(&typed::text_of(&properties.timeout));
    let seconds = if seconds > 0.0 {
        seconds
    } else {
        DEFAULT_TIMEOUT
    };
    let timeout = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    Ok(boxed(LinkCall {
        target,
        timeout,
        waiting: HashMap::new(),
        timers: HashMap::new(),
    }))
}

impl LinkCall {
    fn find(&self, message: &Message, host: &Host<'_>) -> Result<SmolStr, Failure> {
        let target = match (&self.target, message.get("target")) {
            (Some(target), _) => target.clone(),
            (None, target) if !coerce::truthy(target) => SmolStr::default(),
            (None, target) => coerce::to_text(target),
        };
        if host.is_link_in(&target) {
            return Ok(target);
        }
        if self.target.is_some() || target.is_empty() {
            return Err(Failure::error(format!(
                "target link-in node '{target}' not found"
            )));
        }
        host.link_named(&target)
    }
}

impl Node for LinkCall {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let target = match self.find(&message, host) {
            Ok(target) => target,
            Err(failure) => return host.error(failure, Some(message)),
        };
        let event = host.fresh_id();
        let mut called = message;
        if called.get("_linkSource").as_array().is_none() {
            called.set("_linkSource", Value::array(Vec::new()));
        }
        // The error of a time-out carries this copy, whose `_linkSource` lacks this call.
        let kept = called.clone();
        push(&mut called, &event, &host.info().id);
        host.deliver(&target, called);
        let timer = host.after(self.timeout);
        self.timers.insert(timer, event.clone());
        self.waiting.insert(
            event,
            Call {
                message: kept,
                timer,
            },
        );
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        match wake {
            Wake::Return(mut message) => {
                // A late answer is sent on all the same (docs/reference/node-red-engine.md §3.3).
                let call = pop(&mut message).and_then(|event| self.waiting.remove(&event));
                match call {
                    Some(call) => {
                        self.timers.remove(&call.timer);
                        host.cancel(call.timer);
                        host.pass(message);
                    }
                    None => host.send(0, message),
                }
            }
            Wake::Timer(timer) => {
                let event = self.timers.remove(&timer);
                if let Some(mut call) = event.and_then(|event| self.waiting.remove(&event)) {
                    // The way back is taken off, the list stays, as observed on Node-RED 4.1.
                    call.message.properties_mut().modify("_linkSource", |list| {
                        if let Value::Array(sources) = list {
                            Arc::make_mut(sources).pop();
                        }
                    });
                    host.error(Failure::text("timeout"), Some(call.message));
                }
            }
            _ => {}
        }
    }
}

/// Notes the way back on the message.
fn push(message: &mut Message, event: &SmolStr, node: &SmolStr) {
    let entry = Value::record([("id", event.clone().into()), ("node", node.clone().into())]);
    if message.get("_linkSource").as_array().is_none() {
        message.set(SmolStr::new_static("_linkSource"), Value::array(Vec::new()));
    }
    message.properties_mut().modify("_linkSource", |list| {
        if let Value::Array(sources) = list {
            Arc::make_mut(sources).push(entry);
        }
    });
}

/// Takes the last entry off the message, and the list with it when it was the only one.
fn pop(message: &mut Message) -> Option<SmolStr> {
    message.get("_linkSource").as_array()?;
    let list = message.properties_mut();
    let entry = list.modify("_linkSource", |list| match list {
        Value::Array(sources) => Arc::make_mut(sources).pop(),
        _ => None,
    })?;
    if message
        .get("_linkSource")
        .as_array()
        .is_some_and(<[Value]>::is_empty)
    {
        message.take("_linkSource");
    }
    match entry.as_ref().and_then(Value::as_object)?.get("id")? {
        Value::String(event) => Some(event.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_return_path_is_a_stack_that_is_removed_when_empty() {
        let mut message = Message::default();
        push(&mut message, &"e1".into(), &"outer".into());
        push(&mut message, &"e2".into(), &"inner".into());
        assert_eq!(pop(&mut message).as_deref(), Some("e2"));
        assert_eq!(pop(&mut message).as_deref(), Some("e1"));
        assert!(message.get("_linkSource").is_undefined());
        assert_eq!(pop(&mut message), None);
    }
}
