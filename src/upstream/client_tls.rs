//! The TLS of connections that the gateway opens.

use crate::config;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer};
use rustls::server::VerifierBuilderError;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The upstream's TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Not a PEM file with what is needed.
    #[error("{} is not a PEM file with a {what}: {source}", .file.display())]
    Pem {
        /// The file.
        file: PathBuf,
        /// The expected content.
        what: &'static str,
        /// Why.
        source: pem::Error,
    },
    /// No authority to trust.
    #[error("{} has no certificate to trust", .0.display())]
    NoAuthority(PathBuf),
    /// The system has no authorities that we find.
    #[error("no certification authorities are installed here; name a ca_file")]
    NoSystemAuthorities,
    /// The authorities cannot be used.
    #[error("the certification authorities cannot be used: {0}")]
    Authorities(#[from] VerifierBuilderError),
    /// The name cannot stand in a certificate.
    #[error("the upstream's name cannot be checked: {0}")]
    Name(#[from] InvalidDnsNameError),
    /// The library refuses.
    #[error("TLS to the upstream cannot be set up: {0}")]
    Library(#[from] rustls::Error),
}

/// The TLS of a client that trusts the authorities of a file, or those of the system, and shows its
/// certificate if it has one. Verification is never off: for a self-signed server the operator
/// names its certificate as `ca_file`.
pub(super) fn client_tls(
    ca_file: Option<&Path>,
    certificate: Option<&config::Certificate>,
) -> Result<ClientConfig, OpenError> {
    let roots = match ca_file {
        Some(file) => authorities(file).map(Arc::new)?,
        None => system_authorities()?,
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build()?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_webpki_verifier(verifier);
    let mut client = match certificate {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::from_pem_file(&own.key).map_err(|source| OpenError::Pem {
                file: own.key.clone(),
                what: "private key",
                source,
            })?;
            builder.with_client_auth_cert(certificates(&own.cert)?, key)?
        }
    };
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(client)
}

fn authorities(file: &Path) -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate)?;
    }
    if roots.is_empty() {
        return Err(OpenError::NoAuthority(file.into()));
    }
    Ok(roots)
}

/// As they are when they are first needed.
fn system_authorities() -> Result<Arc<RootCertStore>, OpenError> {
    static READ: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = READ.get() {
        return Ok(Arc::clone(roots));
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(OpenError::NoSystemAuthorities);
    }
    Ok(Arc::clone(READ.get_or_init(|| Arc::new(roots))))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let wrong = |source| OpenError::Pem {
        file: file.into(),
        what: "certificate",
        source,
    };
    CertificateDer::pem_file_iter(file)
        .map_err(wrong)?
        .collect::<Result<_, _>>()
        .map_err(wrong)
}
