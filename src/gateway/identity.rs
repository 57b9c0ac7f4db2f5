//! Signs who a caller is, for upstreams and for applications behind another proxy: JSON Web Tokens
//! (RFC 7519) with ES256 (RFC 7518 §3.4), which every library knows, and the public keys as a JWK
//! set (RFC 7517).

use super::identity_cache::{IdentityCache, cache_key};
use crate::config::IdentityTokens;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use crypto::sha256;
use hyper::header::HeaderValue;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
#[error("{}: expected a private key of the curve P-256 (PKCS #8 in PEM): {reason}", .file.display())]
pub struct IdentityKeyError {
    file: PathBuf,
    reason: String,
}

/// Signs tokens, and publishes the keys for them.
pub struct IdentitySigner {
    key: Option<Key>,
    issuer: String,
    /// Seconds.
    lifetime: u64,
    audiences: Vec<String>,
    jwks: Bytes,
    /// Tokens that are sent again.
    cache: IdentityCache,
}

struct Key {
    pair: EcdsaKeyPair,
    /// Header of its tokens, encoded.
    header: String,
    jwk: Value,
}

/// Who a token is about, and for whom.
pub struct IdentityClaims<'c> {
    /// The user, or `token:` and the name of a service token.
    pub user: &'c str,
    /// The names of the effective permissions.
    pub permissions: Vec<&'c str>,
    /// The upstream or application that may accept it.
    pub audience: &'c str,
    /// The id of the request.
    pub request: &'c str,
    /// Seconds since 1970.
    pub now: u64,
}

impl IdentitySigner {
    /// Reads the keys.
    pub fn open(config: &IdentityTokens) -> Result<Self, IdentityKeyError> {
        let keys: Result<Vec<Key>, _> = config.keys.iter().map(|file| Key::read(file)).collect();
        let keys = keys?;
        let published: Vec<&Value> = keys.iter().map(|key| &key.jwk).collect();
        Ok(Self {
            jwks: json!({ "keys": published }).to_string().into(),
            key: keys.into_iter().next(),
            issuer: config.issuer.clone(),
            lifetime: config.lifetime.as_secs(),
            audiences: config.audiences.clone(),
            cache: IdentityCache::default(),
        })
    }

    /// The public keys as a JWK set.
    pub fn jwks(&self) -> Bytes {
        self.jwks.clone()
    }

    /// Returns whether `GET /gateway/verify` signs for this application.
    pub fn has_audience(&self, audience: &str) -> bool {
        self.audiences.iter().any(|known| known == audience)
    }

    /// A token as a header's value, of an earlier request if that has not yet lived half its life;
    /// `None`: there is no key.
    pub fn token(&self, claims: &IdentityClaims<'_>) -> Option<HeaderValue> {
        let parts = [claims.user, claims.audience].into_iter();
        let key = cache_key(parts.chain(claims.permissions.iter().copied()));
        if let Some(token) = self.cache.find(&key, claims.now) {
            return Some(token);
        }
        let mut token = HeaderValue::try_from(self.sign(claims)?).ok()?;
        token.set_sensitive(true);
        let until = claims.now + self.lifetime / 2;
        self.cache.keep(key, &token, claims.now, until);
        Some(token)
    }

    fn sign(&self, claims: &IdentityClaims<'_>) -> Option<String> {
        let key = self.key.as_ref()?;
        let content = json!({
            "iss": self.issuer,
            "sub": claims.user,
            "aud": claims.audience,
            "iat": claims.now,
            "exp": claims.now + self.lifetime,
            "jti": claims.request,
            "permissions": claims.permissions,
        });
        let content = URL_SAFE_NO_PAD.encode(content.to_string());
        let text = format!("{}.{content}", key.header);
        let signature = key.pair.sign(&SystemRandom::new(), text.as_bytes()).ok()?;
        Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl Key {
    fn read(file: &Path) -> Result<Self, IdentityKeyError> {
        let failed = |reason: String| IdentityKeyError {
            file: file.to_owned(),
            reason,
        };
        let der = PrivatePkcs8KeyDer::from_pem_file(file);
        let der = der.map_err(|error| failed(error.to_string()))?;
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, der.secret_pkcs8_der());
        let pair = pair.map_err(|error| failed(error.to_string()))?;
        // Uncompressed: 4, and the two coordinates of 32 bytes (SEC 1 §2.3.3).
        let point = pair.public_key().as_ref();
        let coordinate = |at: usize| {
            let bytes = point.get(at..at + 32).unwrap_or_default();
            URL_SAFE_NO_PAD.encode(bytes)
        };
        let (x, y) = (coordinate(1), coordinate(33));
        // RFC 7638 §3: the members in this order, without white space.
        let thumbprint = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        let id = URL_SAFE_NO_PAD.encode(sha256(thumbprint.as_bytes()));
        let header = json!({ "alg": "ES256", "typ": "JWT", "kid": id });
        Ok(Self {
            header: URL_SAFE_NO_PAD.encode(header.to_string()),
            jwk: json!({
                "kty": "EC", "crv": "P-256", "x": x, "y": y,
                "use": "sig", "alg": "ES256", "kid": id,
            }),
            pair,
        })
    }
}
