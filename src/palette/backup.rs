//! A copy of what npm changes in the directory of the node host, made before and put back if the
//! change fails: the `node_modules`, as hard links, and the two files that list the packages.
//!
//! The copy is there under its name only when it is whole, and goes when it is no longer needed:
//! one that is found at start says that a change was interrupted.

use engine::beneath;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

const BACKUP: &str = ".flowgate-backup";
/// One that is being made, and what is being removed.
const UNFINISHED: &str = ".flowgate-backup.new";
const DISCARDED: &str = ".flowgate-backup.old";

const MODULES: &str = "node_modules";
const LISTS: [&str; 2] = ["package.json", "package-lock.json"];

/// Bytes of a list that are kept. Our choice: ten times the largest that is known.
const MAX_LIST: u64 = 64 << 20;

/// The `package.json` of a directory without one; as Node-RED makes it.
const EMPTY: &str = r#"{
    "name": "node-red-project",
    "description": "A Node-RED Project",
    "version": "0.0.1",
    "private": true
}
"#;

/// A copy, in this directory.
#[derive(Debug)]
pub(super) struct Backup(PathBuf);

impl Backup {
    /// Makes a copy. What an interrupted change has left is put right before.
    pub(super) fn take(directory: &Path) -> io::Result<Self> {
        recover(directory)?;
        fs::create_dir_all(directory.join(MODULES))?;
        let list = directory.join(LISTS[0]);
        if !list.exists() {
            fs::write(list, EMPTY)?;
        }
        let made = directory.join(UNFINISHED);
        fs::create_dir(&made)?;
        link(&directory.join(MODULES), &made.join(MODULES))?;
        for list in LISTS {
            copy_if_there(&directory.join(list), &made.join(list))?;
        }
        fs::rename(made, directory.join(BACKUP))?;
        Ok(Self(directory.to_owned()))
    }

    /// The list of packages with their versions, as it was.
    pub(super) fn lock_file(&self) -> PathBuf {
        self.0.join(BACKUP).join(LISTS[1])
    }

    /// The change stands.
    pub(super) fn discard(self) -> io::Result<()> {
        fs::rename(self.0.join(BACKUP), self.0.join(DISCARDED))?;
        remove(&self.0.join(DISCARDED))
    }

    /// Puts everything back.
    pub(super) fn restore(self) -> io::Result<()> {
        recover(&self.0)
    }
}

/// Puts back what a change that did not come to its end has left; nothing to do if there was none.
/// It can be interrupted at any point, and done again.
pub(super) fn recover(directory: &Path) -> io::Result<()> {
    remove(&directory.join(UNFINISHED))?;
    remove(&directory.join(DISCARDED))?;
    let backup = directory.join(BACKUP);
    if !backup.exists() {
        return Ok(());
    }
    for list in LISTS {
        // Whole, or as it was before.
        let (kept, restored) = (backup.join(list), directory.join(format!(".{list}.new")));
        if copy_if_there(&kept, &restored)? {
            fs::rename(restored, directory.join(list))?;
        } else {
            remove_file(&directory.join(list))?;
        }
    }
    let (kept, changed) = (backup.join(MODULES), directory.join(MODULES));
    if kept.exists() {
        if changed.symlink_metadata().is_ok() {
            fs::rename(&changed, directory.join(DISCARDED))?;
        }
        fs::rename(kept, changed)?;
    }
    remove(&backup)?;
    remove(&directory.join(DISCARDED))
}

/// Makes the same tree again: files as hard links, which npm replaces and does not change; where
/// the system has none, as copies. `.package-lock.json`, which npm writes in place, is copied.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    let mut left = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = left.pop() {
        fs::create_dir(&to)?;
        fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_dir() {
                left.push((from, to));
            } else if kind.is_symlink() {
                std::os::unix::fs::symlink(fs::read_link(from)?, to)?;
            } else if kind.is_file() {
                let is_written = entry.file_name() == ".package-lock.json";
                if is_written || fs::hard_link(&from, &to).is_err() {
                    copy_if_there(&from, &to)?;
                }
            }
        }
    }
    Ok(())
}

/// Copies a list of packages, which their own code may have exchanged for a FIFO, a device or a
/// link; the copy is a new file.
fn copy_if_there(from: &Path, to: &Path) -> io::Result<bool> {
    let (Some(directory), Some(name)) = (from.parent(), from.file_name()) else {
        return Ok(false);
    };
    let opened = directory.canonicalize();
    let opened = opened.and_then(|directory| beneath::open(&directory, Path::new(name)));
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        opened => opened?.take(MAX_LIST),
    };
    remove_file(to)?;
    let mut copy = File::create_new(to)?;
    copy.set_permissions(file.get_ref().metadata()?.permissions())?;
    io::copy(&mut file, &mut copy)?;
    Ok(true)
}

fn remove(directory: &Path) -> io::Result<()> {
    let is_link = directory.symlink_metadata().is_ok_and(|m| !m.is_dir());
    let removed = if is_link {
        fs::remove_file(directory)
    } else {
        fs::remove_dir_all(directory)
    };
    unless_gone(removed)
}

fn remove_file(file: &Path) -> io::Result<()> {
    unless_gone(fs::remove_file(file))
}

pub(super) fn unless_gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path();
        fs::create_dir_all(own.join("node_modules/@s/a/deep")).unwrap();
        fs::write(own.join("node_modules/@s/a/deep/x.js"), "old").unwrap();
        fs::write(own.join("node_modules/.package-lock.json"), "old").unwrap();
        symlink("@s/a", own.join("node_modules/link")).unwrap();
        fs::write(own.join("package.json"), "{}").unwrap();
        directory
    }

    /// What npm does to a directory before it is killed.
    fn change(own: &Path) {
        fs::write(own.join("node_modules/.package-lock.json"), "new").unwrap();
        fs::remove_dir_all(own.join("node_modules/@s")).unwrap();
        fs::create_dir(own.join("node_modules/half")).unwrap();
        fs::write(own.join("package.json"), "new").unwrap();
        fs::write(own.join("package-lock.json"), "new").unwrap();
    }

    fn assert_old(own: &Path) {
        let text = |file: &str| fs::read_to_string(own.join(file)).unwrap();
        assert_eq!(text("node_modules/@s/a/deep/x.js"), "old");
        assert_eq!(text("node_modules/link/deep/x.js"), "old");
        assert_eq!(text("node_modules/.package-lock.json"), "old");
        assert_eq!(text("package.json"), "{}");
        let mut names: Vec<_> = fs::read_dir(own)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["node_modules", "package.json"]);
        assert!(!own.join("node_modules/half").exists());
    }

    #[test]
    fn a_failed_change_leaves_the_directory_as_it_was() {
        let directory = directory();
        let backup = Backup::take(directory.path()).unwrap();
        change(directory.path());
        backup.restore().unwrap();
        assert_old(directory.path());
    }

    #[test]
    fn an_interrupted_change_is_undone_at_the_next_start_and_an_interrupted_undoing_too() {
        let directory = directory();
        let own = directory.path();
        let backup = Backup::take(own).unwrap();
        change(own);
        drop(backup);
        // The undoing itself ended after its first steps.
        fs::rename(own.join("node_modules"), own.join(DISCARDED)).unwrap();
        recover(own).unwrap();
        assert_old(own);
        recover(own).unwrap();
        assert_old(own);
    }

    #[test]
    fn lists_that_packages_have_exchanged_for_a_fifo_or_a_link_keep_nothing_waiting() {
        let directory = directory();
        let own = directory.path();
        let fifo = |at: &Path| {
            fs::remove_file(at).unwrap();
            let made = Command::new("mkfifo").arg(at).status().unwrap();
            assert!(made.success());
        };
        fifo(&own.join("package.json"));
        let other = own.with_extension("other");
        fs::write(&other, "other").unwrap();
        Backup::take(own).unwrap().restore().unwrap();
        assert!(!own.join("package.json").exists());
        let backup = Backup::take(own).unwrap();
        fifo(&own.join(BACKUP).join("package.json"));
        symlink(&other, own.join(".package-lock.json.new")).unwrap();
        fs::write(own.join(BACKUP).join("package-lock.json"), "old").unwrap();
        backup.restore().unwrap();
        let locked = own.join("package-lock.json");
        assert_eq!(fs::read_to_string(&locked).unwrap(), "old");
        assert!(!locked.is_symlink());
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        fs::remove_file(other).unwrap();
    }

    #[test]
    fn a_change_that_stands_leaves_no_copy() {
        let directory = directory();
        let own = directory.path();
        let backup = Backup::take(own).unwrap();
        change(own);
        backup.discard().unwrap();
        recover(own).unwrap();
        assert!(own.join("node_modules/half").exists());
        assert!(!own.join(BACKUP).exists() && !own.join(DISCARDED).exists());
    }

    #[test]
    fn an_unfinished_copy_is_not_put_back() {
        let directory = directory();
        let own = directory.path();
        fs::create_dir(own.join(UNFINISHED)).unwrap();
        fs::write(own.join(UNFINISHED).join("package.json"), "half").unwrap();
        recover(own).unwrap();
        assert_old(own);
    }
}
