//! The values of one context: of a node, of a flow, or the global one.
//!
//! A value that is an object lives in JavaScript from the first time a function reads or writes it,
//! so that functions share one object, whatever its size. Native code converts it when it reads it;
//! if no code refers to it any more, it stays converted.

use super::Live;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use std::rc::Rc;
use std::sync::Arc;
use value::{Failure, Key, Object, Path, Value, coerce};

/// The values of one context, by key.
#[derive(Debug, Default)]
pub(super) struct Root {
    /// `undefined` until the first write. Of an object that lives in JavaScript it has what was
    /// last read.
    values: Value,
    objects: FxHashMap<SmolStr, Rc<dyn Live>>,
}

impl From<Value> for Root {
    fn from(values: Value) -> Self {
        Self {
            values,
            objects: FxHashMap::default(),
        }
    }
}

impl Root {
    /// The values, as they were when they were last read.
    pub(super) fn values(&self) -> &Value {
        &self.values
    }

    /// The values without the objects that live in JavaScript: these are converted.
    pub(super) fn into_values(mut self) -> Value {
        self.refresh();
        self.values
    }

    /// The object of this key, if it lives in JavaScript.
    pub(super) fn object(&self, name: &str) -> Option<&Rc<dyn Live>> {
        self.objects.get(name)
    }

    /// Lets an object live in JavaScript under this key.
    pub(super) fn keep(&mut self, name: &SmolStr, object: Rc<dyn Live>) {
        if self.known(name).is_undefined() {
            self.set(name, Value::Null);
        }
        self.objects.insert(name.clone(), object);
    }

    /// Reads a value; `undefined` if there is none. Fails if it lives in JavaScript and cannot be
    /// converted.
    pub(super) fn read(&mut self, path: &Path) -> Result<Value, Failure> {
        if let Some((Key::Name(name), rest)) = path.keys().split_first()
            && let Some(object) = self.objects.get(name)
        {
            if let Some(leaf) = object.leaf(rest)? {
                return Ok(leaf);
            }
            self.convert(name)?;
        }
        Ok(path.read(&self.values))
    }

    /// Writes a value; `undefined` deletes it. False if a parent on the way is a primitive. A value
    /// that is too large is a failure, and nothing is written.
    pub(super) fn write(&mut self, path: &Path, value: Value) -> Result<bool, Failure> {
        path.check(&value)?;
        if let Some((Key::Name(name), rest)) = path.keys().split_first() {
            match self.objects.get(name) {
                Some(object) if !rest.is_empty() => return object.write(rest, &value),
                Some(_) => drop(self.objects.remove(name)),
                None => {}
            }
        }
        self.prepare();
        path.write(&mut self.values, value)
    }

    /// Converts every object that lives in JavaScript; returns whether a value has changed since
    /// the last time. One that cannot be converted stays as it was read last.
    pub(super) fn refresh(&mut self) -> bool {
        let names: Vec<SmolStr> = self.objects.keys().cloned().collect();
        let mut changed = false;
        for name in names {
            let before = self.known(&name).clone();
            if let Err(failure) = self.convert(&name) {
                tracing::error!(key = %name, %failure, "a value of a context cannot be read");
            }
            changed |= !coerce::deep_equal(&before, self.known(&name));
        }
        changed
    }

    /// Converts the objects of functions that have ended: they would keep all of those functions in
    /// memory.
    pub(super) fn take_over(&mut self) {
        let orphans: Vec<SmolStr> = self
            .objects
            .iter()
            .filter(|(_, object)| object.is_orphan())
            .map(|(name, _)| name.clone())
            .collect();
        for name in orphans {
            // One that cannot be converted stays.
            let _ = self.convert(&name);
        }
    }

    /// Converts all objects in another way than with [`Live::whole`].
    pub(super) fn snapshot(&mut self, convert: &dyn Fn(&dyn Live) -> Option<Value>) {
        let objects = self.objects.iter();
        let values: Vec<(SmolStr, Value)> = objects
            .filter_map(|(name, object)| Some((name.clone(), convert(&**object)?)))
            .collect();
        for (name, value) in values {
            self.set(&name, value);
        }
    }

    /// Converts one object as it is now; it stays converted if no code refers to it any more.
    fn convert(&mut self, name: &SmolStr) -> Result<(), Failure> {
        let Some(object) = self.objects.get(name) else {
            return Ok(());
        };
        if let Some((value, in_use)) = object.whole()? {
            if !in_use {
                self.objects.remove(name);
            }
            self.set(name, value);
        }
        Ok(())
    }

    /// A value as it was read last.
    pub(super) fn known(&self, name: &str) -> &Value {
        let values = self.values.as_object();
        values
            .and_then(|values| values.get(name))
            .unwrap_or(&Value::Undefined)
    }

    fn set(&mut self, name: &SmolStr, value: Value) {
        self.prepare();
        if let Value::Object(values) = &mut self.values {
            Arc::make_mut(values).insert(name.clone(), value);
        }
    }

    fn prepare(&mut self) {
        if self.values.is_undefined() {
            self.values = Value::object(Object::default());
        }
    }
}
