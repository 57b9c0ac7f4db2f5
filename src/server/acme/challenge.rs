//! TLS-ALPN-01 (RFC 8737): the authority connects to the TLS port with the protocol `acme-tls/1`
//! and is shown a certificate that only the holder of the account can make. No other client is ever
//! shown it.

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

/// The protocol of validations (RFC 8737 §6.2).
const PROTOCOL: &[u8] = b"acme-tls/1";

/// Why a challenge cannot be answered.
#[derive(Debug, thiserror::Error)]
pub(in crate::server) enum Error {
    /// The certificate cannot be made.
    #[error("cannot make the certificate of a challenge: {0}")]
    Make(#[from] rcgen::Error),
    /// It cannot be used.
    #[error("cannot use the certificate of a challenge: {0}")]
    Use(#[from] rustls::Error),
}

/// Returns whether a client offers the protocol of validations, and no other, as RFC 8737 §3
/// requires of them.
pub(in crate::server) fn is_challenge(hello: &ClientHello<'_>) -> bool {
    let mut protocols = hello.alpn().into_iter().flatten();
    protocols.next() == Some(PROTOCOL) && protocols.next().is_none()
}

/// Certificates of challenges, by the names that they prove.
#[derive(Debug, Default)]
pub(in crate::server) struct Challenges(HashMap<String, Arc<CertifiedKey>>);

impl Challenges {
    /// Answers for a name; `digest` is the SHA-256 of the key authorization.
    pub(in crate::server) fn add(
        &mut self,
        name: &str,
        digest: &[u8],
        provider: &CryptoProvider,
    ) -> Result<(), Error> {
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let pair = KeyPair::generate()?;
        let certificate = params.self_signed(&pair)?.der().clone();
        let key = PrivateKeyDer::Pkcs8(pair.serialize_der().into());
        // Not `from_der`: it refuses the critical extension that RFC 8737 §3 requires.
        let key = provider.key_provider.load_private_key(key)?;
        let key = CertifiedKey::new(vec![certificate], key);
        self.0.insert(name.to_owned(), Arc::new(key));
        Ok(())
    }

    /// The TLS of validations.
    pub(in crate::server) fn server(
        self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<ServerConfig, rustls::Error> {
        let mut server = ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self));
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(server)
    }
}

impl ResolvesServerCert for Challenges {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?.to_ascii_lowercase();
        is_challenge(&hello).then(|| self.0.get(&name).cloned())?
    }
}
