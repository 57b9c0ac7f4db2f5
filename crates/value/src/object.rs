//! The properties of an object, in the order in which they were set.
//!
//! Most objects have few ([`FEW`]; our choice: messages rarely have more): they are compared one by
//! one, and copied with one allocation. An object of many has an index.

use super::Value;
use super::extent::{self, Extent, FEW, Inventory};
use smol_str::SmolStr;
use std::collections::HashMap;
use std::fmt;
use std::iter::Map;
use std::slice;

/// The name that is no property in `object[name] = value`: it sets the object's prototype.
pub const PROTO: &str = "__proto__";

/// Properties and their keys.
type Iter<'a> =
    Map<slice::Iter<'a, (SmolStr, Value)>, fn(&'a (SmolStr, Value)) -> (&'a SmolStr, &'a Value)>;

/// An object's properties. Setting one that is there keeps its place.
#[derive(Clone)]
pub struct Object {
    properties: Vec<(SmolStr, Value)>,
    extent: Extent,
    /// If there are more properties than [`FEW`], or were. Boxed: most objects have none, and are
    /// to be small.
    index: Option<Box<Index>>,
}

/// The additional data of an object with many properties.
#[derive(Clone)]
struct Index {
    /// The position of each property. Keys come from outside: the hash has a secret key.
    places: HashMap<SmolStr, usize>,
    inventory: Option<Box<Inventory>>,
}

impl Default for Object {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl Object {
    /// No properties; capacity for `count`.
    pub fn with_capacity(count: usize) -> Self {
        Self {
            properties: Vec::with_capacity(count),
            extent: Extent::EMPTY,
            index: None,
        }
    }

    /// The size of the object with everything in it.
    #[inline]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Updates the extent after one property was replaced.
    fn replaced(&mut self, before: Extent, after: Extent) {
        let properties = &self.properties;
        let inventory = self.index.as_mut().map(|index| &mut index.inventory);
        self.extent.replace(before, after, inventory, || {
            properties.iter().map(|(_, value)| value.extent())
        });
    }

    /// The number of properties.
    #[inline]
    pub fn len(&self) -> usize {
        self.properties.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }

    #[inline]
    fn place(&self, key: &str) -> Option<usize> {
        match &self.index {
            None => self.properties.iter().position(|(own, _)| own == key),
            Some(index) => index.places.get(key).copied(),
        }
    }

    /// The property of that key.
    #[inline]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.place(key).map(|place| &self.properties[place].1)
    }

    /// Changes the property of that key in place; `None` if there is none.
    pub fn modify<R>(&mut self, key: &str, change: impl FnOnce(&mut Value) -> R) -> Option<R> {
        let place = self.place(key)?;
        let value = &mut self.properties[place].1;
        let before = value.extent();
        let result = change(value);
        let after = value.extent();
        self.replaced(before, after);
        Some(result)
    }

    /// Returns whether there is a property of that key.
    #[inline]
    pub fn contains_key(&self, key: &str) -> bool {
        self.place(key).is_some()
    }

    /// The property at that place, and its key.
    pub fn get_index(&self, place: usize) -> Option<(&SmolStr, &Value)> {
        self.properties.get(place).map(|(key, value)| (key, value))
    }

    /// Sets a property; gives back what it was.
    pub fn insert(&mut self, key: SmolStr, value: Value) -> Option<Value> {
        if let Some(place) = self.place(&key) {
            let after = value.extent();
            let before = std::mem::replace(&mut self.properties[place].1, value);
            self.replaced(before.extent(), after);
            return Some(before);
        }
        self.push(key, value);
        None
    }

    /// Sets a property whose name came from outside, as `object[name] = value` in JavaScript does
    /// with a text: `__proto__` is no property then.
    pub fn assign(&mut self, name: SmolStr, value: Value) {
        if name != PROTO {
            self.insert(name, value);
        }
    }

    /// Sets a property unless there is one of that key.
    pub fn insert_if_absent(&mut self, key: SmolStr, make: impl FnOnce() -> Value) {
        if self.place(&key).is_none() {
            self.push(key, make());
        }
    }

    fn push(&mut self, key: SmolStr, value: Value) {
        let extent = value.extent();
        if let Some(index) = &mut self.index {
            index.places.insert(key.clone(), self.properties.len());
            if let Some(inventory) = &mut index.inventory {
                inventory.add(extent);
            }
        }
        if self.len() == self.properties.capacity() {
            // A message that was made as large as it needs to be gets an id besides, not twice the
            // room.
            self.properties.reserve_exact(1 + self.len() / 2);
        }
        self.extent.add(extent);
        self.properties.push((key, value));
        if self.index.is_none() && self.len() > FEW {
            self.index = Some(Box::new(Index {
                places: self.keys().cloned().zip(0..).collect(),
                inventory: None,
            }));
        }
    }

    /// Removes a property and gives it back; those after it move up.
    pub fn shift_remove(&mut self, key: &str) -> Option<Value> {
        let place = self.place(key)?;
        if let Some(index) = &mut self.index {
            index.places.remove(key);
            let after = index.places.values_mut().filter(|own| **own > place);
            after.for_each(|own| *own -= 1);
        }
        let removed = self.properties.remove(place).1;
        let properties = &self.properties;
        let inventory = self.index.as_mut().map(|index| &mut index.inventory);
        self.extent.remove(removed.extent(), inventory, || {
            properties.iter().map(|(_, value)| value.extent())
        });
        Some(removed)
    }

    /// The properties and their keys.
    pub fn iter(&self) -> Iter<'_> {
        self.properties.iter().map(|(key, value)| (key, value))
    }

    /// The keys.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &SmolStr> {
        self.properties.iter().map(|(key, _)| key)
    }

    /// The properties without their keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.properties.iter().map(|(_, value)| value)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if self.extent.is_too_deep() {
            let properties = std::mem::take(&mut self.properties);
            extent::dismantle(properties.into_iter().map(|(_, value)| value).collect());
        }
    }
}

impl Extend<(SmolStr, Value)> for Object {
    fn extend<I: IntoIterator<Item = (SmolStr, Value)>>(&mut self, properties: I) {
        for (key, value) in properties {
            self.insert(key, value);
        }
    }
}

impl FromIterator<(SmolStr, Value)> for Object {
    fn from_iter<I: IntoIterator<Item = (SmolStr, Value)>>(properties: I) -> Self {
        let properties = properties.into_iter();
        let mut object = Self::with_capacity(properties.size_hint().0);
        object.extend(properties);
        object
    }
}

impl IntoIterator for Object {
    type Item = (SmolStr, Value);
    type IntoIter = std::vec::IntoIter<(SmolStr, Value)>;

    fn into_iter(mut self) -> Self::IntoIter {
        std::mem::take(&mut self.properties).into_iter()
    }
}

impl<'a> IntoIterator for &'a Object {
    type Item = (&'a SmolStr, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use indexmap::IndexMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_object_behaves_like_an_insertion_ordered_map(steps in prop::collection::vec((0..24u8, any::<bool>()), 0..200)) {
            let mut object = Object::default();
            let mut model = IndexMap::new();
            for (n, (key, sets)) in steps.into_iter().enumerate() {
                let key = SmolStr::from(format!("key{key}"));
                let before = if sets {
                    (object.insert(key.clone(), Value::Number(n as f64)), model.insert(key.clone(), n as f64))
                } else {
                    (object.shift_remove(&key), model.shift_remove(&key))
                };
                prop_assert_eq!(before.0.and_then(|value| value.as_number()), before.1);
                prop_assert_eq!(object.get(&key).and_then(Value::as_number), model.get(&key).copied());
                let shown: Vec<_> = object.iter().map(|(key, value)| (key.clone(), value.as_number().unwrap())).collect();
                let wanted: Vec<_> = model.iter().map(|(key, n)| (key.clone(), *n)).collect();
                prop_assert_eq!(shown, wanted);
            }
        }
    }
}
