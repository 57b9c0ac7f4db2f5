//! [`Server`]: a small HTTP server that records the requests of network nodes, plain or over TLS;
//! and certificates.

use rcgen::{CertificateParams, KeyPair};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

/// A request as it was received.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The request line and the header fields, as they were spelled.
    pub(crate) head: Vec<String>,
    pub(crate) body: String,
    /// The number of its connection.
    pub(crate) connection: usize,
}

impl Request {
    /// The value of a header field, by its exact name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head
            .iter()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn line(&self) -> &str {
        &self.head[0]
    }
}

/// Responds to each request with the next of its responses, from the last on with that.
pub(crate) struct Server {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

/// A self-signed certificate for `localhost` and its key, as PEM.
pub(crate) fn certificate() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    (certificate.pem(), key.serialize_pem())
}

impl Server {
    pub(crate) async fn with(responses: &[&str]) -> Self {
        Self::start(responses, None).await
    }

    /// The same over TLS.
    pub(crate) async fn secure(responses: &[&str], certificate: &str, key: &str) -> Self {
        Self::start(responses, Some(acceptor(certificate, key))).await
    }

    async fn start(responses: &[&str], tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let responses: VecDeque<String> = responses.iter().map(|&a| a.to_owned()).collect();
        let responses = Arc::new(Mutex::new(responses));
        let record = Arc::clone(&requests);
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let (responses, record, tls) =
                    (Arc::clone(&responses), Arc::clone(&record), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, connection, &responses, &record).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, connection, &responses, &record).await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, requests }
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

pub(crate) fn acceptor(certificate: &str, key: &str) -> tokio_rustls::TlsAcceptor {
    use rustls::pki_types::pem::PemObject;
    let certificate =
        rustls::pki_types::CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: usize,
    responses: &Mutex<VecDeque<String>>,
    requests: &Mutex<Vec<Request>>,
) {
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break end;
            }
            if !matches!(stream.read_buf(&mut buffer).await, Ok(n) if n > 0) {
                return;
            }
        };
        let head: Vec<String> = String::from_utf8_lossy(&buffer[..end])
            .split("\r\n")
            .map(String::from)
            .collect();
        let length = head
            .iter()
            .find_map(|l| {
                l.to_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            })
            .unwrap_or(0);
        buffer.drain(..end + 4);
        while buffer.len() < length {
            if !matches!(stream.read_buf(&mut buffer).await, Ok(n) if n > 0) {
                return;
            }
        }
        let body = String::from_utf8_lossy(&buffer[..length]).into_owned();
        buffer.drain(..length);
        requests.lock().unwrap().push(Request {
            head,
            body,
            connection,
        });
        let answer = {
            let mut responses = responses.lock().unwrap();
            if responses.len() > 1 {
                responses.pop_front().unwrap()
            } else {
                responses[0].clone()
            }
        };
        match answer.as_str() {
            "silence" => std::future::pending().await,
            "hang up" => return,
            answer => stream.write_all(answer.as_bytes()).await.unwrap(),
        }
        // An answer without a length ends with the connection.
        if !answer.to_lowercase().contains("content-length") && !answer.contains(" 204") {
            return;
        }
    }
}

/// A response with this body.
pub(crate) fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
