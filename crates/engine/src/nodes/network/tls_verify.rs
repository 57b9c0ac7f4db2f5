//! Checks the certificates of servers, and the signatures of their handshakes.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};
use std::sync::Arc;
use webpki::RawPublicKeyEntity;
use x509_parser::x509::X509Version;

/// Verifies a server. The signatures of the handshake are checked in any case.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) provider: Arc<CryptoProvider>,
    /// `None`: any certificate is trusted, because the node is configured so (`verifyservercert`
    /// off).
    pub(super) authorities: Option<Authorities>,
}

/// Checks as browsers do; besides, a certificate that is itself named as an authority is trusted,
/// as OpenSSL does.
#[derive(Debug)]
pub(super) struct Authorities {
    pub(super) web: Arc<WebPkiServerVerifier>,
    pub(super) own: Vec<CertificateDer<'static>>,
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
