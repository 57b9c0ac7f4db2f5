//! Environment variables of nodes: groups, subflow instances, tabs, global-config, the process
//! (docs/reference/node-red-engine.md §2.5).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::cell::Cell;
use std::fmt::{Debug, Display};
use std::rc::Rc;
use value::{Value, coerce, json};

/// Bytes of a text around variables, at most, unless it is longer as it is written: a variable that
/// has another one twice doubles with each definition. Texts around variables have some hundred
/// bytes; a variable that is wholly another one may have any length.
const MAX_TEXT: usize = 64 << 10;
/// Bytes of all such texts in the definitions of a flow set, at most: each definition may repeat a
/// long one.
const MAX_TEXTS: usize = 64 << 20;

/// Evaluates what a flow set alone does not determine. The engine does; a policy gives a mark
/// instead of a value.
pub trait Evaluator: Debug {
    /// A variable of the process; `undefined` if there is none.
    fn process_variable(&self, name: &str) -> Value;

    /// The value of an entry whose type needs more than the entry; `None`: its text is enough.
    /// `scope`: the variables around it.
    fn entry(
        &self,
        entry: &Entry,
        credentials: Option<&Map<String, Json>>,
        scope: &Rc<Env>,
    ) -> Option<Value>;

    /// The value of a variable that the same list has already; `None`: the last one counts.
    fn repeated(&self, _entry: &Entry, _before: &Value) -> Option<Value> {
        None
    }

    /// The value of a text that its variables would make too long: the text as it is written.
    fn too_long(&self, text: &str) -> Value {
        Value::from(text)
    }

    /// Reports an entry without a value.
    fn malformed_entry(&self, _name: &str, _error: &dyn Display) {}

    /// Reports an element whose name and variables are ignored.
    fn malformed_element(&self, _id: &str, _error: &dyn Display) {}
}

/// One scope of variables and the scope around it.
#[derive(Debug)]
pub struct Env {
    vars: FxHashMap<SmolStr, Value>,
    parent: Option<Rc<Env>>,
    evaluator: Rc<dyn Evaluator>,
    /// The bytes that are left of [`MAX_TEXTS`], for all scopes of a flow set.
    left: Rc<Cell<usize>>,
}

/// Entries, and the credentials that hold the values of those of type `cred`.
pub type Layer<'a> = (&'a [Entry], Option<&'a Map<String, Json>>);

/// One entry of an `env` property of a tab, group, subflow or instance.
#[derive(Debug, Clone, Deserialize)]
pub struct Entry {
    /// The variable.
    pub name: SmolStr,
    /// Its value, as text of the type.
    #[serde(default)]
    pub value: Json,
    /// `str`, `num`, `bool`, `json`, `bin`, `jsonata`, `env`, `cred`, or a type of config node.
    #[serde(default, rename = "type")]
    pub kind: SmolStr,
}

/// No variables.
impl Default for Env {
    fn default() -> Self {
        Self {
            vars: FxHashMap::default(),
            parent: None,
            evaluator: Rc::new(Nothing),
            left: Rc::default(),
        }
    }
}

/// The evaluator of scopes without variables.
#[derive(Debug)]
struct Nothing;

impl Evaluator for Nothing {
    fn process_variable(&self, _name: &str) -> Value {
        Value::Undefined
    }

    fn entry(&self, _: &Entry, _: Option<&Map<String, Json>>, _: &Rc<Env>) -> Option<Value> {
        None
    }
}

impl Env {
    /// The outermost scope: the variables of the process.
    pub fn root(evaluator: &Rc<dyn Evaluator>) -> Rc<Self> {
        Rc::new(Self {
            vars: FxHashMap::default(),
            parent: None,
            evaluator: Rc::clone(evaluator),
            left: Rc::new(Cell::new(MAX_TEXTS)),
        })
    }

    /// A scope inside `parent`: fixed variables of the runtime over those of the layers, a later
    /// layer over an earlier one. Those of type `env` are evaluated last, in order; until then they
    /// are their text (docs/reference/node-red-engine.md §2.5, and observed).
    pub fn inside(
        parent: &Rc<Self>,
        fixed: &[(&'static str, Option<&SmolStr>)],
        layers: &[Layer<'_>],
    ) -> Rc<Self> {
        let mut scope = Self {
            vars: FxHashMap::default(),
            parent: Some(Rc::clone(parent)),
            evaluator: Rc::clone(&parent.evaluator),
            left: Rc::clone(&parent.left),
        };
        let mut later: Vec<(&SmolStr, &str)> = Vec::new();
        // An entry of a later layer has the place of the one that it replaces.
        let mut places: FxHashMap<&SmolStr, usize> = FxHashMap::default();
        for (entries, credentials) in layers {
            let mut names = FxHashSet::default();
            for entry in *entries {
                later.retain(|(name, _)| *name != &entry.name);
                let next = places.len();
                places.entry(&entry.name).or_insert(next);
                let is_again = !names.insert(&entry.name);
                let before = scope.vars.get(&entry.name).filter(|_| is_again);
                let unclear = before.and_then(|before| scope.evaluator.repeated(entry, before));
                let value = match (unclear, &entry.value) {
                    (Some(value), _) => value,
                    (None, Json::String(text)) if entry.kind == "env" => {
                        later.push((&entry.name, text));
                        Value::from(text.as_str())
                    }
                    (None, _) => evaluate(entry, *credentials, parent),
                };
                scope.vars.insert(entry.name.clone(), value);
            }
        }
        later.sort_by_key(|(name, _)| places.get(name));
        for (name, text) in later {
            // A variable that names itself means the one outside.
            let value = if text == name {
                parent.lookup(name)
            } else {
                scope.define(text)
            };
            scope.vars.insert(name.clone(), value);
        }
        for (name, value) in fixed {
            let value = value.map_or(Value::Undefined, |text| Value::String(text.clone()));
            scope.vars.insert(SmolStr::new_static(name), value);
        }
        Rc::new(scope)
    }

    /// The value of a variable; `$parent.X` skips one scope; `undefined` if there is none.
    pub fn lookup(&self, name: &str) -> Value {
        if let Some(rest) = name.strip_prefix("$parent.") {
            return self
                .parent
                .as_ref()
                .map_or(Value::Undefined, |p| p.lookup(rest));
        }
        if let Some(value) = self.vars.get(name) {
            return value.clone();
        }
        match &self.parent {
            Some(parent) => parent.lookup(name),
            None => self.evaluator.process_variable(name),
        }
    }

    /// The value of a typed input of type `env`: `X` and `${X}` are the variable (`""` if there is
    /// none), any other text has each `${X}` in it replaced (docs/reference/node-red-engine.md
    /// §2.5).
    pub fn expand(&self, text: &str) -> Value {
        if has_variables(text) {
            let value = self.interpolate(text).map(Value::from);
            return value.unwrap_or_else(|| self.evaluator.too_long(text));
        }
        match self.lookup(whole_variable(text).unwrap_or(text)) {
            Value::Undefined => Value::text(""),
            value => value,
        }
    }

    /// The same for a definition, whose value is kept.
    fn define(&self, text: &str) -> Value {
        let value = self.expand(text);
        if !has_variables(text) {
            return value;
        }
        let length = value.as_str().map_or(0, str::len);
        let Some(left) = self.left.get().checked_sub(length) else {
            return self.evaluator.too_long(text);
        };
        self.left.set(left);
        value
    }

    /// The variables of this scope and those around it, inner ones first.
    pub fn scopes(&self) -> impl Iterator<Item = &FxHashMap<SmolStr, Value>> {
        std::iter::successors(Some(self), |scope| scope.parent.as_deref()).map(|s| &s.vars)
    }

    /// The text with the values of its variables; `None`: it would be too long.
    fn interpolate(&self, text: &str) -> Option<String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let Some(end) = rest[at..].find('}') else {
                break;
            };
            out.push_str(&rest[..at]);
            let value = self.lookup(&rest[at + 2..at + end]);
            if !value.is_undefined() {
                out.push_str(&coerce::to_text(&value));
            }
            if out.len() > MAX_TEXT.max(text.len()) {
                return None;
            }
            rest = &rest[at + end + 1..];
        }
        out.push_str(rest);
        Some(out)
    }
}

/// The variable that a property names which is wholly `${X}` or `$(X)`
/// (docs/reference/node-red-engine.md §2.5).
pub fn reference(text: &str) -> Option<&str> {
    let braces = text.strip_prefix("${").and_then(|t| t.strip_suffix('}'));
    let name = braces.or_else(|| text.strip_prefix("$(").and_then(|t| t.strip_suffix(')')))?;
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

fn evaluate(entry: &Entry, credentials: Option<&Map<String, Json>>, outside: &Rc<Env>) -> Value {
    if let Some(value) = outside.evaluator.entry(entry, credentials, outside) {
        return value;
    }
    let text = entry.value.as_str().unwrap_or_default();
    match entry.kind.as_str() {
        "num" => match &entry.value {
            Json::Number(n) => Value::Number(n.as_f64().unwrap_or(f64::NAN)),
            _ => Value::Number(coerce::text_to_number(text)),
        },
        "bool" => Value::Bool(entry.value == Json::Bool(true) || text.eq_ignore_ascii_case("true")),
        "json" => match serde_json::from_str::<Json>(text) {
            Ok(tree) => json::from_tree(&tree),
            Err(error) => {
                outside.evaluator.malformed_entry(&entry.name, &error);
                Value::Undefined
            }
        },
        "bin" => binary(text),
        // A config node that a subflow around this one names.
        "conf-type" => match whole_variable(text) {
            Some(name) => outside.lookup(name),
            None => json::from_tree(&entry.value),
        },
        "cred" => credentials
            .and_then(|c| c.get(entry.name.as_str()))
            .map_or(Value::text(""), json::from_tree),
        _ => json::from_tree(&entry.value),
    }
}

/// Returns whether a text has variables in it, and is not wholly one.
fn has_variables(text: &str) -> bool {
    whole_variable(text).is_none() && text.contains("${")
}

/// The variable of a text that is wholly `${X}`.
fn whole_variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    (!name.is_empty() && !name.contains('}')).then_some(name)
}

fn binary(text: &str) -> Value {
    let bytes = match serde_json::from_str::<Vec<u8>>(text) {
        Ok(bytes) => bytes,
        Err(_) => BASE64_STANDARD
            .decode(text)
            .unwrap_or_else(|_| text.as_bytes().to_vec()),
    };
    Value::buffer(Bytes::from(bytes))
}
