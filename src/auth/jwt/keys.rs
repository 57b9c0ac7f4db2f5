//! The public keys of an issuer: a JWK set (RFC 7517), of which only keys that verify signatures
//! are kept.

use crypto::sha256;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};

/// The most keys of a set. Our choice: issuers have two or three at a time, large ones some ten.
const MAX_KEYS: usize = 100;

/// The keys of an issuer.
#[derive(Debug, Default)]
pub(in crate::auth) struct KeySet(Vec<Key>);

/// One public key.
#[derive(Debug)]
pub(super) struct Key {
    id: Option<String>,
    /// The only algorithm that it is for, if it names one.
    algorithm: Option<Algorithm>,
    /// Names the key, whatever its id is.
    pub(super) thumbprint: [u8; 32],
    pub(super) decoding: DecodingKey,
}

/// Why no key verifies a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoKey {
    /// The issuer may have made a new one since the set was fetched.
    Unknown,
    /// The token names no key, and several are for its algorithm.
    Ambiguous,
}

impl KeySet {
    /// The keys of a set that verify signatures; all others, those of other kinds and symmetric
    /// ones too, are left out.
    pub(in crate::auth) fn of(set: &JwkSet) -> Self {
        let keys = set.keys.iter().take(MAX_KEYS);
        Self(keys.filter_map(Key::of).collect())
    }

    /// Returns whether no key is left.
    pub(in crate::auth) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a key of this thumbprint is there.
    pub(in crate::auth) fn has(&self, thumbprint: &[u8; 32]) -> bool {
        self.0.iter().any(|key| key.thumbprint == *thumbprint)
    }

    /// The key of a token: by its id, or the only one for the algorithm.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Result<&Key, NoKey> {
        let mut keys = self.0.iter().filter(|key| key.is_for(algorithm));
        let key = match id {
            Some(id) => {
                return keys
                    .find(|key| key.id.as_deref() == Some(id))
                    .ok_or(NoKey::Unknown);
            }
            None => keys.next().ok_or(NoKey::Unknown)?,
        };
        keys.next().map_or(Ok(key), |_| Err(NoKey::Ambiguous))
    }
}

impl Key {
    fn of(jwk: &Jwk) -> Option<Self> {
        let is_asymmetric = matches!(
            jwk.algorithm,
            AlgorithmParameters::RSA(_)
                | AlgorithmParameters::EllipticCurve(_)
                | AlgorithmParameters::OctetKeyPair(_)
        );
        let common = &jwk.common;
        let signs = common.public_key_use.as_ref();
        let signs = signs.is_none_or(|used| *used == PublicKeyUse::Signature);
        let operations = common.key_operations.as_ref();
        let verifies = operations.is_none_or(|all| all.contains(&KeyOperations::Verify));
        // A key for an algorithm that is not known here is for no other one.
        let algorithm = common.key_algorithm.map(Algorithm::try_from);
        let algorithm = algorithm.transpose().ok()?;
        if !is_asymmetric || !signs || !verifies {
            return None;
        }
        let parameters = serde_json::to_vec(&jwk.algorithm).ok()?;
        Some(Self {
            id: common.key_id.clone(),
            algorithm,
            thumbprint: sha256(&parameters),
            decoding: DecodingKey::from_jwk(jwk).ok()?,
        })
    }

    fn is_for(&self, algorithm: Algorithm) -> bool {
        let family = self.decoding.family();
        family != AlgorithmFamily::Hmac
            && family == algorithm.family()
            && self.algorithm.is_none_or(|only| only == algorithm)
    }
}
