//! Files that are looked at now and then: the configuration, what it names, certificates. Polled,
//! because that sees a changed link, a mounted volume and a network's file system alike, and costs
//! a few calls.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The metadata of a file; `None`: it does not exist.
type Look = Option<(u64, u64, i64, i64)>;

/// The files, and how they looked.
pub(super) struct Watch {
    files: Vec<PathBuf>,
    /// When they were read.
    read: Vec<Look>,
    /// The last time.
    last: Vec<Look>,
}

impl Watch {
    /// Watches files that have just been read.
    pub(super) fn new(files: Vec<PathBuf>) -> Self {
        let now = looks(&files);
        Self {
            files,
            read: now.clone(),
            last: now,
        }
    }

    /// They are read now.
    pub(super) fn begin_reading(&mut self) {
        self.last = looks(&self.files);
        self.read.clone_from(&self.last);
    }

    /// Watches these files, which have just been read; new ones count from their current metadata.
    pub(super) fn follow(&mut self, files: Vec<PathBuf>) {
        let mut fresh = Self::new(files);
        for (at, file) in fresh.files.iter().enumerate() {
            if let Some(known) = self.files.iter().position(|known| known == file) {
                fresh.read[at] = self.read[known];
                fresh.last[at] = self.last[known];
            }
        }
        *self = fresh;
    }

    /// Returns whether they have changed since they were read, and not any more since the last
    /// look: a program that is writing several of them, or a long one, is not interrupted. True
    /// once per change.
    pub(super) fn have_changed(&mut self) -> bool {
        let now = looks(&self.files);
        let quiet = now == self.last;
        self.last.clone_from(&now);
        if !quiet || now == self.read {
            return false;
        }
        self.read = now;
        true
    }
}

fn looks(files: &[PathBuf]) -> Vec<Look> {
    let look = |file: &PathBuf| {
        let seen = fs::metadata(file).ok()?;
        Some((seen.ino(), seen.size(), seen.mtime(), seen.mtime_nsec()))
    };
    files.iter().map(look).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_reported_once_after_it_has_settled() {
        let place = tempfile::tempdir().unwrap();
        let files = vec![place.path().join("a"), place.path().join("b")];
        fs::write(&files[0], "1").unwrap();
        let mut watch = Watch::new(files.clone());
        assert!(!watch.have_changed());
        fs::write(&files[0], "22").unwrap();
        assert!(!watch.have_changed(), "it may not be all");
        fs::write(&files[1], "new").unwrap();
        assert!(!watch.have_changed(), "nor this");
        assert!(watch.have_changed());
        assert!(!watch.have_changed());
        fs::remove_file(&files[0]).unwrap();
        assert!(!watch.have_changed());
        assert!(watch.have_changed());
    }

    #[test]
    fn a_change_while_the_files_are_read_is_reported_later() {
        let place = tempfile::tempdir().unwrap();
        let files = vec![place.path().join("a"), place.path().join("b")];
        fs::write(&files[0], "1").unwrap();
        let mut watch = Watch::new(files[..1].to_vec());
        watch.begin_reading();
        fs::write(&files[0], "22").unwrap();
        watch.follow(files.clone());
        assert!(!watch.have_changed());
        assert!(watch.have_changed());
        fs::write(&files[1], "1").unwrap();
        assert!(!watch.have_changed());
        assert!(watch.have_changed());
        watch.begin_reading();
        watch.follow(files[1..].to_vec());
        fs::write(&files[0], "333").unwrap();
        assert!(!watch.have_changed());
        assert!(!watch.have_changed(), "it is followed no more");
    }
}
