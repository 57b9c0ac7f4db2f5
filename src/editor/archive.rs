//! Unpacks a package of npm: a tar file in gzip, whose paths begin with a folder that is left out.
//!
//! Writes regular files and folders below one folder and nothing else, of limited number and size,
//! with modes of its own.

use flate2::read::GzDecoder;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use tar::{Archive, EntryType};

/// Bytes of a package when it is unpacked, with the heads of its files. Our choice: the editor has
/// 40 MiB.
const MAX_BYTES: u64 = 256 << 20;
/// Entries of a package. Our choice: the editor has 1,200.
const MAX_ENTRIES: usize = 20_000;
/// Bytes of a path. Our choice, below the 4,096 of Linux.
const MAX_PATH: usize = 1024;

/// Why a package is not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is no such file, or the disk failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// An entry would be written elsewhere, or its name is malformed.
    #[error("the entry {0:?} has a path that leads out of the package")]
    Path(String),
    /// An entry is a link, a device or the like.
    #[error("the entry {0:?} is no regular file or folder")]
    Kind(String),
    /// Two entries have one path.
    #[error("the entry {0:?} is there twice")]
    Twice(String),
    /// It has more entries than a package may have.
    #[error("it has more than 20,000 entries")]
    TooMany,
    /// It is larger than a package may be.
    #[error("it has more than 256 MiB")]
    TooLarge,
}

/// Unpacks it below a folder that is there and empty.
pub(super) fn unpack(archive: &[u8], into: &Path) -> Result<(), ArchiveError> {
    unpack_at_most(archive, into, MAX_BYTES)
}

fn unpack_at_most(archive: &[u8], into: &Path, limit: u64) -> Result<(), ArchiveError> {
    let mut limited = GzDecoder::new(archive).take(limit);
    let unpacked = entries(&mut limited, into);
    // What was cut off is reported as such.
    match unpacked {
        Err(ArchiveError::Io(_)) if limited.limit() == 0 => Err(ArchiveError::TooLarge),
        other => other,
    }
}

fn entries(archive: impl Read, into: &Path) -> Result<(), ArchiveError> {
    let mut archive = Archive::new(archive);
    for (number, entry) in archive.entries()?.enumerate() {
        if number >= MAX_ENTRIES {
            return Err(ArchiveError::TooMany);
        }
        let mut entry = entry?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let path = below(&name).ok_or_else(|| ArchiveError::Path(shortened(&name)))?;
        let path = into.join(path);
        match kind {
            EntryType::Directory => fs::create_dir_all(path)?,
            EntryType::Regular => write(&mut entry, &path, &name)?,
            _ => return Err(ArchiveError::Kind(shortened(&name))),
        }
    }
    Ok(())
}

fn write(content: &mut impl Read, path: &Path, name: &str) -> Result<(), ArchiveError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o644).open(path);
    let mut file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => ArchiveError::Twice(shortened(name)),
        _ => error.into(),
    })?;
    io::copy(content, &mut file)?;
    Ok(())
}

/// The path of an entry without its first folder; `None`: it leads elsewhere.
fn below(name: &str) -> Option<PathBuf> {
    let is_plain = name.len() <= MAX_PATH && !name.contains(['\\', '\0', '\u{fffd}']);
    let mut parts = Path::new(name).components();
    let first = matches!(parts.next(), Some(Component::Normal(_)));
    let rest: PathBuf = parts.clone().collect();
    let stays = parts.all(|part| matches!(part, Component::Normal(_)));
    (is_plain && first && stays).then_some(rest)
}

fn shortened(name: &str) -> String {
    name.chars().take(100).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
pub(super) mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::{Builder, Header};

    /// An archive of entries: kind, path as it stands there, content or the target of a link.
    pub(in crate::editor) fn archive(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (kind, path, content) in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o4777);
            // Not `set_path`, which refuses what attackers write.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            let is_link = kind.is_symlink() || kind.is_hard_link();
            if is_link {
                header.set_link_name(content).unwrap();
            }
            let content = if is_link { "" } else { content };
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append(&header, content.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap()
    }

    fn unpacked(entries: &[(EntryType, &str, &str)]) -> (tempfile::TempDir, Option<ArchiveError>) {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("in")).unwrap();
        let error = unpack(&archive(entries), &place.path().join("in")).err();
        (place, error)
    }

    /// Whatever an archive has, nothing is written beside its folder, and no links are made.
    fn is_contained(place: &Path) {
        let mut names: Vec<_> = fs::read_dir(place).unwrap().collect();
        assert_eq!(names.pop().unwrap().unwrap().file_name(), "in");
        assert!(names.is_empty());
        for entry in fs::read_dir(place.join("in")).unwrap() {
            assert!(!entry.unwrap().file_type().unwrap().is_symlink());
        }
    }

    #[test]
    fn files_and_folders_are_written_without_the_first_folder_and_with_plain_modes() {
        use std::os::unix::fs::PermissionsExt;
        let (place, error) = unpacked(&[
            (EntryType::Directory, "package/", ""),
            (EntryType::Regular, "package/package.json", "{}"),
            (EntryType::Regular, "package/public/red/a.js", "a"),
        ]);
        assert!(error.is_none());
        let file = place.path().join("in/public/red/a.js");
        assert_eq!(fs::read_to_string(&file).unwrap(), "a");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o7133, 0, "{mode:o}");
    }

    #[test]
    fn paths_that_lead_out_of_the_package_are_refused() {
        for path in [
            "../evil",
            "package/../../evil",
            "package/a/../../../evil",
            "package/..",
            "/etc/evil",
            "package\\..\\..\\evil",
            "./../evil",
            "..",
        ] {
            let (place, error) = unpacked(&[(EntryType::Regular, path, "evil")]);
            assert!(matches!(error, Some(ArchiveError::Path(_))), "{path}");
            is_contained(place.path());
        }
    }

    #[test]
    fn links_and_devices_are_refused_and_nothing_is_written_through_them() {
        for (kind, target) in [
            (EntryType::Symlink, "../.."),
            (EntryType::Symlink, "/tmp"),
            (EntryType::Link, "package/package.json"),
            (EntryType::Char, ""),
            (EntryType::Block, ""),
            (EntryType::Fifo, ""),
        ] {
            let (place, error) = unpacked(&[
                (kind, "package/out", target),
                (EntryType::Regular, "package/out/evil", "evil"),
            ]);
            assert!(matches!(error, Some(ArchiveError::Kind(_))), "{kind:?}");
            is_contained(place.path());
        }
    }

    #[test]
    fn an_entry_that_is_there_twice_is_refused() {
        let twice = (EntryType::Regular, "package/a", "a");
        let (_place, error) = unpacked(&[twice, twice]);
        assert!(matches!(error, Some(ArchiveError::Twice(_))));
    }

    #[test]
    fn an_archive_that_grows_too_large_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let zeros = "\0".repeat(4 << 20);
        let bomb = archive(&[(EntryType::Regular, "package/zeros", &zeros)]);
        assert!(bomb.len() < 64 << 10);
        let error = unpack_at_most(&bomb, place.path(), 1 << 20).err();
        assert!(matches!(error, Some(ArchiveError::TooLarge)), "{error:?}");
    }

    #[test]
    fn a_file_that_is_no_archive_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let whole = archive(&[(EntryType::Regular, "package/a", "some content")]);
        for bytes in [&b""[..], b"<html>", &whole[..whole.len() / 2]] {
            assert!(unpack(bytes, place.path()).is_err());
        }
    }
}
