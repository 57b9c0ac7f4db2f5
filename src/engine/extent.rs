//! How deep a value is nested and how many parts it has, kept beside every array and object.
//!
//! Values are shared, so a loop of nodes can nest a message one level deeper, or double its content, at no cost each
//! time round. Functions that call themselves for every level, and texts that repeat shared content, rely on the limits
//! here. They are checked where a value is put into another one ([`super::expression::Path::write`]) and where a message
//! is sent ([`super::node::Host::send`]); both checks read two numbers.

use super::value::{Array, Failure, Value};
use smol_str::SmolStr;
use std::sync::Arc;

/// Levels of nesting in a message or a context value, at most. JSON text is read to 127 levels; a native stack is finite.
pub const DEEPEST: usize = 500;

/// Parts of a message or a context value, at most; some 2 GiB when written out.
pub const MOST_PARTS: u32 = 32_000_000;

/// Bytes of a text or a buffer that count as one more part.
const PART: usize = 64;

/// The size of a value with everything in it. What is shared counts as often as it occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Arrays, objects and errors inside one another; 0 for a value that holds no other.
    depth: u32,
    /// Values, and one for every [`PART`] bytes. `u32::MAX`: that or more.
    parts: u32,
}

impl Extent {
    /// An array or object without content.
    pub const EMPTY: Self = Self { depth: 1, parts: 1 };

    /// A value that holds no others, of so many bytes.
    pub fn leaf(bytes: usize) -> Self {
        let parts = u32::try_from(1 + bytes / PART).unwrap_or(u32::MAX);
        Self { depth: 0, parts }
    }

    /// A value of so many levels and parts.
    pub fn of(depth: usize, parts: u32) -> Self {
        let depth = u32::try_from(depth).unwrap_or(u32::MAX);
        Self { depth, parts }
    }

    /// An array or object with this content.
    pub fn around(content: impl IntoIterator<Item = Extent>) -> Self {
        let mut extent = Self::EMPTY;
        for inner in content {
            extent.add(inner);
        }
        extent
    }

    /// Levels of nesting.
    pub fn depth(self) -> usize {
        self.depth as usize
    }

    /// Values, counted as often as they occur, and one for every 64 bytes of texts and buffers.
    pub fn parts(self) -> u32 {
        self.parts
    }

    /// Whether the levels are more than [`DEEPEST`].
    pub fn is_too_deep(self) -> bool {
        self.depth() > DEEPEST
    }

    /// Fails if the value is too large for a message, or would be so many levels below its top.
    pub fn check(self, below: usize) -> Result<(), Failure> {
        let sentence = if self.depth().saturating_add(below) > DEEPEST {
            format!("value is nested too deeply: more than {DEEPEST} levels")
        } else if self.parts > MOST_PARTS {
            format!("value has too many parts for a message: more than {MOST_PARTS}")
        } else {
            return Ok(());
        };
        Err(Failure {
            name: SmolStr::new_static("RangeError"),
            ..Failure::error(sentence)
        })
    }

    /// Takes account of one more value inside.
    pub fn add(&mut self, inner: Self) {
        self.depth = self.depth.max(inner.depth.saturating_add(1));
        self.parts = self.parts.saturating_add(inner.parts);
    }

    /// Takes account of a value that is no longer inside; `content` is what is left.
    pub fn remove<I: Iterator<Item = Self>>(&mut self, inner: Self, content: impl Fn() -> I) {
        let deepest = inner.depth > 0 && inner.depth.saturating_add(1) == self.depth;
        if self.parts == u32::MAX {
            *self = Self::around(content());
            return;
        }
        self.parts -= inner.parts;
        if deepest && !content().any(|other| other.depth == inner.depth) {
            self.depth = Self::around(content()).depth;
        }
    }

    /// Takes account of a value inside that was replaced by another one; `content` is everything inside now.
    pub fn replace<I: Iterator<Item = Self>>(
        &mut self,
        before: Self,
        after: Self,
        content: impl Fn() -> I,
    ) {
        if before == after {
            return;
        }
        // Add first: the sum of the parts may not fall below what is subtracted.
        self.add(after);
        self.remove(before, content);
    }
}

/// Drops values without recursion, however deep they are.
pub(super) fn dismantle(mut pending: Vec<Value>) {
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(array) => {
                pending.extend(Arc::into_inner(array).into_iter().flat_map(Array::into_vec));
            }
            Value::Object(object) => {
                let properties = Arc::into_inner(object).into_iter().flatten();
                pending.extend(properties.map(|(_, value)| value));
            }
            Value::Error(failure) => {
                let cause = Arc::into_inner(failure).and_then(|failure| failure.cause);
                pending.extend(cause.map(|cause| *cause));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::engine::message::Message;
    use crate::engine::value::Object;

    fn nested(levels: usize, wrap: impl Fn(Value) -> Value) -> Value {
        (0..levels).fold(Value::Null, |inner, _| wrap(inner))
    }

    #[test]
    fn any_depth_can_be_dropped() {
        let levels = 1_000_000;
        let array = nested(levels, |inner| Value::array(vec![inner]));
        let object = nested(levels, |inner| Value::record([("in", inner)]));
        let shared = nested(levels, |inner| Value::array(vec![inner.clone(), inner]));
        assert_eq!(array.extent().depth(), levels);
        assert_eq!(object.extent().depth(), levels);
        assert_eq!(shared.extent().parts(), u32::MAX);
        drop((array.clone(), array, object, shared));
    }

    #[test]
    fn the_extent_follows_every_change() {
        let deep = nested(3, |inner| Value::array(vec![inner]));
        let mut object = Object::default();
        assert_eq!(object.extent(), Extent::EMPTY);
        object.insert("a".into(), deep.clone());
        object.insert("b".into(), Value::array(vec![deep]));
        assert_eq!(
            (object.extent().depth(), object.extent().parts()),
            (5, 1 + 4 + 5)
        );
        object.insert("b".into(), "x".repeat(640).into());
        assert_eq!(
            (object.extent().depth(), object.extent().parts()),
            (4, 1 + 4 + 11)
        );
        object.modify("a", |a| *a = Value::Null);
        assert_eq!(
            (object.extent().depth(), object.extent().parts()),
            (1, 1 + 1 + 11)
        );
        object.shift_remove("b");
        assert_eq!((object.extent().depth(), object.extent().parts()), (1, 2));
    }

    #[test]
    fn a_sum_that_was_too_large_is_counted_again() {
        let doubled = nested(40, |inner| Value::array(vec![inner.clone(), inner]));
        let mut object = Object::default();
        object.insert("few".into(), Value::Null);
        object.insert("many".into(), doubled);
        assert_eq!(object.extent().parts(), u32::MAX);
        assert!(
            object
                .extent()
                .check(0)
                .unwrap_err()
                .message
                .contains("too many parts")
        );
        object.shift_remove("many");
        assert_eq!(object.extent().parts(), 2);
    }

    #[test]
    fn the_limit_counts_the_levels_above() {
        let deepest = nested(DEEPEST, |inner| Value::array(vec![inner]));
        assert!(deepest.extent().check(0).is_ok());
        let failure = deepest.extent().check(1).unwrap_err();
        assert_eq!(failure.name, "RangeError");
        assert_eq!(
            failure.message,
            "value is nested too deeply: more than 500 levels"
        );
    }

    #[test]
    fn a_message_about_an_error_loses_only_what_is_too_large() {
        let mut message = Message::with_payload(nested(600, |inner| Value::array(vec![inner])));
        message.set("topic", "t");
        assert!(message.check().is_err());
        let rest = message.within_limits();
        assert!(rest.get("payload").is_undefined());
        assert_eq!(rest.get("topic").as_str(), Some("t"));
    }
}
