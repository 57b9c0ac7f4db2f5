//! Reads and writes the value at a path (docs/reference/node-red-engine.md §4.1).
//!
//! Reading and writing a single key is a plain map access.

use super::coerce;
use super::path::{Key, Path, index, invalid};
use crate::message::Message;
use crate::{Array, Failure, Object, Value};
use smol_str::{SmolStr, ToSmolStr};
use std::sync::Arc;

/// Holes that one write to indexes may make in arrays, at most: each takes memory, which the text
/// of an index does not show. Our choice: 2 MiB.
const MAX_HOLES: usize = 100_000;

impl Path {
    /// Replaces nested `[msg.x]` by their values.
    pub fn resolve(&self, message: &Message) -> Result<Path, Failure> {
        let keys = self.keys().iter().map(|key| match key {
            Key::Nested(path) => key_of(&path.try_read_message(message)?, path),
            plain => Ok(plain.clone()),
        });
        let keys: Vec<Key> = keys.collect::<Result<_, _>>()?;
        Ok(Self::new(keys, self.store().map(Into::into)))
    }

    /// Reads the value at this path; `undefined` where something is missing.
    pub fn read(&self, root: &Value) -> Value {
        self.try_read(root).unwrap_or_default()
    }

    /// Reads the value at this path; a missing parent is a failure, as in JavaScript.
    pub fn try_read(&self, root: &Value) -> Result<Value, Failure> {
        let mut value = root.clone();
        for key in self.keys() {
            if value.is_nullish() {
                return Err(unreadable(&value, key));
            }
            value = match key {
                Key::Name(name) => property(&value, name),
                Key::Index(index) => element(&value, *index),
                Key::Nested(_) => Value::Undefined,
            };
        }
        Ok(value)
    }

    /// Fails if the value, written here, would nest its root too deeply or is too large for a
    /// message.
    pub fn check(&self, value: &Value) -> Result<(), Failure> {
        if value.is_undefined() {
            return Ok(());
        }
        value.extent().check(self.keys().len())
    }

    /// Writes a value, making missing parents (docs/reference/node-red-engine.md §4.1); `undefined`
    /// deletes. False if a parent is a primitive. A value that is too large is a failure, and
    /// nothing is written.
    pub fn write(&self, root: &mut Value, value: Value) -> Result<bool, Failure> {
        self.check(&value)?;
        write(self.keys(), root, value, &mut { MAX_HOLES })
    }

    /// Reads from a message.
    pub fn read_message(&self, message: &Message) -> Value {
        match self.as_name() {
            Some(name) => message.get(name).clone(),
            None => self.try_read_message(message).unwrap_or_default(),
        }
    }

    /// Reads from a message; a missing parent is a failure, as in JavaScript.
    pub fn try_read_message(&self, message: &Message) -> Result<Value, Failure> {
        if let Some(name) = self.as_name() {
            return Ok(message.get(name).clone());
        }
        if self.is_nested() {
            return self.resolve(message)?.try_read(&message.to_value());
        }
        self.try_read(&message.to_value())
    }

    /// Writes to a message, as [`Path::write`] does.
    pub fn write_message(&self, message: &mut Message, value: Value) -> Result<bool, Failure> {
        self.check(&value)?;
        if let Some(name) = self.as_name() {
            if value.is_undefined() {
                message.take(name);
            } else {
                message.properties_mut().insert(name.clone(), value);
            }
            return Ok(true);
        }
        if self.is_nested() {
            return match self.resolve(message) {
                Ok(path) => path.write_message(message, value),
                Err(_) => Ok(false),
            };
        }
        write_in(self.keys(), message.properties_mut(), value, &mut {
            MAX_HOLES
        })
    }
}

/// The key that a nested value gives.
fn key_of(value: &Value, path: &Path) -> Result<Key, Failure> {
    match value {
        Value::Undefined => Err(invalid(format!(
            "Invalid expression: undefined reference {path}"
        ))),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be a whole number in range"
        )]
        Value::Number(n) if *n >= 0.0 && n.fract() == 0.0 && *n < 4_294_967_295.0 => {
            Ok(Key::Index(*n as usize))
        }
        other => Ok(Key::Name(coerce::to_text(other))),
    }
}

/// `value[name]`, as far as our values have properties.
pub fn property(value: &Value, name: &str) -> Value {
    match value {
        Value::Object(object) => object.get(name).cloned().unwrap_or_default(),
        Value::Error(failure) => match name {
            "message" => Value::String(failure.message.clone()),
            "name" => Value::String(failure.name.clone()),
            "stack" => Value::String(failure.stack.clone()),
            "code" if !failure.code.is_empty() => Value::String(failure.code.clone()),
            _ => Value::Undefined,
        },
        Value::Array(array) if name == "length" => Value::Number(array.len() as f64),
        Value::Buffer(bytes) if name == "length" => Value::Number(bytes.len() as f64),
        Value::String(text) if name == "length" => {
            Value::Number(text.encode_utf16().count() as f64)
        }
        Value::Array(_) | Value::Buffer(_) | Value::String(_) => match array_index(name) {
            Some(index) => element(value, index),
            None => Value::Undefined,
        },
        _ => Value::Undefined,
    }
}

/// A property name that is an array index (ECMA-262 §6.1.7): without leading zeros.
fn array_index(name: &str) -> Option<usize> {
    index(name).filter(|_| name == "0" || !name.starts_with('0'))
}

/// `value[index]`.
fn element(value: &Value, index: usize) -> Value {
    match value {
        Value::Array(array) => array.get(index).cloned().unwrap_or_default(),
        Value::Buffer(bytes) => bytes
            .get(index)
            .map_or(Value::Undefined, |b| Value::Number(f64::from(*b))),
        Value::String(text) => match text.encode_utf16().nth(index) {
            Some(unit) => Value::text(String::from_utf16_lossy(&[unit])),
            None => Value::Undefined,
        },
        Value::Object(_) => property(value, &index.to_smolstr()),
        _ => Value::Undefined,
    }
}

fn unreadable(value: &Value, key: &Key) -> Failure {
    Failure {
        name: SmolStr::new_static("TypeError"),
        ..Failure::text(format!(
            "Cannot read properties of {value:?} (reading '{key}')"
        ))
    }
}

/// Writes; `holes` is how many may still be made.
fn write(
    keys: &[Key],
    target: &mut Value,
    value: Value,
    holes: &mut usize,
) -> Result<bool, Failure> {
    match target {
        Value::Object(object) => write_in(keys, Arc::make_mut(object), value, holes),
        Value::Array(array) => write_element(keys, Arc::make_mut(array), value, holes),
        // Properties set on other objects are lost on every JSON round trip; flowgate's have none.
        Value::Buffer(_) | Value::Date(_) | Value::RegExp(_) | Value::Error(_) => Ok(true),
        _ => Ok(false),
    }
}

/// Writes below an object.
fn write_in(
    keys: &[Key],
    object: &mut Object,
    value: Value,
    holes: &mut usize,
) -> Result<bool, Failure> {
    let Some((key, rest)) = keys.split_first() else {
        return Ok(false);
    };
    let name = match key {
        Key::Name(name) => name.clone(),
        Key::Index(index) => index.to_smolstr(),
        Key::Nested(_) => return Ok(false),
    };
    if rest.is_empty() {
        if value.is_undefined() {
            object.shift_remove(&name);
        } else {
            object.insert(name, value);
        }
        return Ok(true);
    }
    if object.contains_key(&name) {
        let written = object.modify(&name, |child| write(rest, child, value, holes));
        return written.unwrap_or(Ok(false));
    }
    // Deleting below something that is not there makes nothing.
    if value.is_undefined() {
        return Ok(false);
    }
    let mut child = parent_for(rest);
    let written = write(rest, &mut child, value, holes)?;
    object.insert(name, child);
    Ok(written)
}

/// Writes below an array.
fn write_element(
    keys: &[Key],
    array: &mut Array,
    value: Value,
    holes: &mut usize,
) -> Result<bool, Failure> {
    let Some((key, rest)) = keys.split_first() else {
        return Ok(false);
    };
    let index = match key {
        Key::Index(index) => Some(*index),
        Key::Name(name) => array_index(name),
        Key::Nested(_) => None,
    };
    // As with other objects.
    let Some(index) = index else {
        return Ok(true);
    };
    if value.is_undefined() && (rest.is_empty() || index >= array.len()) {
        array.remove(index);
        return Ok(true);
    }
    let made = index.saturating_sub(array.len());
    *holes = holes.checked_sub(made).ok_or_else(|| {
        Failure::error(format!(
            "index {index} is more than {MAX_HOLES} beyond the end of an array"
        ))
    })?;
    array.modify_or_extend(index, |element| {
        if rest.is_empty() {
            *element = value;
            return Ok(true);
        }
        if element.is_undefined() && !value.is_undefined() {
            *element = parent_for(rest);
        }
        write(rest, element, value, holes)
    })
}

/// The container that the next key needs.
fn parent_for(keys: &[Key]) -> Value {
    match keys.first() {
        Some(Key::Index(_)) => Value::array(Vec::new()),
        _ => Value::object(Object::default()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::json;
    use testing::scaling::assert_scales;

    fn written(object: &str, path: &str, value: Value) -> (bool, String) {
        let mut root = json::parse(object).unwrap();
        let done = Path::parse(path).unwrap().write(&mut root, value).unwrap();
        (done, json::stringify(&root).unwrap())
    }

    fn read(object: &str, path: &str) -> String {
        let message = Message::from_value(json::parse(object).unwrap()).unwrap();
        match Path::parse_message(path)
            .unwrap()
            .try_read_message(&message)
        {
            Ok(value) => format!("{value:?}"),
            Err(failure) => failure.message.to_string(),
        }
    }

    #[test]
    fn a_name_with_leading_zeros_is_no_array_index() {
        let array = r#"{"a":[1,2]}"#;
        assert_eq!(read(array, r#"a["1"]"#), "2");
        assert_eq!(read(array, r#"a["01"]"#), "undefined");
        let (done, after) = written(array, r#"a["01"]"#, Value::Number(3.0));
        assert!(done);
        assert_eq!(after, array);
    }

    #[test]
    fn writing_makes_parents_and_refuses_primitives() {
        let table = [
            ("{}", "z.a[1].b", true, r#"{"z":{"a":[null,{"b":1}]}}"#),
            (r#"{"a":1}"#, "a.b", false, r#"{"a":1}"#),
            (r#"{"a":null}"#, "a.b", false, r#"{"a":null}"#),
            (r#"{"a":[1,2,3]}"#, "a[1].b", false, r#"{"a":[1,2,3]}"#),
            (r#"{"a":{}}"#, "a[0]", true, r#"{"a":{"0":1}}"#),
            (r#"{"a":[]}"#, "a[3]", true, r#"{"a":[null,null,null,1]}"#),
            ("{}", "a.0.b", true, r#"{"a":[{"b":1}]}"#),
            (r#"{"a":[null]}"#, "a[0].b", false, r#"{"a":[null]}"#),
        ];
        for (object, path, done, after) in table {
            assert_eq!(
                written(object, path, Value::Number(1.0)),
                (done, after.to_owned()),
                "{path} in {object}"
            );
        }
    }

    #[test]
    fn writing_undefined_deletes() {
        assert_eq!(
            written(r#"{"a":[1,2,3]}"#, "a[1]", Value::Undefined).1,
            r#"{"a":[1,3]}"#
        );
        assert_eq!(
            written(r#"{"a":{"b":1,"c":2}}"#, "a.b", Value::Undefined).1,
            r#"{"a":{"c":2}}"#
        );
        assert_eq!(
            written("{}", "a.b", Value::Undefined),
            (false, "{}".to_owned())
        );
    }

    #[test]
    fn reading_enters_texts_and_arrays_and_names_missing_properties() {
        let object = r#"{"a":{"k":2},"t":"xyz","l":[7,8],"x":"k"}"#;
        let table = [
            ("a.k", "2"),
            ("msg.a.k", "2"),
            ("a[msg.x]", "2"),
            ("t.length", "3"),
            ("t[1]", "\"y\""),
            ("l['1']", "8"),
            ("l.length", "2"),
            ("a.b", "undefined"),
            ("b.c", "Cannot read properties of undefined (reading 'c')"),
        ];
        for (path, expected) in table {
            assert_eq!(read(object, path), expected, "{path}");
        }
    }

    #[test]
    fn a_write_does_not_change_other_copies_of_the_value() {
        let shared = Message::from_value(json::parse(r#"{"a":{"b":[1]}}"#).unwrap()).unwrap();
        let mut changed = shared.clone();
        assert!(
            Path::parse("a.b[0]")
                .unwrap()
                .write_message(&mut changed, Value::Number(9.0))
                .unwrap()
        );
        assert_eq!(
            json::stringify(&shared.to_value()).unwrap(),
            r#"{"a":{"b":[1]}}"#
        );
        assert_eq!(
            json::stringify(&changed.to_value()).unwrap(),
            r#"{"a":{"b":[9]}}"#
        );
    }

    #[test]
    fn an_index_far_beyond_the_end_is_refused_and_makes_nothing() {
        let far = [
            "a[4000000000]",
            "zz[9999999].b",
            "a[60000].b[60000]",
            "l['9999999']",
        ];
        for path in far {
            let mut root = json::parse(r#"{"l":[1]}"#).unwrap();
            let path = Path::parse(path).unwrap();
            let refused = path.write(&mut root, Value::Null).unwrap_err();
            assert!(refused.message.contains("beyond the end"), "{refused}");
            assert_eq!(json::stringify(&root).unwrap(), r#"{"l":[1]}"#);
            let mut message = Message::from_value(root).unwrap();
            assert!(path.write_message(&mut message, Value::Null).is_err());
        }
        let (done, _) = written("{}", "a[100000]", Value::Null);
        assert!(done);
    }

    #[test]
    fn repeated_writes_to_a_large_value_take_linear_time() {
        let root = |n: usize| {
            let members = (0..n).map(|k| (format!("k{k}").into(), Value::Null));
            let object = Value::object(members.collect());
            (
                n,
                Value::record([("o", object), ("a", Value::array(vec![Value::Null; n]))]),
            )
        };
        let paths = ["o.z", "a[7]"].map(|path| Path::parse(path).unwrap());
        assert_scales(2000, root, |(n, mut root)| {
            for k in 0..n {
                let inner = (k % 2 == 0).then(|| Value::array(Vec::new()));
                for path in &paths {
                    let value = inner.clone().unwrap_or(Value::Null);
                    assert!(path.write(&mut root, value).unwrap());
                }
            }
        });
    }
}
