//! State that nodes share: the values that config nodes publish, and those of all nodes of a kind.
//!
//! Everything here lives on the engine's thread. The types are erased here only.

use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use std::any::{Any, TypeId};
use std::rc::Rc;

/// The values that nodes share.
#[derive(Default)]
pub(crate) struct SharedState {
    /// By the running id of the node that publishes it.
    published: FxHashMap<SmolStr, Rc<dyn Any>>,
    /// By its type.
    of_kind: FxHashMap<TypeId, Rc<dyn Any>>,
}

impl SharedState {
    /// Publishes a value in the name of a node.
    pub(crate) fn publish<T: 'static>(&mut self, id: SmolStr, value: Rc<T>) {
        self.published.insert(id, value);
    }

    /// The value that a node publishes, if it has this type.
    pub(crate) fn lookup<T: 'static>(&self, id: &str) -> Option<Rc<T>> {
        Rc::clone(self.published.get(id)?).downcast().ok()
    }

    /// Removes what a node published.
    pub(crate) fn withdraw(&mut self, id: &str) {
        self.published.remove(id);
    }

    /// The one value of this type; made when first asked for.
    pub(crate) fn of_kind<T: Default + 'static>(&mut self) -> Rc<T> {
        let shared = self
            .of_kind
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Rc::new(T::default()));
        Rc::clone(shared).downcast().unwrap_or_default()
    }
}
