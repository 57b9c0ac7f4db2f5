//! Certificates that clients show: whose are accepted, and what they are called.
//!
//! The handshake checks them (RFC 5280 §6): signed by an authority of `[tls] client_ca`, within
//! their time, for clients, not revoked. One that is not accepted ends the handshake. `auth` maps
//! certificates to users.

use super::certificate::{self, Error};
use crate::auth::Certificate;
use crate::config::{CertificateName, ClientCertificates};
use crypto::sha256;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use std::path::Path;
use std::sync::Arc;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Checks clients' certificates; without authorities, asks for none.
pub(super) fn verifier(
    clients: Option<&ClientCertificates>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let Some(clients) = clients else {
        return Ok(WebPkiClientVerifier::no_client_auth());
    };
    let roots = Arc::new(authorities(&clients.ca)?);
    let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    if !clients.required {
        verifier = verifier.allow_unauthenticated();
    }
    let mut file = &clients.ca;
    if let Some(crl) = &clients.crl {
        // As nginx's ssl_crl: every authority of the chain must have a list, and an expired list
        // counts as missing.
        let lists: Vec<CertificateRevocationListDer<'static>> = certificate::all(crl, LIST)?;
        if lists.is_empty() {
            return Err(Error::Empty {
                file: crl.clone(),
                what: LIST,
            });
        }
        verifier = verifier.with_crls(lists).enforce_revocation_expiration();
        file = crl;
    }
    verifier.build().map_err(|source| Error::Clients {
        file: file.clone(),
        source,
    })
}

const LIST: &str = "certificate revocation list";

fn authorities(file: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for authority in certificate::all::<CertificateDer<'static>>(file, "certificate")? {
        roots
            .add(authority)
            .map_err(|_| Error::Malformed(file.into()))?;
    }
    if roots.is_empty() {
        return Err(Error::Empty {
            file: file.into(),
            what: "certificate",
        });
    }
    Ok(roots)
}

/// The fields of a certificate that the handshake has accepted; `None` if it cannot be parsed.
pub(super) fn shown(certificate: &CertificateDer<'_>) -> Option<Certificate> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let fingerprint = CertificateName::fingerprint(&sha256(certificate));
    let mut names = vec![fingerprint.clone()];
    let common = parsed.subject().iter_common_name();
    let common = common.filter_map(|name| name.as_str().ok());
    names.extend(common.map(CertificateName::common));
    if let Ok(Some(alternative)) = parsed.subject_alternative_name() {
        let alternative = alternative.value.general_names.iter();
        names.extend(alternative.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(CertificateName::dns(name)),
            GeneralName::RFC822Name(address) => Some(CertificateName::email(address)),
            _ => None,
        }));
    }
    Some(Certificate {
        names,
        fingerprint,
        expires: u64::try_from(parsed.validity().not_after.timestamp()).ok()?,
    })
}
