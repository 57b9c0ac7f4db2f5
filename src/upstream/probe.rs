//! One GET of a health check's URL: a connection of its own, no redirects, the status only.

use super::connect::{client_tls, system_authorities};
use super::http1::{Connection, Stream};
use super::request_body::Outgoing;
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, LazyLock};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Trusts the authorities of the system, as they are when it is first used.
static TLS: LazyLock<Result<Arc<ClientConfig>, String>> = LazyLock::new(|| {
    let config = system_authorities().and_then(|roots| client_tls(roots, None));
    config.map(Arc::new).map_err(|error| error.to_string())
});

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
    let config = TLS
        .as_ref()
        .map_err(|error| io::Error::other(error.as_str()))?;
    let tls = TlsConnector::from(Arc::clone(config));
    get(tls.connect(name, tcp).await?, url).await
}

async fn get(stream: impl Stream + 'static, url: &Uri) -> io::Result<StatusCode> {
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let host = url.authority().map_or("", |authority| authority.as_str());
    let request = Request::get(path)
        .header(HOST, host)
        .header(USER_AGENT, HeaderValue::from_static("flowgate"))
        .body(Outgoing::empty())
        .map_err(io::Error::other)?;
    let mut connection = Connection::new(stream, None);
    connection.begin(request);
    let response = poll_fn(|cx| connection.poll_head(cx)).await;
    response
        .map(|response| response.status())
        .map_err(io::Error::other)
}
