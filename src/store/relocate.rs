//! Moves the files of flows between the data directory and the one of an engine in a process of its
//! own, so that the flows stay when `[engine] isolation` changes.

use super::Error;
use super::credentials::RUNTIME_SETTINGS;
use super::directory::{Directory, failed};
use super::failpoint;
use super::flow_files::{CREDENTIALS, FLOWS};
use std::path::Path;

/// The files and directories, without the flow file itself.
const FILES: [&str; 10] = [
    CREDENTIALS,
    RUNTIME_SETTINGS,
    ".flows.json.backup",
    ".flows_cred.json.backup",
    "context",
    "lib",
    "node_modules",
    "package.json",
    "package-lock.json",
    "node-host",
];

/// The data directory, ours alone until dropped.
pub struct Locked(#[allow(dead_code, reason = "it is held")] Directory);

/// Locks the data directory (made, mode 0700, unless it is there) for a moment before the store has
/// it.
pub fn lock(data: &Path) -> Result<Locked, Error> {
    Directory::open(data).map(Locked)
}

/// Returns whether there are flows to move into the other directory, which has none.
pub fn has_flows_to_move(from: &Path, to: &Path) -> bool {
    from.join(FLOWS).exists() && !to.join(FLOWS).exists()
}

/// Moves the files from one to the other directory within the locked one, if there are flows to
/// move. The flow file is moved last: an interrupted move goes on with the next start.
pub fn move_flow_files(_: &Locked, from: &Path, to: &Path) -> Result<(), Error> {
    if !has_flows_to_move(from, to) {
        return Ok(());
    }
    failpoint::make_directory(to).map_err(|source| failed(to, source))?;
    for name in FILES.into_iter().chain([FLOWS]) {
        let (old, new) = (from.join(name), to.join(name));
        if old.exists() && !new.exists() {
            failpoint::rename(&old, &new).map_err(|source| failed(&old, source))?;
        }
    }
    for directory in [from, to] {
        failpoint::sync_directory(directory).map_err(|source| failed(directory, source))?;
    }
    let (from, to) = (from.display(), to.display());
    tracing::info!(%from, %to, "the files of the flows were moved: [engine] isolation has changed");
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn flows_move_there_and_back_and_never_over_others() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let engine = data.join("engine");
        let move_to =
            |from: &Path, to: &Path| move_flow_files(&lock(data).unwrap(), from, to).unwrap();
        move_to(data, &engine);
        assert!(!engine.exists(), "there are no flows");
        fs::create_dir_all(data.join("lib/flows")).unwrap();
        for name in [FLOWS, CREDENTIALS, "lib/flows/one", "flowgate.db"] {
            fs::write(data.join(name), name).unwrap();
        }
        move_to(data, &engine);
        for name in [FLOWS, CREDENTIALS, "lib/flows/one"] {
            assert!(engine.join(name).exists() && !data.join(name).exists());
        }
        assert!(data.join("flowgate.db").exists());
        fs::write(data.join(FLOWS), "other").unwrap();
        move_to(&engine, data);
        assert_eq!(fs::read(data.join(FLOWS)).unwrap(), b"other");
        fs::remove_file(data.join(FLOWS)).unwrap();
        move_to(&engine, data);
        assert_eq!(fs::read(data.join(FLOWS)).unwrap(), FLOWS.as_bytes());
        assert!(data.join("lib/flows/one").exists());
    }
}
