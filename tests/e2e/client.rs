//! [`Client`]: an HTTP client of one gateway, over TLS, in HTTP/1.1 or HTTP/2, from any loopback
//! address.
//!
//! `client.get("/flows").token(&token).send()` sends one request on a connection of its own and
//! reads the whole [`Answer`]; [`Connection`] is for several requests on one connection, [`Raw`]
//! for bytes that are no valid HTTP.

use crate::harness::TEST_TIMEOUT;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{HOST, HeaderMap};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use rustls::{DigitallySignedStruct, SignatureScheme};
use serde_json::{Value as Json, json};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A line of `/metrics` without the label that names the upstream, which comes first.
fn without_upstream(line: &str) -> String {
    let Some((name, labels)) = line.split_once("{upstream=\"") else {
        return line.to_owned();
    };
    match labels.split_once('"') {
        Some((_, rest)) => match rest.strip_prefix(',') {
            Some(others) => format!("{name}{{{others}"),
            None => format!("{name}{}", rest.trim_start_matches('}')),
        },
        None => line.to_owned(),
    }
}

/// The password of every user of the harness.
pub const PASSWORD: &str = "open sesame";

/// A client of one gateway: its addresses and the certificates to trust. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    pub address: SocketAddr,
    /// `/metrics`, `/healthz`, `/readyz`.
    pub operations: SocketAddr,
    /// The certificates that it trusts.
    pub roots: Arc<RootCertStore>,
    /// The client certificate that it presents on request.
    pub certificate: Option<Arc<CertifiedKey>>,
}

impl Client {
    /// The same with a client certificate.
    pub fn with_certificate(&self, certificate: &Arc<CertifiedKey>) -> Self {
        Self {
            certificate: Some(Arc::clone(certificate)),
            ..self.clone()
        }
    }

    pub fn get(&self, path: &str) -> Request {
        self.request("GET", path)
    }

    pub fn post(&self, path: &str) -> Request {
        self.request("POST", path)
    }

    pub fn request(&self, method: &str, path: &str) -> Request {
        Request {
            client: self.clone(),
            from: Ipv4Addr::LOCALHOST.into(),
            http2: false,
            plain: false,
            host: None,
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// The form of a sign-in, not yet sent; an empty scope asks for all that the user has.
    pub fn sign_in_request(&self, user: &str, password: &str, scope: &str) -> Request {
        self.post("/auth/token").form(&[
            ("client_id", "service-admin"),
            ("grant_type", "password"),
            ("scope", scope),
            ("username", user),
            ("password", password),
        ])
    }

    /// A fresh token of a user, with all of the user's permissions.
    pub async fn sign_in(&self, user: &str) -> String {
        let answer = self.sign_in_request(user, PASSWORD, "").send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["access_token"].as_str().unwrap().to_owned()
    }

    /// Deploys a whole flow set and gives the new revision.
    pub async fn deploy(&self, token: &str, flows: &Json) -> String {
        self.deploy_as("full", token, flows).await
    }

    /// Deploys with a deployment type and gives the new revision.
    pub async fn deploy_as(&self, kind: &str, token: &str, flows: &Json) -> String {
        let answer = self
            .deployment(token, flows, None)
            .header("Service-Deployment-Type", kind);
        let answer = answer.send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.rev()
    }

    /// A deployment in v2, not yet sent.
    pub fn deployment(&self, token: &str, flows: &Json, rev: Option<&str>) -> Request {
        let mut body = json!({ "flows": flows });
        if let Some(rev) = rev {
            body["rev"] = rev.into();
        }
        let request = self
            .post("/flows")
            .token(token)
            .header("Service-API-Version", "v2");
        request.json(&body)
    }

    /// The active flow set with its revision (v2).
    pub async fn flows(&self, token: &str) -> Json {
        let request = self
            .get("/flows")
            .token(token)
            .header("Service-API-Version", "v2");
        request.send().await.json()
    }

    /// Returns whether the gateway accepts a token for reading flows.
    pub async fn accepts_token(&self, token: &str) -> bool {
        self.get("/flows").token(token).send().await.status == 200
    }

    /// Sends a GET to the operations listener.
    pub async fn operations(&self, path: &str) -> Answer {
        self.operations_as(&self.operations.to_string(), path).await
    }

    /// The same under this host.
    pub async fn operations_as(&self, host: &str, path: &str) -> Answer {
        let stream = TcpStream::connect(self.operations).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = hyper::Request::get(path).header(HOST, host);
        let request = request.body(Full::<Bytes>::default()).unwrap();
        Answer::read(sender.send_request(request).await.unwrap())
            .await
            .unwrap()
    }

    /// The value of one series of `/metrics`, named with its labels; `None` if there is none. Where
    /// there is only one upstream its label may be left out.
    pub async fn metric(&self, series: &str) -> Option<f64> {
        let page = self.operations("/metrics").await.text();
        let value = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
        let mut lines = page.lines();
        lines.find_map(|line| value(line).or_else(|| value(&without_upstream(line))))
    }

    /// A connection for several requests, one at a time (HTTP/1.1) or many at a time (HTTP/2).
    pub async fn connect(&self, http2: bool) -> io::Result<Connection> {
        self.connect_from(Ipv4Addr::LOCALHOST.into(), http2).await
    }

    /// The same from another address of this machine.
    pub async fn connect_from(&self, from: IpAddr, http2: bool) -> io::Result<Connection> {
        let tls = Arc::new(self.tls(&[if http2 { "h2" } else { "http/1.1" }]));
        let stream = TokioIo::new(self.connect_tls(tls, from, "localhost").await?);
        if http2 {
            let handshake = http2::handshake(TokioExecutor::new(), stream).await;
            let (sender, connection) = handshake.map_err(io::Error::other)?;
            tokio::spawn(connection);
            Ok(Connection::Http2(sender))
        } else {
            let handshake = http1::handshake(stream).await;
            let (sender, connection) = handshake.map_err(io::Error::other)?;
            tokio::spawn(connection);
            Ok(Connection::Http1(sender))
        }
    }

    /// The same without TLS, in HTTP/1.1.
    pub async fn connect_plain(&self) -> io::Result<Connection> {
        let stream = TokioIo::new(TcpStream::connect(self.address).await?);
        let handshake = http1::handshake(stream).await;
        let (sender, connection) = handshake.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(Connection::Http1(sender))
    }

    /// A TLS configuration that trusts the gateway and offers these ALPN protocols.
    pub fn tls(&self, protocols: &[&str]) -> ClientConfig {
        self.tls_with_versions(rustls::ALL_VERSIONS, protocols)
    }

    /// The same, of these versions only.
    pub fn tls_with_versions(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&str],
    ) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let mut tls = builder
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(Arc::clone(&self.roots))
            .with_no_client_auth();
        if let Some(certificate) = &self.certificate {
            let presented = SingleCertAndKey::from(Arc::clone(certificate));
            tls.client_auth_cert_resolver = Arc::new(presented);
        }
        tls.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        tls
    }

    /// A TCP connection from an address, before the TLS handshake.
    pub async fn tcp(&self, from: IpAddr) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from, 0))?;
        let tcp = socket.connect(self.address).await?;
        tcp.set_nodelay(true)?;
        Ok(tcp)
    }

    /// A TLS stream from an address, to the certificate of a name.
    pub async fn connect_tls(
        &self,
        tls: Arc<ClientConfig>,
        from: IpAddr,
        name: &str,
    ) -> io::Result<TlsStream<TcpStream>> {
        let tcp = self.tcp(from).await?;
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(tls).connect(name, tcp).await
    }

    /// A TLS stream without an HTTP client.
    pub async fn raw(&self) -> Raw {
        let tls = Arc::new(self.tls(&["http/1.1"]));
        Raw(self
            .connect_tls(tls, Ipv4Addr::LOCALHOST.into(), "localhost")
            .await
            .unwrap())
    }

    /// Sends these bytes on a connection of their own, and gives what comes back until the gateway
    /// closes it.
    pub async fn raw_exchange(&self, bytes: &str) -> String {
        let mut raw = self.raw().await;
        raw.send(bytes).await;
        raw.rest().await
    }
}

/// An open connection.
pub enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Sends a request and reads its answer.
    pub async fn send(&mut self, request: Request) -> hyper::Result<Answer> {
        Answer::read(self.begin(request).await?).await
    }

    /// Sends a request and waits for the head of its answer.
    pub async fn begin(&mut self, request: Request) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request.build(false)).await
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request.build(true)).await
            }
        }
    }
}

/// A request being put together.
#[derive(Clone)]
pub struct Request {
    client: Client,
    from: IpAddr,
    http2: bool,
    plain: bool,
    host: Option<String>,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Request {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// As a signed-in caller; `""`: without a token.
    pub fn token(self, token: &str) -> Self {
        if token.is_empty() {
            return self;
        }
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    pub fn json(self, body: &Json) -> Self {
        self.header("Content-Type", "application/json")
            .body(body.to_string())
    }

    pub fn form(self, fields: &[(&str, &str)]) -> Self {
        let mut form = form_urlencoded::Serializer::new(String::new());
        let body = form.extend_pairs(fields).finish();
        self.header("Content-Type", "application/x-www-form-urlencoded")
            .body(body)
    }

    /// Sent from this address, such as `127.0.0.2`.
    pub fn from(mut self, address: &str) -> Self {
        self.from = address.parse().unwrap();
        self
    }

    /// As if the gateway had this name.
    pub fn host(mut self, name: &str) -> Self {
        self.host = Some(name.to_owned());
        self
    }

    pub fn http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    /// The same with another method.
    pub fn method(mut self, method: &str) -> Self {
        method.clone_into(&mut self.method);
        self
    }

    /// Sent without TLS.
    pub fn plain(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Sends it on a connection of its own.
    pub async fn send(self) -> Answer {
        self.try_send().await.unwrap()
    }

    /// The same where the gateway may be gone. A gateway that never answers is an error.
    pub async fn try_send(self) -> io::Result<Answer> {
        timeout(TEST_TIMEOUT, self.exchange()).await?
    }

    async fn exchange(self) -> io::Result<Answer> {
        let mut connection = if self.plain {
            self.client.connect_plain().await?
        } else {
            self.client.connect_from(self.from, self.http2).await?
        };
        connection.send(self).await.map_err(io::Error::other)
    }

    pub fn build(self, http2: bool) -> hyper::Request<Full<Bytes>> {
        let address = self.client.address.to_string();
        let host = self.host.unwrap_or(address);
        let uri = if http2 {
            format!("https://{host}{}", self.path)
        } else {
            self.path
        };
        let mut request = hyper::Request::builder()
            .method(self.method.as_str())
            .uri(uri);
        if !http2 {
            request = request.header(HOST, host);
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(self.body)).unwrap()
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    async fn read(response: Response<Incoming>) -> hyper::Result<Self> {
        let (head, body) = response.into_parts();
        Ok(Self {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.collect().await?.to_bytes(),
        })
    }

    /// A header's value; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("{} is no JSON: {:?}", self.status, self.text()))
    }

    /// The revision that an accepted deployment (v2) has been given.
    pub fn rev(&self) -> String {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()["rev"].as_str().unwrap().to_owned()
    }

    /// The error code: `code`, or RFC 6749's `error`; empty without a body.
    pub fn code(&self) -> String {
        if self.body.is_empty() {
            return String::new();
        }
        let body = self.json();
        let code = body.get("code").or(body.get("error"));
        code.and_then(Json::as_str).unwrap_or_default().to_owned()
    }
}

/// A bare TLS stream.
pub struct Raw(pub TlsStream<TcpStream>);

impl Raw {
    pub async fn send(&mut self, bytes: &str) {
        self.0.write_all(bytes.as_bytes()).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// The bytes that arrive next; empty at the end.
    pub async fn receive(&mut self) -> String {
        let mut piece = vec![0; 64 * 1024];
        let count = self.0.read(&mut piece).await.unwrap_or(0);
        String::from_utf8_lossy(&piece[..count]).into_owned()
    }

    /// All bytes until the gateway closes or resets the connection.
    pub async fn rest(&mut self) -> String {
        let mut all = String::new();
        loop {
            let piece = self.receive().await;
            if piece.is_empty() {
                return all;
            }
            all.push_str(&piece);
        }
    }
}

/// Accepts any server certificate, for tests that look at the one presented.
#[derive(Debug)]
pub struct AcceptAnyCertificate(pub Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
