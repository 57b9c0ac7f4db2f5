//! TLS of network nodes: the settings of a `tls-config` node as a configuration of rustls.
//!
//! Knows certificates, keys and whom to trust; opens no connection. Keys never print.

use super::tls_verify::{Authorities, Verifier};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, InconsistentKeys, RootCertStore, ServerConfig};
use smol_str::SmolStr;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use value::Failure;

/// The TLS settings of a node. The default, without a `tls-config` node, trusts the system's
/// authorities.
#[derive(Debug)]
pub(super) struct Tls {
    /// Our certificate chain and its key.
    pub(super) identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    /// The authorities to trust instead of the system's.
    pub(super) authorities: Option<Vec<CertificateDer<'static>>>,
    /// True if the server's certificate is checked.
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
            Some((chain, key)) => {
                builder.with_client_cert_resolver(certified(chain, key, &provider)?)
            }
        };
        client.alpn_protocols = self.protocols();
        Ok(client)
    }

    /// The TLS configuration for a server of this node.
    pub(super) fn server(&self) -> Result<Arc<ServerConfig>, Failure> {
        let (chain, key) = self
            .identity
            .as_ref()
            .ok_or_else(|| Failure::error("No certificate/key file provided"))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let certificate = certified(chain, key, &provider)?;
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

/// A certificate chain with its key. Of a certificate that rustls cannot parse, such as one of
/// X.509 version 1, it is not known whether the key is its own: the other side will see.
fn certified(
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<Arc<SingleCertAndKey>, Failure> {
    let key = provider.key_provider.load_private_key(key.clone_key());
    let certified = CertifiedKey::new(chain.to_vec(), key.map_err(|e| failure(&e))?);
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
