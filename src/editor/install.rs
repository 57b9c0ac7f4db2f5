//! Puts the stock editor's packages into a folder: verified, unpacked beside it, and renamed into
//! place as a whole.

use super::archive::{ArchiveError, unpack};
use super::{CLIENT, Editor, Error, NODES};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crypto::{constant_time_eq, hex, random, sha512};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, open, renameat_with, syncfs};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A package of a version, as the registry of npm has it.
#[derive(Debug, Clone, Copy)]
pub struct PinnedPackage {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// SHA-512 of its archive in base64, as a lock file of npm has it after `sha512-`.
    pub integrity: &'static str,
}

/// The packages of the editor; `deploy/editor/package-lock.json` has the same.
pub const PACKAGES: [PinnedPackage; 2] = [
    PinnedPackage {
        name: CLIENT,
        version: "4.1.15",
        integrity: "fMHQAXl8Fd/6oJh9lw1FFnqhMA2JMDyh4QhDuruOBDZ5fOnFLEqtRH7QiZ4gAAm+xn5ojR9Yi2zp/s7AtnFTZA==",
    },
    PinnedPackage {
        name: NODES,
        version: "4.1.15",
        integrity: "7zOk4zCSvcljkPJOxl05HIvck3OnM75eCI8dsyy9DBtCOU0Gr/4nguQPc1qq1zEKlLmolEeUk9UvKg1e/le4aw==",
    },
];

/// The file by which a folder is known as one that was made here.
const MARK: &str = ".flowgate-editor";

/// Why the editor is not installed; nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// An archive is not the one that was expected.
    #[error(
        "{0} is not the file that this flowgate knows: its SHA-512 differs, so it was changed or damaged on the way"
    )]
    Integrity(&'static str),
    /// An archive cannot be unpacked.
    #[error("{0}: {1}")]
    Archive(&'static str, #[source] ArchiveError),
    /// The folder has something else.
    #[error(
        "{} was not made by `flowgate editor install`; name another folder, or remove this one",
        .0.display()
    )]
    Foreign(PathBuf),
    /// The files are not those of an editor.
    #[error(transparent)]
    Editor(#[from] Error),
    /// The disk failed.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Io(PathBuf, #[source] io::Error),
}

impl PinnedPackage {
    /// Its path below the root of a registry.
    pub fn path(&self) -> String {
        let Self { name, version, .. } = self;
        let file = name.rsplit('/').next().unwrap_or(name);
        format!("/{name}/-/{file}-{version}.tgz")
    }

    /// Whether an archive is the one of this version.
    pub fn verify(&self, archive: &[u8]) -> Result<(), InstallError> {
        let expected = BASE64_STANDARD.decode(self.integrity).unwrap_or_default();
        if constant_time_eq(&sha512(archive), &expected) {
            Ok(())
        } else {
            Err(InstallError::Integrity(self.name))
        }
    }
}

/// Installs packages, each with its archive, as the `node_modules` of this path. What was installed
/// there before stays until it is replaced as a whole.
pub fn install(packages: &[(PinnedPackage, Vec<u8>)], modules: &Path) -> Result<(), InstallError> {
    for (package, archive) in packages {
        package.verify(archive)?;
    }
    let failed = |error| InstallError::Io(modules.to_owned(), error);
    if !may_be_replaced(modules).map_err(failed)? {
        return Err(InstallError::Foreign(modules.to_owned()));
    }
    let staging = Staging::make(modules).map_err(failed)?;
    for (package, archive) in packages {
        let folder = staging.0.join(package.name);
        fs::create_dir_all(&folder).map_err(failed)?;
        let unpacked = unpack(archive, &folder);
        unpacked.map_err(|error| InstallError::Archive(package.name, error))?;
    }
    Editor::open(&staging.0, |_| true)?;
    let versions = packages.iter().map(|(package, _)| package);
    let versions = versions.map(|package| format!("{} {}\n", package.name, package.version));
    fs::write(staging.0.join(MARK), versions.collect::<String>()).map_err(failed)?;
    staging.put_into_place(modules).map_err(failed)
}

/// Whether the folder is missing, empty or one that was made here.
fn may_be_replaced(modules: &Path) -> io::Result<bool> {
    match fs::read_dir(modules) {
        Ok(mut entries) => Ok(entries.next().is_none() || modules.join(MARK).is_file()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// A folder beside the one to replace, removed when it is dropped.
struct Staging(PathBuf);

impl Staging {
    fn make(modules: &Path) -> io::Result<Self> {
        let parent = modules.parent().unwrap_or(Path::new(""));
        if !parent.as_os_str().is_empty() {
            fs::create_dir_all(parent)?;
        }
        let name = format!(".flowgate-editor-{}", hex(&random::<8>()));
        let path = parent.join(name);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Changes places with the folder, once everything is on disk.
    fn put_into_place(self, modules: &Path) -> io::Result<()> {
        let directory = open(&self.0, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        syncfs(&directory)?;
        match fs::rename(&self.0, modules) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                renameat_with(CWD, &self.0, CWD, modules, RenameFlags::EXCHANGE)?;
                Ok(())
            }
            renamed => renamed,
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Gone after a rename; after an exchange it has what was there before.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::archive::tests::archive;
    use super::*;
    use tar::EntryType::Regular;

    /// Both packages as small as an editor can be, of this version.
    fn packages(version: &str) -> [(PinnedPackage, Vec<u8>); 2] {
        let about = format!("{{\"version\":\"{version}\"}}");
        let client = archive(&[
            (Regular, "package/package.json", &about),
            (Regular, "package/locales/en-US/editor.json", "{}"),
        ]);
        let nodes = archive(&[
            (Regular, "package/package.json", &about),
            (Regular, "package/core/common/20-inject.html", ""),
            (Regular, "package/core/common/20-inject.js", ""),
        ]);
        [(CLIENT, client), (NODES, nodes)].map(|(name, archive)| (pinned(name, &archive), archive))
    }

    fn pinned(name: &'static str, archive: &[u8]) -> PinnedPackage {
        PinnedPackage {
            name,
            version: "4.1.15",
            integrity: BASE64_STANDARD.encode(sha512(archive)).leak(),
        }
    }

    fn version(modules: &Path) -> String {
        fs::read_to_string(modules.join("@node-red/editor-client/package.json")).unwrap()
    }

    /// The names beside the folder.
    fn names(place: &Path) -> Vec<String> {
        let entries = fs::read_dir(place).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn a_new_installation_replaces_the_one_before_as_a_whole() {
        let place = tempfile::tempdir().unwrap();
        let modules = place.path().join("node_modules");
        install(&packages("4.1.0"), &modules).unwrap();
        assert!(version(&modules).contains("4.1.0"));
        fs::write(modules.join("@node-red/editor-client/old"), "").unwrap();
        install(&packages("4.1.1"), &modules).unwrap();
        assert!(version(&modules).contains("4.1.1"));
        assert!(!modules.join("@node-red/editor-client/old").exists());
        assert_eq!(names(place.path()), ["node_modules"]);
    }

    #[test]
    fn another_archive_than_the_pinned_one_changes_nothing() {
        let place = tempfile::tempdir().unwrap();
        let modules = place.path().join("node_modules");
        install(&packages("4.1.0"), &modules).unwrap();
        let mut other = packages("4.1.1");
        let last = other[1].1.len() - 1;
        other[1].1[last] ^= 1;
        let refused = install(&other, &modules);
        assert!(matches!(refused, Err(InstallError::Integrity(NODES))));
        // Nor does one that is pinned and leads out of its folder, or is no editor.
        for entries in [
            &[(Regular, "package/../../../evil", "")][..],
            &[(Regular, "package/package.json", "{}")],
        ] {
            let mut evil = packages("4.1.1");
            let archive = archive(entries);
            evil[0] = (pinned(CLIENT, &archive), archive);
            assert!(install(&evil, &modules).is_err());
        }
        assert!(version(&modules).contains("4.1.0"));
        assert_eq!(names(place.path()), ["node_modules"]);
    }

    #[test]
    fn a_folder_of_others_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        let modules = place.path().join("node_modules");
        fs::create_dir_all(modules.join("express")).unwrap();
        let refused = install(&packages("4.1.0"), &modules);
        assert!(matches!(refused, Err(InstallError::Foreign(_))));
        assert_eq!(names(&modules), ["express"]);
        fs::remove_dir(modules.join("express")).unwrap();
        install(&packages("4.1.0"), &modules).unwrap();
    }

    #[test]
    fn the_pinned_packages_are_those_of_the_lock_file() {
        let lock = include_str!("../../deploy/editor/package-lock.json");
        let lock: serde_json::Value = serde_json::from_str(lock).unwrap();
        for package in PACKAGES {
            let locked = &lock["packages"][format!("node_modules/{}", package.name)];
            assert_eq!(locked["version"], package.version);
            assert_eq!(locked["integrity"], format!("sha512-{}", package.integrity));
        }
        assert_eq!(
            PACKAGES[0].path(),
            "/@node-red/editor-client/-/editor-client-4.1.15.tgz"
        );
    }
}
