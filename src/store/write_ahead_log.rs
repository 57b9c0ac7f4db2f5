//! The write-ahead log that an unclean end has left beside the database.
//!
//! `SQLite` ends a log at the first frame with a wrong checksum, and takes one with an unreadable
//! header for empty. What was only there would be lost without a trace if the log is damaged; so it
//! is copied before `SQLite` opens the database.

use super::Error;
use super::database::DATABASE;
use super::directory::Directory;

/// Copies a log that is not empty to `flowgate.db-wal.kept`, over the copy of an earlier start.
pub(super) fn keep(directory: &Directory) -> Result<(), Error> {
    let name = format!("{DATABASE}-wal");
    let Some(log) = directory.read(&name)?.filter(|log| !log.is_empty()) else {
        return Ok(());
    };
    let kept = format!("{name}.kept");
    let bytes = log.len();
    match directory.replace(&kept, &log) {
        Ok(()) => tracing::info!(
            bytes,
            kept,
            "an unclean end has left {name}: SQLite recovers what it can read of it; a copy is kept"
        ),
        Err(error) => tracing::warn!(
            bytes,
            "an unclean end has left {name}, of which no copy can be kept: {error}"
        ),
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_log_of_the_last_unclean_end_is_copied_and_an_empty_one_is_not() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path()).unwrap();
        let (log, kept) = ("flowgate.db-wal", "flowgate.db-wal.kept");
        keep(&directory).unwrap();
        fs::write(directory.path(log), b"").unwrap();
        keep(&directory).unwrap();
        assert!(!directory.path(kept).exists());
        for content in [&b"first"[..], b"second"] {
            fs::write(directory.path(log), content).unwrap();
            keep(&directory).unwrap();
            assert_eq!(fs::read(directory.path(kept)).unwrap(), content);
            assert_eq!(fs::read(directory.path(log)).unwrap(), content);
        }
    }
}
