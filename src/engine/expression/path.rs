//! Property expressions: `a.b[0]["c"]`, with nested `[msg.x]` (facts engine §4.1).

use crate::engine::message::Message;
use crate::engine::value::{Failure, Value};
use smol_str::SmolStr;

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// `.name` or `["name"]`.
    Name(SmolStr),
    /// `[0]`.
    Index(usize),
    /// `[msg.x]`: the value of another path in the message.
    Nested(Path),
}

/// A parsed property expression; parsed once, when the node is built.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Path {
    /// The steps; at least one.
    pub keys: Vec<Key>,
    /// The context store named by `#:(store)::`, if any.
    pub store: Option<SmolStr>,
}

impl Path {
    /// Parses a property expression; the failure says what is wrong and where, as Node-RED's does.
    pub fn parse(_text: &str) -> Result<Self, Failure> {
        todo!()
    }

    /// Replaces nested `[msg.x]` by their values.
    pub fn resolve(&self, _message: &Message) -> Result<Path, Failure> {
        todo!()
    }

    /// Reads the value at this path; `undefined` where something is missing.
    pub fn read(&self, _root: &Value) -> Value {
        todo!()
    }

    /// Writes a value, making missing parents (facts engine §4.1); `undefined` deletes. False if a parent is a primitive.
    pub fn write(&self, _root: &mut Value, _value: Value) -> bool {
        todo!()
    }

    /// Reads from a message.
    pub fn read_message(&self, _message: &Message) -> Value {
        todo!()
    }

    /// Writes to a message.
    pub fn write_message(&self, _message: &mut Message, _value: Value) -> bool {
        todo!()
    }
}
