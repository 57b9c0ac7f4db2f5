//! The rules of a change node, parsed once when the node is built
//! (docs/reference/node-red-engine.md §4.3).

use crate::context::Scope;
use crate::expression::typed::{Typed, text_of};
use crate::properties;
use crate::script::regexp;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use value::regex::RegExp;
use value::{Failure, Path, Value, coerce};

/// The properties of a change node: a list of rules, or one rule in the old flat form.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Properties {
    rules: Option<Vec<RuleProperties>>,
    action: SmolStr,
    property: SmolStr,
    from: Json,
    to: Json,
    /// `null` counts as true.
    reg: Json,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RuleProperties {
    t: SmolStr,
    p: SmolStr,
    pt: Option<SmolStr>,
    /// Left out it is something else than `null`.
    #[serde(deserialize_with = "properties::given")]
    to: Option<Json>,
    tot: Option<SmolStr>,
    from: Json,
    fromt: Option<SmolStr>,
    re: Json,
}

/// One rule.
pub(super) enum Rule {
    Set {
        target: Target,
        value: Typed,
    },
    Change {
        target: Target,
        from: Box<From>,
        to: Typed,
    },
    Delete {
        target: Target,
    },
    Move {
        source: Target,
        target: Target,
    },
}

/// A property of the message or of a context.
#[derive(Debug, PartialEq)]
pub(super) enum Target {
    /// With its text, but for a single name: that can always be set, so no warning is about it.
    Message(Path, Option<Box<SmolStr>>),
    Context(Scope, Path),
}

/// The value for which a `change` rule searches.
pub(super) enum From {
    /// Known from the start, with the expression that finds it within a text.
    Fixed(Sought, Box<RegExp>),
    /// Taken from the message or a context each time.
    Evaluated(Typed),
}

/// A value to search for: numbers and booleans also match a whole text, as written in the rule.
pub(super) struct Sought {
    pub(super) kind: Kind,
    pub(super) text: Option<SmolStr>,
}

/// As what something is looked for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Text,
    Number(f64),
    Bool,
    /// Only within a text.
    Pattern,
}

/// Parses the rules; a failure keeps the node from running.
pub(super) fn parse(properties: Properties) -> Result<Box<[Rule]>, Failure> {
    let rules = properties.rules.unwrap_or_else(|| {
        let action = if properties.action == "replace" {
            "set".into()
        } else {
            properties.action
        };
        vec![RuleProperties {
            t: action,
            p: properties.property,
            to: Some(text_of(&properties.to).as_str().into()),
            from: properties.from,
            re: Json::Bool(properties.reg != Json::Bool(false)),
            ..RuleProperties::default()
        }]
    });
    let rules = rules
        .into_iter()
        .filter(|rule| !rule.t.is_empty())
        .map(|rule| parse_rule(&rule));
    rules.filter_map(Result::transpose).collect()
}

/// A rule about a property that cannot be named does nothing, and the others go on (observed on
/// Node-RED 4.1).
fn parse_rule(properties: &RuleProperties) -> Result<Option<Rule>, Failure> {
    let Ok(target) = Target::parse(properties.pt.as_deref().unwrap_or("msg"), &properties.p) else {
        return Ok(None);
    };
    Ok(Some(match properties.t.as_str() {
        "set" => Rule::Set {
            value: match to(properties) {
                // A value that is JSON but cannot be a buffer changes nothing.
                Err(failure) if failure.code == "INVALID_BUFFER_DATA" => return Ok(None),
                // Nor does what cannot be named.
                Err(failure) if failure.code == "INVALID_EXPR" => return Ok(None),
                value => value?,
            },
            target,
        },
        "change" => Rule::Change {
            from: Box::new(from(properties)?),
            to: to(properties)?,
            target,
        },
        "delete" => Rule::Delete { target },
        "move" => {
            let kind = properties.tot.as_deref().unwrap_or("msg");
            Rule::Move {
                target: Target::parse(kind, &text_of(value(properties)))?,
                source: target,
            }
        }
        _ => return Ok(None),
    }))
}

/// The new value. Old flows have no type: `msg.x` is a property then, anything else text.
fn to(properties: &RuleProperties) -> Result<Typed, Failure> {
    let text = text_of(value(properties));
    let kind = match &properties.tot {
        Some(kind) => kind.as_str(),
        None if text.starts_with("msg.") => "msg",
        None => "str",
    };
    // A missing value and `null` are not converted to text.
    match (kind, &properties.to) {
        ("str", None) => return Ok(Typed::Constant(Value::Undefined)),
        ("str", Some(Json::Null)) => return Ok(Typed::Constant(Value::Null)),
        ("num", None) => return Ok(Typed::Constant(Value::Number(f64::NAN))),
        _ => {}
    }
    Typed::parse(kind, value(properties)).map_err(|failure| match kind {
        "json" => Failure::text("Invalid 'to' JSON property"),
        "bin" if failure.code.is_empty() => Failure::text("Invalid 'to' JSON property"),
        "jsonata" => invalid_expression(&failure),
        _ => failure,
    })
}

fn value(properties: &RuleProperties) -> &Json {
    properties.to.as_ref().unwrap_or(&Json::Null)
}

pub(super) fn invalid_expression(failure: &Failure) -> Failure {
    Failure::text(format!("Invalid JSONata expression: {}", failure.message))
}

pub(super) fn invalid_from(what: &str) -> Failure {
    Failure::text(format!("Invalid 'from' property: {what}"))
}

fn from(properties: &RuleProperties) -> Result<From, Failure> {
    let text = text_of(&properties.from);
    let kind = properties
        .fromt
        .as_deref()
        .unwrap_or(if properties.re == true { "re" } else { "str" });
    let sought = match kind {
        "msg" | "flow" | "global" => {
            return Ok(From::Evaluated(Typed::parse(kind, &properties.from)?));
        }
        "num" => Kind::Number(coerce::text_to_number(&text)),
        "bool" => Kind::Bool,
        "str" => Kind::Text,
        _ => Kind::Pattern,
    };
    let source = if kind == "re" {
        text.to_string()
    } else {
        regress::escape(&text)
    };
    let regex = regexp::compile(&source, "g").map_err(|failure| invalid_from(&failure.message))?;
    let sought = Sought {
        kind: sought,
        text: Some(text),
    };
    Ok(From::Fixed(sought, Box::new(regex)))
}

impl Rule {
    /// Returns whether the rule reads or changes this property of the message, or may do so.
    pub(super) fn touches(&self, property: &str) -> bool {
        match self {
            Self::Set { target, value } => target.touches(property) || value.touches(property),
            Self::Change { target, from, to } => {
                let sought = matches!(&**from, From::Evaluated(from) if from.touches(property));
                sought || target.touches(property) || to.touches(property)
            }
            Self::Delete { target } => target.touches(property),
            Self::Move { source, target } => source.touches(property) || target.touches(property),
        }
    }
}

impl Target {
    fn touches(&self, property: &str) -> bool {
        match self {
            Self::Message(path, _) => path.touches(property),
            Self::Context(_, path) => path.is_nested(),
        }
    }

    fn parse(kind: &str, text: &str) -> Result<Self, Failure> {
        let path = if kind == "msg" {
            Path::parse_message(text)
        } else {
            Path::parse(text)
        };
        let path =
            path.map_err(|_| Failure::error(format!("Invalid property expression: {text}")))?;
        match kind {
            "msg" => {
                let text = path.as_name().is_none().then(|| Box::new(text.into()));
                Ok(Self::Message(path, text))
            }
            "flow" => Ok(Self::Context(Scope::Flow, path)),
            "global" => Ok(Self::Context(Scope::Global, path)),
            other => Err(Failure::error(format!("Invalid property type: {other}"))),
        }
    }
}
