//! Checks a value against a JSON schema (draft 6 and 7) and words what is wrong as Ajv 8 does. Pure.
//!
//! Knows the schema's own definitions only: what refers to anything else does not compile, nor does what Ajv's strict mode
//! refuses.

use super::json_schema_strict as strict;
use crate::engine::expression::coerce;
use crate::engine::expression::regex::RegExp;
use crate::engine::value::{Object, Value};
use smol_str::SmolStr;
use std::fmt::Write;

/// A schema that can be used.
pub(super) struct Schema(Value);

/// Why a value does not fit.
pub(super) struct Misfit {
    /// All that is wrong, in a sentence.
    pub text: String,
    /// The same, one by one.
    pub errors: Value,
}

/// References may lead around in circles.
const DEEPEST: usize = 128;

impl Schema {
    /// `None`: it is no schema.
    pub(super) fn compile(schema: &Value) -> Option<Self> {
        strict::is_schema(schema, schema).then(|| Self(schema.clone()))
    }

    /// Whether it was made of the same.
    pub(super) fn is(&self, schema: &Value) -> bool {
        coerce::deep_equal(&self.0, schema)
    }

    pub(super) fn check(&self, value: &Value) -> Result<(), Misfit> {
        let mut check = Check {
            root: &self.0,
            errors: Vec::new(),
            depth: 0,
        };
        let at = At {
            instance: String::new(),
            schema: "#".to_owned(),
            name: None,
        };
        check.value(&self.0, value, &at);
        if check.errors.is_empty() {
            return Ok(());
        }
        let texts = check.errors.iter().map(|(text, _)| text.as_str());
        Err(Misfit {
            text: texts.collect::<Vec<_>>().join(", "),
            errors: Value::array(check.errors.into_iter().map(|(_, error)| error).collect()),
        })
    }
}

/// Where a check stands.
#[derive(Clone)]
struct At {
    /// In the value, as a JSON pointer.
    instance: String,
    /// In the schema.
    schema: String,
    /// The property whose name is being checked.
    name: Option<SmolStr>,
}

impl At {
    /// Deeper in the schema.
    fn under(&self, keys: &[&str]) -> Self {
        let mut at = self.clone();
        for key in keys {
            at.schema.push('/');
            at.schema.push_str(&fragment(key));
        }
        at
    }

    /// Deeper in the value.
    fn inside(mut self, key: &str) -> Self {
        let _ = write!(self.instance, "/{}", pointer(key));
        self
    }
}

fn pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// A pointer's part as `encodeURIComponent` has it.
fn fragment(key: &str) -> String {
    let mut out = String::new();
    for byte in pointer(key).bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => out.push(byte as char),
            b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')' => out.push(byte as char),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

type Params = Vec<(&'static str, Value)>;

/// A check under way.
struct Check<'a> {
    root: &'a Value,
    /// What is wrong: as text and as an object.
    errors: Vec<(String, Value)>,
    depth: usize,
}

impl<'a> Check<'a> {
    fn wrong(&mut self, at: &At, keyword: &str, message: String, params: Params) {
        let params = params.into_iter().map(|(k, v)| (SmolStr::new_static(k), v));
        let mut error = Object::default();
        let path = if keyword == "false schema" {
            format!("{}/false schema", at.schema)
        } else {
            at.under(&[keyword]).schema
        };
        let mut set = |key, value| error.insert(SmolStr::new_static(key), value);
        set("instancePath", Value::from(at.instance.as_str()));
        set("schemaPath", Value::from(path));
        set("keyword", Value::from(keyword));
        set("params", Value::object(params.collect()));
        set("message", Value::from(message.as_str()));
        if let Some(name) = &at.name {
            set("propertyName", Value::from(name.clone()));
        }
        let text = format!("data{} {message}", at.instance);
        self.errors.push((text, Value::object(error)));
    }

    /// Checks a value against a part of the schema, in Ajv's order; true if it fits.
    fn value(&mut self, schema: &'a Value, value: &Value, at: &At) -> bool {
        let before = self.errors.len();
        if self.depth == DEEPEST {
            return true;
        }
        self.depth += 1;
        match schema {
            Value::Bool(false) => {
                self.wrong(
                    at,
                    "false schema",
                    "boolean schema is false".to_owned(),
                    vec![],
                );
            }
            Value::Object(schema) => self.keywords(schema, value, at),
            _ => {}
        }
        self.depth -= 1;
        self.errors.len() == before
    }

    /// Whether a value fits, whatever is wrong with it.
    fn fits(&mut self, schema: &'a Value, value: &Value, at: &At) -> bool {
        let before = self.errors.len();
        let fits = self.value(schema, value, at);
        self.errors.truncate(before);
        fits
    }

    fn keywords(&mut self, schema: &'a Object, value: &Value, at: &At) {
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            if let Some(there) = strict::resolve(self.root, target) {
                let at = At {
                    schema: target.to_owned(),
                    ..at.clone()
                };
                self.value(there, value, &at);
            }
            return;
        }
        let types = types(schema);
        let fits = types.is_empty() || types.iter().any(|kind| is_a(value, kind));
        // One type that has keywords of its own is told with them.
        let late = matches!(types.as_slice(), [one] if strict::has_rules_for(schema, one));
        if !fits && !late {
            self.wrong_type(schema, at);
        }
        for kind in ["number", "string", "", "array", "object"] {
            match (kind, value) {
                ("number", Value::Number(n)) => self.number(schema, *n, at),
                ("string", Value::String(text)) => self.text(schema, text, at),
                ("", value) => self.any(schema, value, at),
                ("array", Value::Array(elements)) => self.array(schema, elements, at),
                ("object", Value::Object(object)) => self.object(schema, object, at),
                _ if !fits && late && types.first().is_some_and(|one| one == kind) => {
                    self.wrong_type(schema, at);
                }
                _ => {}
            }
        }
    }

    fn wrong_type(&mut self, schema: &Object, at: &At) {
        let kind = schema.get("type").cloned().unwrap_or_default();
        let message = format!("must be {}", coerce::to_text(&kind));
        self.wrong(at, "type", message, vec![("type", kind)]);
    }

    fn number(&mut self, schema: &Object, n: f64, at: &At) {
        let table: [(&str, &str, fn(f64, f64) -> bool); 4] = [
            ("maximum", "<=", |n, limit| n <= limit),
            ("minimum", ">=", |n, limit| n >= limit),
            ("exclusiveMaximum", "<", |n, limit| n < limit),
            ("exclusiveMinimum", ">", |n, limit| n > limit),
        ];
        for (keyword, sign, fits) in table {
            if let Some(limit) = number_of(schema, keyword)
                && !fits(n, limit)
            {
                let message = format!("must be {sign} {}", coerce::number_text(limit));
                let params = vec![("comparison", sign.into()), ("limit", limit.into())];
                self.wrong(at, keyword, message, params);
            }
        }
        if let Some(step) = number_of(schema, "multipleOf")
            && (n / step).fract().abs() > 0.0
        {
            let message = format!("must be multiple of {}", coerce::number_text(step));
            self.wrong(at, "multipleOf", message, vec![("multipleOf", step.into())]);
        }
    }

    /// Counts that must not be more or fewer than some number.
    fn limits(&mut self, schema: &Object, count: usize, what: (&str, &str, &str), at: &At) {
        let (most, least, unit) = what;
        for (keyword, word) in [(most, "more"), (least, "fewer")] {
            let Some(limit) = number_of(schema, keyword) else {
                continue;
            };
            let count = count as f64;
            if (word == "more" && count > limit) || (word == "fewer" && count < limit) {
                let limit_text = coerce::number_text(limit);
                let message = format!("must NOT have {word} than {limit_text} {unit}");
                self.wrong(at, keyword, message, vec![("limit", limit.into())]);
            }
        }
    }

    fn text(&mut self, schema: &Object, text: &str, at: &At) {
        let length = text.chars().count();
        self.limits(schema, length, ("maxLength", "minLength", "characters"), at);
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && !matches(pattern, text)
        {
            let message = format!("must match pattern \"{pattern}\"");
            self.wrong(at, "pattern", message, vec![("pattern", pattern.into())]);
        }
    }

    /// Keywords for values of any type.
    fn any(&mut self, schema: &'a Object, value: &Value, at: &At) {
        if let Some(constant) = schema.get("const")
            && !coerce::deep_equal(constant, value)
        {
            let message = "must be equal to constant".to_owned();
            let params = vec![("allowedValue", constant.clone())];
            self.wrong(at, "const", message, params);
        }
        if let Some(allowed @ Value::Array(values)) = schema.get("enum")
            && !values.iter().any(|v| coerce::deep_equal(v, value))
        {
            let message = "must be equal to one of the allowed values".to_owned();
            self.wrong(
                at,
                "enum",
                message,
                vec![("allowedValues", allowed.clone())],
            );
        }
        if let Some(not) = schema.get("not")
            && self.fits(not, value, at)
        {
            self.wrong(at, "not", "must NOT be valid".to_owned(), vec![]);
        }
        self.alternatives(schema, value, at);
        if let Some(Value::Array(all)) = schema.get("allOf") {
            for (index, each) in all.iter().enumerate() {
                self.value(each, value, &at.under(&["allOf", &index.to_string()]));
            }
        }
        if let Some(condition) = schema.get("if") {
            let branch = if self.fits(condition, value, at) {
                "then"
            } else {
                "else"
            };
            if let Some(schema) = schema.get(branch)
                && !self.value(schema, value, &at.under(&[branch]))
            {
                let message = format!("must match \"{branch}\" schema");
                self.wrong(at, "if", message, vec![("failingKeyword", branch.into())]);
            }
        }
    }

    fn alternatives(&mut self, schema: &'a Object, value: &Value, at: &At) {
        for keyword in ["anyOf", "oneOf"] {
            let Some(Value::Array(all)) = schema.get(keyword) else {
                continue;
            };
            let before = self.errors.len();
            let mut passing = Vec::new();
            for (index, each) in all.iter().enumerate() {
                if self.value(each, value, &at.under(&[keyword, &index.to_string()])) {
                    passing.push(Value::Number(index as f64));
                }
            }
            let one = keyword == "oneOf";
            if passing.len() == 1 || !one && !passing.is_empty() {
                self.errors.truncate(before);
            } else if one {
                passing.truncate(2);
                let passing = if passing.is_empty() {
                    Value::Null
                } else {
                    Value::array(passing)
                };
                let message = "must match exactly one schema in oneOf".to_owned();
                self.wrong(at, keyword, message, vec![("passingSchemas", passing)]);
            } else {
                let message = "must match a schema in anyOf".to_owned();
                self.wrong(at, keyword, message, vec![]);
            }
        }
    }

    fn array(&mut self, schema: &'a Object, elements: &[Value], at: &At) {
        self.limits(
            schema,
            elements.len(),
            ("maxItems", "minItems", "items"),
            at,
        );
        if schema.get("uniqueItems").is_some_and(coerce::truthy) {
            self.unique(elements, at);
        }
        let (items, more) = (schema.get("items"), schema.get("additionalItems"));
        if let Some(Value::Array(first)) = items {
            let rest = elements.iter().enumerate().skip(first.len());
            match more {
                Some(Value::Bool(false)) if elements.len() > first.len() => {
                    let limit = first.len();
                    let message = format!("must NOT have more than {limit} items");
                    let params = vec![("limit", (limit as f64).into())];
                    self.wrong(at, "additionalItems", message, params);
                }
                Some(more @ Value::Object(_)) => {
                    for (index, element) in rest {
                        let at = at.under(&["additionalItems"]).inside(&index.to_string());
                        self.value(more, element, &at);
                    }
                }
                _ => {}
            }
            for (index, (each, element)) in first.iter().zip(elements).enumerate() {
                let index = index.to_string();
                let at = at.under(&["items", &index]).inside(&index);
                self.value(each, element, &at);
            }
        } else if let Some(each) = items {
            for (index, element) in elements.iter().enumerate() {
                let at = at.under(&["items"]).inside(&index.to_string());
                self.value(each, element, &at);
            }
        }
        let Some(wanted) = schema.get("contains") else {
            return;
        };
        let before = self.errors.len();
        let contains = elements.iter().enumerate().any(|(index, element)| {
            let at = at.under(&["contains"]).inside(&index.to_string());
            self.value(wanted, element, &at)
        });
        if contains {
            self.errors.truncate(before);
        } else {
            let message = "must contain at least 1 valid item(s)".to_owned();
            self.wrong(at, "contains", message, vec![("minContains", 1.0.into())]);
        }
    }

    fn unique(&mut self, elements: &[Value], at: &At) {
        for (i, a) in elements.iter().enumerate().rev() {
            let same = |b: &&Value| coerce::deep_equal(a, b);
            let earlier = elements.get(..i).unwrap_or_default();
            let Some((j, _)) = earlier.iter().enumerate().rev().find(|(_, b)| same(b)) else {
                continue;
            };
            let message =
                format!("must NOT have duplicate items (items ## {j} and {i} are identical)");
            let params = vec![("i", (i as f64).into()), ("j", (j as f64).into())];
            return self.wrong(at, "uniqueItems", message, params);
        }
    }

    fn object(&mut self, schema: &'a Object, object: &Object, at: &At) {
        let names = ("maxProperties", "minProperties", "properties");
        self.limits(schema, object.len(), names, at);
        if let Some(Value::Array(names)) = schema.get("required") {
            for name in names.iter().filter_map(Value::as_str) {
                if !object.contains_key(name) {
                    let message = format!("must have required property '{name}'");
                    self.wrong(
                        at,
                        "required",
                        message,
                        vec![("missingProperty", name.into())],
                    );
                }
            }
        }
        if let Some(wanted) = schema.get("propertyNames") {
            for name in object.keys() {
                let mut named = at.under(&["propertyNames"]);
                named.name = Some(name.clone());
                if !self.value(wanted, &Value::from(name.clone()), &named) {
                    let message = "property name must be valid".to_owned();
                    let params = vec![("propertyName", name.clone().into())];
                    self.wrong(at, "propertyNames", message, params);
                }
            }
        }
        self.additional(schema, object, at);
        self.dependencies(schema, object, at);
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (name, each) in properties.iter() {
                if let Some(value) = object.get(name) {
                    self.value(each, value, &at.under(&["properties", name]).inside(name));
                }
            }
        }
        if let Some(Value::Object(patterns)) = schema.get("patternProperties") {
            for (pattern, each) in patterns.iter() {
                for (name, value) in object.iter().filter(|(name, _)| matches(pattern, name)) {
                    let at = at.under(&["patternProperties", pattern]).inside(name);
                    self.value(each, value, &at);
                }
            }
        }
    }

    fn additional(&mut self, schema: &'a Object, object: &Object, at: &At) {
        let Some(additional) = schema.get("additionalProperties") else {
            return;
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        for (name, value) in object {
            let known = properties.is_some_and(|p| p.contains_key(name))
                || patterns.is_some_and(|p| p.keys().any(|pattern| matches(pattern, name)));
            match additional {
                _ if known => {}
                Value::Bool(false) => {
                    let message = "must NOT have additional properties".to_owned();
                    let params = vec![("additionalProperty", name.clone().into())];
                    self.wrong(at, "additionalProperties", message, params);
                }
                each => {
                    let at = at.under(&["additionalProperties"]).inside(name);
                    self.value(each, value, &at);
                }
            }
        }
    }

    fn dependencies(&mut self, schema: &'a Object, object: &Object, at: &At) {
        let Some(Value::Object(dependencies)) = schema.get("dependencies") else {
            return;
        };
        let there = || dependencies.iter().filter(|(n, _)| object.contains_key(*n));
        for (name, needed) in there() {
            let Value::Array(needed) = needed else {
                continue;
            };
            let needed: Vec<&str> = needed.iter().filter_map(Value::as_str).collect();
            for missing in needed.iter().filter(|n| !object.contains_key(**n)) {
                let (deps, count) = (needed.join(", "), needed.len());
                let word = if count == 1 { "property" } else { "properties" };
                let message = format!("must have {word} {deps} when property {name} is present");
                let params = vec![
                    ("property", name.clone().into()),
                    ("missingProperty", (*missing).into()),
                    ("depsCount", (count as f64).into()),
                    ("deps", deps.into()),
                ];
                self.wrong(at, "dependencies", message, params);
            }
        }
        for (name, needed) in there().filter(|(_, n)| !matches!(n, Value::Array(_))) {
            let value = Value::object(object.clone());
            self.value(needed, &value, &at.under(&["dependencies", name]));
        }
    }
}

fn number_of(schema: &Object, keyword: &str) -> Option<f64> {
    schema.get(keyword).and_then(Value::as_number)
}

fn matches(pattern: &str, text: &str) -> bool {
    RegExp::compile(pattern, "u").is_ok_and(|pattern| pattern.test(text))
}

fn types(schema: &Object) -> Vec<SmolStr> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind.clone()],
        Some(Value::Array(kinds)) => kinds.iter().map(coerce::to_text).collect(),
        _ => Vec::new(),
    }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match value {
        Value::Null => kind == "null",
        Value::Bool(_) => kind == "boolean",
        Value::Number(n) => kind == "number" || kind == "integer" && n.fract().abs() == 0.0,
        Value::String(_) => kind == "string",
        Value::Array(_) => kind == "array",
        _ => kind == "object",
    }
}
