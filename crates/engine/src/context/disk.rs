//! Tracks the files of a store: the contexts changed since the last write, and the time of the next
//! one.

use super::Place;
use super::kept::UnkeptChange;
use super::layout;
use super::writer::{Job, Writer};
use crate::settings::ContextFiles;
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use value::{Value, json};

/// Spaces by which the files are indented, as Node-RED writes them.
const INDENT: usize = 4;

/// The files of one store, below one directory.
#[derive(Debug)]
pub(super) struct Disk {
    directory: PathBuf,
    flush: Duration,
    limit: usize,
    /// The contexts that may have changed, and whether they have for certain.
    dirty: FxHashMap<Place, bool>,
    due: Option<Instant>,
    /// The first of these changes, if they are to be kept elsewhere too.
    unkept: Option<Arc<UnkeptChange>>,
    writer: Arc<Writer>,
}

/// The contexts that are due to be written.
#[derive(Default)]
pub(super) struct Due {
    /// Those that may have changed, and whether they have for certain.
    pub(super) places: FxHashMap<Place, bool>,
    /// The first of the changes.
    pub(super) unkept: Option<Arc<UnkeptChange>>,
}

impl Disk {
    pub(super) fn new(files: &ContextFiles, writer: Arc<Writer>) -> Self {
        Self {
            directory: files.directory.clone(),
            flush: files.flush,
            limit: files.file_limit,
            dirty: FxHashMap::default(),
            due: None,
            unkept: None,
            writer,
        }
    }

    /// A context was written, or code holds an object of it that it may change.
    pub(super) fn touch(&mut self, place: Place, is_written: bool) {
        if self.dirty.is_empty() {
            self.unkept = UnkeptChange::below(&self.directory).map(Arc::new);
        }
        *self.dirty.entry(place).or_default() |= is_written;
    }

    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes the contexts that are due to be written; without a time, all of them. The first change
    /// sets the time.
    pub(super) fn take_due(&mut self, now: Option<Instant>) -> Due {
        if let Some(now) = now
            && (self.dirty.is_empty() || now < *self.due.get_or_insert(now + self.flush))
        {
            return Due::default();
        }
        self.due = None;
        Due {
            places: std::mem::take(&mut self.dirty),
            unkept: self.unkept.take(),
        }
    }

    /// Has a context written. An id that makes no file name, and a context that is too large, stay
    /// in memory only.
    pub(super) fn write(&self, place: &Place, value: &Value, unkept: Option<&Arc<UnkeptChange>>) {
        let Some(path) = layout::path(&self.directory, place) else {
            tracing::error!(
                flow = %place.flow, node = %place.node,
                "a context is not written to disk: the id makes no file name"
            );
            return;
        };
        let text = json::stringify_pretty(value, INDENT).unwrap_or_else(|| "{}".to_owned());
        if text.len() > self.limit {
            tracing::error!(
                file = %path.display(), bytes = text.len(), limit = self.limit,
                "a context is not written to disk: it is over the limit engine.context.file_limit"
            );
            return;
        }
        self.writer.give(Job::Write {
            path,
            text,
            unkept: unkept.cloned(),
        });
    }

    /// Has the files of contexts removed, of a flow with all that is in it.
    pub(super) fn remove(&mut self, gone: &[Place]) {
        for place in gone {
            self.dirty.retain(|dirty, _| {
                dirty != place && !(place.node.is_empty() && dirty.flow == place.flow)
            });
            let job = if place.node.is_empty() {
                layout::directory(&self.directory, &place.flow).map(Job::RemoveDirectory)
            } else {
                layout::path(&self.directory, place).map(Job::Remove)
            };
            if let Some(job) = job {
                self.writer.give(job);
            }
        }
        if self.dirty.is_empty() {
            self.unkept = None;
        }
    }
}
