//! A server that flowgate sends to by itself, beside the runtimes: where it is, and a connection to
//! it, with TLS or without.

use super::client_tls::{OpenError, client_tls};
use super::http1::Connection;
use super::request_body::Outgoing;
use crate::config;
use bytes::Bytes;
use hyper::header::HOST;
use hyper::{HeaderMap, Method, Request};
use rustls::pki_types::ServerName;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The most that is read of a response. Our choice: what such servers answer has some hundred
/// bytes.
const LIMIT: usize = 64 << 10;

/// A stream to a server: TCP, or TLS over it.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// A server. Its certificate is always verified.
pub struct Outbound {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// Host and port as the header has them.
    authority: String,
}

/// The authorities and the certificate of a connection with TLS.
pub struct OutboundTls<'c> {
    /// The authorities; `None`: those of the system.
    pub ca_file: Option<&'c Path>,
    /// The gateway's own certificate.
    pub certificate: Option<&'c config::Certificate>,
}

impl Outbound {
    /// Reads the files that are named; connects to nothing.
    pub fn open(host: &str, port: u16, tls: Option<&OutboundTls<'_>>) -> Result<Self, OpenError> {
        let connector = |tls: &OutboundTls<'_>| {
            let mut config = client_tls(tls.ca_file, tls.certificate)?;
            // HTTP/1.1 and syslog do without (RFC 7301).
            config.alpn_protocols.clear();
            let name = ServerName::try_from(host.to_owned())?;
            Ok::<_, OpenError>((TlsConnector::from(Arc::new(config)), name))
        };
        let bracketed = host.contains(':');
        let shown = if bracketed {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        Ok(Self {
            tls: tls.map(connector).transpose()?,
            authority: format!("{shown}:{port}"),
            host: host.to_owned(),
            port,
        })
    }

    /// Connects, with the TLS handshake. The caller limits the time.
    pub async fn connect(&self) -> io::Result<Box<dyn ByteStream>> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await?;
        tcp.set_nodelay(true)?;
        Ok(match &self.tls {
            None => Box::new(tcp),
            Some((tls, name)) => Box::new(tls.connect(name.clone(), tcp).await?),
        })
    }

    /// Sends a body on a connection of its own; the status and the body of the response. Redirects
    /// are not followed. The caller limits the time.
    pub async fn post(
        &self,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(u16, Bytes), String> {
        let mut request = Request::builder().method(Method::POST).uri(path);
        if let Some(fields) = request.headers_mut() {
            *fields = headers;
        }
        let request = request
            .header(HOST, &self.authority)
            .body(Outgoing::Whole(body));
        let request = request.map_err(|error| format!("the request cannot be sent: {error}"))?;
        let stream = self.connect().await.map_err(|error| error.to_string())?;
        let response = Connection::new(stream, None).exchange(request, LIMIT).await;
        let response = response.map_err(|error| error.to_string())?;
        Ok((response.status().as_u16(), response.into_body()))
    }
}
