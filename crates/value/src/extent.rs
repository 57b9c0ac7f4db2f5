//! Keeps the nesting depth and the number of parts of a value beside every array and object.
//!
//! Values are shared, so a loop of nodes can nest a message one level deeper, or double its
//! content, at no cost each time round. Functions that call themselves for every level, and texts
//! that repeat shared content, rely on the limits here. They are checked where a value is put into
//! another one ([`crate::Path::write`]) and where a message is sent by a node; both checks read two
//! numbers.

use super::{Array, Failure, Value};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Levels of nesting in a message or a context value, at most. JSON text is read to 127 levels; a
/// native stack is finite.
pub const MAX_DEPTH: usize = 500;

/// Parts of a message or a context value, at most; some 2 GiB when written out.
pub const MAX_PARTS: u32 = 32_000_000;

/// Bytes of a text or a buffer that count as one more part.
pub const PART: usize = 64;

/// Values of an array or object whose extents are added up when the deepest of them is replaced or
/// removed, at most. A larger one has an [`Inventory`].
pub(super) const FEW: usize = 8;

/// The size of a value with everything in it. Shared content counts as often as it occurs.
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

    /// A value of `bytes` bytes that holds no others.
    #[inline]
    pub fn leaf(bytes: usize) -> Self {
        let parts = u32::try_from(1 + bytes / PART).unwrap_or(u32::MAX);
        Self { depth: 0, parts }
    }

    /// A value of `depth` levels and `parts` parts.
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

    /// Returns whether the levels are more than [`MAX_DEPTH`].
    pub fn is_too_deep(self) -> bool {
        self.depth() > MAX_DEPTH
    }

    /// Fails if the value is too large for a message, or too deep when nested `below` levels down.
    #[inline]
    pub fn check(self, below: usize) -> Result<(), Failure> {
        if self.depth().saturating_add(below) > MAX_DEPTH {
            Err(excess(format!(
                "value is nested too deeply: more than {MAX_DEPTH} levels"
            )))
        } else if self.parts > MAX_PARTS {
            Err(excess(format!(
                "value has too many parts for a message: more than {MAX_PARTS}"
            )))
        } else {
            Ok(())
        }
    }

    /// Takes account of one more value inside.
    #[inline]
    pub fn add(&mut self, inner: Self) {
        self.depth = self.depth.max(inner.depth.saturating_add(1));
        self.parts = self.parts.saturating_add(inner.parts);
    }

    /// Takes account of a value that is no longer inside; `content` is what is left. `None`: it is
    /// at most [`FEW`] values.
    pub(super) fn remove<I: Iterator<Item = Self>>(
        &mut self,
        inner: Self,
        inventory: Option<&mut Option<Box<Inventory>>>,
        content: impl Fn() -> I,
    ) {
        let deepest = inner.depth > 0 && inner.depth.saturating_add(1) == self.depth;
        *self = match inventory {
            Some(Some(inventory)) => {
                inventory.remove(inner);
                inventory.extent()
            }
            _ if !deepest && self.parts != u32::MAX => {
                self.parts -= inner.parts;
                return;
            }
            Some(missing) => missing.insert(Box::new(Inventory::of(content()))).extent(),
            None => Self::around(content()),
        }
    }

    /// Takes account of a value inside that was replaced by another one; `content` is everything
    /// inside now.
    pub(super) fn replace<I: Iterator<Item = Self>>(
        &mut self,
        before: Self,
        after: Self,
        mut inventory: Option<&mut Option<Box<Inventory>>>,
        content: impl Fn() -> I,
    ) {
        if before == after {
            return;
        }
        if let Some(Some(inventory)) = &mut inventory {
            inventory.add(after);
        }
        // Add first: the sum of the parts may not fall below what is subtracted.
        self.add(after);
        if after.depth >= before.depth && self.parts != u32::MAX {
            // The depth is right already.
            self.parts -= before.parts;
            if let Some(Some(inventory)) = inventory {
                inventory.remove(before);
            }
            return;
        }
        self.remove(before, inventory, content);
    }
}

fn excess(sentence: String) -> Failure {
    Failure {
        name: SmolStr::new_static("RangeError"),
        ..Failure::error(sentence)
    }
}

/// The extents of the values in a large array or object, counted by depth. It is made when the
/// deepest value is first replaced or removed, and then kept, so that doing so again and again does
/// not visit all values each time.
#[derive(Debug, Clone, Default)]
pub(super) struct Inventory {
    /// The number of values by depth; those that hold no others are not counted.
    depths: BTreeMap<u32, u32>,
    /// The sum of the parts, which may be more than [`Extent`] counts.
    parts: u64,
}

impl Inventory {
    fn of(content: impl Iterator<Item = Extent>) -> Self {
        let mut inventory = Self::default();
        content.for_each(|inner| inventory.add(inner));
        inventory
    }

    pub(super) fn add(&mut self, inner: Extent) {
        self.parts += u64::from(inner.parts);
        if inner.depth > 0 {
            *self.depths.entry(inner.depth).or_default() += 1;
        }
    }

    fn remove(&mut self, inner: Extent) {
        self.parts -= u64::from(inner.parts);
        if let Some(count) = self.depths.get_mut(&inner.depth) {
            *count -= 1;
            if *count == 0 {
                self.depths.remove(&inner.depth);
            }
        }
    }

    /// The extent of the array or object.
    fn extent(&self) -> Extent {
        let deepest = self.depths.last_key_value().map_or(0, |(depth, _)| *depth);
        Extent {
            depth: deepest.saturating_add(1),
            parts: u32::try_from(self.parts.saturating_add(1)).unwrap_or(u32::MAX),
        }
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
    use crate::Object;
    use crate::message::Message;
    use proptest::prelude::*;

    fn nested(levels: usize, wrap: impl Fn(Value) -> Value) -> Value {
        (0..levels).fold(Value::Null, |inner, _| wrap(inner))
    }

    #[test]
    fn values_of_any_depth_can_be_dropped() {
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

    /// A value of this depth, of parts that do not follow from it.
    fn sized(depth: usize) -> Value {
        nested(depth, |inner| {
            Value::array(vec![inner, "x".repeat(99).into()])
        })
    }

    proptest! {
        #[test]
        fn the_extent_of_many_values_follows_every_change(
            steps in prop::collection::vec((0..24usize, 0..5usize, 0..4u8), 0..200)
        ) {
            let (mut object, mut array) = (Object::default(), Array::from(Vec::new()));
            for (place, depth, step) in steps {
                let key = format!("key{place}");
                match step {
                    0 => drop((object.shift_remove(&key), array.remove(place))),
                    1 => drop((object.modify(&key, |own| *own = sized(depth)), array.pop())),
                    2 => drop((object.insert(key.into(), sized(depth)), array.push(sized(depth)))),
                    _ => {
                        object.insert(key.into(), sized(depth));
                        array.modify_or_extend(place, |own| *own = sized(depth));
                    }
                }
                let exact = Extent::around(object.values().map(Value::extent));
                prop_assert_eq!(object.extent(), exact);
                let exact = Extent::around(array.iter().map(Value::extent));
                prop_assert_eq!(array.extent(), exact);
            }
        }
    }

    #[test]
    fn a_saturated_sum_is_counted_again() {
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
        let doubled = || nested(40, |inner| Value::array(vec![inner.clone(), inner]));
        object.extend((0..20).map(|n| (format!("many{n}").into(), doubled())));
        for n in 0..20 {
            assert_eq!(object.extent().parts(), u32::MAX);
            object.insert(format!("many{n}").into(), Value::Null);
        }
        assert_eq!((object.extent().depth(), object.extent().parts()), (1, 22));
    }

    #[test]
    fn the_depth_limit_includes_the_levels_above() {
        let deepest = nested(MAX_DEPTH, |inner| Value::array(vec![inner]));
        assert!(deepest.extent().check(0).is_ok());
        let failure = deepest.extent().check(1).unwrap_err();
        assert_eq!(failure.name, "RangeError");
        assert_eq!(
            failure.message,
            "value is nested too deeply: more than 500 levels"
        );
    }

    #[test]
    fn an_error_message_loses_only_its_oversized_properties() {
        let mut message = Message::with_payload(nested(600, |inner| Value::array(vec![inner])));
        message.set("topic", "t");
        assert!(message.check().is_err());
        let rest = message.within_limits();
        assert!(rest.get("payload").is_undefined());
        assert_eq!(rest.get("topic").as_str(), Some("t"));
    }
}
