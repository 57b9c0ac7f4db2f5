//! Every change that the store makes on disk: one function each, and each one step. Nothing else in
//! this room writes, renames or removes, so the steps of a deployment are counted whole.
//!
//! Builds for tests can end the program, or let the disk be full, at any step. A release has
//! nothing of that.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Bytes that are written at once. Our choice: 10 MB in 150 system calls, of memory that is in the
/// cache.
const GATHERED: usize = 64 * 1024;

/// A step comes now: the program may end here, or the step may fail.
#[cfg(not(any(test, debug_assertions)))]
#[allow(clippy::unnecessary_wraps, reason = "fails in tests only")]
pub(super) const fn next() -> io::Result<()> {
    Ok(())
}

#[cfg(any(test, debug_assertions))]
pub(super) use planned::next;
#[cfg(test)]
pub(super) use planned::{InjectedFault, plan};

/// Makes a directory, mode 0700, with those above it.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    next()?;
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes an empty file, mode 0600; fails if anything has its name.
pub(super) fn create(path: &Path) -> io::Result<File> {
    next()?;
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
}

/// Opens a file, which is made, mode 0600, unless it is there.
pub(super) fn open(path: &Path) -> io::Result<File> {
    next()?;
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)
}

/// Writes content into a file that has none; small pieces are gathered.
pub(super) fn write<'c>(file: &mut File, pieces: impl Iterator<Item = &'c [u8]>) -> io::Result<()> {
    next()?;
    let mut file = BufWriter::with_capacity(GATHERED, file);
    for piece in pieces {
        file.write_all(piece)?;
    }
    file.flush()
}

/// Forces the content of a file to disk.
pub(super) fn sync_file(file: &File) -> io::Result<()> {
    next()?;
    file.sync_all()
}

/// Gives a file another name, over whatever has that.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    next()?;
    fs::rename(from, to)
}

/// Gives a file a second name.
pub(super) fn link(file: &Path, name: &Path) -> io::Result<()> {
    next()?;
    fs::hard_link(file, name)
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    next()?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes a directory with all that is in it, if it is there.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    next()?;
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Forces the names in a directory to disk: a rename is lost in a power failure until then.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    next()?;
    // The parent of a relative path of one part is the empty path.
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    File::open(path)?.sync_all()
}

#[cfg(any(test, debug_assertions))]
mod planned {
    use rustix::process::{Signal, getpid, kill_process};
    use std::cell::Cell;
    use std::io::{self, ErrorKind};
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The step of this process, counted from 1, before which it gets a SIGKILL.
    const KILL_AT: &str = "FLOWGATE_KILL_AT_STEP";

    static KILLED_AT: LazyLock<Option<u32>> =
        LazyLock::new(|| std::env::var(KILL_AT).ok()?.parse().ok());
    static STEPS: AtomicU32 = AtomicU32::new(0);

    thread_local!(static PLANNED: Cell<Option<(u32, InjectedFault)>> = const { Cell::new(None) });

    /// The fault at a step.
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[allow(dead_code, reason = "planned in tests, where it happens too")]
    pub(in crate::store) enum InjectedFault {
        /// The thread ends here, without any tidying up.
        Crash,
        /// The disk is full.
        Full,
    }

    /// Plans the fault after this number of steps of this thread; `None` cancels it.
    #[cfg(test)]
    pub(in crate::store) fn plan(fault: Option<(u32, InjectedFault)>) {
        PLANNED.set(fault);
    }

    pub(in crate::store) fn next() -> io::Result<()> {
        let step = STEPS.fetch_add(1, Ordering::Relaxed) + 1;
        if *KILLED_AT == Some(step) {
            let _ = kill_process(getpid(), Signal::KILL);
        }
        match PLANNED.take() {
            None => Ok(()),
            Some((0, InjectedFault::Crash)) => std::panic::resume_unwind(Box::new("crash")),
            Some((0, InjectedFault::Full)) => Err(ErrorKind::StorageFull.into()),
            Some((steps, fault)) => {
                PLANNED.set(Some((steps - 1, fault)));
                Ok(())
            }
        }
    }
}
