//! Makes the messages of a trigger node: a fixed value, a template, the message itself, or a value
//! from a context, the environment or the clock. Pure.

use crate::expression::typed::{Typed, text_of};
use crate::node_context::NodeContext;
use formats::mustache::Template;
use serde_json::Value as Json;
use value::{Failure, Message, Value};

/// One of a trigger's two messages. A broken one fails on each message, as Node-RED's does.
pub(super) struct Output(Result<Type, Failure>);

/// The source of its payload.
pub(super) enum Type {
    /// Nothing is sent.
    Nothing,
    /// The message that triggers, as it is.
    Same,
    /// The latest message.
    Latest,
    /// A mustache template over the message that triggers.
    Template(Template),
    Value(Typed),
}

impl Output {
    pub(super) fn parse(kind: &str, value: &Json) -> Self {
        let text = text_of(value);
        Self(match kind {
            "nul" => Ok(Type::Nothing),
            "pay" => Ok(Type::Same),
            "payl" => Ok(Type::Latest),
            "str" | "val" if text.contains("{{") => Template::compile(&text).map(Type::Template),
            // Before there were types, a text could mean one of three values.
            "val" | "" => Ok(Type::Value(Typed::Constant(match text.as_str() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                "null" => Value::Null,
                _ => Value::String(text),
            }))),
            kind => Typed::parse(kind, value).map(Type::Value),
        })
    }

    /// Returns whether it is of a type without a value.
    pub(super) fn is(&self, kind: &Type) -> bool {
        matches!(
            (&self.0, kind),
            (Ok(Type::Nothing), Type::Nothing)
                | (Ok(Type::Same), Type::Same)
                | (Ok(Type::Latest), Type::Latest)
        )
    }

    /// Returns whether it is the time.
    pub(super) fn is_time(&self) -> bool {
        matches!(self.0, Ok(Type::Value(Typed::Date(_))))
    }

    /// The message that is sent at once; `None`: none.
    pub(super) fn make(
        &self,
        eval: &NodeContext,
        message: &Message,
    ) -> Result<Option<Message>, Failure> {
        let prepared = self.prepare(eval, message)?;
        self.finish(eval, prepared, false)
            .map_err(|(failure, _)| failure)
    }

    /// The message to keep until the time has expired, with its payload already set unless that
    /// comes from a context.
    pub(super) fn prepare(
        &self,
        eval: &NodeContext,
        message: &Message,
    ) -> Result<Message, Failure> {
        let payload = match self.0.as_ref().map_err(Clone::clone)? {
            Type::Template(template) => Some(template.render(eval, message)?.into()),
            Type::Value(typed) if !is_stored(typed) => Some(typed.evaluate(eval, message)?),
            _ => None,
        };
        let mut kept = message.clone();
        if let Some(payload) = payload {
            kept.set("payload", payload);
        }
        Ok(kept)
    }

    /// The message to send for one that was kept; `None`: none. The time is that of the end, unless
    /// the time was extended (observed on 4.1).
    pub(super) fn finish(
        &self,
        eval: &NodeContext,
        mut kept: Message,
        extended: bool,
    ) -> Result<Option<Message>, (Failure, Message)> {
        match &self.0 {
            Ok(Type::Nothing) => return Ok(None),
            Ok(Type::Value(typed)) if is_stored(typed) || (self.is_time() && !extended) => {
                match typed.evaluate(eval, &kept) {
                    Ok(value) => kept.set("payload", value),
                    Err(failure) => return Err((failure, kept)),
                }
            }
            _ => {}
        }
        Ok(Some(kept))
    }
}

/// Returns whether a value is in a context, whose value counts when it is sent.
fn is_stored(typed: &Typed) -> bool {
    matches!(typed, Typed::Flow(_) | Typed::Global(_))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn payload(kind: &str, text: &str) -> String {
        let output = Output::parse(kind, &Json::from(text));
        let message = Message::with_payload("<a");
        let made = output.make(&NodeContext::for_tests(), &message).unwrap();
        format!("{:?}", made.map(|m| m.get("payload").clone()))
    }

    #[test]
    fn payloads_are_of_their_type() {
        assert_eq!(payload("nul", ""), "None");
        assert_eq!(payload("pay", ""), "Some(\"<a\")");
        assert_eq!(payload("str", "by {{payload}}"), "Some(\"by &lt;a\")");
        assert_eq!(payload("val", "true"), "Some(true)");
        assert_eq!(payload("val", "5"), "Some(\"5\")");
        assert_eq!(payload("num", "5"), "Some(5)");
        assert_eq!(payload("msg", "nope"), "Some(undefined)");
    }

    #[test]
    fn broken_values_fail_on_each_message() {
        let output = Output::parse("json", &Json::from("{a"));
        let failure = output.make(&NodeContext::for_tests(), &Message::default());
        assert_eq!(failure.unwrap_err().name, "SyntaxError");
    }
}
