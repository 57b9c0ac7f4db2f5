//! Opens files of packages, which their own code may change at any time: what is checked is what
//! was opened.
//!
//! No link leads out of the directory (`openat2`, Linux 5.6), a FIFO or a device is no file, and no
//! text is longer than its reader allows. Where the system has no `openat2`, no link is followed at
//! all.

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

/// Attempts while directories are renamed somewhere (`EAGAIN` of `openat2`).
const ATTEMPTS: usize = 8;
/// A FIFO would wait for a writer.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
/// A place that is not read itself.
const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Entries of a directory that are listed, at most: a package could make millions.
const MAX_ENTRIES: usize = 10_000;

/// Something in a directory.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// True if it is a directory; else it is a file.
    pub is_directory: bool,
}

/// Opens a regular file below a directory, whose path was canonical when it was found.
pub fn open(directory: &Path, below: &Path) -> io::Result<File> {
    let file = File::from(find(directory, below, READ)?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Reads a file below a directory, of at most so many bytes.
pub fn read(directory: &Path, below: &Path, largest: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = open(directory, below)?;
    file.take(largest.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > largest {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Lists directories and regular files in a directory below, 10,000 at most; links, and names that
/// are no text, are left out.
pub fn list(directory: &Path, below: &Path) -> io::Result<Vec<Entry>> {
    let found = find(directory, below, DIRECTORY)?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&found)?.take(MAX_ENTRIES) {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        let kind = match entry.file_type() {
            FileType::Unknown => kind(&found, name)?,
            known => known,
        };
        if matches!(kind, FileType::Directory | FileType::RegularFile)
            && name != "."
            && name != ".."
        {
            entries.push(Entry {
                name: name.to_owned(),
                is_directory: kind == FileType::Directory,
            });
        }
    }
    Ok(entries)
}

/// The kind of an entry of a file system that does not list kinds.
fn kind(directory: &OwnedFd, name: &str) -> io::Result<FileType> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = openat(directory, name, flags, Mode::empty())?;
    Ok(FileType::from_raw_mode(fstat(place)?.st_mode))
}

fn find(directory: &Path, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let below = if below.as_os_str().is_empty() {
        Path::new(".")
    } else {
        below
    };
    let outer = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let inner = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let found = resolve(CWD, directory, PLACE, outer)
        .and_then(|directory| resolve(directory, below, flags, inner));
    match found {
        // An older kernel, or a sandbox that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => Ok(walk(directory, below, flags)?),
        found => Ok(found?),
    }
}

fn resolve(
    from: impl AsFd,
    path: &Path,
    flags: OFlags,
    how: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    for _ in 1..ATTEMPTS {
        match openat2(&from, path, flags, Mode::empty(), how) {
            Err(Errno::AGAIN) => {}
            found => return found,
        }
    }
    openat2(&from, path, flags, Mode::empty(), how)
}

/// The same without `openat2`: part by part, and none of them may be a link.
fn walk(directory: &Path, below: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let no_link = |from: &OwnedFd, name: &Path, flags: OFlags| {
        openat(from, name, flags | OFlags::NOFOLLOW, Mode::empty())
    };
    let mut place = openat(CWD, "/", PLACE, Mode::empty())?;
    for part in directory.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => place = no_link(&place, Path::new(name), PLACE)?,
            _ => return Err(Errno::NOENT),
        }
    }
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        let flags = if parts.peek().is_some() { PLACE } else { flags };
        place = match part {
            Component::Normal(name) => no_link(&place, Path::new(name), flags)?,
            Component::CurDir => no_link(&place, Path::new("."), flags)?,
            _ => return Err(Errno::NOENT),
        };
    }
    Ok(place)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn package() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let package = directory.path().canonicalize().unwrap().join("package");
        fs::create_dir_all(package.join("resources")).unwrap();
        fs::write(directory.path().join("secret"), "secret").unwrap();
        fs::write(package.join("resources/a.txt"), "open").unwrap();
        symlink("a.txt", package.join("resources/in.txt")).unwrap();
        symlink("../../secret", package.join("resources/out.txt")).unwrap();
        symlink("/etc", package.join("etc")).unwrap();
        let made = Command::new("mkfifo").arg(package.join("fifo")).status();
        assert!(made.unwrap().success());
        (directory, package)
    }

    fn text(package: &Path, below: &str) -> Option<String> {
        let bytes = read(package, Path::new(below), 100).ok()?;
        String::from_utf8(bytes).ok()
    }

    #[test]
    fn links_lead_nowhere_out_and_only_regular_files_are_read() {
        let (_directory, package) = package();
        assert_eq!(text(&package, "resources/a.txt").as_deref(), Some("open"));
        assert_eq!(text(&package, "resources/in.txt").as_deref(), Some("open"));
        for below in [
            "resources/out.txt",
            "../secret",
            "etc/passwd",
            "fifo",
            "resources",
            "no",
            "",
            "/etc/passwd",
        ] {
            assert_eq!(text(&package, below), None, "{below}");
        }
        let names = list(&package, Path::new("")).unwrap();
        let names: Vec<_> = names.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["resources"]);
    }

    #[test]
    fn without_openat2_no_link_is_followed_at_all() {
        let (_directory, package) = package();
        let found = |below: &str| walk(&package, Path::new(below), READ).is_ok();
        assert!(found("resources/a.txt") && found("."));
        for below in [
            "resources/in.txt",
            "resources/out.txt",
            "etc/passwd",
            "../secret",
        ] {
            assert!(!found(below), "{below}");
        }
        symlink(&package, package.with_file_name("other")).unwrap();
        let other = package.with_file_name("other");
        assert!(walk(&other, Path::new("resources/a.txt"), READ).is_err());
    }

    #[test]
    fn a_directory_that_became_a_link_is_not_entered() {
        let (_directory, package) = package();
        let moved = package.with_file_name("moved");
        fs::rename(&package, &moved).unwrap();
        symlink(&moved, &package).unwrap();
        assert_eq!(text(&package, "resources/a.txt"), None);
    }

    #[test]
    fn a_sparse_file_of_many_bytes_is_refused() {
        let (_directory, package) = package();
        let file = File::create(package.join("huge")).unwrap();
        file.set_len(12 << 30).unwrap();
        let error = read(&package, Path::new("huge"), 1 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_file_that_is_swapped_for_a_link_again_and_again_never_hands_out_another() {
        let (directory, package) = package();
        let (own, link, name) = (
            package.join("own"),
            package.join("link"),
            package.join("resources/a.txt"),
        );
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    fs::write(&own, "open").unwrap();
                    fs::rename(&own, &name).unwrap();
                    symlink(directory.path().join("secret"), &link).unwrap();
                    fs::rename(&link, &name).unwrap();
                }
            });
            let mut opened = 0;
            for _ in 0..20_000 {
                let text = text(&package, "resources/a.txt");
                assert_ne!(text.as_deref(), Some("secret"));
                opened += usize::from(text.is_some());
            }
            ended.store(true, Ordering::Relaxed);
            assert!(opened > 0, "it was swapped too seldom");
        });
    }
}
