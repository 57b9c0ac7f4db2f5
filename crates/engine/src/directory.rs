//! Finds running nodes by their ids, and their data by their slots.

use crate::node_info::NodeInfo;
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;
use std::rc::Rc;

/// The data of nodes by slot, and the slots of those that can be reached, by id.
#[derive(Default)]
pub(super) struct Directory {
    /// `None`: the slot is free.
    infos: Vec<Option<Rc<NodeInfo>>>,
    /// The slots by the hashes of the ids: the ids themselves are in the data.
    slots: HashTable<u32>,
}

impl Directory {
    /// The slot of the node of this id.
    pub(super) fn get(&self, id: &str) -> Option<u32> {
        let is_it = |slot: &u32| has_id(&self.infos, *slot, id);
        self.slots.find(hash(id), is_it).copied()
    }

    /// The number of nodes that can be reached.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The data of the node in a slot, also of one that cannot be reached any more.
    pub(super) fn info(&self, slot: u32) -> Option<&Rc<NodeInfo>> {
        self.infos.get(slot as usize)?.as_ref()
    }

    /// The data of all nodes.
    pub(super) fn infos(&self) -> impl Iterator<Item = &Rc<NodeInfo>> {
        self.infos.iter().flatten()
    }

    /// Puts a node into a slot, where it can be reached.
    pub(super) fn insert(&mut self, slot: u32, info: Rc<NodeInfo>) {
        self.clear(slot);
        let (at, new) = (slot as usize, hash(&info.id));
        if self.infos.len() <= at {
            self.infos.resize(at + 1, None);
        }
        self.infos[at] = Some(info);
        let infos = &self.infos;
        let of = |slot: &u32| {
            infos[*slot as usize]
                .as_ref()
                .map_or(0, |info| hash(&info.id))
        };
        self.slots.insert_unique(new, slot, of);
    }

    /// The node in this slot cannot be reached any more; its data stays.
    pub(super) fn hide(&mut self, slot: u32) {
        if let Some(Some(info)) = self.infos.get(slot as usize) {
            let found = self
                .slots
                .find_entry(hash(&info.id), |known| *known == slot);
            if let Ok(entry) = found {
                entry.remove();
            }
        }
    }

    /// Frees a slot.
    pub(super) fn clear(&mut self, slot: u32) {
        self.hide(slot);
        if let Some(info) = self.infos.get_mut(slot as usize) {
            *info = None;
        }
    }
}

fn has_id(infos: &[Option<Rc<NodeInfo>>], slot: u32, id: &str) -> bool {
    infos[slot as usize]
        .as_ref()
        .is_some_and(|info| info.id == id)
}

fn hash(id: &str) -> u64 {
    FxBuildHasher.hash_one(id)
}
