//! TLS for all workers: versions, protocols, tickets, and which certificate a client is shown.

use super::acme;
use super::certificate::{self, Certificate};
use super::client_certificate;
use super::read_ahead::ReadAhead;
use crate::config;
use crate::upstream::OpenError;
use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::{Mutex, MutexGuard};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SignatureScheme};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

/// TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] certificate::Error),
    /// The library refuses.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] rustls::Error),
    /// The authority of `[tls.acme]` could not be asked.
    #[error("[tls.acme]: {0}")]
    Acme(#[from] OpenError),
}

/// One configuration for all workers: with one each, a ticket would be good at one worker in N. A
/// reload makes a new one for the connections that come.
pub(super) struct Tls {
    current: ArcSwap<ServerConfig>,
    provider: Arc<CryptoProvider>,
    ticketer: Arc<dyn ProducesTickets>,
    /// The TLS of ACME's validations, while there are any.
    challenges: ArcSwapOption<ServerConfig>,
    /// The settings in use; locked while certificates are replaced.
    config: Mutex<config::Tls>,
    /// Notified of each reload.
    pub(super) reloaded: Notify,
}

/// The certificates found by a start or reload.
pub(super) struct Found {
    /// When the first certificate to expire does, seconds since 1970.
    pub(super) not_after: i64,
    /// The SHA-256 of the certificate shown when no other fits.
    pub(super) fingerprint: String,
    /// Its file.
    pub(super) file: PathBuf,
    /// True if it is the self-signed one.
    pub(super) self_signed: bool,
    /// The names in all certificates.
    pub(super) names: Vec<String>,
}

/// Says whether the certificates of the config can be used; makes none.
pub(super) fn check(config: &config::Tls) -> Result<(), Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    for given in &config.certificates {
        certificate::read(&given.cert, &given.key, &provider)?;
    }
    client_certificate::verifier(config.clients.as_ref(), &provider)?;
    config.acme.as_deref().map(acme::check).transpose()?;
    Ok(())
}

impl Tls {
    /// Reads the certificates; makes the self-signed one if none is configured. `now` is since
    /// 1970.
    pub(super) fn open(config: &config::Tls, now: Duration) -> Result<(Self, Found), Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let ticketer = aws_lc_rs::Ticketer::new()?;
        let (server, found) = server(config, &provider, &ticketer, now)?;
        let tls = Self {
            current: ArcSwap::from_pointee(server),
            provider,
            ticketer,
            challenges: ArcSwapOption::empty(),
            config: Mutex::new(config.clone()),
            reloaded: Notify::new(),
        };
        Ok((tls, found))
    }

    /// Reads the certificates of a config; if one cannot be used, all stays as it was.
    pub(super) fn reload(&self, config: &config::Tls, now: Duration) -> Result<Found, Error> {
        let mut used = self.lock();
        let (server, found) = server(config, &self.provider, &self.ticketer, now)?;
        self.current.store(Arc::new(server));
        used.clone_from(config);
        self.reloaded.notify_one();
        Ok(found)
    }

    /// Reads the certificates again; if one cannot be used, all stays as it was.
    pub(super) fn refresh(&self, now: Duration) -> Result<Found, Error> {
        let used = self.lock();
        let (server, found) = server(&used, &self.provider, &self.ticketer, now)?;
        self.current.store(Arc::new(server));
        Ok(found)
    }

    /// The settings in use.
    pub(super) fn config(&self) -> config::Tls {
        self.lock().clone()
    }

    pub(super) fn provider(&self) -> &Arc<CryptoProvider> {
        &self.provider
    }

    /// Answers validations with these certificates from now on, or no longer.
    pub(super) fn offer_challenges(&self, server: Option<ServerConfig>) {
        self.challenges.store(server.map(Arc::new));
    }

    /// For the next connection.
    pub(super) fn acceptor(&self) -> Acceptor {
        Acceptor {
            server: self.current.load_full(),
            challenges: self.challenges.load_full(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, config::Tls> {
        self.config.lock()
    }
}

/// The TLS of one connection.
pub(super) struct Acceptor {
    server: Arc<ServerConfig>,
    challenges: Option<Arc<ServerConfig>>,
}

impl Acceptor {
    /// Performs the handshake. A validation of ACME ends with it.
    pub(super) async fn accept(self, tcp: TcpStream) -> io::Result<TlsStream<ReadAhead>> {
        let tcp = ReadAhead::new(tcp);
        let Some(challenges) = self.challenges else {
            return TlsAcceptor::from(self.server).accept(tcp).await;
        };
        let hello = rustls::server::Acceptor::default();
        let start = LazyConfigAcceptor::new(hello, tcp).await?;
        if !acme::is_challenge(&start.client_hello()) {
            return start.into_stream(self.server).await;
        }
        let mut stream = start.into_stream(challenges).await?;
        stream.shutdown().await?;
        Err(io::Error::other("a validation of ACME, which is no client"))
    }
}

fn server(
    config: &config::Tls,
    provider: &Arc<CryptoProvider>,
    ticketer: &Arc<dyn ProducesTickets>,
    now: Duration,
) -> Result<(ServerConfig, Found), Error> {
    let (names, found) = Names::read(config, provider, now)?;
    let versions: &[_] = if config.tls12 {
        &[&TLS13, &TLS12]
    } else {
        &[&TLS13]
    };
    let mut server = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)?
        .with_client_cert_verifier(client_certificate::verifier(
            config.clients.as_ref(),
            provider,
        )?)
        .with_cert_resolver(Arc::new(names));
    // All cipher suites are good; the server chooses, the library's strongest first.
    server.ignore_client_order = true;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Sessions live in the tickets (RFC 8446 §4.6.1, RFC 5077), whose key changes every six hours;
    // one is enough for a client that comes back, and each costs an encryption and a kilobyte on
    // the way.
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 1;
    if config.clients.is_some() {
        // A resumed session would bring a certificate that is not checked again: it may have
        // expired or been revoked, or its authority may no longer be ours.
        server.send_tls13_tickets = 0;
    } else {
        server.ticketer = Arc::clone(ticketer);
    }
    Ok((server, found))
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(hello.server_name(), hello.signature_schemes())
    }
}

/// Certificates by the names they are for.
#[derive(Debug, Default)]
struct Names {
    /// In the order of the config.
    all: Vec<Arc<CertifiedKey>>,
    exact: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// By what follows `*.`.
    wildcard: HashMap<String, Vec<Arc<CertifiedKey>>>,
}

impl Names {
    fn read(
        config: &config::Tls,
        provider: &CryptoProvider,
        now: Duration,
    ) -> Result<(Self, Found), Error> {
        let mut certificates = Vec::new();
        for given in &config.certificates {
            certificates.push(certificate::read(&given.cert, &given.key, provider)?);
        }
        let mut file = config.certificates.first().map(|given| given.cert.clone());
        if let Some(ordered) = &config.acme
            && let Some((kept, certificate)) = acme::kept(&config.directory, ordered, provider, now)
        {
            certificates.push(certificate);
            file = Some(kept);
        }
        let self_signed = certificates.is_empty();
        if self_signed {
            let (cert, key) = certificate::self_signed(&config.directory, now)?;
            certificates.push(certificate::read(&cert, &key, provider)?);
            file = Some(cert);
        }
        let found = Found {
            not_after: certificates.iter().map(|c| c.not_after).min().unwrap_or(0),
            fingerprint: certificates
                .first()
                .map(|c| c.fingerprint.clone())
                .unwrap_or_default(),
            file: file.unwrap_or_default(),
            self_signed,
            names: certificates
                .iter()
                .flat_map(|c| &c.names)
                .cloned()
                .collect(),
        };
        Ok((Self::new(certificates), found))
    }

    fn new(certificates: Vec<Certificate>) -> Self {
        let mut names = Self::default();
        for certificate in certificates {
            let key = Arc::new(certificate.key);
            for name in certificate.names {
                let (map, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut names.wildcard, parent.to_owned()),
                    None => (&mut names.exact, name),
                };
                map.entry(name).or_default().push(Arc::clone(&key));
            }
            names.all.push(key);
        }
        names
    }

    /// The certificate for a name: one for exactly this name, else a wildcard's, which covers one
    /// label (RFC 6125 §6.4.3), else the first of all. Of several, the first whose key the client
    /// can check.
    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let name = name.map(str::to_ascii_lowercase);
        let fitting = name.as_deref().and_then(|name| {
            let parent = name.split_once('.').map(|(_, parent)| parent);
            self.exact.get(name).or_else(|| self.wildcard.get(parent?))
        });
        let fitting = fitting.unwrap_or(&self.all);
        let usable = fitting
            .iter()
            .find(|key| key.key.choose_scheme(schemes).is_some());
        usable.or(fitting.first()).cloned()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};
    use rustls::ClientConfig;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use std::path::Path;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsConnector;

    const ECDSA: &[SignatureScheme] = &[SignatureScheme::ECDSA_NISTP256_SHA256];
    const ED: &[SignatureScheme] = &[SignatureScheme::ED25519];

    fn made(names: &[&str], algorithm: &'static SignatureAlgorithm) -> Certificate {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let pair = KeyPair::generate_for(algorithm).unwrap();
        let params = rcgen::CertificateParams::new(names.clone()).unwrap();
        let der = params.self_signed(&pair).unwrap().der().clone();
        let private = PrivateKeyDer::try_from(pair.serialize_der()).unwrap();
        let key =
            CertifiedKey::from_der(vec![der], private, &aws_lc_rs::default_provider()).unwrap();
        Certificate {
            key,
            names,
            not_after: 0,
            fingerprint: String::new(),
        }
    }

    fn names() -> Names {
        Names::new(vec![
            made(&["first.example"], &PKCS_ECDSA_P256_SHA256),
            made(
                &["*.example.org", "www.example.net"],
                &PKCS_ECDSA_P256_SHA256,
            ),
            made(&["a.example.org"], &PKCS_ED25519),
            made(&["a.example.org"], &PKCS_ECDSA_P256_SHA256),
        ])
    }

    fn chosen(names: &Names, name: Option<&str>, schemes: &[SignatureScheme]) -> usize {
        let key = names.choose(name, schemes).unwrap();
        names
            .all
            .iter()
            .position(|other| Arc::ptr_eq(other, &key))
            .unwrap()
    }

    #[test]
    fn the_name_chooses_the_certificate_and_its_case_does_not_matter() {
        let names = names();
        assert_eq!(chosen(&names, Some("WWW.example.NET"), ECDSA), 1);
        assert_eq!(chosen(&names, Some("first.example"), ECDSA), 0);
    }

    #[test]
    fn a_wildcard_matches_one_label_and_yields_to_the_exact_name() {
        let names = names();
        assert_eq!(chosen(&names, Some("b.example.org"), ECDSA), 1);
        assert_eq!(chosen(&names, Some("a.example.org"), ECDSA), 3);
        assert_eq!(chosen(&names, Some("c.b.example.org"), ECDSA), 0);
        assert_eq!(chosen(&names, Some("example.org"), ECDSA), 0);
    }

    #[test]
    fn the_first_certificate_is_the_default() {
        let names = names();
        assert_eq!(chosen(&names, None, ECDSA), 0);
        assert_eq!(chosen(&names, Some("unknown.example"), ECDSA), 0);
    }

    #[test]
    fn of_several_certificates_the_client_gets_one_it_can_verify() {
        let names = names();
        assert_eq!(chosen(&names, Some("a.example.org"), ED), 2);
        assert_eq!(chosen(&names, Some("a.example.org"), ECDSA), 3);
    }

    /// The defaults, with the self-signed certificate in this directory.
    fn defaults(directory: &Path) -> config::Tls {
        config::Tls {
            directory: directory.into(),
            certificates: Vec::new(),
            acme: None,
            tls12: true,
            clients: None,
        }
    }

    #[test]
    fn a_reload_with_a_broken_file_keeps_the_old_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let config = defaults(directory.path());
        let now = Duration::from_hours(500_000);
        let (tls, _) = Tls::open(&config, now).unwrap();
        let before = tls.current.load_full();
        std::fs::write(directory.path().join("self-signed.crt"), "broken").unwrap();
        assert!(tls.reload(&config, now).is_err());
        assert!(Arc::ptr_eq(&before, &tls.current.load_full()));
    }

    /// Returns whether a client that trusts the self-signed certificate only accepts the one that
    /// it is shown.
    async fn is_shown_the_usual_one(tls: &Tls, root: &CertificateDer<'_>, alpn: &[&[u8]]) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(root.clone().into_owned()).unwrap();
        let mut client = ClientConfig::builder_with_provider(Arc::clone(tls.provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        let client = async {
            let tcp = TcpStream::connect(address).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            TlsConnector::from(Arc::new(client))
                .connect(name, tcp)
                .await
        };
        let server = async {
            let (tcp, _) = listener.accept().await.unwrap();
            tls.acceptor().accept(tcp).await
        };
        let (client, server) = tokio::join!(client, server);
        client.is_ok() && server.is_ok()
    }

    #[tokio::test]
    async fn only_clients_that_offer_acme_alone_see_the_certificate_of_a_challenge() {
        let directory = tempfile::tempdir().unwrap();
        let config = defaults(directory.path());
        let (tls, found) = Tls::open(&config, crate::http::unix_time()).unwrap();
        let root = CertificateDer::from_pem_file(&found.file).unwrap();
        let acme: &[&[u8]] = &[b"acme-tls/1"];
        assert!(!is_shown_the_usual_one(&tls, &root, acme).await);
        let mut challenges = acme::Challenges::default();
        challenges
            .add("localhost", &[7; 32], tls.provider())
            .unwrap();
        tls.offer_challenges(Some(challenges.server(tls.provider()).unwrap()));
        let usual: [&[&[u8]]; 4] = [&[], &[b"h2"], &[b"http/1.1"], &[b"h2", b"acme-tls/1"]];
        for alpn in usual {
            assert!(is_shown_the_usual_one(&tls, &root, alpn).await, "{alpn:?}");
        }
        assert!(!is_shown_the_usual_one(&tls, &root, acme).await);
    }
}
