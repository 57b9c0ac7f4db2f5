//! Checks that a JSON schema is valid: the keywords of drafts 6 and 7, and the restrictions of
//! Ajv's strict mode. Pure.

use value::{Object, Value, regex};

/// The value that a keyword requires.
enum Wants {
    Anything,
    Text,
    Truth,
    Number,
    /// A whole number from 0.
    Count,
    Pattern,
    Texts,
    Type,
    Values,
    Schema,
    Schemas,
    /// A schema, or an array of them.
    Items,
    /// Schemas by name.
    Named,
    /// Schemas or lists of names, by name.
    Dependencies,
    /// Schemas by pattern.
    Patterns,
}

fn wants(keyword: &str) -> Option<Wants> {
    Some(match keyword {
        "default" | "const" => Wants::Anything,
        "$id" | "$schema" | "$ref" | "$comment" | "title" | "description" | "contentMediaType"
        | "contentEncoding" => Wants::Text,
        "readOnly" | "writeOnly" | "uniqueItems" => Wants::Truth,
        "maximum" | "minimum" | "exclusiveMaximum" | "exclusiveMinimum" | "multipleOf" => {
            Wants::Number
        }
        "maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties" | "minProperties" => {
            Wants::Count
        }
        "pattern" => Wants::Pattern,
        "required" => Wants::Texts,
        "type" => Wants::Type,
        "enum" | "examples" => Wants::Values,
        "not"
        | "if"
        | "then"
        | "else"
        | "contains"
        | "propertyNames"
        | "additionalItems"
        | "additionalProperties" => Wants::Schema,
        "allOf" | "anyOf" | "oneOf" => Wants::Schemas,
        "items" => Wants::Items,
        "properties" | "definitions" | "$defs" => Wants::Named,
        "dependencies" => Wants::Dependencies,
        "patternProperties" => Wants::Patterns,
        // Unknown ones are refused, and so are formats, of which none is known.
        _ => return None,
    })
}

/// Returns whether a part of a schema is one. `root` is where references begin.
pub(super) fn is_schema(schema: &Value, root: &Value) -> bool {
    let Value::Object(schema) = schema else {
        return matches!(schema, Value::Bool(_));
    };
    let whole = schema
        .iter()
        .all(|(keyword, value)| wants(keyword).is_some_and(|wants| fits(value, &wants, root)));
    let has = |keyword: &str| schema.contains_key(keyword);
    let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str);
    let known = text("$schema").is_none_or(|draft| {
        let draft = draft.trim_end_matches('#');
        ["06", "07"]
            .iter()
            .any(|n| draft == format!("http://json-schema.org/draft-{n}/schema"))
    });
    let leads = text("$ref").is_none_or(|target| resolve(root, target).is_some());
    // These have no meaning alone.
    let condition = !has("if") || has("then") || has("else");
    let condition = condition && (has("if") || !has("then") && !has("else"));
    let more = !has("additionalItems") || matches!(schema.get("items"), Some(Value::Array(_)));
    whole && known && leads && condition && more
}

fn fits(value: &Value, wants: &Wants, root: &Value) -> bool {
    let schema = |value: &Value| is_schema(value, root);
    let text = |value: &Value| value.as_str().is_some();
    let texts = |value: &Value| value.as_array().is_some_and(|a| a.iter().all(text));
    match (wants, value) {
        (Wants::Anything, _) => true,
        (Wants::Text, value) => text(value),
        (Wants::Truth, value) => matches!(value, Value::Bool(_)),
        (Wants::Number, value) => matches!(value, Value::Number(_)),
        (Wants::Count, value) => value
            .as_number()
            .is_some_and(|n| n >= 0.0 && n.fract().abs() == 0.0),
        (Wants::Pattern, value) => value.as_str().is_some_and(is_pattern),
        (Wants::Texts, value) => texts(value),
        (Wants::Type, Value::Array(kinds)) => !kinds.is_empty() && kinds.iter().all(is_type),
        (Wants::Type, value) => is_type(value),
        (Wants::Values, value) => matches!(value, Value::Array(values) if !values.is_empty()),
        (Wants::Schemas | Wants::Items, Value::Array(each)) => {
            !each.is_empty() && each.iter().all(schema)
        }
        (Wants::Schema | Wants::Items, value) => schema(value),
        (Wants::Named, Value::Object(each)) => each.values().all(schema),
        (Wants::Dependencies, Value::Object(each)) => {
            each.values().all(|value| texts(value) || schema(value))
        }
        (Wants::Patterns, Value::Object(each)) => {
            each.keys().all(|pattern| is_pattern(pattern)) && each.values().all(schema)
        }
        _ => false,
    }
}

fn is_pattern(text: &str) -> bool {
    regex::check(text, "u").is_ok()
}

fn is_type(kind: &Value) -> bool {
    matches!(
        kind.as_str(),
        Some("string" | "number" | "integer" | "boolean" | "null" | "object" | "array")
    )
}

/// The part of a schema that a reference within it means.
pub(super) fn resolve<'a>(root: &'a Value, target: &str) -> Option<&'a Value> {
    let path = target.strip_prefix('#')?;
    if path.is_empty() {
        return Some(root);
    }
    let mut there = root;
    for key in path.strip_prefix('/')?.split('/') {
        let key = decoded(key)?.replace("~1", "/").replace("~0", "~");
        there = match there {
            Value::Object(object) => object.get(key.as_str())?,
            Value::Array(elements) => elements.get(key.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(there)
}

/// A part of a pointer in a URL without its percent signs.
fn decoded(key: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok()
}

/// Returns whether a schema has keywords for values of this type only.
pub(super) fn has_rules_for(schema: &Object, kind: &str) -> bool {
    let keywords: &[&str] = match kind {
        "number" => &[
            "maximum",
            "minimum",
            "exclusiveMaximum",
            "exclusiveMinimum",
            "multipleOf",
        ],
        "string" => &["maxLength", "minLength", "pattern"],
        "array" => &[
            "maxItems",
            "minItems",
            "uniqueItems",
            "additionalItems",
            "items",
            "contains",
        ],
        "object" => &[
            "maxProperties",
            "minProperties",
            "required",
            "propertyNames",
            "additionalProperties",
            "dependencies",
            "properties",
            "patternProperties",
        ],
        _ => &[],
    };
    keywords.iter().any(|keyword| schema.contains_key(keyword))
}
