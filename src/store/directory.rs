//! The files of the data directory: read whole, replaced whole or not at all, and never lost when they are replaced.
//!
//! Knows names, modes and the order of system calls; nothing of what the files mean.

use super::{Error, fault};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Held locked as long as a process uses the directory.
const LOCK: &str = "flowgate.lock";

/// The data directory, ours alone until dropped.
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Makes the directory (mode 0700) unless it is there, and locks it. A second process, or a second store, is refused.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let made = !path.exists();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|source| failed(path, source))?;
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

    /// Where a file of that name is.
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

    /// Makes an empty file, mode 0600, unless it is there. Another program then opens it with this mode.
    pub(super) fn make(&self, name: &str) -> Result<(), Error> {
        match create_new(&self.path(name)) {
            Ok(_) => sync(&self.path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(source) => Err(failed(&self.path(name), source)),
        }
    }

    /// Replaces a file durably: whoever reads it, after a crash too, finds all of the old or all of the new content.
    pub(super) fn replace(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        self.stage(name, content)
            .and_then(|()| self.put_in_place(name))
            .and_then(|()| self.sync())
            .inspect_err(|_| self.discard(name))
    }

    /// Writes new content durably beside a file, which stays as it is until [`Self::put_in_place`].
    pub(super) fn stage(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let staged = self.staged(name);
        write_new(&staged, content).map_err(|source| failed(&staged, source))?;
        fault::point()
    }

    /// Moves staged content over its file. Durable only after [`Self::sync`].
    pub(super) fn put_in_place(&self, name: &str) -> Result<(), Error> {
        fault::point()?;
        fs::rename(self.staged(name), self.path(name))
            .map_err(|source| failed(&self.path(name), source))?;
        fault::point()
    }

    /// Removes staged content that was not put in place.
    pub(super) fn discard(&self, name: &str) {
        let _ = fs::remove_file(self.staged(name));
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, name: &str) -> Result<(), Error> {
        remove(&self.path(name)).map_err(|source| failed(&self.path(name), source))?;
        self.sync()
    }

    /// Makes the names in the directory durable: a rename is lost in a power failure until then.
    pub(super) fn sync(&self) -> Result<(), Error> {
        sync(&self.path)
    }

    /// Keeps the present content of a file as `.NAME.backup`, over the backup before (facts engine §5).
    pub(super) fn back_up(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let backup = format!(".{name}.backup");
        let staged = self.staged(&backup);
        // A second name for the same content is free and durable; not every file system has second names.
        remove(&staged)
            .and_then(|()| {
                fs::hard_link(self.path(name), &staged).or_else(|_| write_new(&staged, content))
            })
            .and_then(|()| fs::rename(&staged, self.path(&backup)))
            // A rename onto another name of the same content does nothing: rename(2).
            .and_then(|()| remove(&staged))
            .map_err(|source| failed(&self.path(&backup), source))?;
        fault::point()
    }

    /// Keeps content that nobody could read under `NAME.SUFFIX`, for its owner; nothing of that name is ever replaced.
    pub(super) fn set_aside(&self, name: &str, suffix: &str, content: &[u8]) -> Result<(), Error> {
        let mut kept = format!("{name}.{suffix}");
        for number in 2_u32.. {
            let path = self.path(&kept);
            if self.read(&kept)?.as_deref() == Some(content) {
                return Ok(());
            }
            match create_new(&path).and_then(|mut file| write_durably(&mut file, content)) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    kept = format!("{name}.{suffix}-{number}");
                }
                Err(source) => {
                    let _ = fs::remove_file(&path);
                    return Err(failed(&path, source));
                }
            }
        }
        self.sync()?;
        tracing::warn!(
            file = name,
            kept,
            "unreadable content is kept before it is replaced"
        );
        fault::point()
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
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(|source| failed(path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let reason = "another process uses this data directory; stop it or set another storage.directory";
            Err(failed(path, io::Error::new(ErrorKind::WouldBlock, reason)))
        }
        Err(TryLockError::Error(source)) => Err(failed(path, source)),
    }
}

/// A directory that was there keeps its mode: it may be a Node-RED user directory that others have a reason to read.
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

/// Replaces whatever a crash has left under that name; never follows a link.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    remove(path)?;
    create_new(path)
        .and_then(|mut file| write_durably(&mut file, content))
        .inspect_err(|_| {
            let _ = fs::remove_file(path);
        })
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
}

fn write_durably(file: &mut File, content: &[u8]) -> io::Result<()> {
    file.write_all(content)?;
    file.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync(path: &Path) -> Result<(), Error> {
    // The parent of a relative path of one part is the empty path.
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|source| failed(path, source))?;
    fault::point()
}
