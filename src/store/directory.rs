//! The files of the data directory: read whole, replaced whole or not at all, and never lost when
//! they are replaced.
//!
//! Knows names, modes and the order of system calls; nothing of what the files mean.

use super::Error;
use super::failpoint;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::iter::once;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Held locked as long as a process uses the directory; in it is the process's number.
const LOCK: &str = "flowgate.lock";

/// The data directory, ours alone until dropped.
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

/// Identifies the content of a file: a program that writes it changes at least one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
    /// Bytes.
    size: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, i64),
    /// The same, of the last change of the content, the names or the mode.
    changed: (i64, i64),
}

impl Directory {
    /// Makes the directory (mode 0700) unless it is there, and locks it. A second process, or a
    /// second store, is refused.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let made = !path.exists();
        failpoint::make_directory(path).map_err(|source| failed(path, source))?;
        let lock = lock(&path.join(LOCK))?;
        if made {
            path.parent().map_or(Ok(()), sync)?;
        } else {
            warn_if_open_to_others(path)?;
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// The path of a file of that name.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The content of a file; `None` if there is none.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        match fs::read(self.path(name)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed(&self.path(name), source)),
        }
    }

    /// Makes an empty file, mode 0600, unless it is there. Another program then opens it with this
    /// mode.
    pub(super) fn make(&self, name: &str) -> Result<(), Error> {
        match failpoint::create(&self.path(name)) {
            Ok(_) => sync(&self.path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(source) => Err(failed(&self.path(name), source)),
        }
    }

    /// Replaces a file durably: a reader, after a crash too, finds all of the old or all of the new
    /// content.
    pub(super) fn replace(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let staged = self.staged(name);
        write_new(&staged, content)
            .map_err(|source| failed(&staged, source))
            .and_then(|()| self.put_in_place(name))
            .and_then(|()| self.sync())
            .inspect_err(|_| self.discard(name))
    }

    /// Writes new content beside a file, which stays as it is until [`Self::put_in_place`]. Durable
    /// only after [`Self::sync_file`].
    pub(super) fn stage<'c>(
        &self,
        name: &str,
        pieces: impl Iterator<Item = &'c [u8]>,
    ) -> Result<(), Error> {
        let staged = self.staged(name);
        create_with(&staged, pieces)
            .map(drop)
            .map_err(|source| failed(&staged, source))
    }

    /// Moves staged content over its file. Durable only after [`Self::sync`].
    pub(super) fn put_in_place(&self, name: &str) -> Result<(), Error> {
        failpoint::rename(&self.staged(name), &self.path(name))
            .map_err(|source| failed(&self.path(name), source))
    }

    /// Removes staged content that was not put in place.
    pub(super) fn discard(&self, name: &str) {
        let _ = failpoint::remove(&self.staged(name));
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, name: &str) -> Result<(), Error> {
        failpoint::remove(&self.path(name)).map_err(|source| failed(&self.path(name), source))?;
        self.sync()
    }

    /// Makes the content of a file durable, and that of its backup, if they are there.
    pub(super) fn sync_file(&self, name: &str) -> Result<(), Error> {
        for name in [name, &backup(name)] {
            let path = self.path(name);
            let synced = File::open(&path).and_then(|file| failpoint::sync_file(&file));
            synced
                .or_else(none_if_absent)
                .map_err(|source| failed(&path, source))?;
        }
        Ok(())
    }

    /// Identifies the content of a file without reading it; `None` if there is no such file.
    pub(super) fn id(&self, name: &str) -> Result<Option<FileId>, Error> {
        match fs::symlink_metadata(self.path(name)) {
            Ok(found) => Ok(Some(FileId {
                device: found.dev(),
                inode: found.ino(),
                size: found.size(),
                modified: (found.mtime(), found.mtime_nsec()),
                changed: (found.ctime(), found.ctime_nsec()),
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed(&self.path(name), source)),
        }
    }

    /// Makes the names in the directory durable: a rename is lost in a power failure until then.
    pub(super) fn sync(&self) -> Result<(), Error> {
        sync(&self.path)
    }

    /// Keeps the present content of a file as `.NAME.backup`, over the backup before
    /// (docs/reference/node-red-engine.md §5). Without a file it does nothing.
    pub(super) fn back_up(&self, name: &str) -> Result<(), Error> {
        let (file, backup) = (self.path(name), backup(name));
        if !file.exists() {
            return Ok(());
        }
        let staged = self.staged(&backup);
        // A second name for the same content is free and durable; not every file system has second
        // names.
        failpoint::remove(&staged)
            .and_then(|()| {
                failpoint::link(&file, &staged)
                    .or_else(|_| fs::read(&file).and_then(|content| write_new(&staged, &content)))
            })
            .and_then(|()| failpoint::rename(&staged, &self.path(&backup)))
            // A rename onto another name of the same content does nothing: rename(2).
            .and_then(|()| failpoint::remove(&staged))
            .map_err(|source| {
                let _ = failpoint::remove(&staged);
                failed(&self.path(&backup), source)
            })
    }

    /// Keeps content under a name, for its owner, or under one like it: nothing that has the name
    /// is ever replaced.
    pub(super) fn set_aside(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let mut kept = name.to_owned();
        for number in 2_u32.. {
            let path = self.path(&kept);
            if self.read(&kept)?.as_deref() == Some(content) {
                return Ok(());
            }
            let written = failpoint::create(&path).and_then(|mut file| {
                failpoint::write(&mut file, once(content))?;
                failpoint::sync_file(&file)
            });
            match written {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    kept = format!("{name}-{number}");
                }
                Err(source) => {
                    let _ = failpoint::remove(&path);
                    return Err(failed(&path, source));
                }
            }
        }
        self.sync()?;
        tracing::warn!(kept, "content is kept before it is replaced");
        Ok(())
    }

    fn staged(&self, name: &str) -> PathBuf {
        self.path(&format!(".{}.new", name.trim_start_matches('.')))
    }
}

/// An [`Error::Io`] that names the file.
pub(super) fn failed(path: &Path, source: io::Error) -> Error {
    Error::Io {
        what: path.display().to_string(),
        source,
    }
}

fn lock(path: &Path) -> Result<File, Error> {
    let mut file = failpoint::open(path).map_err(|source| failed(path, source))?;
    match try_lock(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Error::InUse {
                what: path.display().to_string(),
                process: process(&mut file),
            });
        }
        Err(TryLockError::Error(source)) => return Err(failed(path, source)),
    }
    // For people only: the lock counts, so a full disk may lose this.
    let _ = file
        .set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

#[cfg(not(test))]
fn try_lock(file: &File) -> Result<(), TryLockError> {
    file.try_lock()
}

/// Waits a little: a process that a parallel test has just forked holds a copy of a lock until its
/// `exec`, also when the store of that lock has gone.
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests wait on their own threads")]
fn try_lock(file: &File) -> Result<(), TryLockError> {
    for _ in 0..100 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            locked => return locked,
        }
    }
    file.try_lock()
}

/// The process that has locked the file, according to it.
fn process(file: &mut File) -> Option<i32> {
    let mut text = String::new();
    file.rewind().ok()?;
    // No process has a longer number.
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// A directory that was there keeps its mode: it may be a Node-RED user directory that others have
/// a reason to read.
fn warn_if_open_to_others(path: &Path) -> Result<(), Error> {
    let mode = fs::metadata(path)
        .map_err(|source| failed(path, source))?
        .permissions()
        .mode();
    if mode & 0o022 != 0 {
        let mode = format!("{:o}", mode & 0o777);
        tracing::warn!(directory = %path.display(), mode, "other users may write in the data directory; chmod it to 700");
    }
    Ok(())
}

/// Makes a file durably, over whatever a crash has left under that name; never follows a link.
pub(super) fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    create_with(path, once(content))
        .and_then(|file| failpoint::sync_file(&file))
        .inspect_err(|_| {
            let _ = failpoint::remove(path);
        })
}

/// The same, not durably.
fn create_with<'c>(path: &Path, pieces: impl Iterator<Item = &'c [u8]>) -> io::Result<File> {
    failpoint::remove(path)?;
    let mut file = failpoint::create(path)?;
    failpoint::write(&mut file, pieces).inspect_err(|_| {
        let _ = failpoint::remove(path);
    })?;
    Ok(file)
}

fn backup(name: &str) -> String {
    format!(".{name}.backup")
}

fn none_if_absent(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

fn sync(path: &Path) -> Result<(), Error> {
    failpoint::sync_directory(path).map_err(|source| failed(path, source))
}
