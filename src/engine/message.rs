//! A message: an object on its way from node to node, shared until written.

use super::value::{Object, Value};
use smol_str::SmolStr;
use std::sync::Arc;

/// A message. Cloning it copies a reference; writing to a shared one copies its top level first.
#[derive(Clone, Debug, Default)]
pub struct Message(Arc<Object>);

impl Message {
    /// A message of these properties.
    pub fn new(properties: Object) -> Self {
        Self(Arc::new(properties))
    }

    /// A message with only a payload.
    pub fn with_payload(payload: impl Into<Value>) -> Self {
        let mut message = Self::default();
        message.set("payload", payload.into());
        message
    }

    /// All properties, in order.
    pub fn properties(&self) -> &Object {
        &self.0
    }

    /// All properties, to be changed.
    pub fn properties_mut(&mut self) -> &mut Object {
        Arc::make_mut(&mut self.0)
    }

    /// A top-level property; absent ones read as `undefined`.
    pub fn get(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Undefined)
    }

    /// Sets a top-level property.
    pub fn set(&mut self, name: impl Into<SmolStr>, value: impl Into<Value>) {
        self.properties_mut().insert(name.into(), value.into());
    }

    /// Removes a top-level property and gives it back; the order of the others is kept.
    pub fn take(&mut self, name: &str) -> Value {
        if !self.0.contains_key(name) {
            return Value::Undefined;
        }
        self.properties_mut().shift_remove(name).unwrap_or_default()
    }

    /// The message as a value (`msg` as a whole).
    pub fn to_value(&self) -> Value {
        Value::Object(Arc::clone(&self.0))
    }

    /// A message from a value, if that is an object.
    pub fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Object(object) => Some(Self(object)),
            _ => None,
        }
    }
}
