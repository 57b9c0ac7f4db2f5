//! Tests the guarantees of the sandbox to functions, without an engine.
#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests")]

mod contexts;
mod isolation;
mod keys;
mod lifecycle;
mod modules;
mod modules_refused;
mod outputs;
mod program;
mod script_message;
mod shared_realm;
mod values;
mod visible;

use super::{Code, Effect, NodeContext, Sandbox, Scripts};
use crate::node_info::{Container, NodeInfo};
use crate::settings::Settings;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use value::{Message, Value};

fn scripts() -> Rc<Scripts> {
    scripts_in(Path::new(""))
}

/// With the modules of a data directory.
fn scripts_in(data: &Path) -> Rc<Scripts> {
    Scripts::new(&Settings {
        script_memory: 32 << 20,
        script_timeout: Duration::from_millis(200),
        modules: data.to_owned(),
        ..Settings::default()
    })
    .unwrap()
}

fn sandbox_of(scripts: &Rc<Scripts>, code: Code) -> Sandbox {
    Sandbox::new(Rc::clone(scripts), code, node_context())
}

fn node_context() -> NodeContext {
    let container = Container {
        z: "t1".into(),
        path: "t1".into(),
        ..Container::default()
    };
    let info = NodeInfo {
        name: Some("a name".into()),
        ..NodeInfo::of("n1", "function", container)
    };
    NodeContext {
        info: Rc::new(info),
        contexts: Rc::default(),
        now: 0.0,
    }
}

fn function(source: &str) -> Sandbox {
    function_in(&scripts(), source)
}

fn function_in(scripts: &Rc<Scripts>, source: &str) -> Sandbox {
    sandbox_of(
        scripts,
        Code {
            function: source.into(),
            outputs: 2,
            ..Code::default()
        },
    )
}

fn message(payload: impl Into<Value>) -> Message {
    let mut message = Message::with_payload(payload);
    message.set("_msgid", "0123456789abcdef");
    message
}

fn run(source: &str, payload: impl Into<Value>) -> Vec<Effect> {
    function(source).call(message(payload))
}

/// The payload that a function makes, or what went wrong.
fn payload(source: &str, given: impl Into<Value>) -> String {
    match run(source, given).first() {
        Some(Effect::Pass(message) | Effect::SendFirst(message)) => {
            format!("{:?}", message.get("payload"))
        }
        Some(Effect::Send(messages)) => format!("{:?}", messages[0].1.get("payload")),
        other => format!("{other:?}"),
    }
}

fn error(source: &str) -> String {
    match run(source, 1.0)
        .into_iter()
        .find(|e| matches!(e, Effect::Error(..)))
    {
        Some(Effect::Error(failure, _)) => failure.to_string(),
        other => format!("{other:?}"),
    }
}
