//! Applies the rules of a change node to a message, one after the other (facts engine §4.3).
//!
//! Values are shared until written, so nothing needs the deep copies that `dc` asks for.

use super::change_rules::{From, Rule, Sought, Target, invalid_expression, invalid_from};
use crate::engine::expression::regex::RegExp;
use crate::engine::expression::typed::{Scene, Typed};
use crate::engine::expression::{Key, coerce};
use crate::engine::message::Message;
use crate::engine::value::{Failure, Value};

impl Target {
    fn read(&self, message: &Message, scene: &Scene) -> Value {
        match self {
            Self::Message(path) => path.read_message(message),
            Self::Context(scope, key) => scene.read(*scope, key, message).unwrap_or_default(),
        }
    }

    fn write(
        &self,
        message: &mut Message,
        scene: &Scene,
        value: Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Failure> {
        match self {
            Self::Message(path) => {
                let deletes = value.is_undefined();
                if !path.write_message(message, value) && !deletes {
                    let names = path
                        .keys
                        .iter()
                        .map(Key::to_string)
                        .collect::<Vec<_>>()
                        .join(".");
                    warnings.push(format!("Cannot set property of non-object type: {names}"));
                }
                Ok(())
            }
            Self::Context(scope, key) => scene.write(*scope, key, message, value),
        }
    }

    /// Whether this is `other` or lies within it.
    fn is_within(&self, other: &Self) -> bool {
        let keys = match (self, other) {
            (Self::Message(a), Self::Message(b)) => Some((&a.keys, &b.keys)),
            (Self::Context(s, a), Self::Context(t, b)) if s == t => Some((&a.keys, &b.keys)),
            _ => None,
        };
        keys.is_some_and(|(inner, outer)| inner.starts_with(outer))
    }
}

impl Rule {
    /// Applies the rule. What cannot be set is left, with a warning; a failing expression stops the message.
    pub(super) fn apply(
        &self,
        message: &mut Message,
        scene: &Scene,
        warnings: &mut Vec<String>,
    ) -> Result<(), Failure> {
        match self {
            Self::Set { target, value } => {
                let value = evaluate(value, message, scene)?;
                target.write(message, scene, value, warnings)
            }
            Self::Delete { target } => target.write(message, scene, Value::Undefined, warnings),
            Self::Move { source, target } => {
                let value = source.read(message, scene);
                if target.is_within(source) {
                    source.write(message, scene, Value::Undefined, warnings)?;
                    return target.write(message, scene, value, warnings);
                }
                target.write(message, scene, value, warnings)?;
                source.write(message, scene, Value::Undefined, warnings)
            }
            Self::Change { target, from, to } => {
                let to_value = evaluate(to, message, scene)?;
                let current = target.read(message, scene);
                let changed = from.change(&current, to_value, message, scene)?;
                match changed {
                    Some(value) => target.write(message, scene, value, warnings),
                    None => Ok(()),
                }
            }
        }
    }
}

impl From {
    /// What the current value becomes; `None` if it stays.
    fn change(
        &self,
        current: &Value,
        to: Value,
        message: &Message,
        scene: &Scene,
    ) -> Result<Option<Value>, Failure> {
        let from = match self {
            Self::Fixed(sought, regex) => return changed(current, sought, Some(regex), to),
            Self::Evaluated(from) => from.evaluate(scene, message).unwrap_or_default(),
        };
        match from {
            Value::String(text) => changed(current, &Sought::Text(text), None, to),
            Value::Number(n) => changed(current, &Sought::Number(n), None, to),
            Value::Bool(b) => changed(current, &Sought::Bool(b), None, to),
            Value::RegExp(regex) => {
                let regex = RegExp::compile(&regex.0, &format!("{}g", regex.1))?;
                changed(current, &Sought::Pattern, Some(&regex), to)
            }
            other => {
                let kind = coerce::type_of(&other);
                Err(invalid_from(&format!("unsupported type: {kind}")))
            }
        }
    }
}

/// A missing property is `undefined`; a failing expression is a failure.
fn evaluate(value: &Typed, message: &Message, scene: &Scene) -> Result<Value, Failure> {
    match value.evaluate(scene, message) {
        Err(failure) if matches!(value, Typed::Jsonata(_)) => Err(invalid_expression(&failure)),
        other => Ok(other.unwrap_or_default()),
    }
}

/// What a `change` rule makes of the current value; `None` if it stays. A match of the whole value
/// gives the new value with its type, a match within a text gives text.
#[expect(clippy::float_cmp, reason = "as JavaScript compares them")]
fn changed(
    current: &Value,
    sought: &Sought,
    regex: Option<&RegExp>,
    to: Value,
) -> Result<Option<Value>, Failure> {
    let text = match current {
        Value::Number(n) => return Ok(matches!(sought, Sought::Number(m) if n == m).then_some(to)),
        Value::Bool(b) => return Ok(matches!(sought, Sought::Bool(c) if b == c).then_some(to)),
        Value::String(text) => text,
        _ => return Ok(None),
    };
    let whole = match sought {
        Sought::Text(sought) => Some(sought.clone()),
        Sought::Number(n) => Some(coerce::number_text(*n)),
        Sought::Bool(b) => Some(if *b { "true".into() } else { "false".into() }),
        Sought::Pattern => None,
    };
    if whole.as_ref() == Some(text) {
        return Ok(Some(to));
    }
    let replacement = coerce::to_text(&to);
    let replaced = match (regex, &whole) {
        (Some(regex), _) => regex.replace(text, &replacement),
        (None, Some(sought)) => {
            RegExp::compile(&regress::escape(sought), "g")?.replace(text, &replacement)
        }
        (None, None) => None,
    };
    Ok(replaced.map(|text| match &to {
        Value::Bool(_) if text == replacement => to,
        _ => Value::from(text),
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::change_rules::parse;
    use super::*;
    use crate::engine::expression::json;

    fn applied(node: &str, message: &str) -> Result<(String, Vec<String>), Failure> {
        let mut message = Message::from_value(json::parse(message).unwrap()).unwrap();
        let mut warnings = Vec::new();
        for rule in parse(serde_json::from_str(node).unwrap())? {
            rule.apply(&mut message, &Scene::for_tests(), &mut warnings)?;
        }
        Ok((json::stringify(&message.to_value()).unwrap(), warnings))
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
    fn a_whole_match_takes_the_new_type_and_a_part_does_not() {
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
    fn the_old_flat_form_is_understood() {
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
    fn what_cannot_be_set_is_warned_of() {
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
