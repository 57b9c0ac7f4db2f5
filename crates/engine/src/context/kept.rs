//! Context files that are kept elsewhere too, for the machine on which the flows run next. What is read at the start was put there by
//! who keeps them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Keeps the text of a file, by its path below the directory, or says why not; an empty text: the file is gone.
pub type Keep = Box<dyn Fn(&str, &str) -> Result<(), String> + Send + Sync>;

/// The directory and what keeps its files: the same for all of a process, which is one engine's.
static KEPT: OnceLock<(PathBuf, Keep)> = OnceLock::new();

/// Keeps the files below this directory elsewhere too, from now on.
pub fn keep_below(directory: PathBuf, keep: Keep) {
    // A process does this once.
    let _ = KEPT.set((directory, keep));
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
