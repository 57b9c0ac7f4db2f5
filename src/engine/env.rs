//! Environment variables of nodes: groups, subflow instances, tabs, global-config, the process (facts engine §2.5).

use super::expression::{coerce, json};
use super::value::Value;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::rc::Rc;

/// One scope of variables and the scope around it.
#[derive(Debug, Default)]
pub struct Env {
    vars: FxHashMap<SmolStr, Value>,
    parent: Option<Rc<Env>>,
}

/// One entry of an `env` property of a tab, group, subflow or instance.
#[derive(Debug, Clone, Deserialize)]
pub struct Entry {
    /// The variable.
    pub name: SmolStr,
    /// Its value, as text of the type.
    #[serde(default)]
    pub value: Json,
    /// `str`, `num`, `bool`, `json`, `bin`, `env`, `cred`, or a type of config node.
    #[serde(default, rename = "type")]
    pub kind: SmolStr,
}

impl Env {
    /// The outermost scope: what `global-config` says, over the process's environment.
    pub fn root() -> Rc<Self> {
        Rc::new(Self::default())
    }

    /// A scope inside `parent`: fixed variables of the runtime first, then entries evaluated in order,
    /// those of type `env` last (facts engine §2.5). `credentials` hold the values of type `cred`.
    pub fn inside(
        parent: &Rc<Self>,
        fixed: &[(&'static str, &SmolStr)],
        entries: &[Entry],
        credentials: Option<&Map<String, Json>>,
    ) -> Rc<Self> {
        let mut scope = Self {
            vars: FxHashMap::default(),
            parent: Some(Rc::clone(parent)),
        };
        for entry in entries.iter().filter(|e| e.kind != "env") {
            let value = evaluate(entry, credentials);
            scope.vars.insert(entry.name.clone(), value);
        }
        for entry in entries.iter().filter(|e| e.kind == "env") {
            let text = entry.value.as_str().unwrap_or_default();
            // A variable that names itself means the one outside.
            let value = if text == entry.name || text == format!("${{{}}}", entry.name) {
                parent.lookup(&entry.name)
            } else {
                scope.expand(text)
            };
            scope.vars.insert(entry.name.clone(), value);
        }
        for (name, value) in fixed {
            scope
                .vars
                .insert(SmolStr::new_static(name), Value::String((*value).clone()));
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
            None => std::env::var(name).map_or(Value::Undefined, Value::from),
        }
    }

    /// The value of a typed input of type `env`: `X` and `${X}` are the variable (`""` if there is none),
    /// any other text has each `${X}` in it replaced (facts engine §2.5).
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

    /// A property that is wholly `${X}` or `$(X)` is the variable, if there is one (facts engine §2.5).
    pub fn substitute(&self, text: &str) -> Option<Value> {
        let name = text
            .strip_prefix("${")
            .and_then(|t| t.strip_suffix('}'))
            .or_else(|| text.strip_prefix("$(").and_then(|t| t.strip_suffix(')')))?;
        match self.lookup(name) {
            Value::Undefined => None,
            value => Some(value),
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

fn evaluate(entry: &Entry, credentials: Option<&Map<String, Json>>) -> Value {
    let text = entry.value.as_str().unwrap_or_default();
    match entry.kind.as_str() {
        "num" => match &entry.value {
            Json::Number(n) => Value::Number(n.as_f64().unwrap_or(f64::NAN)),
            _ => Value::Number(text.trim().parse().unwrap_or(f64::NAN)),
        },
        "bool" => Value::Bool(entry.value == Json::Bool(true) || text.eq_ignore_ascii_case("true")),
        "json" => {
            serde_json::from_str::<Json>(text).map_or(Value::Undefined, |v| json::from_tree(&v))
        }
        "bin" => binary(text),
        "cred" => credentials
            .and_then(|c| c.get(entry.name.as_str()))
            .map_or(Value::Undefined, json::from_tree),
        _ => json::from_tree(&entry.value),
    }
}

fn binary(text: &str) -> Value {
    let bytes = match serde_json::from_str::<Vec<u8>>(text) {
        Ok(bytes) => bytes,
        Err(_) => BASE64_STANDARD
            .decode(text)
            .unwrap_or_else(|_| text.as_bytes().to_vec()),
    };
    Value::Buffer(Bytes::from(bytes))
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
            &Env::root(),
            &[],
            &[
                entry("A", "str", "tab"),
                entry("N", "num", "7"),
                entry("E", "env", "${A}-x"),
            ],
            None,
        );
        let group = Env::inside(
            &tab,
            &[],
            &[entry("A", "str", "group"), entry("N", "env", "N")],
            None,
        );
        (tab, group)
    }

    #[test]
    fn an_inner_scope_hides_the_outer_one_and_parent_skips_it() {
        let (_, group) = scopes();
        assert_eq!(group.lookup("A").as_str(), Some("group"));
        assert_eq!(group.lookup("$parent.A").as_str(), Some("tab"));
    }

    #[test]
    fn a_variable_that_refers_to_itself_takes_the_value_outside() {
        let (_, group) = scopes();
        assert_eq!(group.lookup("N").as_number(), Some(7.0));
    }

    #[test]
    fn an_env_entry_is_interpolated() {
        let (tab, _) = scopes();
        assert_eq!(tab.lookup("E").as_str(), Some("tab-x"));
    }

    #[test]
    fn only_a_whole_property_is_substituted() {
        let (tab, _) = scopes();
        assert_eq!(
            tab.substitute("${A}")
                .and_then(|v| v.as_str().map(String::from)),
            Some("tab".into())
        );
        assert_eq!(
            tab.substitute("$(N)").and_then(|v| v.as_number()),
            Some(7.0)
        );
        assert!(tab.substitute("pre-${A}").is_none());
        assert!(tab.substitute("${NO_SUCH_VARIABLE}").is_none());
    }

    #[test]
    fn an_unknown_variable_expands_to_an_empty_text() {
        let (tab, _) = scopes();
        assert_eq!(tab.expand("NO_SUCH_VARIABLE").as_str(), Some(""));
        assert_eq!(tab.expand("<${A}>").as_str(), Some("<tab>"));
    }
}
