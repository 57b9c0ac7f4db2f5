//! The node sets of packages that users have disabled, in a file of the data directory.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const FILE: &str = "disabled-nodes.json";

/// The disabled node sets, as `package/set`.
#[derive(Debug)]
pub(super) struct DisabledSets {
    directory: PathBuf,
    sets: Mutex<BTreeSet<String>>,
}

impl DisabledSets {
    /// Reads the file; none means that all are enabled.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let sets = match fs::read(directory.join(FILE)) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| {
                let file = directory.join(FILE);
                io::Error::other(format!("{}: {error}", file.display()))
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => return Err(error),
        };
        Ok(Self {
            directory: directory.to_owned(),
            sets: Mutex::new(sets),
        })
    }

    /// All of them.
    pub(super) fn all(&self) -> BTreeSet<String> {
        let sets = self.sets.lock();
        sets.clone()
    }

    /// Replaces them, in the file first.
    pub(super) fn replace(&self, sets: BTreeSet<String>) -> io::Result<()> {
        // The engine may have its sockets of the node host there.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        let new = self.directory.join(format!("{FILE}.new"));
        fs::write(&new, serde_json::to_vec(&sets)?)?;
        fs::rename(new, self.directory.join(FILE))?;
        *self.sets.lock() = sets;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn disabled_sets_are_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("node-host");
        let sets = DisabledSets::open(&own).unwrap();
        assert!(sets.all().is_empty());
        let one = BTreeSet::from(["@s/a/one".to_owned()]);
        sets.replace(one.clone()).unwrap();
        assert_eq!(DisabledSets::open(&own).unwrap().all(), one);
        fs::write(own.join(FILE), "{").unwrap();
        let error = DisabledSets::open(&own).unwrap_err().to_string();
        assert!(error.contains(FILE), "{error}");
    }
}
