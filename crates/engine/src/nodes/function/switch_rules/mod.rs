//! The rules of a switch node: parsed once, tried in order on each message
//! (docs/reference/node-red-engine.md §4.3).

use crate::expression::jsonata::Jsonata;
use crate::expression::typed::{Typed, text_of};
use crate::node_context::NodeContext;
use crate::properties;
use crate::script::regexp;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::cmp::Ordering;
use value::regex::RegExp;
use value::{Failure, Message, Value, coerce, json, property};

/// The properties of a switch node.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Properties {
    property: Option<SmolStr>,
    property_type: Option<SmolStr>,
    rules: Option<Vec<RuleProperties>>,
    checkall: Json,
    repair: Json,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RuleProperties {
    t: SmolStr,
    /// Left out it is something else than `null`.
    #[serde(deserialize_with = "properties::given")]
    v: Option<Json>,
    vt: Option<SmolStr>,
    v2: Json,
    v2t: Option<SmolStr>,
    case: Json,
}

/// All rules of a node.
pub(super) struct Rules {
    property: Typed,
    list: Box<[Rule]>,
    first_only: bool,
    /// The property of the message before.
    previous: Value,
}

struct Rule {
    test: Test,
    value: Operand,
    second: Operand,
}

/// Why a message goes nowhere. Node-RED only warns of the one and lets the other be caught
/// (docs/reference/node-red-engine.md §4.3).
#[derive(Debug)]
pub(super) enum Unroutable {
    /// The property's expression failed.
    Property(Failure),
    /// The message lacks a part of the path of a property of a context.
    Path(Failure),
    /// A rule's value failed.
    Rule(Failure),
}

/// The value with which a rule compares.
enum Operand {
    Typed(Typed),
    /// A `JSONata` expression that uses the position in the sequence (`$I`, `$N`).
    Placed(Box<Jsonata>),
}

enum Test {
    Equal,
    NotEqual,
    Compare(fn(Ordering) -> bool),
    Between,
    Contains,
    /// `None`: the expression comes from the message. A broken one fails on each message.
    Regex(Option<Box<Result<RegExp, Failure>>>, &'static str),
    Is(fn(&Value) -> bool),
    Type,
    Head,
    Tail,
    Index,
    HasKey,
    Expression,
    Else,
    /// A rule of an unknown type fails on each message.
    Unknown,
}

impl Properties {
    /// Returns whether sequences are numbered anew.
    pub(super) fn repair(&self) -> bool {
        self.repair == true
    }
}

/// Parses the rules; a failure keeps the node from running.
pub(super) fn parse(properties: Properties) -> Result<Rules, Failure> {
    let kind = properties
        .property_type
        .unwrap_or(SmolStr::new_static("msg"));
    let text = properties
        .property
        .unwrap_or(SmolStr::new_static("payload"));
    Ok(Rules {
        property: property_of(&kind, &text)?,
        list: properties
            .rules
            .unwrap_or_default()
            .into_iter()
            .map(rule)
            .collect::<Result<_, _>>()?,
        first_only: properties.checkall == "false",
        previous: Value::Null,
    })
}

/// The value to compare. A property that cannot be named is `undefined`.
fn property_of(kind: &str, text: &str) -> Result<Typed, Failure> {
    match Typed::parse(kind, &Json::from(text)) {
        Err(failure) if kind == "jsonata" => Err(worded(failure, kind)),
        typed => Ok(typed.unwrap_or(Typed::Constant(Value::Undefined))),
    }
}

fn worded(failure: Failure, kind: &str) -> Failure {
    if kind != "jsonata" {
        return failure;
    }
    Failure::text(format!("Invalid JSONata expression: {}", failure.message))
}

fn rule(properties: RuleProperties) -> Result<Rule, Failure> {
    let kind = match properties.t.as_str() {
        "jsonata_exp" => Some(SmolStr::new_static("jsonata")),
        // The type that is asked for stands where others have the type of their value.
        "istype" => Some(SmolStr::new_static("str")),
        _ => properties.vt,
    };
    let value = match &properties.v {
        Some(value) => operand(value, kind.as_deref())?,
        None if kind.as_deref() == Some("prev") => Operand::Typed(Typed::Previous),
        // As Node-RED makes a text of nothing.
        None => Operand::Typed(Typed::Constant("undefined".into())),
    };
    let flags = if properties.case == true { "i" } else { "" };
    let test = match properties.t.as_str() {
        "eq" => Test::Equal,
        "neq" => Test::NotEqual,
        "lt" => Test::Compare(Ordering::is_lt),
        "lte" => Test::Compare(Ordering::is_le),
        "gt" => Test::Compare(Ordering::is_gt),
        "gte" => Test::Compare(Ordering::is_ge),
        "btwn" => Test::Between,
        "cont" => Test::Contains,
        "regex" => {
            let fixed = match &value {
                Operand::Typed(Typed::Constant(value)) => Some(pattern(value)),
                _ => None,
            };
            Test::Regex(
                fixed.map(|text| Box::new(regexp::compile(&text, flags))),
                flags,
            )
        }
        "true" => Test::Is(|v| matches!(v, Value::Bool(true))),
        "false" => Test::Is(|v| matches!(v, Value::Bool(false))),
        "null" => Test::Is(Value::is_nullish),
        "nnull" => Test::Is(|v| !v.is_nullish()),
        "empty" => Test::Is(|v| length(v) == Some(0)),
        "nempty" => Test::Is(|v| length(v).is_some_and(|n| n > 0)),
        "istype" => Test::Type,
        "head" => Test::Head,
        "tail" => Test::Tail,
        "index" => Test::Index,
        "hask" => Test::HasKey,
        "jsonata_exp" => Test::Expression,
        "else" => Test::Else,
        _ => Test::Unknown,
    };
    Ok(Rule {
        test,
        value,
        second: operand(&properties.v2, properties.v2t.as_deref())?,
    })
}

/// A value to compare with. Without a type it is a number if it reads as one.
fn operand(value: &Json, kind: Option<&str>) -> Result<Operand, Failure> {
    let text = text_of(value);
    let kind = kind.filter(|kind| !kind.is_empty()).unwrap_or("num");
    let number = coerce::to_number(&json::from_tree(value));
    let kind = match kind {
        "num" if number.is_nan() => "str",
        "num" => return Ok(Operand::Typed(Typed::Constant(number.into()))),
        kind => kind,
    };
    if kind == "jsonata" && (text.contains("$I") || text.contains("$N")) {
        return Ok(Operand::Placed(Box::new(
            Jsonata::compile(&text).map_err(|f| worded(f, kind))?,
        )));
    }
    if matches!(kind, "json" | "null") {
        // To Node-RED these are their own names (observed on 4.1).
        return Ok(Operand::Typed(Typed::Constant(kind.into())));
    }
    // The names of types and the flags of rules without a value are no values.
    Ok(Operand::Typed(Typed::parse(kind, value).or_else(
        |failure| match kind {
            "jsonata" => Err(worded(failure, kind)),
            _ => Ok(Typed::Constant(Value::String(text))),
        },
    )?))
}

impl Operand {
    fn touches(&self, property: &str) -> bool {
        match self {
            Self::Typed(typed) => typed.touches(property),
            Self::Placed(_) => true,
        }
    }
}

impl Rules {
    /// Returns whether a rule needs the length of the message's sequence.
    pub(super) fn need_count(&self) -> bool {
        self.list.iter().any(|rule| matches!(rule.test, Test::Tail))
    }

    /// Returns whether a value to compare, or to compare with, may depend on this property of the
    /// message.
    pub(super) fn touches(&self, property: &str) -> bool {
        let of_rule = |rule: &Rule| rule.value.touches(property) || rule.second.touches(property);
        self.property.touches(property) || self.list.iter().any(of_rule)
    }

    /// Fills in the outputs whose rules the message meets.
    pub(super) fn matches(
        &mut self,
        message: &Message,
        eval: &NodeContext,
        outputs: &mut Vec<usize>,
    ) -> Result<(), Unroutable> {
        outputs.clear();
        let value = match self.property.evaluate(eval, message) {
            Err(failure) if matches!(self.property, Typed::Jsonata(_)) => {
                return Err(Unroutable::Property(worded(failure, "jsonata")));
            }
            Err(failure) if matches!(self.property, Typed::Flow(_) | Typed::Global(_)) => {
                return Err(Unroutable::Path(failure));
            }
            _ if matches!(self.property, Typed::Previous) => self.previous.clone(),
            value => value.unwrap_or_default(),
        };
        let mut place = Place {
            message,
            eval,
            previous: &self.previous,
            unmatched: true,
        };
        for (output, rule) in self.list.iter().enumerate() {
            let met = rule.test(&value, &place).map_err(Unroutable::Rule)?;
            // An `else` that does not fit begins anew for the next one.
            place.unmatched = !met && (place.unmatched || matches!(rule.test, Test::Else));
            if met {
                outputs.push(output);
                if self.first_only {
                    break;
                }
            }
        }
        self.previous = value;
        Ok(())
    }
}

/// The data available to a rule besides the property.
#[derive(Clone, Copy)]
struct Place<'a> {
    message: &'a Message,
    eval: &'a NodeContext,
    previous: &'a Value,
    unmatched: bool,
}

impl Place<'_> {
    fn part(&self, name: &str) -> Result<f64, Failure> {
        let parts = self.message.get("parts");
        if parts.is_nullish() {
            return Err(type_error(format!(
                "Cannot read properties of {parts:?} (reading '{name}')"
            )));
        }
        Ok(coerce::to_number(&property(parts, name)))
    }

    fn evaluate(&self, operand: &Operand) -> Result<Value, Failure> {
        match operand {
            Operand::Typed(Typed::Constant(value)) => Ok(value.clone()),
            Operand::Typed(Typed::Previous) => Ok(self.previous.clone()),
            Operand::Typed(Typed::Jsonata(expression)) => expression
                .evaluate(self.eval, self.message)
                .map_err(|f| worded(f, "jsonata")),
            Operand::Typed(typed) => {
                Ok(typed.evaluate(self.eval, self.message).unwrap_or_default())
            }
            Operand::Placed(expression) => {
                let variables = [("I", "index"), ("N", "count")];
                let variables =
                    variables.map(|(name, part)| (name, property(self.message.get("parts"), part)));
                expression
                    .evaluate_with(self.eval, self.message, &variables)
                    .map_err(|f| worded(f, "jsonata"))
            }
        }
    }
}

impl Rule {
    fn test(&self, value: &Value, place: &Place<'_>) -> Result<bool, Failure> {
        let first = || place.evaluate(&self.value);
        let number = |operand: &Operand| Ok(coerce::to_number(&place.evaluate(operand)?));
        Ok(match &self.test {
            Test::Equal => coerce::loose_equal(value, &first()?),
            Test::NotEqual => !coerce::loose_equal(value, &first()?),
            Test::Compare(holds) => coerce::compare(value, &first()?).is_some_and(holds),
            Test::Between => {
                let (a, b) = (first()?, place.evaluate(&self.second)?);
                let within = |low: &Value, high: &Value| {
                    coerce::compare(value, low).is_some_and(Ordering::is_ge)
                        && coerce::compare(value, high).is_some_and(Ordering::is_le)
                };
                within(&a, &b) || within(&b, &a)
            }
            Test::Contains => coerce::to_text(value).contains(coerce::to_text(&first()?).as_str()),
            Test::Regex(Some(regex), _) => match &**regex {
                Ok(regex) => regex.test(&coerce::to_text(value))?,
                Err(failure) => return Err(failure.clone()),
            },
            Test::Regex(None, flags) => {
                regexp::compile(&pattern(&first()?), flags)?.test(&coerce::to_text(value))?
            }
            Test::Is(holds) => holds(value),
            Test::Type => is_type(value, &coerce::to_text(&first()?)),
            Test::Head => place.part("index")? < number(&self.value)?,
            Test::Tail => place.part("count")? - number(&self.value)? <= place.part("index")?,
            Test::Index => {
                let index = place.part("index")?;
                number(&self.value)? <= index && index <= number(&self.second)?
            }
            Test::HasKey => has_key(value, &first()?),
            Test::Expression => matches!(first()?, Value::Bool(true)),
            Test::Else => place.unmatched,
            Test::Unknown => {
                return Err(type_error("operators[rule.t] is not a function".to_owned()));
            }
        })
    }
}

fn type_error(message: String) -> Failure {
    Failure {
        name: SmolStr::new_static("TypeError"),
        ..Failure::error(message)
    }
}

/// The pattern that `new RegExp(value)` reads; without a value it matches everything.
fn pattern(value: &Value) -> SmolStr {
    match value {
        Value::Undefined => SmolStr::default(),
        other => coerce::to_text(other),
    }
}

/// `value.hasOwnProperty(key)`: texts, arrays and buffers have their indices and their length.
fn has_key(value: &Value, key: &Value) -> bool {
    if coerce::type_of(key) == "object" {
        return false;
    }
    let key = coerce::to_text(key);
    let indexed = |length: usize| key.parse().is_ok_and(|index: usize| index < length);
    match value {
        Value::Object(object) => object.contains_key(&key),
        Value::String(text) => key == "length" || indexed(text.encode_utf16().count()),
        Value::Array(elements) => key == "length" || indexed(elements.len()),
        Value::Buffer(bytes) => indexed(bytes.len()),
        _ => false,
    }
}

/// The length of a text, array, buffer or object; no other value can be empty.
fn length(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => Some(text.len()),
        Value::Array(elements) => Some(elements.len()),
        Value::Buffer(bytes) => Some(bytes.len()),
        Value::Object(object) => Some(object.len()),
        Value::Date(_) | Value::RegExp(_) | Value::Error(_) => Some(0),
        _ => None,
    }
}

fn is_type(value: &Value, name: &str) -> bool {
    match name {
        "array" => matches!(value, Value::Array(_)),
        "buffer" => matches!(value, Value::Buffer(_)),
        "json" => !value.is_undefined() && json::parse(&coerce::to_text(value)).is_ok(),
        "null" => matches!(value, Value::Null),
        "number" => matches!(value, Value::Number(n) if !n.is_nan()),
        "object" => {
            !matches!(value, Value::Array(_) | Value::Buffer(_) | Value::Null)
                && coerce::type_of(value) == "object"
        }
        name => coerce::type_of(value) == name,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
