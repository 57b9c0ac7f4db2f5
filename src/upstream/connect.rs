//! Opens a connection to the upstream: TCP, TLS if the url requires it, or a Unix socket; HTTP/1.1.

use super::http1::{Connection, Stream};
use super::leader::Members;
use super::{Error, KEEPALIVE};
use crate::config;
use crate::metrics;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use rustls::server::VerifierBuilderError;
use rustls::{ClientConfig, RootCertStore};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

/// Between two attempts to connect to a Unix socket whose queue is full. Our choice.
const RETRY_DELAY: Duration = Duration::from_millis(5);

/// The upstream's TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Not a PEM file with what is needed.
    #[error("{} is not a PEM file with a {what}: {source}", .file.display())]
    Pem {
        /// The file.
        file: PathBuf,
        /// The expected content.
        what: &'static str,
        /// Why.
        source: pem::Error,
    },
    /// No authority to trust.
    #[error("{} has no certificate to trust", .0.display())]
    NoAuthority(PathBuf),
    /// The system has no authorities that we find.
    #[error("no certification authorities are installed here; name a ca_file")]
    NoSystemAuthorities,
    /// The authorities cannot be used.
    #[error("the certification authorities cannot be used: {0}")]
    Authorities(#[from] VerifierBuilderError),
    /// The name cannot stand in a certificate.
    #[error("the upstream's name cannot be checked: {0}")]
    Name(#[from] InvalidDnsNameError),
    /// The library refuses.
    #[error("TLS to the upstream cannot be set up: {0}")]
    Library(#[from] rustls::Error),
}

/// Makes connections.
pub(super) struct Connect {
    host: String,
    port: u16,
    /// Instead of host and port.
    socket: Option<PathBuf>,
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
            return Ok(self.speak(connect_unix(socket).await?));
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

    /// Speaks HTTP over a stream that has just been connected.
    pub(super) fn speak(&self, stream: impl Stream + 'static) -> Box<Connection> {
        Box::new(Connection::new(stream, Some(&self.metrics)))
    }
}

/// Connects to a Unix socket; while its queue of connections is full, waits for room. The caller limits the time.
async fn connect_unix(socket: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            // unix(7): a full queue is EAGAIN, and nothing reports when there is room.
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(RETRY_DELAY).await,
            connected => return connected,
        }
    }
}

/// The TLS of a client that trusts the authorities of a file, or those of the system, and shows its certificate if it has
/// one. Verification is never off: for a self-signed server the operator names its certificate as `ca_file`.
pub(super) fn client_tls(
    ca_file: Option<&Path>,
    certificate: Option<&config::Certificate>,
) -> Result<ClientConfig, OpenError> {
    let roots = match ca_file {
        Some(file) => authorities(file).map(Arc::new)?,
        None => system_authorities()?,
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build()?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_webpki_verifier(verifier);
    let mut client = match certificate {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::from_pem_file(&own.key).map_err(|source| OpenError::Pem {
                file: own.key.clone(),
                what: "private key",
                source,
            })?;
            builder.with_client_auth_cert(certificates(&own.cert)?, key)?
        }
    };
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(client)
}

fn authorities(file: &Path) -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate)?;
    }
    if roots.is_empty() {
        return Err(OpenError::NoAuthority(file.into()));
    }
    Ok(roots)
}

/// As they are when they are first needed.
fn system_authorities() -> Result<Arc<RootCertStore>, OpenError> {
    static READ: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = READ.get() {
        return Ok(Arc::clone(roots));
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(OpenError::NoSystemAuthorities);
    }
    Ok(Arc::clone(READ.get_or_init(|| Arc::new(roots))))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let wrong = |source| OpenError::Pem {
        file: file.into(),
        what: "certificate",
        source,
    };
    CertificateDer::pem_file_iter(file)
        .map_err(wrong)?
        .collect::<Result<_, _>>()
        .map_err(wrong)
}
