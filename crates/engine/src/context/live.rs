//! An object of a store that lives in JavaScript while functions use it.

use std::any::Any;
use std::fmt::Debug;
use value::{Failure, Key, Value};

/// Such an object, as the stores and native code use it.
pub(crate) trait Live: Any + Debug {
    /// The value at a path inside, if it is no object.
    fn leaf(&self, path: &[Key]) -> Result<Option<Value>, Failure>;

    /// Writes at a path inside; `undefined` deletes. False if a parent on the way is a primitive.
    fn write(&self, path: &[Key], value: &Value) -> Result<bool, Failure>;

    /// The whole value, and whether it has to stay in JavaScript: because native code sees less of
    /// it, such as no functions, or because code still refers to it. The latter does not count once
    /// the function that stored it has ended: the object would keep all of that function in memory.
    /// `None` while code runs.
    fn whole(&self) -> Result<Option<(Value, bool)>, Failure>;

    /// Returns whether the function that stored it has ended.
    fn is_orphan(&self) -> bool;
}
