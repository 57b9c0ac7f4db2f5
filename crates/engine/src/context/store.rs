//! One store: the contexts in it by their place, and which of them are to be written to disk.

use super::disk::{Disk, Due};
use super::root::Root;
use super::writer::Writer;
use super::{Place, Remembered, Store, layout};
use crate::settings::ContextStore;
use smol_str::SmolStr;
use std::sync::Arc;
use std::time::Instant;
use value::{Failure, Path, Value};

impl Store {
    pub(super) fn open(config: &ContextStore, writer: Option<Arc<Writer>>, loads: bool) -> Self {
        let mut store = Self {
            name: config.name.clone(),
            ..Self::default()
        };
        let (Some(files), Some(writer)) = (&config.files, writer) else {
            return store;
        };
        if loads {
            for (place, value) in layout::load(&files.directory, files.file_limit) {
                *store.root(&place) = Root::from(value);
            }
        }
        store.disk = Some(Disk::new(files, writer));
        store
    }

    pub(super) fn context(&self, flow: &str) -> Option<&Remembered> {
        if flow.is_empty() {
            Some(&self.global)
        } else {
            self.flows.get(flow)
        }
    }

    pub(super) fn context_mut(&mut self, flow: &str) -> Option<&mut Remembered> {
        if flow.is_empty() {
            Some(&mut self.global)
        } else {
            self.flows.get_mut(flow)
        }
    }

    pub(super) fn roots(&mut self) -> impl Iterator<Item = &mut Root> {
        let contexts = self.flows.values_mut().chain([&mut self.global]);
        contexts.flat_map(|context| context.nodes.values_mut().chain([&mut context.own]))
    }

    /// The values kept at a place, which is created if it does not exist.
    pub(super) fn root(&mut self, place: &Place) -> &mut Root {
        let context = if place.flow.is_empty() {
            &mut self.global
        } else {
            self.flows.entry(place.flow.clone()).or_default()
        };
        if place.node.is_empty() {
            &mut context.own
        } else {
            context.nodes.entry(place.node.clone()).or_default()
        }
    }

    pub(super) fn at(&self, place: &Place) -> Option<&Root> {
        let context = self.context(&place.flow)?;
        if place.node.is_empty() {
            Some(&context.own)
        } else {
            context.nodes.get(&place.node)
        }
    }

    pub(super) fn at_mut(&mut self, place: &Place) -> Option<&mut Root> {
        let context = self.context_mut(&place.flow)?;
        if place.node.is_empty() {
            Some(&mut context.own)
        } else {
            context.nodes.get_mut(&place.node)
        }
    }

    pub(super) fn write(
        &mut self,
        place: &Place,
        key: &Path,
        value: Value,
    ) -> Result<bool, Failure> {
        let written = self.root(place).write(key, value)?;
        self.touch(place, true);
        Ok(written)
    }

    /// A context was written, or code holds an object of it that it may change.
    pub(super) fn touch(&mut self, place: &Place, is_written: bool) {
        if let Some(disk) = &mut self.disk {
            disk.touch(place.clone(), is_written);
        }
    }

    pub(super) fn clean(
        &mut self,
        known_flow: &impl Fn(&str) -> bool,
        known: &impl Fn(&str) -> bool,
        keep_files: bool,
    ) {
        let mut gone: Vec<Place> = Vec::new();
        for (flow, context) in self
            .flows
            .iter_mut()
            .chain([(&SmolStr::default(), &mut self.global)])
        {
            if !known_flow(flow) {
                gone.push(Place {
                    flow: flow.clone(),
                    node: SmolStr::default(),
                });
                continue;
            }
            context.nodes.retain(|node, _| {
                let stays = known(node);
                if !stays {
                    gone.push(Place {
                        flow: flow.clone(),
                        node: node.clone(),
                    });
                }
                stays
            });
        }
        self.flows.retain(|flow, _| known_flow(flow));
        self.roots().for_each(Root::take_over);
        if let Some(disk) = self.disk.as_mut().filter(|_| !keep_files) {
            disk.remove(&gone);
        }
    }

    /// Gives the disk what it is to write by now; without a time, everything.
    pub(super) fn save(&mut self, now: Option<Instant>) {
        let Some(mut disk) = self.disk.take() else {
            return;
        };
        let Due { places, unkept } = disk.take_due(now);
        for (place, is_written) in places {
            let mut root = self.at_mut(&place);
            let is_changed = root.as_mut().is_some_and(|root| root.refresh());
            if is_written || is_changed {
                let value = root.map_or(&Value::Undefined, |root| root.values());
                disk.write(&place, value, unkept.as_ref());
            }
        }
        self.disk = Some(disk);
    }
}
