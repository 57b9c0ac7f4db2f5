//! `JSONata` expressions over a message, with the functions that Node-RED adds
//! (docs/reference/node-red-engine.md §4.1).
//!
//! An expression is compiled once. One that refers to `msg` sees `{msg}` as its root, any other the
//! message.

use super::eval_context::EvalContext;
use super::jsonata_error;
use jsonata_core::Expression;
use jsonata_core::evaluator::{Context, Evaluator, EvaluatorError, EvaluatorOptions};
use jsonata_core::value::JValue;
use smol_str::SmolStr;
use std::fmt;
use value::{Extent, Failure, Message, Object, Path, Value, coerce, date, json};

/// A compiled expression.
pub(crate) struct Jsonata {
    expression: Expression,
    /// The root is `{msg}`.
    legacy: bool,
    /// It calls functions of the engine, which the library's fast path does not support.
    needs_host: bool,
    /// The functions that it calls, for the words of errors.
    calls: Box<[SmolStr]>,
}

/// An expression that runs longer than this is stopped (ours; Node-RED has no limit): it holds up
/// every other node of its thread.
const MAX_MS: u64 = 5_000;

/// The functions that an expression may call besides `JSONata`'s own.
const HOST_FUNCTIONS: [&str; 5] = [
    "$flowContext",
    "$globalContext",
    "$env",
    "$moment",
    "$clone",
];

impl Jsonata {
    /// Compiles an expression.
    pub(crate) fn compile(text: &str) -> Result<Self, Failure> {
        let expression = Expression::compile_with_options(text, options())
            .map_err(|e| jsonata_error::of_parser(text, &e.to_string()))?;
        let needs_host = HOST_FUNCTIONS.iter().any(|name| text.contains(name));
        Ok(Self {
            expression,
            legacy: speaks_of_msg(text),
            needs_host,
            calls: calls(text),
        })
    }

    /// The value for this message; `undefined` where nothing matches.
    pub(crate) fn evaluate(
        &self,
        eval: &impl EvalContext,
        message: &Message,
    ) -> Result<Value, Failure> {
        self.evaluate_with(eval, message, &[])
    }

    /// The same with variables bound, such as `$I` and `$N`.
    pub(crate) fn evaluate_with(
        &self,
        eval: &impl EvalContext,
        message: &Message,
        variables: &[(&str, Value)],
    ) -> Result<Value, Failure> {
        let message = object_in(message.properties());
        let root = if self.legacy {
            JValue::object([("msg".to_owned(), message)].into_iter().collect())
        } else {
            message
        };
        self.run(eval, &root, variables)
    }

    /// The value for something else than a message, such as an element of an array.
    pub(crate) fn evaluate_on(
        &self,
        eval: &impl EvalContext,
        root: &Value,
    ) -> Result<Value, Failure> {
        self.run(eval, &value_in(root), &[])
    }

    fn run(
        &self,
        eval: &impl EvalContext,
        root: &JValue,
        variables: &[(&str, Value)],
    ) -> Result<Value, Failure> {
        let result = if self.needs_host || !variables.is_empty() {
            let mut context = Context::new();
            for (name, value) in variables {
                context.bind((*name).to_owned(), value_in(value));
            }
            let mut evaluator = Evaluator::with_options(context, options());
            register(&mut evaluator, eval)
                .and_then(|()| evaluator.evaluate(self.expression.ast(), root))
        } else {
            self.expression.evaluate(root)
        };
        let value = result.map_err(|e| jsonata_error::of_evaluator(&e, &self.calls))?;
        value_out(&value, 0, &mut 0)
    }
}

impl fmt::Debug for Jsonata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jsonata")
    }
}

fn options() -> EvaluatorOptions {
    EvaluatorOptions {
        timeout_ms: Some(MAX_MS),
        ..EvaluatorOptions::default()
    }
}

/// Returns whether `msg` stands in the text as a word of its own, not quoted.
fn speaks_of_msg(text: &str) -> bool {
    let joins = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '\'' | '"');
    text.match_indices("msg").any(|(at, word)| {
        let before = text.get(..at).and_then(|t| t.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|t| t.chars().next());
        !before.is_some_and(|c| joins(c) || c == '.') && !after.is_some_and(joins)
    })
}

/// The names of the functions that a text calls: `f` for `$f(…)`, each once.
fn calls(text: &str) -> Box<[SmolStr]> {
    let mut names: Vec<SmolStr> = Vec::new();
    for part in text.split('$').skip(1) {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        if rest.trim_start().starts_with('(') && !names.iter().any(|known| known == name) {
            names.push(name.into());
        }
    }
    names.into()
}

fn register(evaluator: &mut Evaluator, eval: &impl EvalContext) -> Result<(), EvaluatorError> {
    let flow = eval.clone();
    evaluator.register_fn("flowContext", move |args: &[JValue]| {
        Ok(value_in(&flow.flow(&context_key(args)?)))
    })?;
    let global = eval.clone();
    evaluator.register_fn("globalContext", move |args: &[JValue]| {
        Ok(value_in(&global.global(&context_key(args)?)))
    })?;
    let variables = eval.clone();
    evaluator.register_fn("env", move |args: &[JValue]| {
        let name = args.first().and_then(JValue::as_str).unwrap_or_default();
        Ok(match variables.env(name) {
            Value::Undefined => JValue::string(""),
            value => value_in(&value),
        })
    })?;
    let now = eval.now();
    evaluator.register_fn("moment", move |args: &[JValue]| {
        let ms = match args.first() {
            Some(JValue::Number(ms)) => Some(*ms),
            Some(JValue::String(text)) => date::parse(text),
            _ => Some(now),
        };
        Ok(ms.and_then(date::iso).map_or(JValue::Null, JValue::string))
    })?;
    evaluator.register_fn("clone", |args: &[JValue]| {
        Ok(args.first().cloned().unwrap_or(JValue::Undefined))
    })
}

/// The key that `$flowContext` and `$globalContext` are called with, and the store.
fn context_key(args: &[JValue]) -> Result<Path, EvaluatorError> {
    let key = args.first().and_then(JValue::as_str).unwrap_or_default();
    let path = Path::parse(key).map_err(|f| EvaluatorError::EvaluationError(f.message.into()))?;
    Ok(match args.get(1).and_then(JValue::as_str) {
        store @ Some(_) => path.in_store(store),
        None => path,
    })
}

fn object_in(object: &Object) -> JValue {
    let defined =
        json::entries(object).filter(|(_, v)| !v.is_undefined() && !matches!(v, Value::Handle(_)));
    JValue::object(defined.map(|(k, v)| (k.to_string(), value_in(v))).collect())
}

/// Our value as `JSONata` sees it.
fn value_in(value: &Value) -> JValue {
    match value {
        Value::Undefined | Value::Handle(_) => JValue::Undefined,
        Value::Null => JValue::Null,
        Value::Bool(b) => JValue::Bool(*b),
        Value::Number(n) => JValue::Number(*n),
        Value::String(text) => JValue::string(text.as_str()),
        Value::Array(elements) => JValue::array(elements.iter().map(value_in).collect()),
        Value::Object(object) => object_in(object),
        Value::Date(ms) => date::iso(*ms).map_or(JValue::Null, JValue::string),
        Value::Buffer(bytes) => {
            let data = bytes
                .iter()
                .map(|b| JValue::Number(f64::from(*b)))
                .collect();
            let plain = [
                ("type", JValue::string("Buffer")),
                ("data", JValue::array(data)),
            ];
            JValue::object(plain.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
        }
        Value::Error(error) => {
            let plain = [("name", &error.name), ("message", &error.message)];
            JValue::object(
                plain
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), JValue::string(v.as_str())))
                    .collect(),
            )
        }
        Value::RegExp(regex) => JValue::regex(regex.0.as_str(), regex.1.as_str()),
    }
}

/// `JSONata`'s value as ours; functions are lost. An expression that calls itself can nest its
/// result as deep as it likes, and share parts of it: a value that is too large for a message is a
/// failure before it is made.
fn value_out(value: &JValue, depth: usize, parts: &mut u32) -> Result<Value, Failure> {
    *parts += 1;
    Extent::of(depth, *parts).check(0)?;
    Ok(match value {
        JValue::Null => Value::Null,
        JValue::Bool(b) => Value::Bool(*b),
        JValue::Number(n) => Value::Number(*n),
        JValue::String(text) => Value::text(&**text),
        JValue::Array(elements) => {
            let elements = elements.iter().map(|e| value_out(e, depth + 1, parts));
            Value::array(elements.collect::<Result<_, _>>()?)
        }
        JValue::Object(_) => {
            if let Some(buffer) = buffer_out(value) {
                return Ok(buffer);
            }
            let entries = value.as_object().into_iter().flatten();
            let entries =
                entries.map(|(k, v)| Ok((SmolStr::from(k), value_out(v, depth + 1, parts)?)));
            Value::object(entries.collect::<Result<_, _>>()?)
        }
        JValue::Regex { pattern, flags } => Value::RegExp(std::sync::Arc::new((
            SmolStr::new(pattern),
            SmolStr::new(flags),
        ))),
        JValue::Undefined | JValue::Lambda(_) | JValue::Builtin { .. } => Value::Undefined,
    })
}

/// A buffer that went through the expression untouched is a buffer again.
fn buffer_out(value: &JValue) -> Option<Value> {
    let object = value.as_object().filter(|o| o.len() == 2)?;
    if object.get("type")?.as_str()? != "Buffer" {
        return None;
    }
    let data = object.get("data")?.as_array()?;
    let bytes: Vec<u8> = data
        .iter()
        .map(|n| coerce::to_uint8(&Value::Number(n.as_f64().unwrap_or(f64::NAN))))
        .collect();
    Some(Value::buffer(bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::node_context::NodeContext;

    fn result(text: &str) -> Result<Value, Failure> {
        let message = json::parse(r#"{"payload":"abc","n":[1,2,3],"o":{"b":1,"a":2}}"#).unwrap();
        Jsonata::compile(text)?.evaluate(
            &NodeContext::for_tests(),
            &Message::from_value(message).unwrap(),
        )
    }

    fn shown(text: &str) -> String {
        format!("{:?}", result(text).unwrap())
    }

    #[test]
    fn paths_start_at_the_message_or_at_msg() {
        assert_eq!(shown("payload & \"!\""), "\"abc!\"");
        assert_eq!(shown("msg.payload & \"!\""), "\"abc!\"");
        assert_eq!(shown("\"msg\" & payload"), "\"msgabc\"");
        assert_eq!(shown("$sum(n)"), "6");
        assert_eq!(shown("o"), r#"{"b": 1, "a": 2}"#);
        assert_eq!(shown("nope"), "undefined");
    }

    #[test]
    fn the_added_functions_are_available() {
        assert_eq!(shown("$clone(o).a"), "2");
        assert_eq!(shown("$moment()"), "\"2026-11-20T19:45:05.042Z\"");
    }

    #[test]
    fn variables_can_be_bound() {
        let expression = Jsonata::compile("$I + 1 = $N").unwrap();
        let variables = [("I", Value::Number(2.0)), ("N", Value::Number(3.0))];
        let value = expression
            .evaluate_with(&NodeContext::for_tests(), &Message::default(), &variables)
            .unwrap();
        assert!(matches!(value, Value::Bool(true)));
    }

    #[test]
    fn buffers_survive_and_errors_carry_their_code() {
        let message = Message::with_payload(Value::buffer(vec![1, 2]));
        let value = Jsonata::compile("payload")
            .unwrap()
            .evaluate(&NodeContext::for_tests(), &message)
            .unwrap();
        assert!(matches!(value, Value::Buffer(b) if **b == [1, 2][..]));
        let failure = result("payload + 1").unwrap_err();
        assert!(failure.code.starts_with('T'), "{failure:?}");
        assert!(Jsonata::compile("a +").is_err());
    }
}
