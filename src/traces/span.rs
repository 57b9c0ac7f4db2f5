//! What is recorded of one step of a trace, and its form in OTLP.

use super::SpanContext;
use crate::otlp::{attribute, number};
use crypto::hex;
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::time::Duration;

/// The role of a span in a call; the numbers are those of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A step within the gateway.
    Internal = 1,
    /// The answer to a request.
    Server = 2,
    /// A request of the gateway's own.
    Client = 3,
}

/// The status code of a span that has failed.
const ERROR: u8 = 2;

/// An attribute's value: bounded, so that a span is.
#[derive(Debug, Clone)]
pub enum Value {
    /// A name.
    Text(SmolStr),
    /// A number.
    Number(u64),
}

/// One step of a trace that has ended.
#[derive(Debug, Clone)]
pub struct Span {
    /// Itself.
    pub context: SpanContext,
    /// The step that it is part of; `None`: the trace begins with it.
    pub parent: Option<[u8; 8]>,
    /// The span that an untrusted client names as its parent.
    pub link: Option<SpanContext>,
    /// Its name: one of few, so that a collector can group by it.
    pub name: SmolStr,
    /// Its role.
    pub kind: Kind,
    /// When it began and ended, since 1970.
    pub times: [Duration; 2],
    /// True if it has failed.
    pub failed: bool,
    /// More about it.
    pub attributes: Vec<(&'static str, Value)>,
}

impl Span {
    /// As OTLP's JSON has it: ids in hexadecimal, numbers of 64 bits as text.
    pub(super) fn to_json(&self) -> Json {
        let [start, end] = self.times.map(|time| time.as_nanos().to_string());
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|(key, value)| match value {
            Value::Text(text) => attribute(key, text),
            Value::Number(count) => number(key, *count),
        });
        let mut span = json!({
            "traceId": hex(&self.context.trace),
            "spanId": hex(&self.context.span),
            "name": self.name.as_str(),
            "kind": self.kind as u8,
            "startTimeUnixNano": start,
            "endTimeUnixNano": end,
            "attributes": attributes.collect::<Vec<_>>(),
        });
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = hex(parent).into();
        }
        if let Some(link) = &self.link {
            let link = json!({ "traceId": hex(&link.trace), "spanId": hex(&link.span) });
            span["links"] = json!([link]);
        }
        if self.failed {
            span["status"] = json!({ "code": ERROR });
        }
        span
    }
}
