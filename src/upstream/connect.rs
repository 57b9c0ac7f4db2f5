//! Opens a connection to the upstream: TCP, TLS if the url requires it, or a Unix socket; HTTP/1.1.

use super::client_tls::{OpenError, client_tls};
use super::http1::{Connection, Stream};
use super::leader::Members;
use super::{Error, KEEPALIVE};
use crate::config;
use crate::metrics;
use rustls::pki_types::ServerName;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

/// Between two attempts to connect to a Unix socket whose queue is full. Our choice.
const RETRY_DELAY: Duration = Duration::from_millis(5);

/// Makes connections.
pub(super) struct Connect {
    host: String,
    port: u16,
    /// Instead of host and port.
    socket: Option<PathBuf>,
    /// The users whose processes may listen on it; none: any.
    socket_users: Vec<u32>,
    has_warned: AtomicBool,
    limit: Duration,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The members of a cluster, of which one has the socket; `None`: there are none.
    pub(super) members: Option<Members>,
    metrics: Arc<metrics::Upstream>,
}

impl Connect {
    pub(super) fn new(
        config: &config::Upstream,
        metrics: Arc<metrics::Upstream>,
    ) -> Result<Self, OpenError> {
        let tls = if config.secure {
            let name = config.server_name.as_ref().unwrap_or(&config.host);
            let tls = client_tls(config.ca_file.as_deref(), config.certificate.as_ref())?;
            let connector = TlsConnector::from(Arc::new(tls));
            Some((connector, ServerName::try_from(name.clone())?))
        } else {
            None
        };
        Ok(Self {
            host: config.host.clone(),
            port: config.port,
            socket: config.socket.clone(),
            socket_users: config.socket_users.clone(),
            has_warned: AtomicBool::new(false),
            limit: config.connect,
            tls,
            members: None,
            metrics,
        })
    }

    /// Connects within the time for it.
    pub(super) async fn connect(&self) -> Result<Box<Connection>, Error> {
        timeout(self.limit, self.open())
            .await
            .map_err(|_| Error::ConnectTimeout)?
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused if self.socket.is_some() => {
                    Error::NotListening(error)
                }
                _ => Error::Unreachable(error),
            })
    }

    async fn open(&self) -> io::Result<Box<Connection>> {
        if let Some(members) = &self.members
            && let Some(stream) = members.connect().await?
        {
            return Ok(self.speak(stream));
        }
        if let Some(socket) = &self.socket {
            let stream = connect_unix(socket).await?;
            self.check_listener(&stream)?;
            return Ok(self.speak(stream));
        }
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await?;
        tcp.set_nodelay(true)?;
        let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE);
        socket2::SockRef::from(&tcp).set_tcp_keepalive(&keepalive)?;
        match &self.tls {
            None => Ok(self.speak(tcp)),
            Some((tls, name)) => Ok(self.speak(tls.connect(name.clone(), tcp).await?)),
        }
    }

    /// Fails if the process that listens is of a user who may not (`SO_PEERCRED`).
    fn check_listener(&self, stream: &UnixStream) -> io::Result<()> {
        if self.socket_users.is_empty() {
            return Ok(());
        }
        let user = stream.peer_cred()?.uid();
        if self.socket_users.contains(&user) {
            return Ok(());
        }
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::error!(user, socket = ?self.socket, "a socket of the node host leads to a process of another user: requests for packages are refused; engine.node_host.users lists who may listen");
        }
        Err(ErrorKind::PermissionDenied.into())
    }

    /// Speaks HTTP over a stream that has just been connected.
    pub(super) fn speak(&self, stream: impl Stream + 'static) -> Box<Connection> {
        Box::new(Connection::new(stream, Some(&self.metrics)))
    }
}

/// Connects to a Unix socket; while its queue of connections is full, waits for room. The caller
/// limits the time.
async fn connect_unix(socket: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            // unix(7): a full queue is EAGAIN, and nothing reports when there is room.
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(RETRY_DELAY).await,
            connected => return connected,
        }
    }
}
