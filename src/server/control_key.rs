//! The key of the control socket, in a file beside it: who asks must be able to read the data
//! directory. To be its user is not enough, because a process that may not open files there can
//! still connect to the socket (landlock(7), "Current limitations").

use crypto::Secret;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The name of the file in the data directory.
const FILE: &str = "flowgate.sock.key";

fn path(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Makes a new key.
pub(super) fn make(directory: &Path) -> io::Result<Secret> {
    let path = path(directory);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let key = Secret::new(crypto::hex(&crypto::random::<32>()));
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    file.write_all(key.reveal().as_bytes())?;
    Ok(key)
}

/// Removes it.
pub(super) fn remove(directory: &Path) {
    // Without a socket it is of no use.
    let _ = fs::remove_file(path(directory));
}

/// The key of the gateway that runs on a data directory.
pub fn read(directory: &Path) -> io::Result<Secret> {
    fs::read_to_string(path(directory)).map(Secret::new)
}
