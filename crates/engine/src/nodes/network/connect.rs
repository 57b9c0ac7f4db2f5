//! Connections of network nodes to others: TCP, through a proxy, TLS; and what goes wrong, in the
//! words of Node.js.

use super::http::http_proxy::Gate;
use super::tls::Tls;
use super::tls_verify::{OldVersion, SelfSigned};
use rustls::{AlertDescription, CertificateError};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use value::Failure;

/// Bytes of a proxy's answer to CONNECT, at most. Our choice.
const MAX_HEAD: usize = 16 * 1024;

/// The idle time before TCP keep-alive probes. 120 s, as in Node-RED.
const KEEPALIVE: Duration = Duration::from_mins(2);

/// A stream of bytes in both directions.
pub(super) trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// A connection of whatever kind.
pub(super) type Stream = Box<dyn Io>;

/// Connects over TCP, to each address of the host in turn.
pub(super) async fn tcp(host: &str, port: u16) -> Result<TcpStream, Failure> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found = tokio::net::lookup_host((bare, port)).await;
    let addresses: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
    let mut first = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                prepare(&stream);
                return Ok(stream);
            }
            Err(error) => {
                first.get_or_insert_with(|| refused(&error, address));
            }
        }
    }
    Err(first.unwrap_or_else(|| Failure {
        code: "ENOTFOUND".into(),
        ..Failure::error(format!("getaddrinfo ENOTFOUND {bare}"))
    }))
}

/// Sends small messages at once, and notices when the other end is gone.
pub(super) fn prepare(stream: &TcpStream) {
    // A socket that cannot is used all the same.
    let _ = stream.set_nodelay(true);
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE);
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// Speaks TLS over a connection to `host`.
pub(super) async fn secure<S: Io + 'static>(
    stream: S,
    tls: &Tls,
    host: &str,
) -> Result<Stream, Failure> {
    let connector = TlsConnector::from(tls.client()?);
    let connected = connector.connect(tls.name(host)?, stream).await;
    connected
        .map(|stream| Box::new(stream) as Stream)
        .map_err(|error| tls_failure(&error, host))
}

/// Connects to a host, through a proxy and over TLS if they are given.
pub(super) async fn open(
    gate: Option<&Gate>,
    host: &str,
    port: u16,
    tls: Option<&Tls>,
) -> Result<Stream, Failure> {
    let stream = match gate {
        Some(gate) => through(gate, host, port).await?,
        None => Box::new(tcp(host, port).await?),
    };
    match tls {
        Some(tls) => secure(stream, tls, host).await,
        None => Ok(stream),
    }
}

/// Connects through a proxy (CONNECT, RFC 9110 §9.3.6).
async fn through(gate: &Gate, host: &str, port: u16) -> Result<Stream, Failure> {
    let tcp = tcp(&gate.host, gate.port).await?;
    let mut stream: Stream = if gate.secure {
        secure(tcp, &Tls::default(), &gate.host).await?
    } else {
        Box::new(tcp)
    };
    let authorization = gate
        .authorization
        .as_ref()
        .map(|value| format!("Proxy-Authorization: {value}\r\n"))
        .unwrap_or_default();
    let ask =
        format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{authorization}\r\n");
    let lost = |error: io::Error| failure(&error, "read");
    stream.write_all(ask.as_bytes()).await.map_err(lost)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        // Byte by byte, because what follows the head is no longer the proxy's.
        let byte = stream.read_u8().await.map_err(lost)?;
        head.push(byte);
        if head.len() > MAX_HEAD {
            return Err(Failure::error("Bad response: too long"));
        }
    }
    let head = String::from_utf8_lossy(&head);
    match head.split(' ').nth(1) {
        Some("200") => Ok(stream),
        other => Err(Failure::error(format!(
            "Bad response: {}",
            other.unwrap_or_default()
        ))),
    }
}

/// Why an address could not be reached.
fn refused(error: &io::Error, address: SocketAddr) -> Failure {
    let (ip, port) = (address.ip(), address.port());
    match code(error) {
        Some((code, _)) => Failure {
            code: code.into(),
            ..Failure::error(format!("connect {code} {ip}:{port}"))
        },
        None => Failure::error(format!("connect {error} {ip}:{port}")),
    }
}

/// The failure of a call on a connection: `read ECONNRESET`.
pub(super) fn failure(error: &io::Error, call: &str) -> Failure {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Failure {
            code: "ECONNRESET".into(),
            ..Failure::error("socket hang up")
        };
    }
    match code(error) {
        Some((code, _)) => Failure {
            code: code.into(),
            ..Failure::error(format!("{call} {code}"))
        },
        None => Failure {
            code: alert_code(error).unwrap_or_default().into(),
            ..Failure::error(error.to_string())
        },
    }
}

/// The code that Node.js makes of an alert of the peer: OpenSSL's name of the reason.
fn alert_code(error: &io::Error) -> Option<&'static str> {
    let rustls::Error::AlertReceived(alert) = error.get_ref()?.downcast_ref()? else {
        return None;
    };
    Some(match alert {
        AlertDescription::BadCertificate => "ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE",
        AlertDescription::CertificateExpired => "ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED",
        AlertDescription::CertificateRequired => "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED",
        AlertDescription::HandshakeFailure => "ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE",
        AlertDescription::ProtocolVersion => "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION",
        AlertDescription::UnknownCA => "ERR_SSL_TLSV1_ALERT_UNKNOWN_CA",
        _ => return None,
    })
}

/// Why a port cannot be listened on: `listen EADDRINUSE: address already in use :::80`.
pub(super) fn not_bound(error: &io::Error, call: &str, place: &str) -> Failure {
    match code(error) {
        Some((code, words)) => Failure {
            code: code.into(),
            ..Failure::error(format!("{call} {code}: {words} {place}"))
        },
        None => Failure::error(format!("{call} {error} {place}")),
    }
}

/// The name and the words of the errors that sockets meet (libuv's `UV_ERRNO_MAP`).
fn code(error: &io::Error) -> Option<(&'static str, &'static str)> {
    use io::ErrorKind as Kind;
    Some(match error.kind() {
        Kind::ConnectionRefused => ("ECONNREFUSED", "connection refused"),
        Kind::ConnectionReset => ("ECONNRESET", "connection reset by peer"),
        Kind::ConnectionAborted => ("ECONNABORTED", "software caused connection abort"),
        Kind::NotConnected => ("ENOTCONN", "socket is not connected"),
        Kind::BrokenPipe => ("EPIPE", "broken pipe"),
        Kind::TimedOut => ("ETIMEDOUT", "connection timed out"),
        Kind::HostUnreachable => ("EHOSTUNREACH", "host is unreachable"),
        Kind::NetworkUnreachable => ("ENETUNREACH", "network is unreachable"),
        Kind::AddrInUse => ("EADDRINUSE", "address already in use"),
        Kind::AddrNotAvailable => ("EADDRNOTAVAIL", "address not available"),
        Kind::PermissionDenied => ("EACCES", "permission denied"),
        Kind::InvalidInput => ("EINVAL", "invalid argument"),
        _ => return None,
    })
}

/// Why TLS could not be agreed on, in the words of OpenSSL.
fn tls_failure(error: &io::Error, host: &str) -> Failure {
    let with_code = |code: &str, message: String| Failure {
        code: code.into(),
        ..Failure::error(message)
    };
    let inner = error
        .get_ref()
        .and_then(|e| e.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(wrong)) => match wrong {
            CertificateError::Other(other) if other.0.is::<SelfSigned>() => {
                let code = match other.0.downcast_ref() {
                    Some(SelfSigned::InChain) => "SELF_SIGNED_CERT_IN_CHAIN",
                    _ => "DEPTH_ZERO_SELF_SIGNED_CERT",
                };
                with_code(code, other.0.to_string())
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                with_code("CERT_HAS_EXPIRED", "certificate has expired".into())
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                with_code(
                    "ERR_TLS_CERT_ALTNAME_INVALID",
                    format!(
                        "Hostname/IP does not match certificate's altnames: Host: {host}. is not in the cert's altnames"
                    ),
                )
            }
            CertificateError::UnknownIssuer => with_code(
                "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
                "unable to verify the first certificate".into(),
            ),
            CertificateError::Other(other) if other.0.is::<OldVersion>() => {
                with_code("UNSUPPORTED_CERT_VERSION", other.0.to_string())
            }
            other => with_code("EPROTO", format!("invalid certificate: {other:?}")),
        },
        Some(other) => with_code("EPROTO", other.to_string()),
        None => failure(error, "read"),
    }
}
