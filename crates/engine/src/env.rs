//! Environment variables of nodes: groups, subflow instances, tabs, global-config, the process
//! (docs/reference/node-red-engine.md §2.5).

use super::expression::eval_context::EvalContext;
use super::expression::jsonata::Jsonata;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use flows::HiddenVariables;
use formats::mustache::Lookup;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::rc::Rc;
use value::{Object, Path, Value, coerce, json};

/// One scope of variables and the scope around it.
#[derive(Debug, Default)]
pub struct Env {
    vars: FxHashMap<SmolStr, Value>,
    parent: Option<Rc<Env>>,
    /// Variables of the process that are not looked up; used in the outermost scope only.
    hidden: HiddenVariables,
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

impl Env {
    /// The outermost scope: the process's environment without the hidden variables.
    pub fn root(hidden: &HiddenVariables) -> Rc<Self> {
        Rc::new(Self {
            hidden: hidden.clone(),
            ..Self::default()
        })
    }

    /// A scope inside `parent`: fixed variables of the runtime over those of the layers, a later layer over an earlier
    /// one. Those of type `env` are evaluated last, in order; until then they are their text
    /// (docs/reference/node-red-engine.md §2.5, and observed).
    pub fn inside(
        parent: &Rc<Self>,
        fixed: &[(&'static str, Option<&SmolStr>)],
        layers: &[Layer<'_>],
    ) -> Rc<Self> {
        let mut scope = Self {
            vars: FxHashMap::default(),
            parent: Some(Rc::clone(parent)),
            hidden: HiddenVariables::default(),
        };
        let mut later: Vec<(&SmolStr, &str)> = Vec::new();
        for (entries, credentials) in layers {
            for entry in *entries {
                later.retain(|(name, _)| *name != &entry.name);
                let value = if entry.kind == "env" {
                    let text = entry.value.as_str().unwrap_or_default();
                    later.push((&entry.name, text));
                    Value::from(text)
                } else {
                    evaluate(entry, *credentials, parent)
                };
                scope.vars.insert(entry.name.clone(), value);
            }
        }
        for (name, text) in later {
            // A variable that names itself means the one outside.
            let value = if text == name {
                parent.lookup(name)
            } else {
                scope.expand(text)
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
            None if self.hidden.hides(name) => Value::Undefined,
            None => std::env::var(name).map_or(Value::Undefined, Value::from),
        }
    }

    /// The value of a typed input of type `env`: `X` and `${X}` are the variable (`""` if there is none),
    /// any other text has each `${X}` in it replaced (docs/reference/node-red-engine.md §2.5).
    pub fn expand(&self, text: &str) -> Value {
        let whole = text
            .strip_prefix("${")
            .and_then(|t| t.strip_suffix('}'))
            .filter(|t| !t.contains('}'));
        if whole.is_none() && text.contains("${") {
            return Value::from(self.interpolate(text));
        }
        match self.lookup(whole.unwrap_or(text)) {
            Value::Undefined => Value::text(""),
            value => value,
        }
    }

    fn interpolate(&self, text: &str) -> String {
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
            rest = &rest[at + end + 1..];
        }
        out.push_str(rest);
        out
    }
}

/// The variable that a property names which is wholly `${X}` or `$(X)` (docs/reference/node-red-engine.md §2.5).
pub fn reference(text: &str) -> Option<&str> {
    let braces = text.strip_prefix("${").and_then(|t| t.strip_suffix('}'));
    let name = braces.or_else(|| text.strip_prefix("$(").and_then(|t| t.strip_suffix(')')))?;
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

fn evaluate(entry: &Entry, credentials: Option<&Map<String, Json>>, outside: &Rc<Env>) -> Value {
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
                tracing::error!(target: "flow", variable = %entry.name, %error, "an environment variable has no value");
                Value::Undefined
            }
        },
        "bin" => binary(text),
        "cred" => credentials
            .and_then(|c| c.get(entry.name.as_str()))
            .map_or(Value::text(""), json::from_tree),
        "jsonata" => computed(&entry.name, text, outside),
        _ => json::from_tree(&entry.value),
    }
}

/// The value of an expression, which sees only the variables outside of its scope.
fn computed(name: &str, text: &str, outside: &Rc<Env>) -> Value {
    let result = Jsonata::compile(text).and_then(|expression| {
        let nothing = Value::object(Object::default());
        expression.evaluate_on(&Variables(Rc::clone(outside)), &nothing)
    });
    result.unwrap_or_else(|failure| {
        tracing::error!(target: "flow", variable = name, %failure, "an environment variable has no value");
        Value::Undefined
    })
}

/// The context in which the expression of a variable is evaluated: other variables, without context stores and time.
#[derive(Clone)]
struct Variables(Rc<Env>);

impl Lookup for Variables {
    fn env(&self, name: &str) -> Value {
        self.0.lookup(name)
    }

    fn flow(&self, _key: &Path) -> Value {
        Value::Undefined
    }

    fn global(&self, _key: &Path) -> Value {
        Value::Undefined
    }
}

impl EvalContext for Variables {
    fn now(&self) -> f64 {
        0.0
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, kind: &str, value: &str) -> Entry {
        Entry {
            name: name.into(),
            kind: kind.into(),
            value: Json::from(value),
        }
    }

    fn scopes() -> (Rc<Env>, Rc<Env>) {
        let tab = Env::inside(
            &Env::root(&HiddenVariables::default()),
            &[],
            &[(
                &[
                    entry("A", "str", "tab"),
                    entry("N", "num", "7"),
                    entry("E", "env", "${A}-x"),
                    entry("H", "num", "0x10"),
                    entry("J", "jsonata", "1 + 1"),
                    entry("K", "jsonata", "$env('A') & '!'"),
                    entry("C", "cred", ""),
                ],
                None,
            )],
        );
        let group = Env::inside(
            &tab,
            &[],
            &[(
                &[
                    entry("A", "str", "group"),
                    entry("N", "env", "N"),
                    entry("K", "jsonata", "$env('A') & '!'"),
                    entry("L", "env", "M"),
                    entry("M", "env", "${M}2"),
                ],
                None,
            )],
        );
        (tab, group)
    }

    #[test]
    fn hidden_process_variables_are_unset_but_flows_may_define_them() {
        let hidden = HiddenVariables::new(["PATH".to_owned(), "CARGO_*".to_owned()]);
        let root = Env::root(&hidden);
        assert!(root.lookup("PATH").is_undefined());
        assert!(root.lookup("CARGO_MANIFEST_DIR").is_undefined());
        let tab = Env::inside(&root, &[], &[(&[entry("PATH", "str", "own")], None)]);
        assert_eq!(tab.lookup("PATH").as_str(), Some("own"));
        assert_eq!(tab.expand("<${CARGO_MANIFEST_DIR}>").as_str(), Some("<>"));
        assert!(tab.lookup("$parent.PATH").is_undefined());
        let open = Env::root(&HiddenVariables::default());
        assert!(open.lookup("PATH").as_str().is_some());
    }

    #[test]
    fn an_inner_scope_hides_the_outer_one_and_parent_skips_it() {
        let (_, group) = scopes();
        assert_eq!(group.lookup("A").as_str(), Some("group"));
        assert_eq!(group.lookup("$parent.A").as_str(), Some("tab"));
    }

    #[test]
    fn a_self_reference_takes_the_value_of_the_outer_scope() {
        let (_, group) = scopes();
        assert_eq!(group.lookup("N").as_number(), Some(7.0));
    }

    #[test]
    fn expressions_can_read_variables_of_outer_scopes() {
        let (tab, group) = scopes();
        assert_eq!(tab.lookup("J").as_number(), Some(2.0));
        assert_eq!(tab.lookup("K").as_str(), Some("!"));
        assert_eq!(group.lookup("K").as_str(), Some("tab!"));
        assert_eq!(tab.lookup("H").as_number(), Some(16.0));
        assert_eq!(tab.lookup("C").as_str(), Some(""));
    }

    /// As observed on Node-RED 4.1.15.
    #[test]
    fn an_unevaluated_env_entry_reads_as_its_source_text() {
        let (_, group) = scopes();
        assert_eq!(group.lookup("L").as_str(), Some("${M}2"));
        assert_eq!(group.lookup("M").as_str(), Some("${M}22"));
    }

    #[test]
    fn a_later_layer_hides_an_earlier_one_and_parent_skips_both() {
        let (tab, _) = scopes();
        let under = [entry("A", "str", "under"), entry("B", "str", "under")];
        let over = [entry("A", "str", "over"), entry("P", "env", "$parent.A")];
        let scope = Env::inside(&tab, &[], &[(&under, None), (&over, None)]);
        assert_eq!(scope.lookup("A").as_str(), Some("over"));
        assert_eq!(scope.lookup("B").as_str(), Some("under"));
        assert_eq!(scope.lookup("P").as_str(), Some("tab"));
        assert_eq!(scope.lookup("$parent.A").as_str(), Some("tab"));
    }

    #[test]
    fn an_env_entry_is_interpolated() {
        let (tab, _) = scopes();
        assert_eq!(tab.lookup("E").as_str(), Some("tab-x"));
    }

    #[test]
    fn an_entry_that_cannot_be_read_has_no_value() {
        let root = Env::root(&HiddenVariables::default());
        let entries = [entry("J", "json", "{bad"), entry("E", "jsonata", "1 +")];
        let scope = Env::inside(&root, &[], &[(&entries, None)]);
        assert!(scope.lookup("J").is_undefined() && scope.lookup("E").is_undefined());
    }

    #[test]
    fn only_a_whole_property_refers_to_a_variable() {
        assert_eq!(reference("${A}"), Some("A"));
        assert_eq!(reference("$(N)"), Some("N"));
        assert_eq!(reference("pre-${A}"), None);
        assert_eq!(reference("${A B}"), None);
        assert_eq!(reference("${}"), None);
        assert_eq!(reference("${A)"), None);
    }

    #[test]
    fn an_unknown_variable_expands_to_an_empty_text() {
        let (tab, _) = scopes();
        assert_eq!(tab.expand("NO_SUCH_VARIABLE").as_str(), Some(""));
        assert_eq!(tab.expand("<${A}>").as_str(), Some("<tab>"));
    }
}
