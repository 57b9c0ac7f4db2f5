//! Typed inputs: a text with a type beside it, as nodes' properties have them (docs/reference/node-red-engine.md §4.1).
//!
//! Parsed once when the node is built; what does not depend on the message is a constant from then on.

use super::jsonata::Jsonata;
use crate::context::{Contexts, Scope};
use crate::env::Env;
use crate::node::{Host, Info};
use formats::mustache::Lookup;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use value::{Failure, Message, Path, Value, coerce, date, json, regex};

/// What an expression may look at besides the message.
#[derive(Debug, Clone)]
pub struct EvalContext {
    /// Whose expression it is.
    pub info: Rc<Info>,
    /// The context stores.
    pub contexts: Rc<RefCell<Contexts>>,
    /// Milliseconds since 1970.
    pub now: f64,
}

impl EvalContext {
    /// The scene of the node that this host serves.
    pub fn of(host: &Host<'_>) -> Self {
        Self {
            info: Rc::clone(host.info()),
            contexts: host.contexts(),
            now: host.now(),
        }
    }

    /// Reads a context value; nested `[msg.x]` are taken from the message.
    pub fn read(&self, scope: Scope, key: &Path, message: &Message) -> Result<Value, Failure> {
        if key.is_nested() {
            let key = key.resolve(message)?;
            return Ok(self.contexts.borrow().read(scope, &self.info, &key));
        }
        Ok(self.contexts.borrow().read(scope, &self.info, key))
    }

    /// Writes a context value; nested `[msg.x]` are taken from the message.
    pub fn write(
        &self,
        scope: Scope,
        key: &Path,
        message: &Message,
        value: Value,
    ) -> Result<(), Failure> {
        if key.is_nested() {
            let key = key.resolve(message)?;
            self.contexts
                .borrow_mut()
                .write(scope, &self.info, &key, value)?;
        } else {
            self.contexts
                .borrow_mut()
                .write(scope, &self.info, key, value)?;
        }
        Ok(())
    }
}

impl Lookup for EvalContext {
    fn env(&self, name: &str) -> Value {
        self.info.env(name)
    }

    fn flow(&self, key: &Path) -> Value {
        self.contexts.borrow().read(Scope::Flow, &self.info, key)
    }

    fn global(&self, key: &Path) -> Value {
        self.contexts.borrow().read(Scope::Global, &self.info, key)
    }
}

/// A parsed typed input.
#[derive(Debug)]
pub enum Typed {
    /// `str num bool json bin re`: the same for every message.
    Constant(Value),
    /// `date`: the time of evaluation.
    Date(DateForm),
    /// `msg`: a property of the message.
    Message(Path),
    /// `flow`, `global`: a context value.
    Context(Scope, Path),
    /// `env`: an environment variable, or a text with some in it.
    Env(Vec<EnvPiece>),
    /// `jsonata`.
    Jsonata(Box<Jsonata>),
    /// `prev`: what the node compared last; known to switch only.
    Previous,
}

/// How a `date` input shows the time.
#[derive(Debug, Clone, PartialEq)]
pub enum DateForm {
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
pub enum EnvPiece {
    /// Text as it stands.
    Text(SmolStr),
    /// The value of a variable.
    Variable(SmolStr),
}

impl Typed {
    /// Parses a typed input. An unknown type gives its text.
    pub fn parse(kind: &str, value: &Json) -> Result<Self, Failure> {
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
            "flow" => Self::Context(Scope::Flow, Path::parse(&text)?),
            "global" => Self::Context(Scope::Global, Path::parse(&text)?),
            "env" => Self::Env(env_pieces(&text)),
            "jsonata" => Self::Jsonata(Box::new(Jsonata::compile(&text)?)),
            "prev" => Self::Previous,
            _ => Self::Constant(Value::String(text)),
        })
    }

    /// The value for this message.
    pub fn evaluate(&self, eval: &EvalContext, message: &Message) -> Result<Value, Failure> {
        Ok(match self {
            Self::Constant(value) => value.clone(),
            Self::Date(form) => form.value(eval.now),
            Self::Message(path) => path.try_read_message(message)?,
            Self::Context(scope, key) => eval.read(*scope, key, message)?,
            Self::Env(pieces) => env_value(pieces, &eval.info),
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

/// A property's text: numbers and booleans of hand-written flows read as the editor would show them.
pub fn text_of(value: &Json) -> SmolStr {
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
        Value::Array(bytes) => Ok(Value::buffer(bytes.iter().map(byte).collect::<Vec<u8>>())),
        _ => Err(Failure {
            code: SmolStr::new_static("INVALID_BUFFER_DATA"),
            ..Failure::error("Not string or array")
        }),
    }
}

/// The low eight bits of a number, as a `Uint8Array` stores it (ECMA-262 §7.1.11).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "reduced to 0..256 before"
)]
pub fn byte(value: &Value) -> u8 {
    let n = coerce::to_number(value);
    if n.is_finite() {
        n.trunc().rem_euclid(256.0) as u8
    } else {
        0
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

fn env_value(pieces: &[EnvPiece], info: &Info) -> Value {
    let lookup = |name: &str| match info.env(name) {
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

impl EvalContext {
    /// A scene without a node, contexts or time, in which these variables are seen.
    pub(crate) fn outside(env: &Rc<Env>) -> Self {
        let text = SmolStr::default;
        let info = Info {
            id: text(),
            alias: text(),
            kind: text(),
            name: None,
            z: text(),
            path: text(),
            groups: Rc::from([]),
            outputs: 1,
            env: Rc::clone(env),
        };
        Self {
            info: Rc::new(info),
            contexts: Rc::default(),
            now: 0.0,
        }
    }

    /// A scene without a node or contexts, at a time that is known.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self {
            now: 1_795_203_905_042.0,
            ..Self::outside(&Rc::default())
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn value(kind: &str, text: &str) -> Result<Value, Failure> {
        Typed::parse(kind, &Json::from(text))?
            .evaluate(&EvalContext::for_tests(), &Message::with_payload("x"))
    }

    fn shown(kind: &str, text: &str) -> String {
        format!("{:?}", value(kind, text).unwrap())
    }

    #[test]
    fn constants_are_those_of_the_golden_results() {
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
    fn env_inputs_are_names_or_texts_with_names() {
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
