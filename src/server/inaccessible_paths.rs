//! `inaccessible_paths` of `[engine.listen]`: what an engine apart from its gateway cannot open,
//! though its user may. Landlock (landlock(7)) allows whole directories only, so all is allowed
//! that is beside these paths: the entries of each directory above them that are there when the
//! engine starts.

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf, absolute};

/// The version of Landlock that also refuses to truncate files, and to send signals to processes
/// outside: Linux 6.12.
const VERSION: ABI = ABI::V6;

/// Entries beside the paths, at most. Our choice: each costs a system call at the start, and some
/// bytes of the kernel's.
const MAX_ENTRIES: usize = 10_000;

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// A directory cannot be read, or an entry cannot be opened.
    #[error("{}: {source}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The engine needs a directory in which nothing could be made.
    #[error("{} is below {}, in which the engine has to make files", inaccessible.display(), directory.display())]
    Needed {
        /// A path that is to be inaccessible.
        inaccessible: PathBuf,
        /// The directory.
        directory: PathBuf,
    },
    /// Root reads disks and the memory of other processes.
    #[error("it runs as root, from whom nothing can be taken: start the engine as another user")]
    Root,
    /// Threads that were started before would keep their rights.
    #[error("there are threads already")]
    Threads,
    /// There are too many entries beside the paths.
    #[error("there are more than {MAX_ENTRIES} files and directories beside these paths")]
    TooMany,
    /// The kernel cannot do it.
    #[error("this needs Linux 6.12 or newer with Landlock: {0}")]
    Kernel(#[from] landlock::RulesetError),
}

/// Whether paths can be taken from a process of this user on this kernel.
pub(super) fn check() -> Result<(), Error> {
    if geteuid().is_root() {
        return Err(Error::Root);
    }
    ruleset()?;
    Ok(())
}

fn ruleset() -> Result<RulesetCreated, Error> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = ruleset.handle_access(AccessFs::from_all(VERSION))?;
    Ok(ruleset.scope(Scope::Signal)?.create()?)
}

/// Takes the paths from this thread, and from all threads and processes that it starts. `needed`:
/// directories in which the engine makes files, and which must be beside them; `accessible`: files
/// and directories that may be within them and are allowed.
pub(super) fn take_away(
    paths: &[PathBuf],
    accessible: &[PathBuf],
    needed: &[PathBuf],
) -> Result<(), Error> {
    if paths.is_empty() {
        return Ok(());
    }
    check()?;
    let failed = |path: &Path, source| Error::Path {
        path: path.to_owned(),
        source,
    };
    let tasks = Path::new("/proc/self/task");
    let threads = fs::read_dir(tasks).map_err(|source| failed(tasks, source))?;
    if threads.count() != 1 {
        return Err(Error::Threads);
    }
    for directory in needed.iter().chain(accessible) {
        // It cannot be made later if it is beside a path.
        fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
    }
    let beside = Beside::of(paths)?;
    beside.leaves(needed)?;
    let accessible = beside.with_none_inside(accessible)?;
    let mut rules = ruleset()?;
    for path in beside.entries.into_iter().chain(accessible) {
        // An entry may be gone by now.
        let Ok(file) = PathFd::new(&path) else {
            continue;
        };
        let access = if path.is_dir() {
            AccessFs::from_all(VERSION)
        } else {
            AccessFs::from_file(VERSION)
        };
        rules = rules.add_rule(PathBeneath::new(file, access))?;
    }
    rules.restrict_self()?;
    Ok(())
}

/// What is beside some paths, in the directories above them.
struct Beside {
    /// The paths themselves, without links.
    paths: BTreeSet<PathBuf>,
    entries: Vec<PathBuf>,
}

impl Beside {
    fn of(paths: &[PathBuf]) -> Result<Self, Error> {
        let paths: Result<_, Error> = paths.iter().map(|path| real(path)).collect();
        let mut beside = Self {
            paths: paths?,
            entries: Vec::new(),
        };
        beside.look_into(Path::new("/"))?;
        Ok(beside)
    }

    /// Refuses paths that are in a directory which the engine needs, or above it.
    fn leaves(&self, needed: &[PathBuf]) -> Result<(), Error> {
        for directory in needed {
            let directory = real(directory)?;
            let concerns =
                |path: &&PathBuf| path.starts_with(&directory) || directory.starts_with(path);
            if let Some(inaccessible) = self.paths.iter().find(concerns) {
                return Err(Error::Needed {
                    inaccessible: inaccessible.clone(),
                    directory,
                });
            }
        }
        Ok(())
    }

    /// These directories without links; refuses one that has such a path in it.
    fn with_none_inside(&self, directories: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
        let mut found = Vec::new();
        for directory in directories {
            let directory = real(directory)?;
            let mut paths = self.paths.iter();
            if let Some(inaccessible) = paths.find(|path| path.starts_with(&directory)) {
                return Err(Error::Needed {
                    inaccessible: inaccessible.clone(),
                    directory,
                });
            }
            found.push(directory);
        }
        Ok(found)
    }

    /// Collects what is in a directory above a path.
    fn look_into(&mut self, directory: &Path) -> Result<(), Error> {
        if self.paths.contains(directory) {
            return Ok(());
        }
        let failed = |source| Error::Path {
            path: directory.to_owned(),
            source,
        };
        for entry in fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            if self.paths.iter().any(|hidden| hidden.starts_with(&path)) {
                self.look_into(&path)?;
            } else if !entry.file_type().map_err(failed)?.is_symlink() {
                // A link may lead to a hidden path; what else it leads to is allowed where it is.
                self.entries.push(path);
            }
            if self.entries.len() > MAX_ENTRIES {
                return Err(Error::TooMany);
            }
        }
        Ok(())
    }
}

/// A path without links; of one that is not there yet the part that is.
fn real(path: &Path) -> Result<PathBuf, Error> {
    let path = &absolute(path).unwrap_or_else(|_| path.to_owned());
    match path.canonicalize() {
        Ok(path) => Ok(path),
        Err(source) => match (source.kind(), path.parent(), path.file_name()) {
            (io::ErrorKind::NotFound, Some(parent), Some(name)) => Ok(real(parent)?.join(name)),
            _ => Err(Error::Path {
                path: path.to_owned(),
                source,
            }),
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn all_is_allowed_that_is_beside_the_paths_but_links() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for made in ["a/hidden/inside", "a/open", "b"] {
            fs::create_dir_all(root.join(made)).unwrap();
        }
        fs::write(root.join("a/file"), "").unwrap();
        symlink(root.join("a/hidden"), root.join("link")).unwrap();
        let paths = [
            root.join("link/inside"),
            root.join("a/file"),
            root.join("b/later/x"),
        ];
        let beside = Beside::of(&paths).unwrap();
        let hidden = ["a/file", "a/hidden/inside", "b/later/x"].map(|path| root.join(path));
        assert!(beside.paths.iter().eq(&hidden));
        let mut entries: Vec<_> = beside
            .entries
            .iter()
            .filter(|e| e.starts_with(&root))
            .collect();
        entries.sort();
        assert_eq!(entries, [&root.join("a/open")]);
        assert!(beside.entries.iter().any(|entry| entry.starts_with("/usr")));
    }

    #[test]
    fn a_directory_in_which_the_engine_makes_files_is_neither_taken_away_nor_above() {
        let directory = tempfile::tempdir().unwrap();
        let hidden = directory.path().join("own/key");
        for needed in ["", "own", "own/key", "own/key/data"] {
            let needed = directory.path().join(needed);
            let beside = Beside::of(std::slice::from_ref(&hidden)).unwrap();
            let refused = beside.leaves(std::slice::from_ref(&needed));
            assert!(matches!(refused, Err(Error::Needed { .. })), "{needed:?}");
            assert!(beside.leaves(&[directory.path().join("other")]).is_ok());
        }
    }
}
