//! Checks a value against a JSON schema (draft 6 and 7) and words what is wrong as Ajv 8 does.
//! Pure.
//!
//! Resolves only the schema's own definitions: any other reference fails to compile, as does all
//! that Ajv's strict mode refuses.
//!
//! Ours, as the crates `jsonschema` and `boon` word errors otherwise than Ajv, take other regular
//! expressions than JavaScript's, and do not bound the steps of a check.

mod nested;
mod strict;

use smol_str::SmolStr;
use std::fmt::Write;
use value::regex::{BoundedSearch, RegExp};
use value::{Object, Value, coerce};

/// A schema that can be used.
#[derive(Debug)]
pub struct Schema {
    schema: Value,
    /// Runs patterns whose searches may take long.
    search: &'static dyn BoundedSearch,
}

/// Why a value does not fit.
#[derive(Debug)]
pub struct Misfit {
    /// All that is wrong, in a sentence.
    pub text: String,
    /// The same, one by one.
    pub errors: Value,
}

/// The keywords that limit a count, and what is counted.
struct CountLimits {
    most: &'static str,
    least: &'static str,
    unit: &'static str,
}

const LENGTH: CountLimits = CountLimits {
    most: "maxLength",
    least: "minLength",
    unit: "characters",
};

/// References may lead around in circles.
const MAX_DEPTH: usize = 128;
/// Parts of the schema that are looked at for one value, at most: references that branch double
/// them at every level.
const MAX_STEPS: usize = 1_000_000;
/// Errors of one value, at most.
const MAX_ERRORS: usize = 10_000;

impl Schema {
    /// Takes a schema whose patterns run in `search` where they may take long. `None`: it is no
    /// schema.
    pub fn compile(schema: &Value, search: &'static dyn BoundedSearch) -> Option<Self> {
        strict::is_schema(schema, schema).then(|| Self {
            schema: schema.clone(),
            search,
        })
    }

    /// Returns whether it was made of the same.
    pub fn is(&self, schema: &Value) -> bool {
        coerce::deep_equal(&self.schema, schema)
    }

    /// Checks a value.
    pub fn check(&self, value: &Value) -> Result<(), Misfit> {
        let mut check = Check {
            root: &self.schema,
            search: self.search,
            errors: Vec::new(),
            depth: 0,
            steps: 0,
        };
        let at = At {
            instance: String::new(),
            schema: "#".to_owned(),
            name: None,
        };
        check.value(&self.schema, value, &at);
        if check.is_exhausted() {
            return Err(Misfit {
                text: format!("more than {MAX_STEPS} steps, or {MAX_ERRORS} errors"),
                errors: Value::array(Vec::new()),
            });
        }
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

/// The position of a check.
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
            b'A'..=b'Z'
            | b'a'..=b'z'
            | b'0'..=b'9'
            | b'-'
            | b'_'
            | b'.'
            | b'!'
            | b'~'
            | b'*'
            | b'\''
            | b'('
            | b')' => out.push(byte as char),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

pub(super) type Params = Vec<(&'static str, Value)>;

/// Whether a number keeps to a limit.
type Fits = fn(f64, f64) -> bool;

/// A check in progress.
struct Check<'a> {
    root: &'a Value,
    search: &'static dyn BoundedSearch,
    /// The errors: as text and as an object.
    errors: Vec<(String, Value)>,
    depth: usize,
    steps: usize,
}

impl<'a> Check<'a> {
    fn is_exhausted(&self) -> bool {
        self.steps >= MAX_STEPS || self.errors.len() >= MAX_ERRORS
    }

    fn wrong(&mut self, at: &At, keyword: &str, message: String, params: Params) {
        let params = params.into_iter().map(|(k, v)| (SmolStr::new_static(k), v));
        let text = format!("data{} {message}", at.instance);
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
        set("message", Value::from(message));
        if let Some(name) = &at.name {
            set("propertyName", Value::from(name.clone()));
        }
        self.errors.push((text, Value::object(error)));
    }

    /// Checks a value against a part of the schema, in Ajv's order; true if it fits.
    fn value(&mut self, schema: &'a Value, value: &Value, at: &At) -> bool {
        let before = self.errors.len();
        if self.depth == MAX_DEPTH || self.is_exhausted() {
            return true;
        }
        self.steps += 1;
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

    /// Returns whether a value fits, whatever is wrong with it.
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
        // The error of a single type that has keywords of its own is reported when their turn
        // comes.
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
        let table: [(&str, &str, Fits); 4] = [
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
    fn limits(&mut self, schema: &Object, count: usize, limits: &CountLimits, at: &At) {
        for (keyword, word) in [(limits.most, "more"), (limits.least, "fewer")] {
            let Some(limit) = number_of(schema, keyword) else {
                continue;
            };
            let count = count as f64;
            if (word == "more" && count > limit) || (word == "fewer" && count < limit) {
                let limit_text = coerce::number_text(limit);
                let unit = limits.unit;
                let message = format!("must NOT have {word} than {limit_text} {unit}");
                self.wrong(at, keyword, message, vec![("limit", limit.into())]);
            }
        }
    }

    fn text(&mut self, schema: &Object, text: &str, at: &At) {
        let length = text.chars().count();
        self.limits(schema, length, &LENGTH, at);
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && !matches(self.search, pattern, text)
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
}

fn number_of(schema: &Object, keyword: &str) -> Option<f64> {
    schema.get(keyword).and_then(Value::as_number)
}

/// Returns whether the pattern matches. A search that is stopped has found nothing.
fn matches(search: &'static dyn BoundedSearch, pattern: &str, text: &str) -> bool {
    let compiled = RegExp::compile(pattern, "u", search);
    compiled.is_ok_and(|pattern| pattern.test(text).unwrap_or_default())
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
        Value::Undefined => false,
        _ => kind == "object",
    }
}
