//! Context files that are kept elsewhere too, for the machine on which the flows run next. What is
//! read at the start was put there by who keeps them.

use crate::lease;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// Keeps the text of a file, by its path below the directory, or says why not; an empty text: the
/// file is gone.
pub type Keep = Box<dyn Fn(&str, &str) -> Result<(), String> + Send + Sync>;

/// The directory and what keeps its files: the same for all of a process, which is one engine's.
static KEPT: OnceLock<(PathBuf, Keep)> = OnceLock::new();

/// Keeps the files below this directory elsewhere too, from now on.
pub fn keep_below(directory: PathBuf, keep: Keep) {
    // A process does this once.
    let _ = KEPT.set((directory, keep));
}

/// When changes were made that are not kept elsewhere yet, on the clock of [`lease::now`]; several
/// may have one time.
static UNKEPT: Mutex<BTreeSet<(Duration, u64)>> = Mutex::new(BTreeSet::new());

fn unkept() -> MutexGuard<'static, BTreeSet<(Duration, u64)>> {
    UNKEPT.lock()
}

/// A change that is not kept elsewhere, until this is dropped.
#[derive(Debug)]
pub(super) struct UnkeptChange((Duration, u64));

impl UnkeptChange {
    /// A change that is made now; `None`: the files of this directory are kept nowhere else.
    pub(super) fn below(directory: &Path) -> Option<Self> {
        let (kept, _) = KEPT.get()?;
        if !directory.starts_with(kept) {
            return None;
        }
        let mut unkept = unkept();
        let now = lease::now();
        let number = unkept.last().map_or(0, |(_, number)| number + 1);
        unkept.insert((now, number));
        Some(Self((now, number)))
    }
}

impl Drop for UnkeptChange {
    fn drop(&mut self) {
        unkept().remove(&self.0);
    }
}

/// The age of the oldest change that would be lost if the engine ended now and went on elsewhere;
/// zero if there is none.
pub fn unkept_age() -> Duration {
    let oldest = unkept().first().map(|(since, _)| *since);
    oldest.map_or(Duration::ZERO, |since| lease::now().saturating_sub(since))
}

/// Keeps a file elsewhere, if it is one of those.
pub(super) fn keep(path: &Path, text: &str) -> Result<(), String> {
    let Some((directory, keep)) = KEPT.get() else {
        return Ok(());
    };
    match path.strip_prefix(directory).ok().and_then(Path::to_str) {
        Some(name) => keep(name, text),
        None => Ok(()),
    }
}
