//! Answers the node host's questions about contexts. The host waits for each answer, so that a value that a function node
//! has set is what a foreign node reads next, and the reverse.

use super::NodeHost;
use super::frame;
use super::received::Received;
use super::values::{Encoded, decode};
use crate::context::Scope;
use crate::node_info::{Container, NodeInfo};
use bytes::Bytes;
use value::{Failure, Path, Value};

/// The bytes of the answer: `{value, escaped}`, or `{error}`.
pub(super) fn answer(host: &NodeHost, question: &Received<'_>, attachments: &Bytes) -> Bytes {
    let answered = value_of(host, question, attachments).and_then(|value| {
        let mut encoded = Encoded::new(&host.handles);
        encoded.push("{\"value\":");
        encoded.value(&value)?;
        let escaped = encoded.escaped;
        encoded.push(if escaped { ",\"escaped\":true}" } else { "}" });
        frame::encode(&encoded.json, &encoded.attachments)
    });
    answered.unwrap_or_else(|failure| {
        let mut encoded = Encoded::new(&host.handles);
        encoded.push("{\"error\":");
        encoded.text(&failure.message);
        encoded.push("}");
        frame::encode(&encoded.json, &[]).unwrap_or_default()
    })
}

fn value_of(
    host: &NodeHost,
    question: &Received<'_>,
    attachments: &Bytes,
) -> Result<Value, Failure> {
    let (scope, info) = asked(host, &question.scope);
    let mut contexts = host.contexts.borrow_mut();
    if question.act == "keys" {
        let keys = contexts.keys(scope, &info, question.store.as_deref());
        return Ok(Value::array(keys.into_iter().map(Value::String).collect()));
    }
    let key = Path::parse(&question.key)?.in_store(question.store.as_deref());
    if question.act == "get" {
        return Ok(contexts.read(scope, &info, &key));
    }
    let text = question.value.map_or("null", |value| value.get());
    let value = decode(text, question.escaped, attachments, &host.handles)?;
    contexts.write(scope, &info, &key, value)?;
    Ok(Value::Undefined)
}

/// The scope and node that Node-RED's name of a context means: `global`, `FLOW`, `NODE:FLOW`, or `NODE` for a config node
/// of no flow.
fn asked(host: &NodeHost, name: &str) -> (Scope, NodeInfo) {
    let (scope, node, flow) = if name == "global" {
        (Scope::Global, "", "")
    } else if let Some((node, flow)) = name.rsplit_once(':') {
        (Scope::Node, node, flow)
    } else if host.is_global(name) {
        (Scope::Node, name, "")
    } else {
        (Scope::Flow, "", name)
    };
    let container = Container {
        z: flow.into(),
        ..Container::default()
    };
    (scope, NodeInfo::of(node, "", container))
}
