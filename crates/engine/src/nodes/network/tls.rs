//! TLS of network nodes: the settings of a `tls-config` node as a configuration of rustls.
//!
//! Knows certificates, keys and whom to trust; opens no connection. Keys never print.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, InconsistentKeys, OtherError,
    RootCertStore, ServerConfig, SignatureScheme,
};
use smol_str::SmolStr;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use value::Failure;
use webpki::RawPublicKeyEntity;
use x509_parser::x509::X509Version;

/// The TLS settings of a node. The default, without a `tls-config` node, trusts the system's authorities.
#[derive(Debug)]
pub(super) struct Tls {
    /// Our certificate chain and its key.
    pub(super) identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    /// The authorities to trust instead of the system's.
    pub(super) authorities: Option<Vec<CertificateDer<'static>>>,
    /// Whether the server's certificate is checked.
    pub(super) verify: bool,
    /// The name that the server's certificate must have, if it is not that of the host.
    pub(super) server_name: SmolStr,
    /// The one protocol that is offered (ALPN, RFC 7301); empty: none.
    pub(super) alpn: SmolStr,
    /// Made when first needed; sessions are resumed with it.
    client: OnceCell<Arc<ClientConfig>>,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            identity: None,
            authorities: None,
            verify: true,
            server_name: SmolStr::default(),
            alpn: SmolStr::default(),
            client: OnceCell::new(),
        }
    }
}

/// The settings shared by nodes without a `tls-config` node.
#[derive(Default)]
pub(super) struct Defaults {
    checked: Tls,
    unchecked: OnceCell<Tls>,
}

impl Defaults {
    /// With or without a check of the server's certificate.
    pub(super) fn verifying(&self, verify: bool) -> &Tls {
        if verify {
            return &self.checked;
        }
        self.unchecked.get_or_init(|| Tls {
            verify: false,
            ..Tls::default()
        })
    }
}

impl Tls {
    /// The TLS configuration for a client of this node.
    pub(super) fn client(&self) -> Result<Arc<ClientConfig>, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(self.build_client()?);
        Ok(Arc::clone(self.client.get_or_init(|| client)))
    }

    fn build_client(&self) -> Result<ClientConfig, Failure> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let authorities = self.verify.then(|| self.authorities(&provider));
        let verifier = Arc::new(Verifier {
            provider: Arc::clone(&provider),
            authorities: authorities.transpose()?,
        });
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| failure(&e))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut client = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder.with_client_cert_resolver(certified(identity, &provider)?),
        };
        client.alpn_protocols = self.protocols();
        Ok(client)
    }

    /// The TLS configuration for a server of this node.
    pub(super) fn server(&self) -> Result<Arc<ServerConfig>, Failure> {
        let identity = self
            .identity
            .as_ref()
            .ok_or_else(|| Failure::error("No certificate/key file provided"))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let certificate = certified(identity, &provider)?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| failure(&e))?
            .with_no_client_auth()
            .with_cert_resolver(certificate);
        server.alpn_protocols = self.protocols();
        Ok(Arc::new(server))
    }

    /// The name in the server's certificate when `host` is called.
    pub(super) fn name(&self, host: &str) -> Result<ServerName<'static>, Failure> {
        let name = if self.server_name.is_empty() {
            host
        } else {
            self.server_name.as_str()
        };
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        ServerName::try_from(bare.to_owned()).map_err(|e| failure(&e))
    }

    fn protocols(&self) -> Vec<Vec<u8>> {
        let one = (!self.alpn.is_empty()).then(|| self.alpn.as_bytes().to_vec());
        one.into_iter().collect()
    }

    fn authorities(&self, provider: &Arc<CryptoProvider>) -> Result<Authorities, Failure> {
        let roots = match &self.authorities {
            None => Arc::clone(system()),
            Some(own) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(own.iter().cloned());
                Arc::new(roots)
            }
        };
        let web = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider))
            .build()
            .map_err(|e| failure(&e))?;
        Ok(Authorities {
            web,
            own: self.authorities.clone().unwrap_or_default(),
        })
    }
}

/// A certificate chain with its key. Of a certificate that rustls cannot parse, such as one of X.509 version 1, it is not
/// known whether the key is its own: the other side will see.
fn certified(
    (chain, key): &(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
    provider: &CryptoProvider,
) -> Result<Arc<SingleCertAndKey>, Failure> {
    let key = provider.key_provider.load_private_key(key.clone_key());
    let certified = CertifiedKey::new(chain.clone(), key.map_err(|e| failure(&e))?);
    match certified.keys_match() {
        Err(wrong @ rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(failure(&wrong))
        }
        _ => Ok(Arc::new(SingleCertAndKey::from(certified))),
    }
}

/// The authorities of the system, read once.
fn system() -> &'static Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    })
}

fn failure(error: &dyn std::error::Error) -> Failure {
    Failure::error(error.to_string())
}

/// All certificates in a PEM text.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.map_err(|e| failure(&e))
}

/// The private key in a PEM text, decrypted if it is encrypted (PKCS #8, RFC 5958).
pub(super) fn key(pem: &[u8], passphrase: &str) -> Result<PrivateKeyDer<'static>, Failure> {
    let text = std::str::from_utf8(pem).map_err(|e| failure(&e))?;
    if let Some(at) = text.find("-----BEGIN ENCRYPTED PRIVATE KEY-----") {
        let (_, document) =
            pkcs8::SecretDocument::from_pem(text[at..].trim_end()).map_err(|e| failure(&e))?;
        let encrypted = pkcs8::EncryptedPrivateKeyInfoRef::try_from(document.as_bytes())
            .map_err(|e| failure(&e))?;
        let plain = encrypted
            .decrypt(passphrase)
            .map_err(|_| Failure::error("the passphrase does not decrypt the private key"))?;
        return Ok(PrivateKeyDer::Pkcs8(plain.as_bytes().to_vec().into()));
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|e| failure(&e))
}

/// Verifies a server. The signatures of the handshake are checked in any case.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None`: any certificate is trusted, because the node is configured so (`verifyservercert` off).
    authorities: Option<Authorities>,
}

/// Checks as browsers do; besides, a certificate that is itself named as an authority is trusted, as OpenSSL does.
#[derive(Debug)]
struct Authorities {
    web: Arc<WebPkiServerVerifier>,
    own: Vec<CertificateDer<'static>>,
}

/// The certificate that is self-signed, where no trusted authority has signed the server's.
#[derive(Debug, thiserror::Error)]
pub(super) enum SelfSigned {
    /// The server's own.
    #[error("self-signed certificate")]
    Itself,
    /// An authority that came with it.
    #[error("self-signed certificate in certificate chain")]
    InChain,
}

/// A certificate that cannot be verified, because it is not of X.509 version 3 (RFC 5280 §4.1.2.1).
#[derive(Debug, thiserror::Error)]
#[error("the certificate is of X.509 version {0}; only version 3 can be verified")]
pub(super) struct OldVersion(u32);

impl OldVersion {
    /// The failure of such a certificate.
    fn of(certificate: &CertificateDer<'_>) -> Option<rustls::Error> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
        (parsed.version() != X509Version::V3).then(|| {
            rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(Self(
                parsed.version().0 + 1,
            )))))
        })
    }
}

/// The public key of a certificate that rustls cannot parse.
fn public_key(
    certificate: &CertificateDer<'_>,
) -> Result<SubjectPublicKeyInfoDer<'static>, rustls::Error> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|_| rustls::Error::InvalidCertificate(CertificateError::BadEncoding))?;
    Ok(parsed.public_key().raw.to_vec().into())
}

/// Checks a signature of TLS 1.2 by a public key, which rustls does for TLS 1.3 only.
fn verify_tls12_by_key(
    message: &[u8],
    key: &SubjectPublicKeyInfoDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    let wrong = |what| rustls::Error::InvalidCertificate(what);
    let key =
        RawPublicKeyEntity::try_from(key).map_err(|_| wrong(CertificateError::BadEncoding))?;
    let mut of_scheme = algorithms
        .mapping
        .iter()
        .filter(|(scheme, _)| *scheme == signed.scheme)
        .flat_map(|(_, algorithms)| algorithms.iter());
    if of_scheme.any(|a| {
        key.verify_signature(*a, message, signed.signature())
            .is_ok()
    }) {
        Ok(HandshakeSignatureValid::assertion())
    } else {
        Err(wrong(CertificateError::BadSignature))
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        if authorities.own.contains(certificate) {
            let parsed = ParsedCertificate::try_from(certificate)
                .map_err(|other| OldVersion::of(certificate).unwrap_or(other))?;
            verify_server_name(&parsed, name)?;
            in_time(certificate, now)?;
            return Ok(ServerCertVerified::assertion());
        }
        let checked = authorities
            .web
            .verify_server_cert(certificate, chain, name, ocsp, now);
        let unknown = matches!(
            checked,
            Err(rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::Other(_)
            ))
        );
        let by_whom = if unknown && is_self_signed(certificate) {
            SelfSigned::Itself
        } else if unknown && chain.iter().any(is_self_signed) {
            SelfSigned::InChain
        } else {
            return checked.map_err(|other| OldVersion::of(certificate).unwrap_or(other));
        };
        Err(rustls::Error::InvalidCertificate(CertificateError::Other(
            OtherError(Arc::new(by_whom)),
        )))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        if OldVersion::of(certificate).is_some() {
            return verify_tls12_by_key(message, &public_key(certificate)?, signed, algorithms);
        }
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        if OldVersion::of(certificate).is_some() {
            let key = public_key(certificate)?;
            return verify_tls13_signature_with_raw_key(message, &key, signed, algorithms);
        }
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    x509_parser::parse_x509_certificate(certificate)
        .is_ok_and(|(_, parsed)| parsed.issuer() == parsed.subject())
}

fn in_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    let wrong = |what| Err(rustls::Error::InvalidCertificate(what));
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else {
        return wrong(CertificateError::BadEncoding);
    };
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < parsed.validity().not_before.timestamp() {
        return wrong(CertificateError::NotValidYet);
    }
    if now > parsed.validity().not_after.timestamp() {
        return wrong(CertificateError::Expired);
    }
    Ok(())
}

/// The certificates that are trusted.
#[derive(Clone)]
pub(super) enum Trust {
    /// Those that a `tls-config` node sets.
    Own(Rc<Tls>),
    /// The system's authorities; without verification, any certificate.
    Default(Rc<Defaults>, bool),
}

impl Trust {
    pub(super) fn tls(&self) -> &Tls {
        match self {
            Self::Own(tls) => tls,
            Self::Default(defaults, verify) => defaults.verifying(*verify),
        }
    }
}
