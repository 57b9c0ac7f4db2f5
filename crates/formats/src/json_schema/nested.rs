//! The keywords of a JSON schema for arrays and objects.

use super::{At, Check, CountLimits, matches};
use value::{Object, Value, coerce};

const ITEMS: CountLimits = CountLimits {
    most: "maxItems",
    least: "minItems",
    unit: "items",
};

const PROPERTIES: CountLimits = CountLimits {
    most: "maxProperties",
    least: "minProperties",
    unit: "properties",
};

impl<'a> Check<'a> {
    pub(super) fn array(&mut self, schema: &'a Object, elements: &[Value], at: &At) {
        self.limits(schema, elements.len(), &ITEMS, at);
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

    pub(super) fn object(&mut self, schema: &'a Object, object: &Object, at: &At) {
        self.limits(schema, object.len(), &PROPERTIES, at);
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
            let search = self.search;
            for (pattern, each) in patterns.iter() {
                let named = object
                    .iter()
                    .filter(|(name, _)| matches(search, pattern, name));
                for (name, value) in named {
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
                || patterns
                    .is_some_and(|p| p.keys().any(|pattern| matches(self.search, pattern, name)));
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
        let there = || dependencies.iter().filter(|(n, _)| object.contains_key(n));
        for (name, needed) in there() {
            let Value::Array(needed) = needed else {
                continue;
            };
            let needed: Vec<&str> = needed.iter().filter_map(Value::as_str).collect();
            for missing in needed.iter().filter(|n| !object.contains_key(n)) {
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
