//! The freeze that an operator commands: for all runtimes, and beyond a restart, in `freeze.json` of the data directory.

use super::Gateway;
use crate::policy::Freeze;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

const FILE: &str = "freeze.json";
const NEW: &str = "freeze.json.new";

impl Gateway {
    /// Begins a freeze in the place of the one that there may be, or ends it. On an error the one before stays.
    pub async fn freeze(&self, freeze: Option<Freeze>) -> io::Result<()> {
        let directory = self.config.storage.directory.clone();
        let kept = freeze.clone();
        let keep = move || keep(&directory, kept.as_ref());
        self.control
            .spawn_blocking(keep)
            .await
            .map_err(io::Error::other)??;
        for backend in self.backends.all() {
            backend.deployments.set_freeze(freeze.clone());
        }
        Ok(())
    }
}

/// The freeze that was commanded before the start, if there is one.
pub(super) fn kept(directory: &Path) -> io::Result<Option<Freeze>> {
    match fs::read(directory.join(FILE)) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn keep(directory: &Path, freeze: Option<&Freeze>) -> io::Result<()> {
    match freeze {
        Some(freeze) => {
            let mut file = File::create(directory.join(NEW))?;
            file.write_all(&serde_json::to_vec(freeze)?)?;
            file.sync_all()?;
            fs::rename(directory.join(NEW), directory.join(FILE))?;
        }
        None => match fs::remove_file(directory.join(FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        },
    }
    File::open(directory)?.sync_all()
}
