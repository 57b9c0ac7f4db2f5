//! The other end of network nodes: a small HTTP server that tells what it was sent, plain or over TLS.

use rcgen::{CertificateParams, KeyPair};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

/// A request as it came over the wire.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The request line and the header fields, as they were spelled.
    pub(crate) head: Vec<String>,
    pub(crate) body: String,
    /// Which connection it came over.
    pub(crate) connection: usize,
}

impl Seen {
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

/// A server that answers each request with the next of its answers, the last one for ever.
pub(crate) struct Server {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A certificate for `localhost` that vouches for itself, and its key, as PEM.
pub(crate) fn certificate() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    (certificate.pem(), key.serialize_pem())
}

impl Server {
    pub(crate) async fn with(answers: &[&str]) -> Self {
        Self::start(answers, None).await
    }

    /// The same over TLS.
    pub(crate) async fn secure(answers: &[&str], (certificate, key): &(String, String)) -> Self {
        Self::start(answers, Some(acceptor(certificate, key))).await
    }

    async fn start(answers: &[&str], tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let answers: VecDeque<String> = answers.iter().map(|&a| a.to_owned()).collect();
        let answers = Arc::new(Mutex::new(answers));
        let told = Arc::clone(&seen);
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let (answers, told, tls) = (Arc::clone(&answers), Arc::clone(&told), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, connection, &answers, &told).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, connection, &answers, &told).await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, seen }
    }

    /// What has been asked so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
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
    answers: &Mutex<VecDeque<String>>,
    seen: &Mutex<Vec<Seen>>,
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
        seen.lock().unwrap().push(Seen {
            head,
            body,
            connection,
        });
        let answer = {
            let mut answers = answers.lock().unwrap();
            if answers.len() > 1 {
                answers.pop_front().unwrap()
            } else {
                answers[0].clone()
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

/// An answer with this body.
pub(crate) fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
