//! The socket at which a node host connects that is a service of its own (`flowgate node-host`),
//! with a user of its own.

use crate::settings::{ENDPOINTS_SOCKET, HostSocket};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

/// The time within which the second connection of a service follows the first one. Our choice: it
/// makes both at once.
const SECOND_CONNECTION: Duration = Duration::from_secs(5);

/// Bytes of the path of a Unix socket (`sun_path` of unix(7), without its end).
const MAX_SOCKET_PATH: usize = 107;

/// The socket.
pub(super) struct Listener {
    socket: UnixListener,
    /// The users whose processes may connect.
    users: Vec<u32>,
}

impl Listener {
    /// Makes the socket, and its directory if that is not there. The group decides who reaches it,
    /// the user of a process whether it is answered.
    pub(super) fn bind(socket: &HostSocket) -> io::Result<Self> {
        let directory = socket.path.parent().unwrap_or(Path::new("/"));
        check_length(directory)?;
        // The service makes sockets there too, of its own group.
        let (directory_mode, mode) = match socket.group {
            Some(_) => (0o770, 0o660),
            None => (0o700, 0o600),
        };
        match DirBuilder::new().mode(0o700).create(directory) {
            Ok(()) => owned(directory, socket.group, directory_mode)?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        match fs::remove_file(&socket.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&socket.path)?;
        owned(&socket.path, socket.group, mode)?;
        let mut users = socket.users.clone();
        users.push(geteuid().as_raw());
        Ok(Self {
            socket: listener,
            users,
        })
    }

    /// The two connections of the next service: the one for frames to it, and the one for its own.
    pub(super) async fn accept(&self) -> io::Result<(UnixStream, UnixStream)> {
        loop {
            let (first, process) = self.permitted().await?;
            match timeout(SECOND_CONNECTION, self.permitted()).await {
                Ok(second) => {
                    let (second, other) = second?;
                    if other == process {
                        return Ok((first, second));
                    }
                    tracing::warn!(target: "node_host", "two processes wanted to be the node host at once: both were refused");
                }
                Err(_) => {
                    tracing::warn!(target: "node_host", "a process opened one connection instead of two: it was refused");
                }
            }
        }
    }

    /// The next connection of a process whose user may connect (`SO_PEERCRED`), and the id of that
    /// process.
    async fn permitted(&self) -> io::Result<(UnixStream, Option<i32>)> {
        loop {
            let (stream, _) = self.socket.accept().await?;
            let peer = stream.peer_cred()?;
            if self.users.contains(&peer.uid()) {
                return Ok((stream, peer.pid()));
            }
            tracing::warn!(target: "node_host", uid = peer.uid(), "a process of this user wanted to be the node host: it was refused; engine.node_host.users lists who may");
        }
    }
}

/// Whether the paths of sockets in a directory are short enough.
pub(super) fn check_length(directory: &Path) -> io::Result<()> {
    let longest = std::path::absolute(directory)?.join(ENDPOINTS_SOCKET);
    if longest.as_os_str().len() > MAX_SOCKET_PATH {
        let text = format!(
            "the path {} is longer than the {MAX_SOCKET_PATH} bytes that a Unix socket's may have; use a data directory with a shorter one",
            longest.display()
        );
        return Err(io::Error::other(text));
    }
    Ok(())
}

fn owned(path: &Path, group: Option<u32>, mode: u32) -> io::Result<()> {
    if group.is_some() {
        chown(path, None, group)?;
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn listener(directory: &Path, users: Vec<u32>) -> (Listener, std::path::PathBuf) {
        let socket = HostSocket {
            path: directory.join("nodes/host.sock"),
            group: None,
            users: Vec::new(),
        };
        let mut listener = Listener::bind(&socket).unwrap();
        if !users.is_empty() {
            listener.users = users;
        }
        (listener, socket.path)
    }

    #[tokio::test]
    async fn two_connections_of_one_process_are_a_service() {
        let directory = tempfile::tempdir().unwrap();
        let (listener, path) = listener(directory.path(), Vec::new());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let connect = async {
            (
                UnixStream::connect(&path).await,
                UnixStream::connect(&path).await,
            )
        };
        let (accepted, connected) = tokio::join!(listener.accept(), connect);
        let ((first, second), (to, from)) = (accepted.unwrap(), connected);
        // In this order.
        first.try_write(b"1").unwrap();
        second.try_write(b"2").unwrap();
        let mut byte = [0];
        for (stream, expected) in [(to.unwrap(), b"1"), (from.unwrap(), b"2")] {
            stream.readable().await.unwrap();
            stream.try_read(&mut byte).unwrap();
            assert_eq!(&byte, expected);
        }
    }

    #[tokio::test]
    async fn a_process_of_another_user_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (listener, path) = listener(directory.path(), vec![geteuid().as_raw() + 1]);
        let refused = async {
            let stream = UnixStream::connect(&path).await.unwrap();
            stream.readable().await.unwrap();
            stream.try_read(&mut [0]).unwrap()
        };
        tokio::select! {
            accepted = listener.accept() => panic!("{accepted:?}"),
            read = refused => assert_eq!(read, 0, "it is closed"),
        }
    }

    #[tokio::test]
    async fn a_socket_that_was_left_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        drop(listener(directory.path(), Vec::new()));
        let (_listener, path) = listener(directory.path(), Vec::new());
        assert!(UnixStream::connect(&path).await.is_ok());
    }
}
