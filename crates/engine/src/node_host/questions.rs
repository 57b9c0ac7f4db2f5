//! Answers the node host's questions about contexts. The host waits for each answer, so that a
//! value that a function node has set is what a foreign node reads next, and the reverse.

use super::NodeHost;
use super::frame;
use super::received::{Act, Received};
use super::values::{Encoded, decode};
use super::violations::Violation;
use crate::metrics::RefusedFrame;
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
    let asked = host.given(|authority| authority.context(&question.scope));
    let (scope, info) = asked.ok_or_else(|| {
        refused(
            host,
            &question.scope,
            "the context is of another node or flow",
        )
    })?;
    if let Some(store) = question.store.as_deref()
        && !host.has_store(store)
    {
        return Err(refused(host, store, "no context store has this name"));
    }
    let mut contexts = host.contexts.borrow_mut();
    let store = question.store.as_deref();
    match question.act {
        Act::Keys => {
            let keys = contexts.keys(scope, &info, store);
            Ok(Value::array(keys.into_iter().map(Value::String).collect()))
        }
        Act::Get => {
            let key = Path::parse(&question.key)?.in_store(store);
            Ok(contexts.read(scope, &info, &key))
        }
        Act::Set => {
            let key = Path::parse(&question.key)?.in_store(store);
            let text = question.value.map_or("null", |value| value.get());
            let value = decode(text, question.escaped, attachments, &host.handles)?;
            contexts.write(scope, &info, &key, value)?;
            Ok(Value::Undefined)
        }
    }
}

/// Counts a question that is refused.
fn refused(host: &NodeHost, name: &str, reason: &'static str) -> Failure {
    host.refuse(&Violation {
        frame: RefusedFrame::Context,
        node: name,
        kind: None,
        reason,
    });
    Failure::error(reason)
}
