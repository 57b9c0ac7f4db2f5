//! One GET of a health check's URL: a connection of its own, no redirects, the status only.

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The status of the answer. The certificate of an `https` URL must be of an authority that the system trusts.
pub async fn probe(url: &Uri) -> io::Result<StatusCode> {
    let host = url.host().unwrap_or_default();
    // An IPv6 address stands in brackets in a URL only.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let secure = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let tcp = TcpStream::connect((name, port)).await?;
    if !secure {
        return get(tcp, url).await;
    }
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let tls = TlsConnector::from(Arc::new(trusting_the_system()?));
    get(tls.connect(name, tcp).await?, url).await
}

async fn get<S>(stream: S, url: &Uri) -> io::Result<StatusCode>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let handshake = http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(io::Error::other)?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let host = url.authority().map_or("", |authority| authority.as_str());
    let request = Request::get(path)
        .header(HOST, host)
        .header(USER_AGENT, HeaderValue::from_static("flowgate"))
        .body(Empty::new())
        .map_err(io::Error::other)?;
    // The connection ends with the probe: it is polled here only.
    let answered = async {
        let response = sender.send_request(request).await;
        response.map(|response| response.status())
    };
    tokio::select! {
        status = answered => status.map_err(io::Error::other),
        closed = connection => Err(match closed {
            Ok(()) => io::ErrorKind::UnexpectedEof.into(),
            Err(error) => io::Error::other(error),
        }),
    }
}

fn trusting_the_system() -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
