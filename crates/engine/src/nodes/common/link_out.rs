//! `link out`: in mode `link` its links are wires; in mode `return` it answers the last link call.

use crate::node::{BoxedNode, Build, Host, Level, Node, Wake, boxed};
use serde::Deserialize;
use smol_str::SmolStr;
use value::{Failure, Message, Value};

#[derive(Deserialize)]
struct Properties {
    #[serde(default)]
    mode: Option<SmolStr>,
}

struct LinkOut {
    mode: Mode,
    /// The `_event` of messages from then on.
    event: SmolStr,
}

enum Mode {
    Link,
    Return,
    /// Any other word: messages end here.
    Unknown,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    Ok(boxed(LinkOut {
        mode: match properties.mode.as_deref() {
            None | Some("" | "link") => Mode::Link,
            Some("return") => Mode::Return,
            Some(_) => Mode::Unknown,
        },
        event: format!("node:{}", build.info.id).into(),
    }))
}

impl Node for LinkOut {
    fn receive(&mut self, mut message: Message, host: &mut Host<'_>) {
        message.set(SmolStr::new_static("_event"), self.event.clone());
        match self.mode {
            Mode::Link => return host.pass(message),
            Mode::Return => {}
            Mode::Unknown => return,
        }
        // The link call removes its own entry from the list: by that entry it finds the message
        // that it waits for.
        let finished = host.watched().then(|| message.clone());
        let returned = match caller(&message) {
            Some(call) => host.wake(&call, Wake::Return(message)),
            None => false,
        };
        if !returned {
            host.log(Level::Warn, Value::from("Missing return node information"));
        }
        if let Some(message) = finished {
            host.done(message);
        }
    }
}

/// The link call node that the message last came through.
fn caller(message: &Message) -> Option<SmolStr> {
    let last = message.get("_linkSource").as_array()?.last()?.as_object()?;
    match last.get("node")? {
        Value::String(id) => Some(id.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_link_call_is_answered_first() {
        let entry = |node: &str| Value::record([("id", "e".into()), ("node", node.into())]);
        let mut message = Message::default();
        assert_eq!(caller(&message), None);
        message.set(
            "_linkSource",
            Value::array(vec![entry("outer"), entry("inner")]),
        );
        assert_eq!(caller(&message).as_deref(), Some("inner"));
    }
}
