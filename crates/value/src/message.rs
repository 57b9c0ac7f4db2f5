//! A message: an object on its way from node to node, shared until written.

use super::{Failure, Object, Value};
use smol_str::SmolStr;
use std::sync::Arc;

/// Levels that are left free for what is reported with a message: its error, where it came from.
pub const REPORT: usize = 8;

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
    #[inline]
    pub fn properties(&self) -> &Object {
        &self.0
    }

    /// All properties, to be changed.
    #[inline]
    pub fn properties_mut(&mut self) -> &mut Object {
        Arc::make_mut(&mut self.0)
    }

    /// A top-level property; absent ones read as `undefined`.
    #[inline]
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

    /// Fails if the message is nested too deeply or has too many parts to be sent.
    #[inline]
    pub fn check(&self) -> Result<(), Failure> {
        self.0.extent().check(0)
    }

    /// The message without the properties that make it too large; unchanged if it is not.
    #[must_use]
    pub fn within_limits(self) -> Self {
        if self.check().is_ok() {
            return self;
        }
        let mut kept = Object::default();
        for (key, value) in self.0.iter() {
            let mut extent = kept.extent();
            extent.add(value.extent());
            if extent.check(REPORT).is_ok() {
                kept.insert(key.clone(), value.clone());
            }
        }
        Self::new(kept)
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
