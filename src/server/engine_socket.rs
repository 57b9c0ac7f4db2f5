//! The Unix socket of an engine that runs apart from its gateway: made for its owner and group, and
//! open to processes of some users only, which the system reports (`SO_PEERCRED`, unix(7)).

use super::Error;
use crate::config::{Config, EngineListen, EngineSocket};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use tokio::net;

/// Listens; a socket that systemd has opened stays as it made it. Removes the socket of an engine
/// that has ended, and nothing else.
pub(super) fn open(
    socket: &EngineSocket,
    inherited: Option<&UnixListener>,
) -> Result<UnixListener, Error> {
    let opened = match inherited {
        Some(inherited) => inherited.try_clone(),
        None => bind(socket),
    };
    let opened = opened.and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    opened.map_err(|source| Error::EngineSocket {
        path: socket.path.clone(),
        advice: advice(&source),
        source,
    })
}

fn bind(socket: &EngineSocket) -> io::Result<UnixListener> {
    let path = &socket.path;
    remove_stale(path)?;
    let listener = UnixListener::bind(path)?;
    if socket.group.is_some() {
        chown(path, None, socket.group)?;
    }
    fs::set_permissions(path, Permissions::from_mode(socket.mode))?;
    Ok(listener)
}

fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => Err(ErrorKind::AlreadyExists.into()),
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => Err(ErrorKind::AddrInUse.into()),
            Err(_) => fs::remove_file(path),
        },
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => "another process listens there: end it or choose another path",
        ErrorKind::AlreadyExists => "a file is there that is no socket: choose another path",
        ErrorKind::NotFound => {
            "make its directory, which only the engine and the gateway should reach"
        }
        ErrorKind::PermissionDenied => {
            "the engine's user needs the right to write in that directory, and to be in the group of [engine.listen]"
        }
        _ => "choose another path",
    }
}

/// Returns whether the process at the other end may use the engine: root's, one of the engine's own
/// user, or of those listed.
pub(super) fn admits(config: &Config, stream: &net::UnixStream) -> bool {
    let Some(EngineListen::Unix(socket)) = &config.engine.listen else {
        return false;
    };
    let peer = match stream.peer_cred() {
        Ok(peer) => peer.uid(),
        Err(error) => {
            tracing::warn!(%error, "engine socket: the user of a peer is not known; refused");
            return false;
        }
    };
    let own = rustix::process::geteuid().as_raw();
    let admitted = peer == 0 || peer == own || socket.users.contains(&peer);
    if !admitted {
        tracing::warn!(
            uid = peer,
            "engine socket: peer uid refused; [engine.listen] users does not have it"
        );
    }
    admitted
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn socket(path: &Path) -> EngineSocket {
        EngineSocket {
            path: path.to_owned(),
            mode: 0o660,
            group: None,
            users: Vec::new(),
        }
    }

    #[test]
    fn a_socket_without_a_process_is_replaced_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("engine.sock");
        let first = open(&socket(&path), None).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let error = open(&socket(&path), None).unwrap_err().to_string();
        assert!(error.contains("another process listens there"), "{error}");
        drop(first);
        open(&socket(&path), None).unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "text").unwrap();
        let error = open(&socket(&file), None).unwrap_err().to_string();
        assert!(error.contains("no socket"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), b"text");
    }
}
