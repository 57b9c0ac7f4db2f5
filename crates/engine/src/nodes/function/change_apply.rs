//! Applies the rules of a change node to a message, one after the other
//! (docs/reference/node-red-engine.md §4.3).
//!
//! Values are shared until written, so nothing needs the deep copies that `dc` asks for.

use super::change_rules::{From, Kind, Rule, Sought, Target, invalid_expression, invalid_from};
use crate::expression::typed::Typed;
use crate::node_context::NodeContext;
use crate::script::regexp;
use value::regex::RegExp;
use value::{Failure, Message, Path, Value, coerce};

/// A warning or error that is reported while the rules are applied; the message goes on.
pub(super) enum Note {
    Warning(String),
    Error(Failure),
}

impl Target {
    /// The value; `None` if it cannot be read because a parent is missing.
    fn read(&self, message: &Message, eval: &NodeContext) -> Option<Value> {
        match self {
            Self::Message(path, _) => path.try_read_message(message).ok(),
            Self::Context(scope, key) => Some(eval.read(*scope, key, message).unwrap_or_default()),
        }
    }

    /// Fails if the value is too large to be set here.
    fn check(&self, value: &Value) -> Result<(), Failure> {
        match self {
            Self::Message(path, _) | Self::Context(_, path) => path.check(value),
        }
    }

    /// Sets the value. Where the path depends on a property that the message lacks, nothing is set.
    fn write(
        &self,
        message: &mut Message,
        eval: &NodeContext,
        value: Value,
        notes: &mut Vec<Note>,
    ) -> Result<(), Failure> {
        match self {
            Self::Message(path, text) => {
                let deletes = value.is_undefined();
                let known = !path.is_nested() || path.resolve(message).is_ok();
                if known && !path.write_message(message, value)? && !deletes {
                    let text = text.as_ref().map_or("", |text| text.as_str());
                    notes.push(Note::Warning(format!(
                        "Cannot set property of non-object type: {text}"
                    )));
                }
            }
            Self::Context(scope, key) => {
                self.check(&value)?;
                // As above.
                let _ = eval.write(*scope, key, message, value);
            }
        }
        Ok(())
    }

    /// Returns whether this is `other` or lies within it.
    fn is_within(&self, other: &Self) -> bool {
        let within = |inner: &Path, outer: &Path| inner.keys().starts_with(outer.keys());
        match (self, other) {
            (Self::Message(inner, _), Self::Message(outer, _)) => within(inner, outer),
            (Self::Context(s, inner), Self::Context(t, outer)) => s == t && within(inner, outer),
            _ => false,
        }
    }
}

impl Rule {
    /// Applies the rule. A property that cannot be read or set is left as it is; a failing
    /// expression stops the message.
    pub(super) fn apply(
        &self,
        message: &mut Message,
        eval: &NodeContext,
        notes: &mut Vec<Note>,
    ) -> Result<(), Failure> {
        match self {
            Self::Set { target, value } => {
                if let Some(value) = evaluate(value, message, eval)? {
                    target.write(message, eval, value, notes)?;
                }
            }
            Self::Delete { target } => target.write(message, eval, Value::Undefined, notes)?,
            Self::Move { source, target } => {
                let value = source.read(message, eval).unwrap_or_default();
                target.check(&value)?;
                if target.is_within(source) {
                    source.write(message, eval, Value::Undefined, notes)?;
                    target.write(message, eval, value, notes)?;
                } else {
                    target.write(message, eval, value, notes)?;
                    source.write(message, eval, Value::Undefined, notes)?;
                }
            }
            Self::Change { target, from, to } => {
                let Some(to) = evaluate(to, message, eval)? else {
                    return Ok(());
                };
                let current = target.read(message, eval).unwrap_or_default();
                match from.change(&current, to, message, eval) {
                    Ok(Some(value)) => target.write(message, eval, value, notes)?,
                    Ok(None) => {}
                    Err(failure) => notes.push(Note::Error(failure)),
                }
            }
        }
        Ok(())
    }
}

impl From {
    /// The new value; `None` if the current one stays.
    fn change(
        &self,
        current: &Value,
        to: Value,
        message: &Message,
        eval: &NodeContext,
    ) -> Result<Option<Value>, Failure> {
        let from = match self {
            Self::Fixed(sought, regex) => return changed(current, sought, Some(regex), to),
            Self::Evaluated(from) => match from.evaluate(eval, message) {
                // A missing parent: nothing to look for.
                Err(_) if matches!(from, Typed::Message(_)) => return Ok(None),
                from => from.unwrap_or_default(),
            },
        };
        let (kind, text) = match from {
            Value::String(text) => (Kind::Text, Some(text)),
            Value::Number(n) => (Kind::Number(n), None),
            Value::Bool(_) => (Kind::Bool, None),
            other => {
                let kind = coerce::type_of(&other);
                let what = invalid_from(&format!("unsupported type: {kind}"));
                return Err(Failure::error(what.message));
            }
        };
        let regex = match &text {
            Some(text) => Some(regexp::compile(&regress::escape(text), "g")?),
            None => None,
        };
        changed(current, &Sought { kind, text }, regex.as_ref(), to)
    }
}

/// The new value: `None` if it is to be read from below something that is missing; a failing
/// expression is a failure.
fn evaluate(
    value: &Typed,
    message: &Message,
    eval: &NodeContext,
) -> Result<Option<Value>, Failure> {
    match value.evaluate(eval, message) {
        Err(failure) if matches!(value, Typed::Jsonata(_)) => Err(invalid_expression(&failure)),
        Err(_) if matches!(value, Typed::Message(_)) => Ok(None),
        value => Ok(Some(value.unwrap_or_default())),
    }
}

/// Applies a `change` rule to the current value; `None` if it stays. A match of the whole value
/// gives the new value with its type, a match within a text gives text.
#[expect(clippy::float_cmp, reason = "as JavaScript compares them")]
fn changed(
    current: &Value,
    sought: &Sought,
    regex: Option<&RegExp>,
    to: Value,
) -> Result<Option<Value>, Failure> {
    let text = match current {
        Value::Number(n) => {
            return Ok(matches!(sought.kind, Kind::Number(m) if *n == m).then_some(to));
        }
        Value::Bool(b) => {
            let text = if *b { "true" } else { "false" };
            let same = sought.kind == Kind::Bool && sought.text.as_deref() == Some(text);
            return Ok(same.then_some(to));
        }
        Value::String(text) => text,
        _ => return Ok(None),
    };
    if sought.kind != Kind::Pattern && sought.text.as_ref() == Some(text) {
        return Ok(Some(to));
    }
    let Some(regex) = regex else {
        return Ok(None);
    };
    let replacement = coerce::to_text(&to);
    let replaced = regex.replace(text, &replacement)?;
    // A text that is the bool's in the end is the bool, whether something was found or not.
    if matches!(to, Value::Bool(_)) && replaced.as_deref().unwrap_or(text) == replacement {
        return Ok(Some(to));
    }
    Ok(replaced.map(Value::from))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::change_rules::parse;
    use super::*;
    use value::json;

    fn applied(node: &str, message: &str) -> Result<(String, Vec<String>), Failure> {
        let mut message = Message::from_value(json::parse(message).unwrap()).unwrap();
        let mut notes = Vec::new();
        for rule in parse(serde_json::from_str(node).unwrap())? {
            rule.apply(&mut message, &NodeContext::for_tests(), &mut notes)?;
        }
        let notes = notes.into_iter().map(|note| match note {
            Note::Warning(text) => text,
            Note::Error(failure) => failure.to_string(),
        });
        Ok((
            json::stringify(&message.to_value()).unwrap(),
            notes.collect(),
        ))
    }

    fn after(rule: &str, message: &str) -> String {
        applied(&format!(r#"{{"rules":[{rule}]}}"#), message)
            .unwrap()
            .0
    }

    #[test]
    fn golden_results_hold() {
        let table = [
            (
                r#"{"t":"set","p":"payload","pt":"msg","to":"nope","tot":"msg"}"#,
                r#"{"payload":1}"#,
                "{}",
            ),
            (
                r#"{"t":"set","p":"z.a[1].b","pt":"msg","to":"1","tot":"num"}"#,
                "{}",
                r#"{"z":{"a":[null,{"b":1}]}}"#,
            ),
            (
                r#"{"t":"change","p":"payload","pt":"msg","from":"a","fromt":"str","to":"X","tot":"str"}"#,
                r#"{"payload":"banana"}"#,
                r#"{"payload":"bXnXnX"}"#,
            ),
            (
                r#"{"t":"change","p":"payload","pt":"msg","from":"(b)(a)","fromt":"re","to":"$2$1","tot":"str"}"#,
                r#"{"payload":"baba"}"#,
                r#"{"payload":"abab"}"#,
            ),
            (
                r#"{"t":"change","p":"payload","pt":"msg","from":"5","fromt":"num","to":"7","tot":"num"}"#,
                r#"{"payload":5}"#,
                r#"{"payload":7}"#,
            ),
            (
                r#"{"t":"move","p":"payload","pt":"msg","to":"payload.in","tot":"msg"}"#,
                r#"{"payload":1}"#,
                r#"{"payload":{"in":1}}"#,
            ),
            (
                r#"{"t":"set","p":"payload","pt":"msg","to":"msg.payload & \"!\"","tot":"jsonata"}"#,
                r#"{"payload":"abc"}"#,
                r#"{"payload":"abc!"}"#,
            ),
        ];
        for (rule, message, expected) in table {
            assert_eq!(after(rule, message), expected, "{rule}");
        }
    }

    #[test]
    fn full_matches_take_the_new_type_and_partial_matches_do_not() {
        let rule = r#"{"t":"change","p":"payload","pt":"msg","from":"on","fromt":"str","to":"true","tot":"bool"}"#;
        assert_eq!(after(rule, r#"{"payload":"on"}"#), r#"{"payload":true}"#);
        assert_eq!(
            after(rule, r#"{"payload":"is on"}"#),
            r#"{"payload":"is true"}"#
        );
        assert_eq!(after(rule, r#"{"payload":5}"#), r#"{"payload":5}"#);
        let rule = r#"{"t":"change","p":"payload","pt":"msg","from":".*","fromt":"re","to":"true","tot":"bool"}"#;
        assert_eq!(
            after(&rule.replace(".*", "^o.$"), r#"{"payload":"on"}"#),
            r#"{"payload":true}"#
        );
        let rule = r#"{"t":"change","p":"payload","pt":"msg","from":"find","fromt":"msg","to":"-","tot":"str"}"#;
        assert_eq!(
            after(rule, r#"{"payload":"a.b.c","find":"."}"#),
            r#"{"payload":"a-b-c","find":"."}"#
        );
    }

    #[test]
    fn delete_and_move_leave_nothing_behind() {
        assert_eq!(
            after(r#"{"t":"delete","p":"a.b"}"#, r#"{"a":{"b":1,"c":2}}"#),
            r#"{"a":{"c":2}}"#
        );
        assert_eq!(
            after(r#"{"t":"move","p":"a","to":"b"}"#, r#"{"a":1,"b":2}"#),
            r#"{"b":1}"#
        );
        assert_eq!(
            after(r#"{"t":"move","p":"nope","to":"b"}"#, r#"{"b":2}"#),
            "{}"
        );
    }

    #[test]
    fn the_old_flat_format_is_accepted() {
        let old = |node: &str| applied(node, r#"{"payload":"a1","topic":"t"}"#).unwrap().0;
        assert_eq!(
            old(r#"{"action":"replace","property":"payload","to":"msg.topic"}"#),
            r#"{"payload":"t","topic":"t"}"#
        );
        assert_eq!(
            old(r#"{"action":"change","property":"payload","from":"\\d","to":"x","reg":true}"#),
            r#"{"payload":"ax","topic":"t"}"#
        );
        assert_eq!(
            old(r#"{"action":"delete","property":"topic"}"#),
            r#"{"payload":"a1"}"#
        );
    }

    #[test]
    fn setting_a_property_of_a_primitive_gives_a_warning() {
        let rule = r#"{"rules":[{"t":"set","p":"payload.a","to":"1","tot":"num"}]}"#;
        let (message, warnings) = applied(rule, r#"{"payload":"text"}"#).unwrap();
        assert_eq!(message, r#"{"payload":"text"}"#);
        assert_eq!(
            warnings,
            ["Cannot set property of non-object type: payload.a"]
        );
    }

    #[test]
    fn wrong_rules_keep_the_node_from_running() {
        let wrong = |rule: &str| {
            applied(&format!(r#"{{"rules":[{rule}]}}"#), "{}")
                .unwrap_err()
                .message
        };
        assert_eq!(
            wrong(r#"{"t":"set","p":"a","to":"{","tot":"json"}"#),
            "Invalid 'to' JSON property"
        );
        assert!(
            wrong(r#"{"t":"change","p":"a","from":"(","fromt":"re","to":""}"#)
                .starts_with("Invalid 'from' property: Invalid regular")
        );
        assert!(
            wrong(r#"{"t":"set","p":"a","to":"a +","tot":"jsonata"}"#)
                .starts_with("Invalid JSONata expression: ")
        );
    }
}
