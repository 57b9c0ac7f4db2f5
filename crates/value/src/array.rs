//! The elements of an array, and the size of what is in them.

use super::Value;
use super::extent::{self, Extent, FEW, Inventory};
use std::ops::Deref;

/// An array. Its elements change only through methods that keep its extent exact.
#[derive(Clone)]
pub struct Array {
    elements: Vec<Value>,
    extent: Extent,
    inventory: Option<Box<Inventory>>,
}

impl Array {
    /// The size of the array with everything in it.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// The elements.
    pub fn into_vec(mut self) -> Vec<Value> {
        std::mem::take(&mut self.elements)
    }

    /// Adds an element at the end.
    pub fn push(&mut self, value: Value) {
        let extent = value.extent();
        self.extent.add(extent);
        if let Some(inventory) = &mut self.inventory {
            inventory.add(extent);
        }
        self.elements.push(value);
    }

    /// Removes the last element and gives it back.
    pub fn pop(&mut self) -> Option<Value> {
        let last = self.elements.len().checked_sub(1)?;
        self.remove(last)
    }

    /// Removes an element and gives it back; those after it move up.
    pub fn remove(&mut self, index: usize) -> Option<Value> {
        if index >= self.elements.len() {
            return None;
        }
        let removed = self.elements.remove(index);
        let elements = &self.elements;
        let inventory = inventory(&mut self.inventory, elements.len());
        self.extent.remove(removed.extent(), inventory, || {
            elements.iter().map(Value::extent)
        });
        Some(removed)
    }

    /// Changes an element in place, which is made, with holes before it, if the array is shorter.
    pub fn modify_or_extend<R>(&mut self, index: usize, change: impl FnOnce(&mut Value) -> R) -> R {
        while self.elements.len() <= index {
            self.push(Value::Undefined);
        }
        let value = &mut self.elements[index];
        let before = value.extent();
        let result = change(value);
        let after = value.extent();
        let elements = &self.elements;
        let inventory = inventory(&mut self.inventory, elements.len());
        self.extent.replace(before, after, inventory, || {
            elements.iter().map(Value::extent)
        });
        result
    }
}

/// The inventory of an array of this length, to be kept or made; `None`: a short array needs none.
fn inventory(kept: &mut Option<Box<Inventory>>, len: usize) -> Option<&mut Option<Box<Inventory>>> {
    (len > FEW || kept.is_some()).then_some(kept)
}

impl From<Vec<Value>> for Array {
    fn from(elements: Vec<Value>) -> Self {
        let extent = Extent::around(elements.iter().map(Value::extent));
        Self {
            elements,
            extent,
            inventory: None,
        }
    }
}

impl Deref for Array {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.elements
    }
}

impl<'a> IntoIterator for &'a Array {
    type Item = &'a Value;
    type IntoIter = std::slice::Iter<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.elements.iter()
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if self.extent.is_too_deep() {
            extent::dismantle(std::mem::take(&mut self.elements));
        }
    }
}
