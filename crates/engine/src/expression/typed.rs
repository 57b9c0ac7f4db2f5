//! Typed inputs: a text with a type beside it, as nodes' properties have them
//! (docs/reference/node-red-engine.md §4.1).
//!
//! An input is parsed once when the node is built; a value that is the same for every message is a
//! constant from then on.

use super::eval_context::EvalContext;
use super::jsonata::Jsonata;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::borrow::Cow;
use std::sync::Arc;
use value::{Failure, Message, Path, Value, coerce, date, json, regex};

/// A parsed typed input.
#[derive(Debug)]
pub(crate) enum Typed {
    /// `str num bool json bin re`: the same for every message.
    Constant(Value),
    /// `date`: the time of evaluation.
    Date(DateForm),
    /// `msg`: a property of the message.
    Message(Path),
    /// `flow`: a value of the flow context.
    Flow(Path),
    /// `global`: a value of the global context.
    Global(Path),
    /// `env`: an environment variable, or a text with some in it.
    Env(Vec<EnvPiece>),
    /// `jsonata`.
    Jsonata(Box<Jsonata>),
    /// `prev`: the value that the node compared last; for switch nodes only.
    Previous,
}

/// The form of the time in a `date` input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DateForm {
    /// Milliseconds since 1970.
    Milliseconds,
    /// A `Date` object.
    Object,
    /// ISO 8601 in UTC.
    Iso,
    /// A moment.js format.
    Format(SmolStr),
}

/// A piece of an `env` input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum EnvPiece {
    /// Text as it stands.
    Text(SmolStr),
    /// The value of a variable.
    Variable(SmolStr),
}

impl Typed {
    /// Parses a typed input. An unknown type gives its text.
    pub(crate) fn parse(kind: &str, value: &Json) -> Result<Self, Failure> {
        let text = text_of(value);
        Ok(match kind {
            "num" => Self::Constant(Value::Number(coerce::text_to_number(&text))),
            "bool" => Self::Constant(Value::Bool(text.eq_ignore_ascii_case("true"))),
            "json" if matches!(value, Json::Object(_) | Json::Array(_)) => {
                Self::Constant(json::from_tree(value))
            }
            "json" => Self::Constant(json::parse(&text)?),
            "bin" => Self::Constant(buffer(&text)?),
            "re" => {
                regex::check(&text, "")?;
                Self::Constant(Value::RegExp(Arc::new((text, SmolStr::default()))))
            }
            "date" => Self::Date(match text.as_str() {
                "" => DateForm::Milliseconds,
                "object" => DateForm::Object,
                "iso" => DateForm::Iso,
                _ => DateForm::Format(text),
            }),
            "msg" => Self::Message(Path::parse_message(&text)?),
            "flow" => Self::Flow(Path::parse(&text)?),
            "global" => Self::Global(Path::parse(&text)?),
            "env" => Self::Env(env_pieces(&text)),
            "jsonata" => Self::Jsonata(Box::new(Jsonata::compile(&text)?)),
            "prev" => Self::Previous,
            _ => Self::Constant(Value::String(text)),
        })
    }

    /// Returns whether the value may depend on this property of the message.
    pub(crate) fn touches(&self, property: &str) -> bool {
        match self {
            Self::Constant(_) | Self::Date(_) | Self::Env(_) | Self::Previous => false,
            Self::Message(path) => path.touches(property),
            Self::Flow(key) | Self::Global(key) => key.is_nested(),
            Self::Jsonata(_) => true,
        }
    }

    /// The value for this message.
    pub(crate) fn evaluate(
        &self,
        eval: &impl EvalContext,
        message: &Message,
    ) -> Result<Value, Failure> {
        Ok(match self {
            Self::Constant(value) => value.clone(),
            Self::Date(form) => form.value(eval.now()),
            Self::Message(path) => path.try_read_message(message)?,
            Self::Flow(key) => eval.flow(&*resolved(key, message)?),
            Self::Global(key) => eval.global(&*resolved(key, message)?),
            Self::Env(pieces) => env_value(pieces, eval),
            Self::Jsonata(expression) => expression.evaluate(eval, message)?,
            Self::Previous => Value::Undefined,
        })
    }
}

impl DateForm {
    fn value(&self, now: f64) -> Value {
        match self {
            Self::Milliseconds => Value::Number(now),
            Self::Object => Value::Date(now),
            Self::Iso => date::iso(now).map_or(Value::Undefined, Value::from),
            Self::Format(format) => Value::from(date::format(now, format)),
        }
    }
}

/// A context key with its nested `[msg.x]` taken from the message.
pub(crate) fn resolved<'k>(key: &'k Path, message: &Message) -> Result<Cow<'k, Path>, Failure> {
    if key.is_nested() {
        return key.resolve(message).map(Cow::Owned);
    }
    Ok(Cow::Borrowed(key))
}

/// A property's text: numbers and booleans of hand-written flows read as the editor would show
/// them.
pub(crate) fn text_of(value: &Json) -> SmolStr {
    match value {
        Json::String(text) => text.into(),
        Json::Null => SmolStr::default(),
        other => coerce::to_output_text(&json::from_tree(other)).into(),
    }
}

/// A buffer from a JSON array of bytes or a JSON string.
fn buffer(text: &str) -> Result<Value, Failure> {
    match json::parse(text)? {
        Value::String(text) => Ok(Value::buffer(text.as_bytes().to_vec())),
        Value::Array(bytes) => Ok(Value::buffer(
            bytes.iter().map(coerce::to_uint8).collect::<Vec<u8>>(),
        )),
        _ => Err(Failure {
            code: SmolStr::new_static("INVALID_BUFFER_DATA"),
            ..Failure::error("Not string or array")
        }),
    }
}

/// `X`, `${X}` or text with `${X}` in it.
fn env_pieces(text: &str) -> Vec<EnvPiece> {
    if !text.contains("${") {
        return vec![EnvPiece::Variable(text.into())];
    }
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        if !before.is_empty() {
            pieces.push(EnvPiece::Text(before.into()));
        }
        pieces.push(EnvPiece::Variable(name.into()));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(EnvPiece::Text(rest.into()));
    }
    pieces
}

fn env_value(pieces: &[EnvPiece], eval: &impl EvalContext) -> Value {
    let lookup = |name: &str| match eval.env(name) {
        Value::Undefined => Value::from(""),
        value => value,
    };
    if let [EnvPiece::Variable(name)] = pieces {
        return lookup(name);
    }
    let mut out = String::new();
    for piece in pieces {
        match piece {
            EnvPiece::Text(text) => out.push_str(text),
            EnvPiece::Variable(name) => out.push_str(&coerce::to_text(&lookup(name))),
        }
    }
    Value::from(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::node_context::NodeContext;

    fn value(kind: &str, text: &str) -> Result<Value, Failure> {
        Typed::parse(kind, &Json::from(text))?
            .evaluate(&NodeContext::for_tests(), &Message::with_payload("x"))
    }

    fn shown(kind: &str, text: &str) -> String {
        format!("{:?}", value(kind, text).unwrap())
    }

    #[test]
    fn constants_match_the_golden_results() {
        assert_eq!(shown("num", "0x10"), "16");
        assert_eq!(shown("num", "abc"), "NaN");
        assert_eq!(shown("num", ""), "0");
        assert_eq!(shown("bool", "TRUE"), "true");
        assert_eq!(shown("bool", "yes"), "false");
        assert_eq!(shown("json", r#"{"a":[1]}"#), r#"{"a": [1]}"#);
        assert_eq!(shown("bin", "[65,322]"), r#"Buffer(b"AB")"#);
        assert_eq!(shown("bin", "\"abc\""), r#"Buffer(b"abc")"#);
        assert_eq!(shown("re", "a+"), "/a+/");
        assert_eq!(shown("pay", "x"), "\"x\"");
    }

    #[test]
    fn dates_come_in_four_forms() {
        assert_eq!(shown("date", ""), "1795203905042");
        assert_eq!(shown("date", "object"), "Date(1795203905042)");
        assert_eq!(shown("date", "iso"), "\"2026-11-20T19:45:05.042Z\"");
        assert_eq!(shown("date", "YYYY"), "\"2026\"");
    }

    #[test]
    fn the_message_is_read_and_a_missing_parent_fails() {
        assert_eq!(shown("msg", "payload"), "\"x\"");
        assert_eq!(shown("msg", "msg.payload.length"), "1");
        assert_eq!(shown("msg", "nope"), "undefined");
        let failure = value("msg", "a.b").unwrap_err();
        assert_eq!(
            failure.message,
            "Cannot read properties of undefined (reading 'b')"
        );
    }

    #[test]
    fn wrong_inputs_are_refused_when_parsed() {
        assert_eq!(value("bin", "{}").unwrap_err().code, "INVALID_BUFFER_DATA");
        assert_eq!(value("json", "{").unwrap_err().name, "SyntaxError");
        assert_eq!(value("re", "(").unwrap_err().name, "SyntaxError");
        assert_eq!(
            value("msg", "a..b").unwrap_err().message,
            "Invalid property expression: unexpected . at position 2"
        );
    }

    #[test]
    fn env_inputs_are_variable_names_or_templates() {
        let variable = |name: &str| EnvPiece::Variable(name.into());
        assert_eq!(env_pieces("X"), [variable("X")]);
        assert_eq!(env_pieces("${X}"), [variable("X")]);
        assert_eq!(
            env_pieces("a-${X}-b"),
            [
                EnvPiece::Text("a-".into()),
                variable("X"),
                EnvPiece::Text("-b".into())
            ]
        );
        assert_eq!(env_pieces("a${X"), [EnvPiece::Text("a${X".into())]);
    }
}
